"""Budgetron: one example (x, i, y, ω) after the other.

    1  features of every part; f_b and V_b, the sums over the parts of belief b
    2  margin of p̄ = Σ w_b p_b; a mistake is a lead of the true class ≤ 0.      ω = 0 stops here
    3  w, and the beliefs that are given up                                     (`beliefs`)
    4  the store                                                                (`kernel`)
    5  each belief, with f_b and V_b as they are after 4, q = p_b, g_c = [y = c] − q_c, h = ω q_y(1 − q_y):
           v = V_b + (s/unit) δ² + (sρ/unit) o²       δ² = 0 where x was stored: what the span cannot
                                                      express damps the step
           (ω at most 1e6 here)   ω max_c|g_c| v < 1e-3: no step;  else every part with G = ω g/(1 + hv), c = h/(1 + hv)
    6  the moments of the features                                              (`dense`, `hashed`)

Unrelated tasks (`shared` false) have own parts only; one task for all (`own` false) has shared parts only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from budgetron.engine.records import Outcome
from budgetron.engine.reference.budgetron.beliefs import Belief, Mixture, lead, log_probabilities
from budgetron.engine.reference.budgetron.declaration import BudgetronDeclaration
from budgetron.engine.reference.budgetron.dense import DenseLinear
from budgetron.engine.reference.budgetron.hashed import HashedLinear
from budgetron.engine.reference.budgetron.kernel import KernelPart
from budgetron.engine.reference.budgetron.own import Row, Rows
from budgetron.engine.reference.budgetron.parts import Part
from budgetron.engine.reference.budgetron.span import Place
from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.rows import Array, Instance
from budgetron.engine.reference.rule import Located
from budgetron.engine.reference.store import Store
from budgetron.engine.settings import Settings

NEGLIGIBLE = 1e-3
HEAVIEST = 1e6  # ω of a step: beyond it steps would overshoot until weights overflow


class Budgetron(BudgetronDeclaration):
    """Every example teaches every belief; the beliefs are mixed by how well they foretold."""

    name = "budgetron"

    def __init__(self, settings: Settings) -> None:
        self.n_outputs = settings.n_outputs
        self.sure = float(settings.parameters.sure)
        self.store = Store(settings)
        self.mixture = Mixture(settings)
        self.linear = (HashedLinear if settings.sparse else DenseLinear)(settings, self.mixture.linear)
        self.kernel = KernelPart(settings, self.store, self.mixture)
        self.rows = Rows(settings)

    def predict(self, x: Instance, key: int, cluster: int) -> Array:
        return self.mixture.margins(self.f(self.linear.features(x, key), self.kernel.see(x), key))

    def query(self, name: str, examples: Iterable[Located], arrays: Arrays) -> dict[str, Any]:
        """Answer "variances" of f, one row per example; "beliefs": position and weight of those that are left."""
        if name == "variances":
            variances = [self.variance(*example) for example in examples]
            return {"variance": np.array(variances).reshape(len(variances), self.n_outputs)}
        if name == "beliefs":
            return {"index": np.array([b.index for b in self.mixture.live]), "weight": self.mixture.w.copy()}
        return super().query(name, examples, arrays)

    def variance(self, x: Instance, key: int, cluster: int) -> Array:
        """Of the mixture: Σ_b w_b (v_b + f_b²) − (Σ_b w_b f_b)², with v_b as in step 5."""
        phi, place, row = self.linear.features(x, key), self.kernel.see(x), self.rows.find(key, self.mixture.live)
        mean, square = np.zeros(self.n_outputs), np.zeros(self.n_outputs)
        for b, w in zip(self.mixture.live, self.mixture.w, strict=True):
            f, V = self.total(self.parts(b, phi, place, row))
            mean += w * f
            square += w * (V + self.kernel.unexpressed(b, place) + f**2)
        return np.maximum(square - mean**2, 0.0)

    def learn(self, x: Instance, key: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        phi, place = self.linear.features(x, key), self.kernel.see(x)
        f = self.f(phi, place, key)
        margins = self.mixture.margins(f)
        ahead = lead(margins, code)
        outcome = Outcome.MISTAKE if ahead <= 0 else Outcome(0)
        self.n_mistakes += ahead <= 0
        if weight > 0:
            self.mixture.learn(f, code, weight)
            for b in self.mixture.drop():
                self.give_up(b)
            if self.kernel.wants(place, ahead):
                is_stored, place = self.kernel.remember(x, key, cluster, self.n_seen, place)
                outcome |= Outcome.STORED if is_stored else Outcome(0)
            row = self.rows.find(key, self.mixture.live)
            if any([self.step(b, phi, place, key, row, code, weight) for b in self.mixture.live]):  # all of them
                outcome |= Outcome.UPDATED
            self.linear.observe(x)
        self.n_seen += 1
        return margins, outcome

    def f(self, phi: Any, place: Place, key: int) -> Array:
        """f_b of the live beliefs (beliefs, outputs)."""
        row = self.rows.find(key, self.mixture.live)
        return np.array([self.total(self.parts(b, phi, place, row))[0] for b in self.mixture.live])

    def parts(self, b: Belief, phi: Any, place: Place, row: Row) -> list[Part]:
        """All that belief b predicts with."""
        return self.linear.parts(b, phi, row) + self.kernel.parts(b, place, row)

    def total(self, parts: list[Part]) -> tuple[Array, float]:
        """f_b and V_b."""
        f, V = np.zeros(self.n_outputs), 0.0
        for part in parts:
            f_part, V_part = part.predict()
            f, V = f + f_part, V + V_part
        return f, V

    def step(self, b: Belief, phi: Any, place: Place, key: int, row: Row, code: int, omega: float) -> bool:
        """Belief b learns; whether there was something to learn."""
        parts = self.parts(b, phi, place, row)
        f, V = self.total(parts)
        q = np.exp(log_probabilities(f))  # of each class
        g = (np.arange(len(q)) == code) - q
        omega = min(omega, HEAVIEST)
        h = omega * float(q[code] * (1 - q[code]))
        v = V + self.kernel.unexpressed(b, place)
        pull = omega * float(np.abs(g).max())
        if pull * v < NEGLIGIBLE or (b.has_kernel and pull < self.sure):
            return False
        if self.rows.holds(b):
            self.rows.keep(key, row, self.n_seen)
        G = omega * g[-self.n_outputs:] / (1 + h * v)  # two classes: of class 1
        for part in parts:
            part.step(G, h, h / (1 + h * v))
        return True

    def give_up(self, b: Belief) -> None:
        """Free all that a dropped belief held."""
        self.linear.drop(b)
        self.kernel.drop(b)
        self.rows.drop(b)

    def forget(self, key: int) -> None:
        """Drop the task's row and project its examples out; new anchors where one was among them.

        Its own cells in the hashed table cannot be told apart from others, and stay.
        """
        self.rows.forget(key)
        if self.kernel.forget(key):
            self.rows.restart_kernel()

    def evict_one(self) -> bool:
        """The least harmful member leaves; anchors never do."""
        if not self.kernel.shared or not len(self.kernel.span.evictable(len(self.store))):
            return False
        self.kernel.evict(len(self.store))
        return True

    def kernel_changed(self) -> None:
        """The kernel part begins again: its weights and covariances mean nothing under another kernel."""
        for key in set(self.store.key.tolist()):
            self.kernel.forget(key)
        self.rows.restart_kernel()

    def rows_moved(self) -> None:
        self.kernel.span.regrow()

    def coef(self) -> Array:
        return self.kernel.coef()

    def of_task(self, key: int, cluster: int) -> Array:
        """The kernel part of the mixture's f."""
        return self.kernel.of_row(self.rows.find(key, self.mixture.live))

    def state(self) -> dict[str, Any]:
        counts = {"n_seen": self.n_seen, "n_mistakes": self.n_mistakes}
        learned = self.mixture.state() | self.linear.state() | self.kernel.state()
        return counts | learned | self.rows.state(self.mixture.live)

    def restore(self, state: dict[str, Any]) -> None:
        self.n_seen, self.n_mistakes = int(state["n_seen"]), int(state["n_mistakes"])
        self.mixture.restore(state)
        self.linear.restore(state, self.mixture.linear)
        self.kernel.restore(state)
        self.rows.restore(state, self.mixture.live)

    @property
    def nbytes(self) -> int:
        weights = self.mixture.w.nbytes + self.mixture.idle.nbytes
        return self.kernel.nbytes + self.linear.nbytes + self.rows.nbytes + weights
