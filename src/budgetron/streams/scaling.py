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
        if not known.all():
            off[~known] = 0.0
        if learn is False:
            count, total, squares = self.count, self.total, self.squares
        else:
            counted = known if learn is True else known & learn[:, None]
            off_counted = np.where(counted, off, 0.0)
            count = _running(self.count, counted.astype(np.float64))
            total = _running(self.total, off_counted)
            squares = _running(self.squares, off_counted * off_counted)
            self.count, self.total, self.squares = count[-1].copy(), total[-1].copy(), squares[-1].copy()
            count, total, squares = count[:-1], total[:-1], squares[:-1]
        mean = total / np.maximum(count, 1.0)
        variance = squares / np.maximum(count, 1.0) - mean * mean
        varies = variance > 1e-12 * mean * mean
        spread = np.sqrt(np.where(varies, variance, 1.0))
        scaled: Floats = np.where(varies & known, np.clip((off - mean) / spread, -CLIP, CLIP), 0.0)
        return scaled


def _running(before: Floats, values: Floats) -> Floats:
    """The sums before each row, and after the last."""
    return np.cumsum(np.concatenate([before[None], values]), axis=0)
