"""Start the child processes of tests with default signal handling."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def default_signals() -> Iterator[None]:
    """Give default signal handling to the processes that are started inside the `with` block.

    A child inherits ignored signals, even through exec. `nohup` ignores SIGHUP, and a shell without job control makes
    its background jobs ignore SIGINT. Tests that send these signals must pass even if pytest itself ignores them.
    """
    before = {number: signal.signal(number, signal.SIG_DFL) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
