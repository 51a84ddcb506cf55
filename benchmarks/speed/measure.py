"""Measure one row of the table of speeds, usually as a ratio of two times.

*Work* is what a learner does; a *yardstick* is a reference computation, such as the bare arithmetic in BLAS. The two
alternate, and the row has the median and the quartiles of the ratios of their times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

Work = Callable[[], object]
Clock = Callable[[], float]
OWN_TIME = time.thread_time  # processor time of the thread, which leaves out other programs
WALL_TIME = time.perf_counter  # for work in several threads or processes


@dataclass(frozen=True)
class Row:
    """One line of the table. If it could not be measured, `ratio` is None and `reason` says why."""

    name: str
    work: str
    yardstick: str
    unit: str  # of `ratio`: "×", "ms", "exponent" or "MiB"
    reach: float  # the target
    at_most: bool = True  # True: the ratio must be at most `reach`; False: at least `reach`
    ratio: float | None = None
    in_0_1: float | None = None  # `ratio` in version 0.1 (commit 1b9914b), measured once
    quartiles: tuple[float, float] | None = None
    work_us: float | None = None  # microseconds per example (or update, or start), for orientation
    yardstick_us: float | None = None
    reason: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        if self.ratio is None:
            return None
        return self.ratio <= self.reach if self.at_most else self.ratio >= self.reach

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"met": self.met}


def seconds(work: Work, clock: Clock = OWN_TIME) -> float:
    """The time of one call; or the number that the call returns, if it has measured itself."""
    start = clock()
    result = work()
    return result if isinstance(result, float) else clock() - start


def interleaved(works: Sequence[Work], repetitions: int, clock: Clock = OWN_TIME) -> np.ndarray:
    """Seconds, of shape (repetitions, works). The works alternate, so that a busy moment affects all of them."""
    for work in works:
        work()  # warms up caches and branch predictors
    return np.array([[seconds(work, clock) for work in works] for _ in range(repetitions)])


def spread(values: np.ndarray) -> tuple[float, tuple[float, float]]:
    """The median, and the quartiles."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return float(middle), (float(low), float(high))


_DECLARED = ("name", "work", "yardstick", "unit", "reach", "at_most", "in_0_1")
"""The fields of a row that are known before it is measured."""


def ratio_row(row: Row, ratios: np.ndarray, work_s: np.ndarray, yardstick_s: np.ndarray, **detail: Any) -> Row:
    """The row with its measurements; seconds are per example."""
    ratio, quartiles = spread(ratios)
    return Row(
        **{
            **{name: getattr(row, name) for name in _DECLARED},
            "ratio": ratio,
            "quartiles": quartiles,
            "work_us": float(np.median(work_s)) * 1e6,
            "yardstick_us": float(np.median(yardstick_s)) * 1e6,
            "detail": row.detail | detail,
        }
    )


def compared(
    row: Row, work: Work, yardstick: Work, n_work: int, n_yardstick: int, repetitions: int, clock: Clock = OWN_TIME
) -> Row:
    """work ÷ yardstick, both per example; yardstick ÷ work if a higher ratio is better."""
    times = interleaved([work, yardstick], repetitions, clock) / [n_work, n_yardstick]
    ratios = times[:, 0] / times[:, 1]
    return ratio_row(row, ratios if row.at_most else 1.0 / ratios, times[:, 0], times[:, 1])
