"""Standardise columns online: scale each row by the mean and deviation of the rows before it. Used by `columns`.

The state per column is n, Σ(x − c) and Σ(x − c)². The sample, the first rows from which `io.stream` infers the columns,
is counted before any row is scaled. So all rows of the sample are scaled by the mean and deviation of the sample. c is
the median of the sample. Without subtracting c, large values with small differences would lose their digits. Later rows
are added one by one, so the result does not depend on how the stream is divided into blocks, not even in the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CLIP = 10.0  # standard deviations; without a limit one outlier would dominate every kernel value
Floats = NDArray[np.float64]


@dataclass
class RunningScale:
    """Running means and standard deviations of several columns. Every array has one number per column."""

    center: Floats  # c
    count: Floats  # n
    total: Floats  # Σ(x − c)
    squares: Floats  # Σ(x − c)²

    @classmethod
    def of(cls, values: Floats) -> RunningScale:
        """Start from the sample. NaN (missing) and infinities (invalid) are left out.

        A column without values starts with a count of 0.
        """
        known = np.isfinite(values)
        center = np.array([np.median(column[is_known]) if is_known.any() else 0.0
                           for column, is_known in zip(values.T, known.T, strict=True)])  # fmt: skip
        centred = np.where(known, values - center, 0.0)
        return cls(center, known.sum(axis=0).astype(np.float64), centred.sum(axis=0), (centred * centred).sum(axis=0))

    def scale(self, values: Floats, learn: Any) -> Floats:
        """Return the scaled rows; missing values (NaN) become 0, the mean. `values` must not contain infinities.

        `learn` says whether the rows update the state: True, False, or one boolean per row.
        """
        centred = values - self.center
        known = ~np.isnan(centred)
        has_gaps = not known.all()
        if has_gaps:
            centred[~known] = 0.0
        if learn is False:
            count, total, squares = self.count, self.total, self.squares
        else:
            count, total, squares = self._before_each(centred, known, learn, has_gaps)
        mean = total / np.maximum(count, 1.0)  # of x − c
        variance = squares / np.maximum(count, 1.0)
        # Var = E[(x − c)²] − (E[x − c])², accurate because c is close to the mean.
        variance -= mean * mean
        # A column whose variance is below the rounding error counts as constant.
        varies = variance > 1e-12 * mean * mean
        if not varies.all():
            variance[~varies] = np.inf  # so that a constant column, which carries no information, becomes 0
        with np.errstate(over="ignore"):  # the result is clipped below
            scaled = np.subtract(centred, mean, out=centred)
            scaled /= np.sqrt(variance, out=variance)
        if has_gaps:
            scaled[~known] = 0.0
        return np.clip(scaled, -CLIP, CLIP, out=scaled)

    def _before_each(self, centred: Floats, known: Any, learn: Any, has_gaps: bool) -> tuple[Floats, Floats, Floats]:
        """Return n, Σ(x − c) and Σ(x − c)² before each row, and update the state with all rows."""
        if has_gaps or learn is not True:
            counted = known if learn is True else known & learn[:, None]
            count = _running(self.count, counted)
            centred = np.where(counted, centred, 0.0)
        else:
            # Without missing values, the counts are known without a cumulative sum.
            count = self.count + np.arange(len(centred) + 1)[:, None]
        total, squares = _running(self.total, centred), _running(self.squares, centred * centred)
        self.count, self.total, self.squares = count[-1].copy(), total[-1].copy(), squares[-1].copy()
        return count[:-1], total[:-1], squares[:-1]


def _running(before: Floats, values: NDArray[Any]) -> Floats:
    """Return the running sums: before each row, and after the last one. Rows are added one by one."""
    sums = np.empty((len(values) + 1, len(before)))
    sums[0], sums[1:] = before, values
    return np.cumsum(sums, axis=0, out=sums)
