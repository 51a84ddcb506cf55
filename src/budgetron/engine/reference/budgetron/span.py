"""The stored examples, the span of their kernel functions, and the kernel blocks on it.

    k_j = K'(x_j, x),  κ = K'(x, x)       α = Pk,  δ² = max(0, κ − kᵀα)       P = H⁻¹, the inverse Gram matrix of K'
    ψ = Λ k_anchors,   o² = max(0, κ − ‖ψ‖²)                                  Λ = L⁻¹, the anchors' Gram matrix is LLᵀ

The first r stored are the anchors: they are never evicted, and every task's own kernel part lives on them, whitened.
The shared part (weights U, covariance M as coefficients of Σ M_ab K_a ⊗ K_b) lives on all that are stored:

    x joins:      e = (−α, 1),  M ← M + (s/unit) eeᵀ/δ²,  U_new = 0
    r leaves:     γ = −P_·r/P_rr,  U_j ← U_j + U_r γ_j,  M_ab ← M_ab + γ_a M_rb + M_ar γ_b + γ_a γ_b M_rr
    a step:       t = Mk,  U ← U + G tᵀ,  M ← M − c ttᵀ

unit is κ of the first example ever stored (1 until then), so that s means the same under a kernel that is not
normalised. All of P and Λ is solved fresh from H.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from budgetron.engine.reference.budgetron.parts import Part
from budgetron.engine.reference.gram import Gram, factor, noise_of, regrown
from budgetron.engine.reference.rows import Array, Instance, Integers, flushed, without
from budgetron.engine.reference.store import Store
from budgetron.engine.settings import Settings


@dataclass
class Place:
    """Where an example stands to the span: k, κ, α, δ², ψ, o²."""

    k: Array
    kappa: float
    alpha: Array
    delta2: float
    psi: Array
    own2: float


class SharedKernel:
    """U (outputs, n) and M (n, n) of one belief."""

    def __init__(self, n_outputs: int) -> None:
        self.U: Array = np.zeros((n_outputs, 0))
        self.M: Array = np.zeros((0, 0))

    def grow(self, alpha: Array, delta2: float, s: float) -> None:
        e = np.append(-alpha, 1.0)
        M = np.zeros((len(e), len(e)))
        M[:-1, :-1] = self.M
        self.M = M + s / delta2 * np.outer(e, e)
        self.U = np.column_stack([self.U, np.zeros(len(self.U))])

    def project_out(self, r: int, gamma: Array) -> None:
        M_r = self.M[r]
        M = self.M + (np.outer(gamma, M_r) + np.outer(M_r, gamma)) + M_r[r] * np.outer(gamma, gamma)
        self.M = without(without(M, r, axis=0), r, axis=1)
        self.U = without(flushed(self.U + np.outer(self.U[:, r], gamma)), r)

    def damage(self) -> Array:
        """‖U_j‖² + M_jj of every slot: what is expected to be lost with it, up to 1/P_jj."""
        damage: Array = (self.U**2).sum(axis=0) + np.diagonal(self.M)
        return damage

    @property
    def nbytes(self) -> int:
        return self.U.nbytes + self.M.nbytes


class OnSpan(Part):
    """The shared kernel block, seen from one example."""

    def __init__(self, kernel: SharedKernel, k: Array) -> None:
        self.kernel, self.k = kernel, k

    def predict(self) -> tuple[Array, float]:
        return self.kernel.U @ self.k, max(0.0, float(self.k @ self.kernel.M @ self.k))

    def step(self, G: Array, h: float, c: float) -> None:
        t = self.kernel.M @ self.k
        self.kernel.U = flushed(self.kernel.U + np.outer(G, t))
        self.kernel.M = self.kernel.M - c * np.outer(t, t)


class Span:
    """The store, its Gram matrix, and who of it is an anchor."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.store = store
        self.gram = Gram(noise_of(settings))
        self.anchors: list[int] = []  # arrival numbers, in order
        self.r = int(settings.parameters.own_rank) if settings.parameters.own else 0
        self.unit, self.is_unit_set = 1.0, False

    def clear(self) -> None:
        """Everyone leaves."""
        while len(self.store):
            self.remove(len(self.store) - 1)
        self.anchors = []
        self.store.point.release()

    @property
    def anchor_slots(self) -> Integers:
        return np.array([self.store.slot(arrival) for arrival in self.anchors], dtype=np.int64)

    def evictable(self, n_old: int) -> Integers:
        """The slots below n_old that hold no anchor."""
        return np.setdiff1d(np.arange(n_old), self.anchor_slots)

    def see(self, x: Instance) -> Place:
        return self.place(*self.store.kernel_row(x))

    def place(self, k: Array, kappa: float) -> Place:
        alpha, delta2 = self.gram.project(k, kappa)
        psi = self._whiten(k[self.anchor_slots])
        return Place(k, kappa, alpha, delta2, psi, max(0.0, kappa - float(psi @ psi)))

    def append(self, x: Instance, key: int, cluster: int, arrival: int, place: Place) -> None:
        """x joins, as an anchor while there are fewer than r."""
        if not self.is_unit_set:
            self.unit, self.is_unit_set = place.kappa, True
        self.gram.append(place.k, place.kappa)
        self.store.append(x, key, cluster, arrival)
        if len(self.anchors) < self.r:
            self.anchors.append(arrival)

    def remove(self, r: int) -> None:
        self.gram.remove(r)
        self.store.remove(r)

    def choose_anchors(self) -> None:
        """The r lowest arrivals of those there are."""
        self.anchors = [int(arrival) for arrival in np.sort(self.store.arrival)[: self.r]]

    def on_slots(self, w: Array) -> Array:
        """Λᵀw at the anchors' slots, 0 elsewhere: coefficients of K_j for whitened weights (outputs, anchors)."""
        coefficients = np.zeros((len(w), len(self.store)))
        if self.anchors:
            slots = self.anchor_slots
            coefficients[:, slots] = scipy.linalg.solve_triangular(self._L(), w.T, lower=True, trans="T").T
        return coefficients

    def _whiten(self, k: Array) -> Array:
        """Λk."""
        psi: Array = scipy.linalg.solve_triangular(self._L(), k, lower=True) if len(k) else k
        return psi

    def _L(self) -> Array:
        slots = self.anchor_slots
        L: Array = factor(self.gram.H[np.ix_(slots, slots)])[0]
        return L

    def state(self) -> dict[str, Any]:
        unit = {"unit": self.unit, "unit_set": int(self.is_unit_set)}
        return self.store.state() | unit | {"anchors": self.anchor_slots}

    def restore(self, state: dict[str, Any]) -> None:
        self.store.restore(state)
        self.unit = float(state["unit"])
        # Older files do not say whether the unit was set: a unit of 1 with nothing stored meant that it was not.
        self.is_unit_set = bool(state.get("unit_set", self.unit != 1 or len(self.store) > 0))
        self.anchors = [int(self.store.arrival[slot]) for slot in state["anchors"]]
        self.regrow()

    def regrow(self) -> None:
        """H again, from the stored rows."""
        rows = self.store.rows
        self.gram.H = regrown(self.store.arrival, lambda j: self.store.kernel_row(rows.instance(j)))

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + self.gram.H.nbytes + 8 * len(self.anchors)
