"""γ of a Gaussian kernel with ``gamma="scale"``, estimated from the first rows of the stream.

    γ = 1/(d v),   v = variance of all entries of the rows so far, mean = their mean, m2 = Σ (entry − mean)²

d is the number of columns. Zeros of sparse rows are entries too.

γ is estimated after 1, 2, 4, … 64 rows and is constant from then on. So no row has to be buffered, and the result does
not depend on how the stream was cut into blocks. A few dense rows say little about v, so for dense rows γ is 1/d until
32 of them were seen. For sparse rows, d v is nearly the mean of ‖x‖², which even one row estimates well.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from budgetron.engine.reference.examples.rows import Array, Instance
from budgetron.engine.settings import Settings
from budgetron.kernels import Gaussian, Kernel

ROWS = 64  # the rows from which γ is estimated
MIN_DENSE_ROWS = 32


class Bandwidth:
    """The kernel in use, and the moments of the first rows."""

    def __init__(self, settings: Settings) -> None:
        self.d, self.sparse = settings.n_features, settings.sparse
        self.is_used = follows_scale(settings.kernel)
        self.kernel = settings.kernel
        self.mean = self.m2 = 0.0
        if self.is_used:
            self._set(1.0 / self.d)

    def update(self, n_seen: int) -> bool:
        """Estimate γ, if `n_seen` is one of the counts after which it is estimated. Returns whether it changed."""
        if not self.is_used or not 0 < n_seen <= ROWS or n_seen & (n_seen - 1):
            return False
        spread = self.m2 / n_seen  # d v
        usable = (self.sparse or n_seen >= MIN_DENSE_ROWS) and 1e-300 < spread < math.inf
        before = self.gamma
        self._set(1.0 / (spread if usable else self.d))
        return self.gamma != before

    def observe(self, x: Instance, n_seen: int) -> None:
        """Add row `n_seen` (counted from 0) to the moments, if it is one of the first `ROWS`."""
        if not self.is_used or n_seen >= ROWS:
            return
        self.add(x.values, n_seen)

    def add(self, values: Array, n_seen: int) -> None:
        """Add one row to the moments (Chan, Golub and LeVeque 1983). Zeros may be missing in `values`."""
        row_mean = float(values.sum()) / self.d
        row_m2 = float(((values - row_mean) ** 2).sum()) + (self.d - len(values)) * row_mean**2
        difference = row_mean - self.mean
        self.mean += difference / (n_seen + 1)
        self.m2 += row_m2 + difference**2 * self.d * n_seen / (n_seen + 1)

    @property
    def gamma(self) -> float:
        assert isinstance(self.kernel, Gaussian)
        return float(self.kernel.gamma)

    def state(self) -> dict[str, Any]:
        return {"gamma": self.gamma, "scale_mean": self.mean, "scale_m2": self.m2} if self.is_used else {}

    def restore(self, state: dict[str, Any]) -> None:
        if self.is_used:
            self._set(float(state["gamma"]))
            self.mean, self.m2 = float(state["scale_mean"]), float(state["scale_m2"])

    def _set(self, gamma: float) -> None:
        assert isinstance(self.kernel, Gaussian)
        self.kernel = replace(self.kernel, gamma=gamma)


def follows_scale(kernel: Kernel | None) -> bool:
    """Whether the kernel leaves γ to be estimated."""
    return isinstance(kernel, Gaussian) and isinstance(kernel.gamma, str)


def kernel_after(settings: Settings, rows: Any) -> Kernel | None:
    """Return the kernel that is in use after these rows (at least one), with γ a number."""
    bandwidth = Bandwidth(settings)
    n = 1 << (min(int(rows.shape[0]), ROWS).bit_length() - 1)  # the last number of rows after which γ is estimated
    for i in range(n if bandwidth.is_used else 0):
        row = rows[i]
        bandwidth.add(np.asarray(row.data if settings.sparse else row, dtype=np.float64), i)
    bandwidth.update(n)
    return bandwidth.kernel
