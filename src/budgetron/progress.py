"""A progress line for Python programs and notebooks: what is done, how fast, and how long it will take.

`io.read` and `evaluate.progressive` show it on request. It overwrites one line on standard error, which works in
terminals and in notebooks, and needs only the standard library. The command line has its own progress line, with more
figures.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

_INTERVAL = 0.2  # seconds between updates: a notebook sends each of them to the browser


class ProgressLine:
    """One line that is overwritten. With `shown` False, nothing is written."""

    def __init__(self, shown: bool, unit: str) -> None:
        self._shown, self._unit = shown, unit
        self._started = time.perf_counter()
        self._updated, self._width = 0.0, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def due(self) -> bool:
        """Return whether it is time for an update. Callers ask before they compute the figures, which takes time."""
        return self._shown and time.perf_counter() - self._updated >= _INTERVAL

    def show(self, n: int, share: float | None = None, words: str = "") -> None:
        """Show that n units are done, and their share of the whole if the share is known."""
        if not self._shown:
            return
        self._updated = time.perf_counter()
        seconds = max(self._updated - self._started, 1e-9)
        parts = [f"{n:,} {self._unit}", f"{float(f'{n / seconds:.2g}'):,.0f}/s"]
        parts += [words] if words else []
        if share is not None:
            parts.append(f"{min(share, 1.0):.0%}")
            parts += [f"{clock_time(seconds * (1 - share) / share)} left"] if 0.01 < share < 1 else []
        self._write("  ".join(parts))

    def end(self) -> None:
        """Keep the last figures, and begin a new line after them."""
        if self._shown and self._width:
            sys.stderr.write("\n")
            sys.stderr.flush()
        self._shown = False

    def _write(self, text: str) -> None:
        padded = text.ljust(self._width)  # the spaces overwrite the rest of a longer line before it
        self._width = len(text)
        sys.stderr.write(f"\r{padded}")
        sys.stderr.flush()


def clock_time(seconds: float) -> str:
    """Format a duration: 0:07, 12:30 or 1:02:03."""
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
