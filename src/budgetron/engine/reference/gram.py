"""The Gram matrix of the active set, and what projections need of it, solved fresh each time.

    H_ij = K(x_i, x_j)                 H
    α = H⁻¹ k_t,  δ² = K_tt − k_tᵀα    `project`: x_t on the span of S, and the squared distance left
    P = H⁻¹                            `inverse`: 1/√P_jj is the distance of x_j from the span of the others
    γ_j = −P_jr / P_rr                 Σ_{j≠r} γ_j x_j is the projection of x_r on the others

Nothing is updated from step to step but the entries of H itself. Kernel values are exact to about `noise` of K_tt,
which depends on the precision of the rows, so a δ² below that counts as 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from budgetron.engine.reference.rows import Array, Integers, without
from budgetron.engine.settings import Settings

TIED = 1 + 1e-10
ZERO = 1e-12  # of the largest score: what rounding has left of a zero


class Gram:
    """H, kept in step with the store."""

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
        """α and δ²."""
        if not len(k):
            return k, k_tt
        alpha: Array = scipy.linalg.cho_solve(factor(self.H), k)
        delta2 = k_tt - float(k @ alpha)
        return alpha, delta2 if delta2 > self.noise * k_tt else 0.0

    def inverse(self) -> Array:
        """P."""
        if not len(self.H):
            return self.H
        P: Array = scipy.linalg.cho_solve(factor(self.H), np.eye(len(self.H)))
        return (P + P.T) / 2


def noise_of(settings: Settings) -> float:
    """How exact kernel values are: the core multiplies dense float32 rows in float32, all others in double."""
    return 2.0**-16 if settings.dtype == "float32" and not settings.sparse else 2.0**-36


def cheapest(norms: Array, P: Array, arrival: Integers) -> int:
    """argmin_j ‖β_j‖ / √P_jj over the slots that `norms` covers; among ties the lowest arrival."""
    return least(norms / np.sqrt(np.diagonal(P)[: len(norms)]), arrival)


def least(scores: Array, arrival: Integers) -> int:
    """argmin of the scores; among ties the lowest arrival."""
    tied = np.flatnonzero(scores <= scores.min() * TIED + ZERO * scores.max())
    return int(tied[np.argmin(arrival[tied])])


def regrown(arrival: Integers, row_of: Callable[[int], tuple[Array, float]]) -> Array:
    """H again, from the row k_j and K_jj of every slot j: of each pair the later one asked for the row."""
    H = np.empty((len(arrival), len(arrival)))
    for j in np.argsort(arrival):
        k, k_jj = row_of(int(j))
        H[j, :] = H[:, j] = k
        H[j, j] = k_jj
    return H


def factor(H: Array) -> Any:
    """The Cholesky factor; where rounding made H indefinite, of H with the least ridge that has one."""
    ridge = 0.0
    scale = float(np.trace(H)) / len(H)
    while True:
        try:
            return scipy.linalg.cho_factor(H + ridge * scale * np.eye(len(H)), lower=True)
        except np.linalg.LinAlgError:
            ridge = max(10 * ridge, 1e-15)
