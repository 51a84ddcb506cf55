"""The progress line: examples, speed, error so far and use of the budget.

It appears on standard error, and only on a terminal, so that pipes and logs stay clean.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from budgetron.cli.formatting import UNDEFINED, decimal, percent, rate
from budgetron.progress import clock_time

if TYPE_CHECKING:
    from budgetron.evaluate import Figures
    from budgetron.io import Stream

_WIDE = 100  # from this many columns on, the bar is long and words are not abbreviated
_INTERVAL = 0.1  # seconds between updates; computing the error and the AUC takes time


class Line:
    """A progress line. Without a display it prints nothing but still measures time."""

    def __init__(self, display: Any = None, limit: int | None = None, wide: bool = True) -> None:
        self._started = time.perf_counter()
        self._unit = "examples" if wide else "seen"
        self._display, self._limit, self._updated = display, limit, 0.0
        # The total is unknown until the first block tells how large the file is.
        self._bar = None if display is None else display.add_task("", total=None, words="reading …")

    @property
    def seconds(self) -> float:
        return max(time.perf_counter() - self._started, 1e-9)

    def due(self) -> bool:
        """Return whether it is time to update the line."""
        return self._display is not None and time.perf_counter() - self._updated > _INTERVAL

    def show(self, n: int, stream: Stream | None, figures: Figures | None = None, note: str = "") -> None:
        """Show that n examples are done, with the error and AUC so far, and a note at the end."""
        if self._display is None:
            return
        self._updated = time.perf_counter()
        words = [f"{n:,} {self._unit}", f"{rate(n / self.seconds)}/s"]
        if figures is not None:
            words += [f"error {percent(figures.error)}", f"AUC {decimal(figures.auc)}"]
        words += [note] if note else []
        done = _share(n, self._limit, stream)
        if done is not None:
            # The estimate is shown only after 2 % or two seconds: before that it jumps.
            left = self.seconds * (1 - done) / max(done, 1e-9)
            words.append(f"{clock_time(left)} left" if done > 0.02 or self.seconds > 2 else f"{UNDEFINED} left")
        total = None if done is None else 1.0
        self._display.update(self._bar, total=total, completed=done or 0, words="  ".join(words))


@contextmanager
def progress_line(quiet: bool, limit: int | None = None) -> Iterator[Line]:
    """Show a progress line while the block runs, and erase it afterwards."""
    if quiet or not _is_terminal():
        yield Line()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    wide = console.width >= _WIDE
    bar = BarColumn(bar_width=30 if wide else 5)
    with Progress(bar, TextColumn("{task.fields[words]}"), console=console, transient=True) as display:
        yield Line(display, limit, wide)


def budget_words(model: Any) -> str:
    """Describe how much of the budget is used."""
    capacity = model.capacity_
    if capacity == 0:  # this learner stores weights, not examples
        return f"{model.memory_bytes_ / 2**10:,.0f} KiB"
    return f"{model.n_stored_:,} stored" if capacity is None else f"{model.n_stored_:,}/{capacity:,} stored"


def _is_terminal() -> bool:
    import os
    import sys

    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _share(n: int, limit: int | None, stream: Stream | None) -> float | None:
    """Return the share of the stream that is done; None if its length is unknown."""
    # If both --limit and the file size are known, the larger share counts, because the run ends when one of them is 1.
    by_rows = None if limit is None else n / limit
    total = None if stream is None else stream.bytes_total
    by_bytes = min(stream.bytes_read / total, 1.0) if stream is not None and total else None
    known = [share for share in (by_rows, by_bytes) if share is not None]
    return max(known) if known else None
