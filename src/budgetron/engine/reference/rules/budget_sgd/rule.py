"""BudgetSgd: a step whenever the margin is below ϑ, and budget maintenance when more than B examples are stored.

    K̃ = K / c_G²,  f = Σ_j β_j K̃(x_j, ·),  ℓ = max(0, ϑ − y_t f(x_t)),  ϑ is the parameter `margin`
    every example:   β ← (1 − η_t λ) β          if λ > 0, except for passive-aggressive steps
    if ℓ > 0:        S ← S ∪ {t},  β_t = τ y_t,  τ = η_t,  or min(C, ℓ/‖K̃_t‖²) for passive-aggressive steps
    if |S| = B + 1:  budget maintenance, by the method `maintenance`; some methods make room before t is stored
    after a step:    β ← β min(1, U/‖f‖),  U = radius √B,  if radius > 0

η_t is the step size, λ the regularization, and C the limit of passive-aggressive steps (`rate`). For τ, η_t and C are
multiplied by the weight of the example. ‖K̃_t‖² is K̃_tt, or 2K̃_tt with more than two classes, because two outputs
change. `reference.rule` explains the other symbols. The papers assume K_tt ≤ 1, so the kernel is divided by c_G², the
largest (A⁻¹)_ii. The model stores and displays the weights b = β/c_G², because f = Σ_j b_j K(x_j, ·), as for all other
learners.

    y     y_t; with more than two classes +1 for y_t and −1 for the other class with the largest margin
    tau   τ      unit  c_G²      weights.beta  b      k_jj  K_jj      norm2  ‖K̃_t‖²

A loss of at most 1e-10 ϑ counts as 0. A passive-aggressive step makes the loss zero up to rounding, and rounding must
not decide whether the same example is learned again.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays, RuleParameters
from budgetron.engine.reference.examples.rows import Array, Instance, flushed, without
from budgetron.engine.reference.gram import TIED, recompute_gram
from budgetron.engine.reference.rule import Example, KernelRule, direction
from budgetron.engine.reference.rules.budget_sgd.halving import Halve
from budgetron.engine.reference.rules.budget_sgd.maintenance import Method
from budgetron.engine.reference.rules.budget_sgd.merging import Merge
from budgetron.engine.reference.rules.budget_sgd.nystrom import Nystrom
from budgetron.engine.reference.rules.budget_sgd.parameters import WITH_RADIUS, Maintenance, Parameters, Step
from budgetron.engine.reference.rules.budget_sgd.projecting import Project, ProjectSmallest
from budgetron.engine.reference.rules.budget_sgd.removal import Oldest, Random, Remove, Replace, Weighted
from budgetron.engine.reference.weights import Coefficients
from budgetron.engine.saved_state import Field, Layout, optional, require
from budgetron.engine.settings import Settings

SLACK = 1e-10  # a loss of at most this, relative to the margin ϑ, counts as 0

METHODS: dict[int, type[Method]] = {
    Maintenance.REMOVE: Remove, Maintenance.OLDEST: Oldest, Maintenance.RANDOM: Random, Maintenance.WEIGHTED: Weighted,
    Maintenance.REPLACE: Replace, Maintenance.PROJECT: Project, Maintenance.PROJECT_SMALLEST: ProjectSmallest,
    Maintenance.MERGE: Merge, Maintenance.HALVE: Halve, Maintenance.NYSTROM: Nystrom,
}  # fmt: skip


class BudgetSgd(KernelRule):
    """Online gradient descent, Pegasos and passive-aggressive steps within a budget."""

    name = "budget_sgd"
    Parameters: ClassVar[type[RuleParameters]] = Parameters
    weights: Coefficients

    # ---- the declaration

    @classmethod
    def check(cls, settings: Settings) -> None:
        super().check(settings)
        p = settings.parameters
        needs_lambda = p.step == Step.PEGASOS and p.regularization == 0
        require(not needs_lambda, "regularization", "above 0 for Pegasos steps", "0")
        # The factor 1 − η_t λ must stay positive, also in the first step, which is the longest. (With Pegasos steps it
        # is 0 at the first example, when nothing is stored yet.)
        loses_all = p.step in (Step.CONSTANT, Step.ROOT) and p.rate * p.regularization >= 1
        require(not loses_all, "rate", "below 1 / regularization", str(p.rate))
        may_bound = p.radius == 0 or p.maintenance in WITH_RADIUS
        require(may_bound, "radius", f"0 with maintenance {p.maintenance}", str(p.radius))
        METHODS[p.maintenance].check(settings)

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        own = {"own": Field("float64", (len(arrays["key"]),))}
        own |= optional({"norm2": Field("float64")}, arrays)  # the core tracks ‖f‖² from step to step
        method = METHODS[settings.parameters.maintenance]
        return super().layout(settings, arrays) | own | method.layout(settings, arrays)

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        scale = float(arrays["scale"][0])
        require(0 < scale <= 1, "state.scale", "above 0 and at most 1", str(scale))
        require((arrays["own"] > 0).all(), "state.own", "positive")
        if "norm2" in arrays:
            require(float(arrays["norm2"][0]) >= -1e-6, "state.norm2", "0 or above", str(arrays["norm2"][0]))
        METHODS[settings.parameters.maintenance].verify(settings, arrays)

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        assert settings.capacity is not None
        shared = super().bytes_beyond(settings, compiled)
        shared += 4 * settings.capacity * 8  # K_jj, √K_jj, scores and the kernel row of a stored example
        return shared + METHODS[settings.parameters.maintenance].bytes_beyond(settings, compiled)

    # ---- learning

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, Coefficients(settings))
        self.p = settings.parameters
        self.unit = settings.graph.c_g**2
        self.k_jj: Array = np.empty(0)
        self.method = METHODS[self.p.maintenance](self)
        self.eta2 = self.p.eta**2 * self.unit if self.method.projects else 0.0

    def learn(self, x: Instance, task_id: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        t = self.with_kernel_row(x, task_id, cluster)
        f = self.margins(t)
        y = direction(f, code)
        outcome = Outcome.MISTAKE if float(y @ f) <= 0 else Outcome(0)
        self.n_mistakes += bool(outcome)
        loss = self.p.margin - float(y @ f)
        if self.p.regularization > 0 and self.p.step != Step.PASSIVE_AGGRESSIVE:
            self.weights.beta = flushed((1 - self.eta_t() * self.p.regularization) * self.weights.beta)
        if loss > SLACK * self.p.margin and weight > 0 and t.k_tt > self.eta2:
            outcome |= self.method.learn(t, y, self.tau(t, y, loss, weight), weight)
            self.limit_norm()
        self.n_seen += 1
        return f, outcome

    def eta_t(self) -> float:
        """Return η_t."""
        t = self.n_seen + 1
        match self.p.step:
            case Step.PEGASOS:
                return float(1.0 / (self.p.regularization * t))
            case Step.ROOT:
                return float(self.p.rate / math.sqrt(t))
        return float(self.p.rate)

    def tau(self, t: Example, y: Array, loss: float, weight: float) -> float:
        """Return the length of the step."""
        if self.p.step == Step.PASSIVE_AGGRESSIVE:
            return float(min(self.p.rate * weight, loss / self.norm2(t, y)))
        return self.eta_t() * weight

    def skips(self, t: Example, y: Array, tau: float, weight: float, lost: float) -> bool:
        """Whether a passive-aggressive rule skips x_t, because learning it would evict too much.

        The rule minimises ½‖f' − f‖² + Cℓ', where f' and ℓ' are the function and the loss after the step. Skipping x_t
        is compared with a step that evicts x_r; `lost` is the part of ‖b_r K_r‖² that is lost. If both objectives are
        equal, x_t is learned. With two classes they are equal, for example, if τ = |β_r| = C, K_rr = K_tt, and x_r is
        unrelated to all other examples.
        """
        if self.p.step != Step.PASSIVE_AGGRESSIVE or not self.p.skip:
            return False
        gained = tau * self.norm2(t, y) * (self.p.rate * weight - tau / 2)
        return bool(0.5 * self.unit * lost > gained * TIED)

    def norm2(self, t: Example, y: Array) -> float:
        """Return ‖K̃_t‖²; with more than two classes two outputs change, so it is twice as large."""
        return float(t.k_tt / self.unit * (y @ y))

    def norm(self) -> float:
        """Compute ‖f‖ from the Gram matrix."""
        if not len(self.store):
            return 0.0
        H = recompute_gram(self.store.arrival, self.gram_row)
        square = float(np.einsum("cj,jk,ck->", self.weights.beta, H, self.weights.beta))
        return math.sqrt(max(self.unit * square, 0.0))

    def limit_norm(self) -> None:
        """Scale β so that ‖f‖ is at most U."""
        if self.p.radius > 0 and self.settings.capacity is not None:
            U, norm = self.p.radius * math.sqrt(self.settings.capacity), self.norm()
            if norm > U:
                self.weights.beta = self.weights.beta * (U / norm)

    # ---- changes of the stored examples

    def append(self, t: Example, y: Array) -> None:
        super().append(t, y)
        self.k_jj = np.append(self.k_jj, t.k_tt)
        self.method.appended(t)

    def remove(self, r: int) -> None:
        super().remove(r)
        self.k_jj = without(self.k_jj, r)
        self.method.removed(r)

    def evict_one(self) -> bool:
        self.method.evict()
        return True

    def rows_moved(self) -> None:
        self.method.rows_moved()

    def kernel_changed(self) -> None:
        self.method.kernel_changed()

    # ---- state

    def state(self) -> dict[str, Any]:
        return super().state() | {"own": self.k_jj.copy()} | self.method.state()

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.weights.beta = flushed(float(state["scale"]) * self.weights.beta)
        self.k_jj = np.array(state["own"], dtype=np.float64)
        self.method.restore(state)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.k_jj.nbytes + self.method.nbytes
