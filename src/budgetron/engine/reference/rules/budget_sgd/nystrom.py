"""Budget maintenance of NOGD: the first B examples stay, and later steps are projected on some eigenvectors.

S are the stored examples, β their coefficients, H their Gram matrix, and k(x) the kernel values of x with them. A step
on the example x_t has the length τ and the direction y (see `rule`), and k_t = k(x_t).

    if |S| = B, before the next step:   H = VΛVᵀ,  M = Λ_r^(−½) V_rᵀ,  β ← V_r V_rᵀ β
    this step and all later ones:       β ← β + τ y MᵀM k_t

Λ has the eigenvalues of H, Λ_r the r largest of them, and V_r their eigenvectors. Eigenvalues of at most 1e-10 times
the largest are left out. M k(x) are the r Nyström features of x. A linear model w on them is β = Mᵀw, and its step
w ← w + τ y M k_t gives the update of β above. So a prediction costs B kernel values, as for all other learners.

M belongs to this S and this kernel. So when stored examples are forgotten or γ changes, M is discarded. New
examples are then stored until the budget is full again, and M is computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.gram import recompute_gram
from budgetron.engine.reference.rule import Example
from budgetron.engine.reference.rules.budget_sgd.maintenance import STORED
from budgetron.engine.reference.rules.budget_sgd.removal import Remove
from budgetron.engine.saved_state import Field, Layout, length, require
from budgetron.engine.settings import Settings

if TYPE_CHECKING:
    from budgetron.engine.reference.rules.budget_sgd.rule import BudgetSgd

MIN_EIGENVALUE = 1e-10  # relative to the largest; M divides by the square roots of the eigenvalues


class Nystrom(Remove):
    """The first B examples stay.

    Learning never evicts an example. The inherited `evict` is used only when the budget is made smaller.
    """

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        # `features` is M, row by row, and `rank` its number of rows r; r = 0 while examples are being stored.
        return {"features": Field("float64", (length(arrays, "features"),)), "rank": Field("int64")}

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        n, rank = len(arrays["key"]), int(arrays["rank"][0])
        require(0 <= rank <= n, "state.rank", f"from 0 to {n}", str(rank))
        require(len(arrays["features"]) == rank * n, "state.features", f"{rank} × {n} numbers")

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        assert settings.capacity is not None
        # The matrix of eigenvectors, which M overwrites, and four vectors for eigenvalues and working memory.
        return 8 * settings.capacity**2 + 8 * 4 * settings.capacity

    def __init__(self, rule: BudgetSgd) -> None:
        super().__init__(rule)
        self.M: Array = np.empty((0, 0))  # without rows, as long as examples are still being stored

    def learn(self, t: Example, y: Array, tau: float, weight: float) -> Outcome:
        rule = self.rule
        full = len(rule.store) == rule.settings.capacity or not rule.store.fits(t.x)
        if not len(self.M) and not full:
            rule.append(t, y * tau / rule.unit)
            return STORED
        if not len(self.M) and not self.decompose():
            return Outcome(0)
        rule.weights.add(t.task_id, t.cluster, y * tau / rule.unit, self.M.T @ (self.M @ t.k))
        return Outcome.UPDATED

    def decompose(self) -> bool:
        """Compute M, and project β. Returns False if there is nothing to decompose."""
        rule = self.rule
        n = len(rule.store)
        if n == 0:
            return False
        eigenvalues, V = np.linalg.eigh(recompute_gram(rule.store.arrival, rule.gram_row))
        r = max(1, int(rule.p.rank * n + 0.5))  # the parameter `rank` is a share of the stored examples
        largest = [j for j in range(n - 1, n - 1 - r, -1) if eigenvalues[j] > MIN_EIGENVALUE * eigenvalues[-1]]
        self.M = V[:, largest].T / np.sqrt(eigenvalues[largest])[:, None]
        rule.weights.beta = rule.weights.beta @ V[:, largest] @ V[:, largest].T
        return True

    def removed(self, r: int) -> None:
        self.M = np.empty((0, 0))

    def kernel_changed(self) -> None:
        self.M = np.empty((0, 0))

    def state(self) -> dict[str, Any]:
        return {"features": self.M.ravel(), "rank": len(self.M)}

    def restore(self, state: dict[str, Any]) -> None:
        rank, n, settings = int(state["rank"]), len(self.rule.store), self.rule.settings
        # After a resize to a larger budget there is room again: examples are stored until the budget is full, and then
        # M is computed again. With a pool of non-zeros, `n` does not tell whether there is room, so M stays.
        has_room = settings.pool is None and n < (settings.capacity or n + 1)
        self.M = np.empty((0, 0)) if has_room else np.array(state["features"]).reshape(rank, -1 if rank else 0)

    @property
    def nbytes(self) -> int:
        return self.M.nbytes
