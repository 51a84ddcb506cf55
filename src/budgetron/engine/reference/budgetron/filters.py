"""One belief as a Bayesian filter: weights with a covariance, shared by all tasks, and own weights of every task.

    f = θ·φ + Σ_j R_ij (v_j·φ),      V = φᵀPφ + Σ_j R_ij² Σ S_j φ²
    α, h from `steps`;   c = h/(1 + hV)
    θ += α Pφ,   P −= c Pφ(Pφ)ᵀ,     v_j += α R_ij S_j φ,   S_j ← S_j/(1 + h R_ij² S_j φ²)

R_ij are the coefficients of the related tasks: 1 for the task itself on a complete graph, a row of a factor R of A⁻¹ on an
explicit one. P is a whole matrix, or a diagonal for many columns. With `waves`, φ has random Fourier features too; own
weights have the linear features alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from budgetron.engine.reference.budgetron.parts import Seen
from budgetron.engine.reference.budgetron.steps import gradient, step
from budgetron.engine.reference.rows import Array

NEGLIGIBLE = 1e-3
"""A step that would change f by less than this is not taken."""
CONFIDENT = 0.01
"""A filter over waves learns nothing from an example whose class it gives at least 99 %: its update costs O(width²)."""
WAVE_PRIOR = 0.125
"""Prior variance of the weight of a wave; a wave has mean square ½."""


@dataclass(frozen=True)
class FilterBelief:
    """Prior variance of a shared linear weight; of an own one as a multiple; the least share of it that is kept."""

    prior: float
    own: float
    floor: float = 0.0


class Filter:
    """`belief` on `columns` linear features (the last is the bias) and on the first `waves` frequencies."""

    count = 1

    def __init__(self, index: int, belief: FilterBelief, outputs: int, columns: int, waves: int, whole: bool,
                 shared: bool, own: bool) -> None:  # fmt: skip
        self.name = f"filter{index}"
        self.belief, self.outputs, self.columns, self.waves = belief, outputs, columns, waves
        self.whole, self.shared, self.own = whole, shared, own
        prior = np.concatenate([np.full(columns, belief.prior), np.full(2 * waves, WAVE_PRIOR)])
        self.theta = np.zeros((outputs, len(prior) if shared else 0))
        self.P = (np.diag(prior) if whole else prior) if shared else np.zeros(0)
        self.row_width, self.at = ((outputs + 1) * columns if own else 0), 0

    # ---- margins and variances

    def features(self, e: Seen) -> Array:
        return np.concatenate([e.linear, e.waves[: 2 * self.waves]]) if self.waves else e.linear

    def own_of(self, row: Array) -> tuple[Array, Array]:
        """Return views of v (outputs, columns) and S of a row."""
        part = row[self.at : self.at + self.row_width]
        split = self.outputs * self.columns
        return part[:split].reshape(self.outputs, self.columns), part[split:]

    def begin_row(self, row: Array, task_id: int) -> None:
        if self.own:
            v, s = self.own_of(row)
            v[:], s[:] = 0.0, self.belief.prior * (self.belief.own if self.shared else 1.0)

    def margins(self, e: Seen) -> Array:
        f = self.theta @ self.features(e) if self.shared else np.zeros(self.outputs)
        for r, _, row in e.related if self.own else ():
            f = f + r * (self.own_of(row)[0] @ e.linear)
        return f[None]

    def variances(self, e: Seen) -> Array:
        return np.array([self._variance(e, self._spread(e))])

    def _spread(self, e: Seen) -> Array:
        """Return Pφ."""
        if not self.shared:
            return np.zeros(0)
        return self.P @ self.features(e) if self.whole else self.P * self.features(e)

    def _variance(self, e: Seen, spread: Array) -> float:
        v = float(self.features(e) @ spread) if self.shared else 0.0
        for r, _, row in e.related if self.own else ():
            v += r * r * float(self.own_of(row)[1] @ e.linear**2)
        return v

    # ---- the update

    def learn(self, e: Seen, f: Array, code: int, omega: float) -> bool:
        f = f[0]
        pull = omega * gradient(f, code)[code]
        if self.waves and pull < CONFIDENT:
            return False
        spread = self._spread(e)
        v = self._variance(e, spread)
        if pull * v < NEGLIGIBLE:
            return False
        alpha, h = step(f, code, omega, v)
        if self.shared:
            self.theta += np.outer(alpha, spread)
            if self.whole:
                self.P -= h / (1 + h * v) * np.outer(spread, spread)
            else:
                self.P /= 1 + h * spread * self.features(e)
            self._hold_floor()
        for r, _, row in e.related if self.own else ():
            weights, s = self.own_of(row)
            t = r * s * e.linear
            weights += np.outer(alpha, t)
            s[:] = np.maximum(s / (1 + h * r * t * e.linear), self.floor_of_own)
        return True

    @property
    def floor_of_own(self) -> float:
        return self.belief.floor * self.belief.prior * (self.belief.own if self.shared else 1.0)

    def _hold_floor(self) -> None:
        """Add a little to variances that have fallen too low, so that the belief goes on adapting."""
        if self.belief.floor == 0:
            return
        least = self.belief.floor * self.belief.prior
        if self.whole:
            low = np.flatnonzero(np.diagonal(self.P) < least)
            self.P[low, low] += 0.01 * least
        else:
            self.P = np.maximum(self.P, least)

    def linear_weights(self, e: Seen) -> Array:
        w = np.zeros((self.outputs, self.columns))
        if self.shared:
            w += self.theta[:, : self.columns]
        for r, _, row in e.related if self.own else ():
            w += r * self.own_of(row)[0]
        return w[None]

    # ---- state

    def state(self) -> dict[str, Any]:
        n = self.theta.shape[1]
        P = self.P[np.tril_indices(n)] if self.whole and self.shared else self.P
        return {f"{self.name}_weights": self.theta, f"{self.name}_covariance": P}

    def restore(self, state: dict[str, Any]) -> None:
        self.theta = np.array(state[f"{self.name}_weights"]).reshape(self.theta.shape)
        P = np.array(state[f"{self.name}_covariance"])
        if self.whole and self.shared:
            n = self.theta.shape[1]
            full = np.zeros((n, n))
            full[np.tril_indices(n)] = P
            self.P = full + np.tril(full, -1).T
        else:
            self.P = P

    @property
    def nbytes(self) -> int:
        return self.theta.nbytes + self.P.nbytes
