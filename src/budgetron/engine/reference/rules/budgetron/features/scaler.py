"""Standardises the columns of dense rows, after pulling outliers towards the median.

For each column, m is a running estimate of its median, and s an estimate of its spread (1.48 × median distance from m).
For a value x:

    r = x − m,   x̃ = m + sign(r) s ℓ(|r|/s),   ℓ(u) = u up to 3, then 3 + log(u − 2)
    z = (x̃ − μ)/σ, between −3 and 3,           μ, σ² running mean and variance of x̃

x̃ limits the influence of outliers: a corrupt row, codes such as −999 and heavy tails leave μ and σ usable. A column of
two values, or of mostly zeros, is standardised as usual. After t rows, the rate of the estimates is about 1/t (μ, σ²)
or 2/t (m, s), but at least 0.001, so that the estimates follow columns that drift.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron.engine.reference.examples.rows import Array

BEND = 3.0  # ℓ is logarithmic beyond this many spreads
CLIP = 3.0  # |z| is at most this
MIN_RATE = 0.001
"""The smallest rate of all running estimates."""
NEAR = 0.02
"""A value closer to m than this, in units of s, changes neither m nor s. In a column of mostly zeros, s is then the
spread of the other values."""
NORMAL = 0.6745
"""Median distance of a standard normal variable from its median; 1/NORMAL = 1.48."""
FIRST = 3
"""Rows before the first estimate. Their median is usable even if one of them is corrupt."""


class Scaler:
    """Running estimates for d columns."""

    def __init__(self, d: int) -> None:
        self.count = 0
        self.centre, self.spread, self.mean, self.variance = (np.zeros(d) for _ in range(4))

    def features(self, x: Array) -> Array:
        """Return the standardised row z. It is 0 until there are estimates, and in columns that have not varied."""
        z = np.zeros(len(x))
        if self.count < FIRST:
            return z
        varies = self.variance > 0
        deviation = self._compressed(x)[varies] - self.mean[varies]
        z[varies] = np.clip(deviation / np.sqrt(self.variance[varies]), -CLIP, CLIP)
        return z

    def learn(self, x: Array) -> None:
        self.count += 1
        if self.count <= FIRST:
            self._begin(x)
            return
        t = self.count - 1
        # If two of the first three values are equal, the spread is 0. The distance from m of the next value that
        # differs from m replaces it.
        self.spread = np.where(self.spread == 0, np.abs(x - self.centre), self.spread)
        deviation = self._compressed(x) - self.mean
        rate = max(1 / (t - 1), MIN_RATE)
        self.mean += rate * deviation
        self.variance = (1 - rate) * (self.variance + rate * deviation**2)
        rate = max(2 / (2 + t), MIN_RATE)
        r = x - self.centre
        moves = np.abs(r) > NEAR * self.spread
        wider = np.abs(r) > NORMAL * self.spread
        # Stochastic approximation of medians: steps of equal size up and down cancel on average only at the median.
        self.centre += np.where(moves, 0.7 * rate * self.spread * np.sign(r), 0.0)
        self.spread *= np.where(moves, np.where(wider, np.exp(rate / 2), np.exp(-rate / 2)), 1.0)

    def _begin(self, x: Array) -> None:
        """Make the first estimates, once there are `FIRST` rows."""
        # The first two rows are stored in the arrays of the estimates, which are not needed before the third row.
        if self.count < FIRST:
            (self.centre if self.count == 1 else self.spread)[:] = x
            return
        rows = np.stack([self.centre, self.spread, x])
        self.centre = np.median(rows, axis=0)
        self.spread = np.median(np.abs(rows - self.centre), axis=0) / NORMAL
        self.mean = self.centre.copy()

    def _compressed(self, x: Array) -> Array:
        """Return x̃."""
        r = x - self.centre
        is_outlier = np.abs(r) > BEND * self.spread
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            compressed = self.spread * (BEND + np.log(np.abs(r) / self.spread - (BEND - 1)))
        return self.centre + np.where(is_outlier & (self.spread > 0), np.sign(r) * compressed, r)

    def state(self) -> dict[str, Any]:
        return {
            "scaler_count": self.count, "scaler_centre": self.centre, "scaler_spread": self.spread,
            "scaler_mean": self.mean, "scaler_variance": self.variance,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        self.count = int(state["scaler_count"])
        for name in ("centre", "spread", "mean", "variance"):
            setattr(self, name, np.array(state[f"scaler_{name}"], dtype=np.float64))

    @property
    def nbytes(self) -> int:
        return 4 * self.centre.nbytes
