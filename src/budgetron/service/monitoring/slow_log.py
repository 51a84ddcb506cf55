"""The slow log: requests that took longer than a threshold, as events `slow` of the log, at a bounded rate."""

from __future__ import annotations

import time
from typing import Any

from budgetron.service.logs import log

MAX_LINES = 10  # per second: a service that is slow for all must not fill its log as well


class SlowLog:
    """Writes one line per slow request, and counts those beyond `MAX_LINES` per second.

    `seconds` is the threshold; 0 writes none. It can be changed while the service runs.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._second, self._lines, self._suppressed = 0.0, 0, 0

    def note(self, seconds: float, **fields: Any) -> None:
        """Note a request that took that long."""
        if not self.seconds or seconds < self.seconds:
            return
        now = time.monotonic()
        if now >= self._second + 1.0:
            self._report()
            self._second, self._lines = now, 0
        if self._lines >= MAX_LINES:
            self._suppressed += 1
            return
        self._lines += 1
        log("slow", milliseconds=round(1000 * seconds, 2), **fields)

    def tick(self) -> None:
        """Report how many lines were left out, if the second is over. Called once per second."""
        if time.monotonic() >= self._second + 1.0:
            self._report()

    def _report(self) -> None:
        if self._suppressed:
            log("slow", suppressed=self._suppressed)
            self._suppressed = 0
