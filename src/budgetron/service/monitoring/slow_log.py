"""The slow log: logs requests that took longer than a threshold, as events named `slow`, at a bounded rate."""

from __future__ import annotations

import time
from typing import Any

from budgetron.service.logs import log

MAX_LINES = 10  # per second, so that a service in which every request is slow does not flood its log


class SlowLog:
    """Writes one line per slow request. Beyond `MAX_LINES` per second, slow requests are only counted.

    `seconds` is the threshold; 0 disables the slow log. It can be changed while the service runs.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        # When the current second began, how many lines were written in it, and how many were suppressed since the last
        # report.
        self._second, self._lines, self._suppressed = 0.0, 0, 0

    def note(self, seconds: float, **fields: Any) -> None:
        """Log a request that took `seconds`, unless this is below the threshold or too many lines were written."""
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
        """Log how many lines were suppressed, if any, after the end of their second.

        The service calls it once per second, so that the count appears even if no other slow request follows.
        """
        if time.monotonic() >= self._second + 1.0:
            self._report()

    def _report(self) -> None:
        if self._suppressed:
            log("slow", suppressed=self._suppressed)
            self._suppressed = 0
