"""Budget maintenance that projects the evicted example r on all others.

    α = H⁻¹k_t,  δ² = K_tt − k_tᵀα.   If δ ≤ η:  β ← β + τ y α, and x_t is not stored.
    Otherwise x_t is stored, and with P = H⁻¹ of the B + 1 examples:
    project            r = argmin ‖β_j‖ / √P_jj, the exact loss
    project-smallest   r = argmin ‖β_j‖ √K_jj
    in both methods    β_j ← β_j + β_r γ_j,  γ_j = −P_jr/P_rr,  S ← S \\ {r}

H is the Gram matrix of S. Here, H, K_tt and k_t are values of K̃ = K/c_G²; `rule` explains the other symbols. r may be
any of the B + 1 examples. With passive-aggressive steps (BPA-P) it is one of the B old examples, and with the parameter
`skip` the new example is skipped if ½ ‖β_r‖²/P_rr > τ ‖K̃_t‖² (C − τ/2), as in `removal`. (The code computes with K.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from budgetron.engine import memory
from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.examples.rows import Array, without
from budgetron.engine.reference.gram import Gram, cheapest, least, noise_of, recompute_gram
from budgetron.engine.reference.rule import Example
from budgetron.engine.reference.rules.budget_sgd.maintenance import STORED, Method
from budgetron.engine.reference.rules.budget_sgd.parameters import Step
from budgetron.engine.saved_state import Layout, gram_fields, verify_gram
from budgetron.engine.settings import Settings

if TYPE_CHECKING:
    from budgetron.engine.reference.rules.budget_sgd.rule import BudgetSgd


class Project(Method):
    """The example whose projection on all others changes f least is evicted."""

    projects = True

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        return gram_fields(arrays)

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        verify_gram(arrays)

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        assert settings.capacity is not None
        return memory.gram_bytes(settings.capacity, compiled)

    def __init__(self, rule: BudgetSgd) -> None:
        super().__init__(rule)
        self.gram = Gram(noise_of(rule.settings))

    def learn(self, t: Example, y: Array, tau: float, weight: float) -> Outcome:
        rule = self.rule
        alpha, delta2 = self.gram.project(t.k, t.k_tt)
        # x_t is nearly in the span of the stored examples, so its step is added to their weights.
        if delta2 <= rule.eta2:
            rule.weights.add(t.task_id, t.cluster, y * tau / rule.unit, alpha)
            return Outcome.UPDATED
        if not rule.store.fits_alone(t.x):
            return Outcome(0)
        while not rule.store.fits(t.x):
            t.k = without(t.k, self.evict())
        rule.append(t, y * tau / rule.unit)
        if not rule.store.exceeds_capacity():
            return STORED
        P = self.gram.inverse()
        n = len(rule.store)
        passive = rule.p.step == Step.PASSIVE_AGGRESSIVE
        # BPA-P evicts one of the old examples; after other steps the new one itself may be evicted.
        r = self.to_evict(n - 1 if passive else n, P)
        if rule.skips(t, y, tau, weight, float(rule.weights.norms()[r] ** 2 / P[r, r])):
            # The example was appended only to compute P, and is removed again.
            rule.remove(n - 1)
            return Outcome(0)
        self.project_out(r, P)
        return STORED if r != n - 1 else Outcome.UPDATED

    def to_evict(self, n: int, P: Array) -> int:
        """Return the slot to evict among the first n."""
        return cheapest(self.rule.weights.norms()[:n], P, self.rule.store.arrival)

    def evict(self) -> int:
        P = self.gram.inverse()
        r = self.to_evict(len(self.rule.store), P)
        self.project_out(r, P)
        return r

    def project_out(self, r: int, P: Array) -> None:
        self.rule.weights.distribute(r, -P[r] / P[r, r])
        self.rule.remove(r)

    def appended(self, t: Example) -> None:
        self.gram.append(t.k, t.k_tt)

    def removed(self, r: int) -> None:
        self.gram.remove(r)

    def rows_moved(self) -> None:
        self.gram.H = recompute_gram(self.rule.store.arrival, self.rule.gram_row)

    def kernel_changed(self) -> None:
        """Evict examples that are within η of the span of the others under this kernel, as `BudgetProjectron` does."""
        self.rows_moved()
        while (dependent := self.gram.dependent(self.rule.eta2)) is not None:
            self.project_out(*dependent)

    def restore(self, state: dict[str, Any]) -> None:
        self.rows_moved()

    @property
    def nbytes(self) -> int:
        return self.gram.H.nbytes


class ProjectSmallest(Project):
    """The example with the smallest ‖β_j‖ √K_jj is projected on all others and evicted (Wang, Crammer and Vucetic)."""

    def to_evict(self, n: int, P: Array) -> int:
        rule = self.rule
        return least((rule.weights.norms() * np.sqrt(rule.k_jj))[:n], rule.store.arrival[:n])
