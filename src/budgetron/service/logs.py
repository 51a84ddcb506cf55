"""The log: one JSON object per line on standard error. API keys appear by name only; bodies are not logged."""

from __future__ import annotations

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
    except (OSError, ValueError):  # The reader closed the pipe, which is no reason to stop serving.
        pass
