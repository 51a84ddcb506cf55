"""Columns to mean 0 and variance 1 on the way: each row by the rows before it.

n, Σ(x − c) and Σ(x − c)² are kept for each column, with c the median of the first rows, so that large values with small
differences keep their digits. Sums are taken row after row: where blocks are cut changes no bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CLIP = 10.0  # standard deviations: one wild value must not decide for a kernel
Floats = NDArray[np.float64]


@dataclass
class Scaling:
    """The running state of k columns."""

    center: Floats  # c
    count: Floats  # n
    total: Floats  # Σ(x − c)
    squares: Floats  # Σ(x − c)²

    @classmethod
    def of(cls, values: Floats) -> Scaling:
        """From the first rows; NaN is no value. Columns without any begin at nothing."""
        known = np.isfinite(values)
        center = np.array([np.median(column[here]) if here.any() else 0.0
                           for column, here in zip(values.T, known.T, strict=True)])  # fmt: skip
        off = np.where(known, values - center, 0.0)
        return cls(center, known.sum(axis=0).astype(np.float64), off.sum(axis=0), (off * off).sum(axis=0))

    def scaled(self, values: Floats, learn: Any) -> Floats:
        """The rows, scaled; gaps become 0. `learn` says whether, or which, rows then count in the state."""
        off = values - self.center
        known = ~np.isnan(off)
        has_gaps = not known.all()
        if has_gaps:
            off[~known] = 0.0
        if learn is False:
            count, total, squares = self.count, self.total, self.squares
        else:
            count, total, squares = self._before_each(off, known, learn, has_gaps)
        mean = total / np.maximum(count, 1.0)
        variance = squares / np.maximum(count, 1.0)
        variance -= mean * mean
        varies = variance > 1e-12 * mean * mean
        if not varies.all():
            variance[~varies] = np.inf  # a column that does not vary says nothing: 0
        with np.errstate(over="ignore"):  # clipped below
            off -= mean
            off /= np.sqrt(variance, out=variance)
        if has_gaps:
            off[~known] = 0.0
        return np.clip(off, -CLIP, CLIP, out=off)

    def _before_each(self, off: Floats, known: Any, learn: Any, has_gaps: bool) -> tuple[Floats, Floats, Floats]:
        """n, Σ and Σ² as they were before each row; then, all rows counted, the state."""
        if has_gaps or learn is not True:
            counted = known if learn is True else known & learn[:, None]
            count = _running(self.count, counted)
            off = np.where(counted, off, 0.0)
        else:
            count = self.count + np.arange(len(off) + 1)[:, None]
        total, squares = _running(self.total, off), _running(self.squares, off * off)
        self.count, self.total, self.squares = count[-1].copy(), total[-1].copy(), squares[-1].copy()
        return count[:-1], total[:-1], squares[:-1]


def _running(before: Floats, values: NDArray[Any]) -> Floats:
    """The sums before each row, and after the last; one row after the other, so that no cut shows."""
    sums = np.empty((len(values) + 1, len(before)))
    sums[0], sums[1:] = before, values
    return np.cumsum(sums, axis=0, out=sums)
