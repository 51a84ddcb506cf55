"""One JSON object a line on standard error. Keys are named, never shown; bodies are not logged."""

from __future__ import annotations

import sys
import time
from typing import Any

from budgetron.service.wire import encode


def log(event: str, **fields: Any) -> None:
    """Something that happened."""
    line = encode({"time": round(time.time(), 3), "event": event, **fields}) + b"\n"
    try:
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
    except (OSError, ValueError):  # nobody reads it any more: no reason to stop serving
        pass
