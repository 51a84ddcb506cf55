"""SharedProjectron: mtbprj-2, the Budget Projectron whose projection ignores tasks.

    f_l(x) = Σ_j (β_l)_j K'(x_j, x)
    H = Gram matrix of S in K' alone,  k_t its row for x_t,  α = H⁻¹k_t,  δ² = K'_tt − k_tᵀα
    on a mistake, δ ≤ η:   (β_l)_j ← (β_l)_j + α_j y_t (A⁻¹)_{l,i_t} for all l
    on a mistake, δ > η:   S ← S ∪ {t},  (β_l)_t = y_t (A⁻¹)_{l,i_t} for all l
        if |S| = B + 1, with P = H⁻¹ of the B + 1 instances:
            r = argmin over the old members of ‖(β_1)_j … (β_k)_j‖₂ / √P_jj,   γ_j = −P_jr / P_rr
            (β_l)_j ← (β_l)_j + γ_j (β_l)_r for every l and every j ≠ r (t too),   S ← S \\ {r}

It is mtbprj with K' in place of K and a table of weights in place of β. The steps are those of `BudgetProjectron`; the
table is `SharedTable`, which stores C with β = A⁻¹C.
"""

from __future__ import annotations

import numpy as np

from budgetron.engine.records import Outcome
from budgetron.engine.reference.budget_projectron import BudgetProjectron
from budgetron.engine.reference.rows import Array, Integers
from budgetron.engine.reference.rule import Example
from budgetron.engine.reference.shared_table import SharedTable
from budgetron.engine.settings import Settings


class SharedProjectron(BudgetProjectron):
    """All tasks share the stored examples; each task has its own weights over them."""

    weights: SharedTable

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, SharedTable(settings))

    def similarity(self, key: int, cluster: int, keys: Integers, clusters: Integers) -> Array:
        """Return ones: the kernel of the projection is K' itself."""
        return np.ones(len(keys))

    def correct(self, t: Example, y: Array) -> Outcome:
        self.weights.ensure_row(t.key, t.cluster, t.arrival)
        return super().correct(t, y)

    def forget(self, key: int) -> None:
        """Remove the task's row, and project its examples on the others, to preserve the other tasks' predictions."""
        self.weights.forget(key)
        while (slots := np.flatnonzero(self.store.key == key)).size:
            self.project_out(int(slots[0]), self.gram.inverse())
