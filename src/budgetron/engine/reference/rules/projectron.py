"""Projectron and Projectron++. Once the budget is full, they project all further examples, or evict stored ones.

    H = Gram matrix of S,  k_t = kernel values of x_t with S
    α = H⁻¹k_t,  δ² = K_tt − k_tᵀα,  p = k_tᵀα = K_tt − δ²
    on a mistake, δ ≤ η:   β ← β + y_t α
    on a mistake, δ > η:   S ← S ∪ {t},  β_t = y_t.   If S is full:  β ← β + y_t α, or evict as `BudgetProjectron`
    Projectron++, 0 < y_t f(x_t) < 1, with ℓ = 1 − y_t f(x_t):   β ← β + τ y_t α
        norm       if ℓ > δ/η:                τ = min(ℓ/p, 2(ℓ − δ/η)/p, 1)        as published
        squared    if ℓ > δ²/η:               τ = min(ℓ/p, 2(ℓ − δ²/η)/p, 1)       DOGMA; stores mistakes with δ² > η
        budget     if 2ℓ − τp − 2Uδ ≥ 0:      τ = min(ℓ/p, 1),   U = ¼ √((B + 1)/ln(B + 1))       Lu et al. 2016

In both learners, δ is compared with η in K̃ = K/c_G². The steps of Projectron++ refer to K̃ too, because its margin is
compared with 1; it stores the coefficients as b = β/c_G². In its steps on small margins, δ² and p are doubled with more
than two classes, since two outputs change (not under `budget`, as in the tables of Lu et al.). The other symbols are
those of `reference.rule`.

    unit  c_G², or 1 for Projectron      eta2  η² c_G², or η c_G² for `squared`
"""

from __future__ import annotations

import math
from typing import ClassVar

from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import RuleParameters
from budgetron.engine.reference.examples.rows import Array, Instance
from budgetron.engine.reference.rule import Example, direction
from budgetron.engine.reference.rules import budget_projectron
from budgetron.engine.reference.rules.budget_projectron import BudgetProjectron
from budgetron.engine.reference.rules.budget_sgd.rule import SLACK
from budgetron.engine.saved_state import require
from budgetron.engine.settings import Settings

# Of type float, because model files have them as 0.0, 1.0 and 2.0.
NORM, SQUARED, BUDGET = 0.0, 1.0, 2.0
# Relative to K_tt, the rounding error of float32 rows. A smaller δ² counts as 0 in every precision, so that rounding
# does not change the step.
NEGLIGIBLE = 2.0**-16


class Parameters(budget_projectron.Parameters, frozen=True):
    plus: bool = False
    convention: float = NORM
    evict: bool = False


class Projectron(BudgetProjectron):
    """Mistakes are projected on the stored examples or stored; Projectron++ also learns from small margins."""

    name = "projectron"
    Parameters: ClassVar[type[RuleParameters]] = Parameters

    @classmethod
    def check(cls, settings: Settings) -> None:
        super().check(settings)
        p = settings.parameters
        require(p.convention in (NORM, SQUARED, BUDGET), "convention", "0, 1 or 2", str(p.convention))
        divides = p.plus and p.convention != BUDGET
        require(not divides or p.eta > 0, "eta", "above 0 for margin updates", str(p.eta))

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.p = settings.parameters
        c2 = settings.graph.c_g**2
        self.unit = c2 if self.p.plus else 1.0
        self.c2 = c2
        self.eta2 = c2 * (self.p.eta if self.p.convention == SQUARED else self.p.eta**2)

    def correct(self, t: Example, y: Array) -> Outcome:
        full = len(self.store) == self.settings.capacity or not self.store.fits(t.x)
        if full and not self.p.evict:
            if not len(self.store):
                return Outcome(0)
            self.weights.add(t.task_id, t.cluster, y / self.unit, self.gram.project(t.k, t.k_tt)[0])
            return Outcome.UPDATED
        return super().correct(t, y / self.unit)

    def learn(self, x: Instance, task_id: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        if not self.p.plus:
            return super().learn(x, task_id, cluster, code, weight)
        t = self.with_kernel_row(x, task_id, cluster)
        f = self.margins(t)
        y = direction(f, code)
        loss, outcome = 1 - float(y @ f), Outcome(0)
        if loss >= 1:
            self.n_mistakes += 1
            outcome = Outcome.MISTAKE
            if t.k_tt > self.eta2:
                outcome |= self.correct(t, y)
        elif loss > SLACK:
            outcome = self.learn_margin(t, y, loss)
        self.n_seen += 1
        return f, outcome

    def learn_margin(self, t: Example, y: Array, loss: float) -> Outcome:
        """Take the step of Projectron++ on an example that is no mistake, but has a margin below 1."""
        alpha, delta2 = self.gram.project(t.k, t.k_tt)
        if delta2 <= NEGLIGIBLE * t.k_tt:
            delta2 = 0.0
        changed_outputs = 1.0 if self.p.convention == BUDGET else float(y @ y)
        p, delta2 = changed_outputs * (t.k_tt - delta2) / self.c2, changed_outputs * delta2 / self.c2
        tau = self.tau(loss, p, delta2) if len(alpha) and p > 0 else 0.0
        if tau <= 0:
            return Outcome(0)
        self.weights.add(t.task_id, t.cluster, y * tau / self.unit, alpha)
        return Outcome.UPDATED

    def tau(self, loss: float, p: float, delta2: float) -> float:
        """Return τ; 0 for no step."""
        if self.p.convention == BUDGET:
            tau, B = min(loss / p, 1.0), self.settings.capacity
            U = 0.0 if B is None else math.sqrt((B + 1) / math.log(B + 1)) / 4
            return tau if 2 * loss - tau * p - 2 * U * math.sqrt(delta2) >= 0 else 0.0
        threshold = delta2 / self.p.eta if self.p.convention == SQUARED else math.sqrt(delta2) / self.p.eta
        return float(min(loss / p, 2 * (loss - threshold) / p, 1.0))
