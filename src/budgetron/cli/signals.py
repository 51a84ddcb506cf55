"""Stop a run on Ctrl-C, SIGTERM or SIGHUP between two blocks, so that the model is consistent and can be saved.

A run that waits for input from a pipe stops at once, because it is not learning a block. A second signal always stops
the run at once.
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

import click

from budgetron.cli import INTERRUPTED

_ALWAYS = (signal.SIGINT, signal.SIGTERM)
_NAMES: dict[int, str] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
if hasattr(signal, "SIGHUP"):
    _NAMES[signal.SIGHUP] = "SIGHUP"


class SignalGuard:
    """Within the `with` block, the first signal sets `signal_name` instead of ending the process."""

    def __init__(self, source: str) -> None:
        self.signal_name: str | None = None
        self._may_block = not _is_regular(source)  # reading a pipe may wait for ever, reading a file does not
        self._waiting = True  # whether the run waits for input
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python allows signal handlers there only
            for number in _NAMES:
                # nohup makes the process ignore SIGHUP: keep that.
                if number in _ALWAYS or signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def blocks(self, stream: Iterable[Any]) -> Iterator[Any]:
        """Yield the blocks of a stream until a signal arrives."""
        blocks = iter(stream)
        while self.signal_name is None:
            try:
                self._waiting = True
                # `_waiting` tells the handler that nothing is being learned, so that it may raise at once.
                block = next(blocks, None)
                self._waiting = False
            except KeyboardInterrupt:
                return
            if block is None:
                return
            yield block

    def exit_if_stopped(self) -> None:
        """Exit if a signal arrived before the first example, so that there are no results to print."""
        if self.signal_name is not None:
            click.echo(f"Stopped by {self.signal_name} before the first example.", err=True)
            sys.exit(INTERRUPTED)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # A second signal means that the user does not want to wait.
        again, self.signal_name = self.signal_name is not None, _NAMES[number]
        # Only an exception ends a read that waits for a pipe. While a block is being learned, an exception could stop
        # the model in the middle of a block, so the flag is checked between blocks instead.
        if again or (self._waiting and self._may_block):
            self._waiting = False
            raise KeyboardInterrupt
        if sys.stderr.isatty():
            # os.write is safe in a signal handler; buffered output is not.
            os.write(2, b"\r\nStopping after this block ...\r\n")


def _is_regular(source: str) -> bool:
    try:
        return source != "-" and stat.S_ISREG(os.stat(source).st_mode)
    except OSError:
        return True  # opening the stream will report the error
