"""Starts child processes of tests with default signal handling."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def default_signals() -> Iterator[None]:
    """Give default signal handling to the processes that are started inside.

    An ignored signal is inherited through exec: `nohup` ignores SIGHUP, a shell without job control SIGINT in its
    background jobs. A test that sends such a signal must not depend on that.
    """
    before = {number: signal.signal(number, signal.SIG_DFL) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
