"""The kernel part of all beliefs: what is stored, who leaves for it, and what each belief knows on it.

    store x if δ² > η²κ and (mistake, or n < B and lead < 1); where B is full the least harmful leaves,
    r = argmin Σ_b w_b (‖U_bj‖² + M_b,jj)/P_jj, neither an anchor nor x, with P of all B + 1 of them

Where rows share a pool of non-zeros, members leave by the same rule, without x, until x fits; if it cannot, it is
not stored. Unrelated tasks (`shared` false) store nothing but anchors.        shared[b]  U and M of belief b
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron.engine.reference.budgetron.beliefs import Belief, Mixture
from budgetron.engine.reference.budgetron.own import Row
from budgetron.engine.reference.budgetron.parts import Diagonal, Part
from budgetron.engine.reference.budgetron.span import OnSpan, Place, SharedKernel, Span
from budgetron.engine.reference.gram import least
from budgetron.engine.reference.rows import Array, Instance, without
from budgetron.engine.reference.store import Store
from budgetron.engine.settings import Settings


class KernelPart:
    """The span, and the shared block of each belief on it."""

    def __init__(self, settings: Settings, store: Store, mixture: Mixture) -> None:
        self.store, self.mixture = store, mixture
        self.has_shared, self.has_own = bool(settings.parameters.shared), bool(settings.parameters.own)
        self.B, self.eta2, self.n_outputs = settings.capacity, settings.parameters.eta**2, settings.n_outputs
        self.span = Span(settings, store)
        self.shared = {b.index: SharedKernel(self.n_outputs) for b in mixture.kernel if self.has_shared}

    # What an example finds.

    def see(self, x: Instance) -> Place:
        """Where x stands; nowhere, if no belief looks."""
        return self.span.see(x) if self.mixture.kernel else Place(np.empty(0), 0.0, np.empty(0), 0.0, np.empty(0), 0.0)

    def parts(self, b: Belief, place: Place, row: Row) -> list[Part]:
        """The shared block and the task's own."""
        parts: list[Part] = []
        if b.index in self.shared:
            parts.append(OnSpan(self.shared[b.index], place.k))
        if b.index in row.kernel:
            prior = b.s_kernel * b.rho_kernel / self.span.unit
            parts.append(Diagonal(row.kernel[b.index], place.psi, scale=prior))
        return parts

    def unexpressed(self, b: Belief, place: Place) -> float:
        """(s/unit) δ² + (sρ/unit) o²: the prior variance that the span has no room for."""
        s = b.s_kernel / self.span.unit
        return s * place.delta2 * self.has_shared + s * b.rho_kernel * place.own2 * self.has_own

    # Who is stored.

    def wants(self, place: Place, ahead: float) -> bool:
        """Whether to store an example, by how far its class was ahead."""
        is_new = place.kappa > 0 and place.delta2 > self.eta2 * place.kappa
        is_useful = ahead <= 0 or ((self.B is None or len(self.store) < self.B) and ahead < 1)
        has_use = bool(self.mixture.kernel) and (self.has_shared or len(self.span.anchors) < self.span.r)
        return has_use and is_new and is_useful

    def remember(self, x: Instance, key: int, cluster: int, arrival: int, place: Place) -> tuple[bool, Place]:
        """Whether x could be stored (not where anchors leave no room), and its place after that."""
        span = self.span
        evictable = span.evictable(len(self.store))
        if self.B is not None and len(self.store) >= self.B and not len(evictable):
            return False, place
        if not self.store.fits(x, without=evictable):
            return False, place
        while not self.store.fits(x):
            r = self.evict(len(self.store))
            place = span.place(without(place.k, r), place.kappa)
        span.append(x, key, cluster, arrival, place)
        for b in self.mixture.kernel:
            if b.index in self.shared:
                self.shared[b.index].grow(place.alpha, place.delta2, b.s_kernel / span.unit)
        k = np.append(place.k, place.kappa)
        if self.store.is_over():
            k = without(k, self.evict(len(self.store) - 1))
        place = span.place(k, place.kappa)
        place.delta2 = 0.0
        if arrival in span.anchors:
            place.own2 = 0.0
        return True, place

    def evict(self, n_old: int) -> int:
        """Project the least harmful of the first n_old members on all the others, and drop it; the slot it had."""
        P = self.span.gram.inverse()
        slots = self.span.evictable(n_old)
        damage = sum(self.mixture.weight(b) * self.shared[b.index].damage() for b in self.mixture.kernel)
        scores = (damage / np.diagonal(P))[slots]
        r = int(slots[least(scores, self.store.arrival[slots])])
        self.project_out(r, P)
        return r

    def project_out(self, r: int, P: Array) -> None:
        gamma = -P[r] / P[r, r]
        for kernel in self.shared.values():
            kernel.project_out(r, gamma)
        self.span.remove(r)

    def forget(self, key: int) -> bool:
        """Project a task's examples out, lowest slot first; whether the anchors changed by that."""
        while (slots := np.flatnonzero(self.store.key == key)).size:
            self.project_out(int(slots[0]), self.span.gram.inverse())
        if np.isin(self.span.anchors, self.store.arrival).all():
            return False
        self.span.choose_anchors()
        return True

    def drop(self, b: Belief) -> None:
        """A belief is gone; and the store with the last that used it."""
        self.shared.pop(b.index, None)
        if not self.mixture.kernel:
            self.span.clear()

    # What is held.

    def coef(self) -> Array:
        """Σ_b w_b U_b."""
        total = np.zeros((self.n_outputs, len(self.store)))
        for b in self.mixture.live:
            if b.index in self.shared:
                total += self.mixture.weight(b) * self.shared[b.index].U
        return total

    def of_row(self, row: Row) -> Array:
        """Σ_b w_b (U_b + Λᵀw_i at the anchors)."""
        total = self.coef()
        for b in self.mixture.live:
            if b.index in row.kernel:
                w_i = row.kernel[b.index][:-1, : len(self.span.anchors)].astype(np.float64)
                total += self.mixture.weight(b) * self.span.on_slots(w_i)
        return total

    def state(self) -> dict[str, Any]:
        n, held, triangle = len(self.store), list(self.shared.values()), np.tril_indices(len(self.store))
        return self.span.state() | {
            "u": np.array([kernel.U for kernel in held]).reshape(len(held), self.n_outputs, n),
            "m": np.array([kernel.M[triangle] for kernel in held]).reshape(len(held), n * (n + 1) // 2),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """After the mixture."""
        self.span.restore(state)
        self.shared = {b.index: SharedKernel(self.n_outputs) for b in self.mixture.kernel if self.has_shared}
        n = len(self.store)
        u = np.array(state["u"], dtype=np.float64).reshape(len(self.shared), self.n_outputs, n)
        packed = np.reshape(state["m"], (len(self.shared), n * (n + 1) // 2))
        for kernel, U, m in zip(self.shared.values(), u, packed, strict=True):
            M = np.zeros((n, n))
            M[np.tril_indices(n)] = m
            kernel.U, kernel.M = U, M + np.tril(M, -1).T

    @property
    def nbytes(self) -> int:
        return self.span.nbytes + sum(kernel.nbytes for kernel in self.shared.values())
