"""Budget maintenance in O(B): evict the smallest, the oldest or a random example, or replace one by the new example.

r is the example to evict, t the new example, S the stored examples. `rule` explains the other symbols.

    remove     r = argmin ‖β_j‖ √K_jj over all B + 1 examples, among ties the oldest;  S ← S \\ {r}
    oldest     r = the example that arrived first;  S ← S \\ {r}
    random     if |S| = B, before t is stored:  draw r with probability p_r;  β_j ← β_j/(1 − p_j) for j ≠ r;  clip
               clip, if γ > 0: each ‖β_j‖ to at most ηγ, where η is `rate` and γ is `clip`.  With `rescale`, all β_j are
               multiplied by the same factor instead, so that no norm exceeds ηγ (Lu et al.)
               uniform: p_j = 1/|S|
               weighted: p_j ∝ max(0, 1 − (|S| − 1) w_j / Σw),  w_j = ‖β_j‖ √K_jj
    replace    if |S| = B:  r = argmin ‖β_j‖² (K̃_jj − K̃_jt²/K̃_tt) over the stored examples;
               β_t = β_r K̃_rt/K̃_tt + τ y,  S ← S \\ {r} ∪ {t}
               with `skip`, passive-aggressive steps on a full store skip t if half of that minimum > τ ‖K̃_t‖² (C − τ/2)

The condition for skipping comes from the objective of a passive-aggressive step, ½‖f' − f‖² + C ℓ'(x_t): if it holds,
keeping f has a smaller objective than replacing r by t (BPA-S).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.examples.rows import Array, flushed, without
from budgetron.engine.reference.gram import least
from budgetron.engine.reference.rule import Example
from budgetron.engine.reference.rules.budget_sgd.maintenance import STORED, Method
from budgetron.engine.reference.splitmix import WORD, Splitmix
from budgetron.engine.saved_state import Field, Layout, require
from budgetron.engine.settings import Settings

if TYPE_CHECKING:
    from budgetron.engine.reference.rules.budget_sgd.rule import BudgetSgd


class Remove(Method):
    """Evict the example with the smallest ‖b_j‖ √K_jj, the norm of its term of f."""

    def evict(self) -> int:
        r = least(self.sizes(), self.rule.store.arrival)
        self.rule.remove(r)
        return r

    def sizes(self) -> Array:
        """Return ‖b_j‖ √K_jj."""
        sizes: Array = self.rule.weights.norms() * np.sqrt(self.rule.k_jj)
        return sizes


class Oldest(Method):
    """Evict the oldest example."""

    def evict(self) -> int:
        r = int(np.argmin(self.rule.store.arrival))
        self.rule.remove(r)
        return r


class Random(Remove):
    """Evict a random example, and scale the others by 1/(1 − p_j), so that the expectation of f is unchanged."""

    @classmethod
    def check(cls, settings: Settings) -> None:
        require(settings.parameters.seed <= WORD, "seed", "below 2⁶⁴", str(settings.parameters.seed))

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
        # r is drawn before x_t is stored, so x_t is never evicted.
        r = self.draw_and_compensate() if len(rule.store) == rule.settings.capacity else None
        rule.append(t, y * tau / rule.unit)
        if r is not None:
            rule.remove(r)
        return STORED

    def evict(self) -> int:
        r = self.draw_and_compensate()
        self.rule.remove(r)
        return r

    def draw_and_compensate(self) -> int:
        """Draw the example to evict, and divide the coefficients of the others by 1 − p_j."""
        r, p = self.draw()
        rule = self.rule
        # p_j may round to 1 although another slot is drawn; the lower bound avoids a division by zero.
        survival = np.maximum(1 - p, 2.0**-52)
        survival[r] = 1.0
        beta = rule.weights.beta / survival
        # Over many evictions, dividing by 1 − p could let coefficients grow without bound. The parameter `clip` limits
        # them.
        max_norm = rule.p.rate * rule.p.clip / rule.unit
        if max_norm > 0:
            norms = np.sqrt((beta**2).sum(axis=0))
            norms[r] = 0.0 if rule.p.rescale else norms[r]
            largest = norms.max() if rule.p.rescale else norms
            beta = beta * np.minimum(1.0, max_norm / np.maximum(largest, 1e-300))
        rule.weights.beta = flushed(beta)
        return r

    def draw(self) -> tuple[int, Array]:
        """Draw a slot r; return it and the probabilities p of all slots."""
        n = len(self.rule.store)
        return self.generator.below(n), np.full(n, 1 / n)

    def state(self) -> dict[str, Any]:
        return {"rng": self.generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        self.generator.state = int(state["rng"])


class Weighted(Random):
    """Evict a random example, smaller ones with higher probability (BOGD++)."""

    def draw(self) -> tuple[int, Array]:
        sizes = self.sizes()
        n, total = len(sizes), float(sizes.sum())
        p = np.maximum(1 - (n - 1) * sizes / total, 0.0) if total > 0 else np.full(n, 1.0)
        p = p / p.sum()
        # Rounding may leave the last cumulative sum below 1. It is left out, so that every draw above the other sums
        # selects the last slot.
        r = int(np.searchsorted(np.cumsum(p)[:-1], self.generator.uniform(), side="right"))
        return r, p


class Replace(Method):
    """Replace the example of which least is lost when it is projected on the new one."""

    def learn(self, t: Example, y: Array, tau: float, weight: float) -> Outcome:
        rule = self.rule
        if not rule.store.fits_alone(t.x):
            return Outcome(0)
        b = y * tau / rule.unit
        full = len(rule.store) == rule.settings.capacity
        # The condition for skipping is in the module docstring.
        if full and rule.skips(t, y, tau, weight, float(self.losses(t).min())):
            return Outcome(0)
        # In the pool of non-zeros, a sparse row may need more room than one eviction frees.
        while not rule.store.fits(t.x):
            r = least(self.losses(t), rule.store.arrival)
            b = b + rule.weights.beta[:, r] * t.k[r] / t.k_tt
            rule.remove(r)
            t.k = without(t.k, r)
        if len(rule.store) < (rule.settings.capacity or len(rule.store) + 1):  # no limit if capacity is None
            rule.append(t, b)
            return STORED
        r = least(self.losses(t), rule.store.arrival)
        rule.append(t, b + rule.weights.beta[:, r] * t.k[r] / t.k_tt)
        rule.remove(r)
        return STORED

    def losses(self, t: Example) -> Array:
        """Return ‖b_j‖² (K_jj − K_jt²/K_tt), the squared norm that the projection on x_t would lose, for every slot."""
        return self.rule.weights.norms() ** 2 * np.maximum(self.rule.k_jj - t.k**2 / t.k_tt, 0.0)

    def evict(self) -> int:
        """Evict the smallest example, as `Remove` does: without a new example there is nothing to project on."""
        r = least(self.rule.weights.norms() * np.sqrt(self.rule.k_jj), self.rule.store.arrival)
        self.rule.remove(r)
        return r
