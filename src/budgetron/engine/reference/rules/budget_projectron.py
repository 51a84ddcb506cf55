"""BudgetProjectron: the multitask Budget Projectron, mtbprj in Cavallanti and Cesa-Bianchi 2012.

Without a budget it is the Projectron of the paper, with η in the scale of K (`Projectron` has η in that of K/c_G²).

    H = Gram matrix of S in K,  k_t = kernel values of x_t with S,  α = H⁻¹k_t,  δ² = K_tt − k_tᵀα
    on a mistake, δ ≤ η:   β ← β + y_t α
    on a mistake, δ > η:   S ← S ∪ {t},  β_t = y_t
        if |S| = B + 1, with P = H⁻¹ of the B + 1 instances:
            r = argmin over the old members of |β_j| / √P_jj,   γ_j = −P_jr / P_rr
            β_j ← β_j + β_r γ_j for every j ≠ r, including t,   S ← S \\ {r}

Variables and their symbols: `y` y_t, `alpha` α, `delta2` δ², `eta2` η², `gram.H` H, `P` P, `gamma` γ, `weights.beta` β.

η is the parameter `eta`: an example at most this far from the span of S is projected, not stored. The other symbols are
those of `reference.rule`. With more than two classes |β_j| is ‖β_j‖₂. Scores within a factor of 1 + 1e-10 are ties;
among ties, the oldest example is evicted. If sparse rows share a pool of non-zeros, examples are first evicted by the
same rule until x_t fits.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from budgetron.engine import memory
from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays, RuleParameters
from budgetron.engine.reference.examples.rows import Array, without
from budgetron.engine.reference.gram import Gram, cheapest, noise_of, recompute_gram
from budgetron.engine.reference.rule import Example, MistakeDriven
from budgetron.engine.reference.weights import Coefficients, Weights
from budgetron.engine.saved_state import Layout, gram_fields, verify_gram
from budgetron.engine.settings import Settings


class Parameters(RuleParameters, frozen=True):
    eta: Annotated[float, Meta(ge=0.0)] = 0.0  # the learners pass their own defaults, such as 0.01


class BudgetProjectron(MistakeDriven):
    """A mistake is projected on the stored examples, or stored; evicted examples are projected on the others."""

    name = "budget_projectron"
    Parameters: ClassVar[type[RuleParameters]] = Parameters

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        return super().layout(settings, arrays) | gram_fields(arrays)

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        super().verify(settings, arrays)
        verify_gram(arrays)

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        assert settings.capacity is not None
        return super().bytes_beyond(settings, compiled) + memory.gram_bytes(settings.capacity, compiled)

    def __init__(self, settings: Settings, weights: Weights | None = None) -> None:
        super().__init__(settings, Coefficients(settings) if weights is None else weights)
        self.gram = Gram(noise_of(settings))
        self.eta2 = settings.parameters.eta**2

    def correct(self, t: Example, y: Array) -> Outcome:
        alpha, delta2 = self.gram.project(t.k, t.k_tt)
        # x_t is nearly a linear combination of the stored examples, so adding y_t α to their weights is like storing
        # it.
        if delta2 <= self.eta2:
            self.weights.add(t.task_id, t.cluster, y, alpha)
            return Outcome.UPDATED
        if not self.store.fits_alone(t.x):
            return Outcome(0)
        while not self.store.fits(t.x):
            t.k = without(t.k, self.evict(len(self.store)))  # the kernel row of x_t loses the evicted slot too
        self.append(t, y)
        if self.store.exceeds_capacity():
            self.evict(len(self.store) - 1)  # among the old examples only: x_t itself always stays
        return Outcome.UPDATED | Outcome.STORED

    def evict(self, n_old: int) -> int:
        """Of the first n_old examples, choose the one of least loss. Project it on all others and evict it.

        Return its slot.

        The loss of slot j is the norm of the change of f, ‖β_j‖ / √P_jj: 1/√P_jj is the distance of x_j from the span
        of the others.
        """
        P = self.gram.inverse()
        r = cheapest(self.weights.norms()[:n_old], P, self.store.arrival)
        self.project_out(r, P)
        return r

    def evict_one(self) -> bool:
        self.evict(len(self.store))
        return True

    def project_out(self, r: int, P: Array) -> None:
        """Project x_r on the other examples, β_j ← β_j + β_r γ_j for every j ≠ r, and remove slot r."""
        gamma = -P[r] / P[r, r]
        self.weights.distribute(r, gamma)
        self.remove(r)

    def append(self, t: Example, y: Array) -> None:
        super().append(t, y)
        self.gram.append(t.k, t.k_tt)

    def remove(self, r: int) -> None:
        super().remove(r)
        self.gram.remove(r)

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.rows_moved()

    def rows_moved(self) -> None:
        self.gram.H = recompute_gram(self.store.arrival, self.gram_row)

    def kernel_changed(self) -> None:
        """Recompute H. Then evict every example within η (or rounding) of the span of the others, the nearest first.

        Under the new kernel, not all of them would have been stored. If they stayed, H could be singular and P
        unbounded.
        """
        self.rows_moved()
        while (dependent := self.gram.dependent(self.eta2)) is not None:
            self.project_out(*dependent)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.gram.H.nbytes
