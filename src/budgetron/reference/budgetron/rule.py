"""Budgetron: one example (x, i, y, ω) after the other.

    1  features of every part; f_b and V_b, the sums over the parts of belief b
    2  margin of p̄ = Σ w_b p_b; a mistake is a lead of the true class ≤ 0.      ω = 0 stops here
    3  w, and the beliefs that are given up
    4  store x if δ² > η²κ and (mistake, or n < B and lead < 1); where B is full the least harmful
       r = argmin Σ_b w_b (‖U_bj‖² + M_b,jj)/P_jj leaves, neither an anchor nor x, P of all B + 1 of them
    5  each belief, with f_b and V_b as they are after 4, q = p_b, g_c = [y = c] − q_c, h = ω q_y(1 − q_y):
           v = V_b + (s/unit) δ² + (sρ/unit) o²       δ² = 0 where x was stored: what the span cannot
                                                      express damps the step
           ω max_c|g_c| v < 1e-3: no step;  else every part with G = ω g/(1 + hv), c = h/(1 + hv)
    6  the moments of the features

Unrelated tasks (`shared` false) have own parts only, and store nothing but anchors; one task for all (`own` false) has
shared parts only. Where rows share a pool of non-zeros, members leave by 4's rule, without x, until x fits; if it
cannot, it is not stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from budgetron.records import Outcome
from budgetron.reference.budgetron.beliefs import Belief, Mixture, lead, log_probabilities
from budgetron.reference.budgetron.dense import DenseLinear
from budgetron.reference.budgetron.hashed import HashedLinear
from budgetron.reference.budgetron.own import Row, Rows
from budgetron.reference.budgetron.parts import Diagonal, Part
from budgetron.reference.budgetron.span import OnSpan, Place, SharedKernel, Span
from budgetron.reference.gram import least
from budgetron.reference.rows import Array, Instance, without
from budgetron.reference.rule import Rule
from budgetron.reference.store import Store
from budgetron.settings import Settings

NEGLIGIBLE = 1e-3


@dataclass
class Seen:
    """An example with its features: of the linear parts, and its place in the span."""

    x: Instance
    key: int
    cluster: int
    linear: Any
    place: Place


class Budgetron(Rule):
    """Every example teaches every belief; the beliefs are mixed by how well they foretold."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.has_shared, self.has_own = bool(settings.extra["shared"]), bool(settings.extra["own"])
        self.eta2 = settings.eta**2
        self.mixture = Mixture(settings)
        self.linear = (HashedLinear if settings.sparse else DenseLinear)(settings, self.mixture.linear)
        self.store = Store(settings)
        self.span = Span(settings, self.store)
        self.shared = {b.index: SharedKernel(settings.n_outputs) for b in self.mixture.kernel if self.has_shared}
        self.rows = Rows(settings)

    # 1, 2: what is foretold.

    def see(self, x: Instance, key: int, cluster: int) -> Seen:
        nowhere = Place(np.empty(0), 0.0, np.empty(0), 0.0, np.empty(0), 0.0)
        place = self.span.see(x) if self.mixture.kernel else nowhere
        return Seen(x, key, cluster, self.linear.features(x, key), place)

    def parts(self, b: Belief, t: Seen, row: Row) -> list[Part]:
        """All that belief b predicts with."""
        parts = self.linear.parts(b, t.linear, row)
        if b.index in self.shared:
            parts.append(OnSpan(self.shared[b.index], t.place.k))
        if b.index in row.kernel:
            prior = b.s_kernel * b.rho_kernel / self.span.unit
            parts.append(Diagonal(row.kernel[b.index], t.place.psi, scale=prior))
        return parts

    def f(self, t: Seen) -> Array:
        """f_b of the live beliefs (beliefs, outputs)."""
        row = self.rows.find(t.key, self.mixture.live)
        return np.array([self.total(self.parts(b, t, row))[0] for b in self.mixture.live])

    def total(self, parts: list[Part]) -> tuple[Array, float]:
        """f_b and V_b."""
        f, V = np.zeros(self.settings.n_outputs), 0.0
        for part in parts:
            f_part, V_part = part.predict()
            f, V = f + f_part, V + V_part
        return f, V

    def predict(self, x: Instance, key: int, cluster: int) -> Array:
        return self.mixture.margins(self.f(self.see(x, key, cluster)))

    def learn(self, x: Instance, key: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        t = self.see(x, key, cluster)
        f = self.f(t)
        margins = self.mixture.margins(f)
        ahead = lead(margins, code)
        outcome = Outcome.MISTAKE if ahead <= 0 else Outcome(0)
        self.n_mistakes += ahead <= 0
        if weight > 0:
            self.mixture.learn(f, code, weight)
            self.give_up(self.mixture.drop())
            if self.is_wanted(t.place, ahead) and self.remember(t):
                outcome |= Outcome.STORED
            if self.update(t, code, weight):
                outcome |= Outcome.UPDATED
            self.linear.observe(x)
        self.n_seen += 1
        return margins, outcome

    # 3: beliefs.

    def give_up(self, gone: list[Belief]) -> None:
        """Free what these beliefs held, and the store with the last kernel belief."""
        for b in gone:
            self.linear.drop(b)
            self.shared.pop(b.index, None)
            self.rows.drop(b)
        if gone and not self.mixture.kernel:
            self.span.clear()

    # 4: the store.

    def is_wanted(self, place: Place, ahead: float) -> bool:
        B, n = self.settings.capacity, len(self.store)
        is_new = place.kappa > 0 and place.delta2 > self.eta2 * place.kappa
        is_useful = ahead <= 0 or ((B is None or n < B) and ahead < 1)
        has_use = bool(self.mixture.kernel) and (self.has_shared or len(self.span.anchors) < self.span.r)
        return has_use and is_new and is_useful

    def remember(self, t: Seen) -> bool:
        """Store x, and see it in its new place; False where anchors leave no room for it."""
        span, B = self.span, self.settings.capacity
        while not self.store.fits(t.x):
            if not len(span.evictable(len(self.store))):
                return False
            r = self.evict(len(self.store))
            t.place = span.place(without(t.place.k, r), t.place.kappa)
        if B is not None and len(self.store) >= B and not len(span.evictable(len(self.store))):
            return False
        place = t.place
        span.append(t.x, t.key, t.cluster, self.n_seen, place)
        for b in self.mixture.kernel:
            if b.index in self.shared:
                self.shared[b.index].grow(place.alpha, place.delta2, b.s_kernel / span.unit)
        k = np.append(place.k, place.kappa)
        if self.store.is_over():
            k = without(k, self.evict(len(self.store) - 1))
        t.place = span.place(k, place.kappa)
        t.place.delta2 = 0.0
        if self.n_seen in span.anchors:
            t.place.own2 = 0.0
        return True

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

    def forget(self, key: int) -> None:
        """Drop the task's row and project its examples out; new anchors where one was among them.

        Its own cells in the hashed table cannot be told apart from others, and stay.
        """
        self.rows.forget(key)
        while (slots := np.flatnonzero(self.store.key == key)).size:
            self.project_out(int(slots[0]), self.span.gram.inverse())
        if not np.isin(self.span.anchors, self.store.arrival).all():
            self.span.choose_anchors()
            self.rows.restart_kernel()

    # 5: the step.

    def update(self, t: Seen, code: int, omega: float) -> bool:
        """Each belief learns by itself; whether any had something to learn."""
        row = self.rows.find(t.key, self.mixture.live)
        return any([self.step(b, t, row, code, omega) for b in self.mixture.live])

    def step(self, b: Belief, t: Seen, row: Row, code: int, omega: float) -> bool:
        parts = self.parts(b, t, row)
        f, V = self.total(parts)
        q = np.exp(log_probabilities(f))  # of each class
        g = (np.arange(len(q)) == code) - q
        h = omega * float(q[code] * (1 - q[code]))
        s = b.s_kernel / self.span.unit
        v = V + s * t.place.delta2 * self.has_shared + s * b.rho_kernel * t.place.own2 * self.has_own
        if omega * float(np.abs(g).max()) * v < NEGLIGIBLE:
            return False
        if self.rows.holds(b):
            self.rows.keep(t.key, row, self.n_seen)
        G = omega * g[-self.settings.n_outputs:] / (1 + h * v)  # two classes: of class 1
        for part in parts:
            part.step(G, h, h / (1 + h * v))
        return True

    # What is held.

    def coef(self) -> Array:
        total = np.zeros((self.settings.n_outputs, len(self.store)))
        for b in self.mixture.live:
            if b.index in self.shared:
                total += self.mixture.weight(b) * self.shared[b.index].U
        return total

    def of_task(self, key: int, cluster: int) -> Array:
        """Σ_b w_b (U_b + Λᵀw_i at the anchors): the kernel part of the mixture's f."""
        row, total = self.rows.find(key, self.mixture.live), self.coef()
        for b in self.mixture.live:
            if b.index in row.kernel:
                w_i = row.kernel[b.index][:-1, :len(self.span.anchors)].astype(np.float64)
                total += self.mixture.weight(b) * self.span.on_slots(w_i)
        return total

    def beliefs(self) -> list[tuple[int, float]]:
        return [(b.index, float(w)) for b, w in zip(self.mixture.live, self.mixture.w, strict=True)]

    def state(self) -> dict[str, Any]:
        n, held = len(self.store), list(self.shared.values())
        triangle = np.tril_indices(n)
        return {"n_seen": self.n_seen, "n_mistakes": self.n_mistakes,
                "u": np.array([kernel.U for kernel in held]).reshape(len(held), self.settings.n_outputs, n),
                "m": np.array([kernel.M[triangle] for kernel in held]).reshape(len(held), n * (n + 1) // 2),
                **self.span.state(), **self.mixture.state(), **self.linear.state(),
                **self.rows.state(self.mixture.live)}

    def restore(self, state: dict[str, Any]) -> None:
        self.n_seen, self.n_mistakes = int(state["n_seen"]), int(state["n_mistakes"])
        self.mixture.restore(state)
        self.span.restore(state)
        self.linear.restore(state, self.mixture.linear)
        self.rows.restore(state, self.mixture.live)
        n = len(self.store)
        self.shared = {b.index: SharedKernel(self.settings.n_outputs) for b in self.mixture.kernel if self.has_shared}
        u = np.array(state["u"], dtype=np.float64).reshape(len(self.shared), self.settings.n_outputs, n)
        for kernel, U, m in zip(self.shared.values(), u, np.reshape(state["m"], (len(self.shared), -1)), strict=True):
            kernel.U = U
            kernel.M = np.zeros((n, n))
            kernel.M[np.tril_indices(n)] = m
            kernel.M = kernel.M + np.tril(kernel.M, -1).T

    @property
    def nbytes(self) -> int:
        shared = sum(kernel.nbytes for kernel in self.shared.values())
        weights = self.mixture.w.nbytes + self.mixture.idle.nbytes
        return self.span.nbytes + shared + self.linear.nbytes + self.rows.nbytes + weights
