"""The Gram matrix of the stored examples, and the linear algebra of projections.

    H_ij = K(x_i, x_j)                 the matrix `H`
    α = H⁻¹ k_t,  δ² = K_tt − k_tᵀα    `project`: coefficients of the projection of x_t on the span of the stored
                                       examples, and its squared distance from the span
    P = H⁻¹                            `inverse`: 1/√P_jj is the distance of x_j from the span of the others
    γ_j = −P_jr / P_rr                 Σ_{j≠r} γ_j x_j is the projection of x_r on the others

k_t has the kernel values K(x_j, x_t) of a new example x_t with every stored example x_j, and K_tt = K(x_t, x_t).

Only H itself is updated from step to step; every system is solved from scratch. That is slow but accumulates no
errors, and the core's incremental factors are tested against it. Kernel values have a rounding error of about
`noise` · K_tt, so a δ² of at most this counts as 0. `noise` depends on the precision of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from budgetron.engine.reference.examples.rows import Array, Integers, without
from budgetron.engine.settings import Settings

TIED = 1 + 1e-10  # scores within this factor are ties, so that rounding does not decide which example is evicted
ZERO = 1e-12  # relative to the largest score: smaller scores are rounding errors of zero


class Gram:
    """H, with a row and column per slot of the store."""

    def __init__(self, noise: float) -> None:
        self.noise = noise
        self.H: Array = np.empty((0, 0))

    def append(self, k: Array, k_tt: float) -> None:
        n = len(k)
        grown = np.empty((n + 1, n + 1))
        grown[:n, :n], grown[n, :n], grown[:n, n], grown[n, n] = self.H, k, k, k_tt
        self.H = grown

    def remove(self, r: int) -> None:
        self.H = without(without(self.H, r, axis=0), r, axis=1)

    def project(self, k: Array, k_tt: float) -> tuple[Array, float]:
        """Return α and δ² of an example with kernel row k."""
        if not len(k):
            return k, k_tt
        alpha: Array = scipy.linalg.cho_solve(factor(self.H), k)
        delta2 = k_tt - float(k @ alpha)
        return alpha, delta2 if delta2 > self.noise * k_tt else 0.0

    def inverse(self) -> Array:
        """Return P = H⁻¹, made exactly symmetric."""
        if not len(self.H):
            return self.H
        P: Array = scipy.linalg.cho_solve(factor(self.H), np.eye(len(self.H)))
        return (P + P.T) / 2

    def dependent(self, eta2: float) -> tuple[int, Array] | None:
        """Return the slot of the example nearest to the span of the others, and P; None if there is no dependent one.

        An example is dependent if its squared distance from the span is at most η², or at most the rounding error.
        """
        if len(self.H) < 2:
            return None
        P = self.inverse()
        r = int(np.argmax(np.diagonal(P)))
        return None if P[r, r] * max(eta2, self.noise) < 1 else (r, P)  # `noise` is for K_rr of about 1


def noise_of(settings: Settings) -> float:
    """Return the relative error that kernel values may have.

    It is larger for dense float32 rows, whose inner products the core computes in float32.
    """
    return 2.0**-16 if settings.dtype == "float32" and not settings.sparse else 2.0**-36


def cheapest(norms: Array, P: Array, arrival: Integers) -> int:
    """Return argmin_j ‖β_j‖ / √P_jj over the slots that `norms` covers; among ties the oldest example."""
    return least(norms / np.sqrt(np.diagonal(P)[: len(norms)]), arrival)


def least(scores: Array, arrival: Integers) -> int:
    """Return the argmin of the scores; among ties the oldest example."""
    tied = np.flatnonzero(scores <= scores.min() * TIED + ZERO * scores.max())
    return int(tied[np.argmin(arrival[tied])])


def recompute_gram(arrival: Integers, row_of: Callable[[int], tuple[Array, float]]) -> Array:
    """Recompute H from the kernel row and K_jj of every slot j.

    K(x_i, x_j) and K(x_j, x_i) may differ in the last bit. So the rows are written in order of arrival: each entry then
    comes from the kernel row of the later example of its pair, as it did when that example was learned.
    """
    H = np.empty((len(arrival), len(arrival)))
    for j in np.argsort(arrival):
        k, k_jj = row_of(int(j))
        H[j, :] = H[:, j] = k
        H[j, j] = k_jj
    return H


def factor(H: Array) -> Any:
    """Return the Cholesky factor of H.

    If rounding made H indefinite, a ridge is added to its diagonal: 1e-15, 1e-14, … times the mean of the diagonal,
    until there is a factor.
    """
    ridge = 0.0
    scale = float(np.trace(H)) / len(H)
    while True:
        try:
            return scipy.linalg.cho_factor(H + ridge * scale * np.eye(len(H)), lower=True)
        except np.linalg.LinAlgError:
            ridge = max(10 * ridge, 1e-15)
