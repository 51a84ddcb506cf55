"""Ctrl-C, SIGTERM and a closed terminal end a pass between two blocks: what was learned is whole and can be saved.

While a pass waits for a pipe it is ended at once: no block has come that could be cut in two. A second signal does not
wait for the end of a block.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, Self

_ALWAYS = (signal.SIGINT, signal.SIGTERM)
_NAMES: dict[int, str] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
if hasattr(signal, "SIGHUP"):
    _NAMES[signal.SIGHUP] = "SIGHUP"


class Stopping:
    """Inside the `with`, signals are noted in `asked` (the signal's name) instead of ending the process."""

    def __init__(self, source: str) -> None:
        self.asked: str | None = None
        self._endless = not _is_regular(source)
        self._waiting = True  # for the first rows
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # elsewhere signals cannot be taken
            for number in _NAMES:
                if number in _ALWAYS or signal.getsignal(number) is not signal.SIG_IGN:  # nohup is respected
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def blocks(self, stream: Iterable[Any]) -> Iterator[Any]:
        """The blocks of a stream until a signal comes."""
        pieces = iter(stream)
        while self.asked is None:
            try:
                self._waiting = True
                block = next(pieces, None)
                self._waiting = False
            except KeyboardInterrupt:
                return
            if block is None:
                return
            yield block

    def _note(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked is not None, _NAMES[number]
        if again or (self._waiting and self._endless):
            self._waiting = False
            raise KeyboardInterrupt
        if sys.stderr.isatty():
            os.write(2, b"\r\nStopping after this block ...\r\n")


def _is_regular(source: str) -> bool:
    try:
        return source != "-" and stat.S_ISREG(os.stat(source).st_mode)
    except OSError:
        return True  # reading it will say what is wrong
