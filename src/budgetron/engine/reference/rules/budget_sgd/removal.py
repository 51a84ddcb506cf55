"""Budget maintenance in O(B): the smallest, the oldest or a random example is removed, or the new one replaces one.

    remove     r = argmin ‖β_j‖ √K_jj over all B + 1;  S ← S \\ {r}.  Among ties the oldest.
    oldest     r = the oldest
    random     before t is stored:  r with probability p_r,  β_j ← β_j/(1 − p_j) for j ≠ r,  ‖β_j‖ ≤ ηγ
               (each is clipped; `rescale`: all shrink by the same factor until that holds, as Lu et al. do)
               uniform: p_j = 1/|S|
               weighted: p_j = 1 − (|S| − 1) w_j / Σw,  w_j = ‖β_j‖ √K_jj;  negative ones count as 0
    replace    r = argmin over the old of ‖β_j‖² (K_jj − K_jt²/K_tt),  β_t = β_r K_rt/K_tt + τ y,  S ← S \\ {r} ∪ {t}
               passive-aggressive steps skip the example if ½ that minimum > τ ‖K_t‖² (C − τ/2)

In that case skipping has the smaller value of ½‖f' − f‖² + C ℓ'(x_t), the objective of a passive-aggressive step
(BPA-S).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.gram import least
from budgetron.engine.reference.rows import Array, flushed, without
from budgetron.engine.reference.rule import Example
from budgetron.engine.reference.rules.budget_sgd.maintenance import STORED, Method
from budgetron.engine.reference.splitmix import WORD, Splitmix
from budgetron.engine.saved_state import Field, Layout, require
from budgetron.engine.settings import Settings

if TYPE_CHECKING:
    from budgetron.engine.reference.rules.budget_sgd.rule import BudgetSgd


class Remove(Method):
    """The smallest example is removed."""

    def evict(self) -> int:
        r = least(self.sizes(), self.rule.store.arrival)
        self.rule.remove(r)
        return r

    def sizes(self) -> Array:
        """Return ‖β_j‖ √K_jj."""
        sizes: Array = self.rule.weights.norms() * np.sqrt(self.rule.own)
        return sizes


class Oldest(Method):
    """The oldest example is removed."""

    def evict(self) -> int:
        r = int(np.argmin(self.rule.store.arrival))
        self.rule.remove(r)
        return r


class Random(Remove):
    """A random example is removed, and the others grow, so that f keeps its expectation."""

    @classmethod
    def check(cls, settings: Settings) -> None:
        require(settings.parameters.seed <= WORD, "seed", "below 2⁶⁴", "more")

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        return {"rng": Field("uint64")}

    def __init__(self, rule: BudgetSgd) -> None:
        super().__init__(rule)
        self.generator = Splitmix(rule.p.seed)

    def learn(self, t: Example, y: Array, tau: float, weight: float) -> Outcome:
        rule = self.rule
        if not rule.store.fits_alone(t.x):
            return Outcome(0)
        while not rule.store.fits(t.x):
            t.k = without(t.k, self.evict())
        r = self.make_up() if len(rule.store) == rule.settings.capacity else None  # x_t itself always stays
        rule.append(t, y * tau / rule.unit)
        if r is not None:
            rule.remove(r)
        return STORED

    def evict(self) -> int:
        r = self.make_up()
        self.rule.remove(r)
        return r

    def make_up(self) -> int:
        """Draw the example to evict, and divide the coefficients of the others by 1 − p_j."""
        r, p = self.drawn()
        rule = self.rule
        # A slot with probability 1 is drawn for certain; the bound only avoids a division by zero for it.
        keep = np.maximum(1 - p, 2.0**-52)
        keep[r] = 1.0
        beta = rule.weights.beta / keep
        # Dividing by 1 − p makes weights grow without bound over many evictions, so they are clipped.
        most = rule.p.rate * rule.p.clip / rule.unit
        if most > 0:
            norms = np.sqrt((beta**2).sum(axis=0))
            norms[r] = 0.0 if rule.p.rescale else norms[r]
            largest = norms.max() if rule.p.rescale else norms
            beta = beta * np.minimum(1.0, most / np.maximum(largest, 1e-300))
        rule.weights.beta = flushed(beta)
        return r

    def drawn(self) -> tuple[int, Array]:
        """Return r, and the probability of every slot."""
        n = len(self.rule.store)
        return self.generator.below(n), np.full(n, 1 / n)

    def state(self) -> dict[str, Any]:
        return {"rng": self.generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        self.generator.state = int(state["rng"])


class Weighted(Random):
    """Smaller examples are removed with higher probability (BOGD++)."""

    def drawn(self) -> tuple[int, Array]:
        sizes = self.sizes()
        n, total = len(sizes), float(sizes.sum())
        p = np.maximum(1 - (n - 1) * sizes / total, 0.0) if total > 0 else np.full(n, 1.0)
        p = p / p.sum()
        # Rounding may leave the sum of p below 1; the last slot takes the rest.
        r = int(np.searchsorted(np.cumsum(p)[:-1], self.generator.uniform(), side="right"))
        return r, p


class Replace(Method):
    """An example is projected on the new one, which replaces it."""

    def learn(self, t: Example, y: Array, tau: float, weight: float) -> Outcome:
        rule = self.rule
        if not rule.store.fits_alone(t.x):
            return Outcome(0)
        b = y * tau / rule.unit
        full = len(rule.store) == rule.settings.capacity
        # Skipping the example may have the smaller objective; the head of this file has the formula.
        if full and rule.skips(t, y, tau, weight, float(self.losses(t).min())):
            return Outcome(0)
        while not rule.store.fits(t.x):
            r = least(self.losses(t), rule.store.arrival)
            b = b + rule.weights.beta[:, r] * t.k[r] / t.k_tt
            rule.remove(r)
            t.k = without(t.k, r)
        if len(rule.store) < (rule.settings.capacity or len(rule.store) + 1):
            rule.append(t, b)
            return STORED
        r = least(self.losses(t), rule.store.arrival)
        rule.append(t, b + rule.weights.beta[:, r] * t.k[r] / t.k_tt)
        rule.remove(r)
        return STORED

    def losses(self, t: Example) -> Array:
        """Return ‖b_j‖² (K_jj − K_jt²/K_tt)."""
        return self.rule.weights.norms() ** 2 * np.maximum(self.rule.own - t.k**2 / t.k_tt, 0.0)

    def evict(self) -> int:
        """Remove the smallest example: without a new one there is nothing to project on."""
        r = least(self.rule.weights.norms() * np.sqrt(self.rule.own), self.rule.store.arrival)
        self.rule.remove(r)
        return r
