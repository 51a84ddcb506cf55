"""The log: one JSON object per line on standard error.

API keys appear by name only. The bodies of requests are not logged, but errors may quote single values from them.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

from budgetron.service.http.wire import encode


def log(event: str, **fields: Any) -> None:
    """Write one event."""
    line = encode({"time": round(time.time(), 3), "event": event, **fields}) + b"\n"
    try:
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
    except (OSError, ValueError):  # The reader closed the pipe. The service goes on without its log.
        pass


class LibraryWarnings(logging.Handler):
    """Writes warnings of the library to this log, for example that a snapshot is damaged."""

    def emit(self, record: logging.LogRecord) -> None:
        log("warning", message=record.getMessage())


def log_library_warnings() -> None:
    logger = logging.getLogger("budgetron")
    if not any(isinstance(handler, LibraryWarnings) for handler in logger.handlers):
        logger.addHandler(LibraryWarnings(logging.WARNING))
        logger.propagate = False
