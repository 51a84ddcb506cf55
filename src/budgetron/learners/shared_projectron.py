"""mtbprj-2, the multitask projection that ignores tasks.

    H = Gram matrix of K' alone; each task l has its own weights:  f_l(x) = Σ_j (β_l)_j K'(x_j, x)
    on a mistake:  α = H⁻¹k',  δ² = K'_tt − k'ᵀα
      δ ≤ η:   (β_l)_j += α_j y_t (A⁻¹)_{l,i_t}  for all l
      else:    S ← S ∪ {t},  (β_l)_t = y_t (A⁻¹)_{l,i_t}.  If now |S| = B + 1, with P = H⁻¹ of the B + 1 instances:
               r = argmin over the old of ‖((β_1)_j … (β_k)_j)‖ / √P_jj,   γ_j = −P_jr / P_rr,
               (β_l)_j += γ_j (β_l)_r  for every l and j ≠ r,   S ← S ∖ {r}

Kept is C with β = A⁻¹C, one row a task that ever erred. The rule is in `src/core/rules/shared_projectron.cpp`, and in
NumPy in `budgetron/engine/reference/shared_projectron.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from budgetron.engine.settings import Settings
from budgetron.graphs import TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel
from budgetron.learners.learner import Learner
from budgetron.learners.table_rows import checked_rows
from budgetron.learners.threshold import checked_eta


class SharedProjectron(Learner):
    """The Budget Projectron with one projection for all tasks (mtbprj-2).

    Stored instances serve every task; each task has a row of weights over them. The best of the paper's four,
    at the price of those rows.

    Parameters
    ----------
    budget : int, str or None, default=500
        How many examples may be stored, by all tasks together; or a size such as ``"64 MiB"`` that bounds
        everything the model holds; or None for no limit.
    kernel : kernels.Kernel, default=Gaussian(gamma="scale")
        K' between instances.
    graph : graphs.TaskGraph, default=complete()
        Who learns from whom.
    eta : float, default=0.01
        An instance closer than this to the span of what is stored is projected on it instead of being stored.
    max_task_rows : int or None, default=10000
        How many weight rows there may be. Past that the least recently updated row is folded away: its part in the
        common sum stays, and its task falls back to that. A byte budget sets its own cap below this.
    task_column : int or str, optional
        The column of X that holds the task, for those who keep it there; otherwise give `tasks`.
    engine : {"auto", "core", "numpy"}, default="auto"
        The compiled core, or the NumPy reference (slow; it also runs kernels of your own).

    Attributes
    ----------
    classes_, n_features_in_, kernel_, capacity_ : what the first block settled
    active_set_ : records.ActiveSet
        What is stored, in slot order.
    n_stored_, n_seen_, n_mistakes_ : int
    budget_share_ : dict
        Each task's share of the stored examples right now.
    memory_bytes_ : int
        What is really allocated, all of it.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import SharedProjectron, kernels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0], [0.2, 1.0], [1.0, 0.1]])
    >>> y = ["ham", "spam", "spam", "ham", "ham", "ham"]
    >>> users = ["ann", "ann", "bob", "bob", "ann", "bob"]
    >>> model = SharedProjectron(budget=2, kernel=kernels.Linear(bias=1.0))
    >>> margins = model.predict_then_learn(X, y, tasks=users)
    >>> model.n_stored_, model.n_stored_ < model.n_mistakes_
    (2, True)

    References
    ----------
    G. Cavallanti and N. Cesa-Bianchi. Memory Constraint Online Multitask Classification. 2012.
    """

    rule: ClassVar[str] = "shared_projectron"
    exemptions: ClassVar[Mapping[str, str]] = {
        "disconnected_is_separate": "tasks share the span of what is stored, related or not",
    }

    def __init__(
        self,
        budget: int | str | None = 500,
        kernel: Kernel = Gaussian(),
        graph: TaskGraph = complete(),
        eta: float = 0.01,
        max_task_rows: int | None = 10_000,
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.budget = budget
        self.kernel = kernel
        self.graph = graph
        self.eta = eta
        self.max_task_rows = max_task_rows
        self.task_column = task_column
        self.engine = engine

    def _with_rule(self, settings: Settings) -> Settings:
        return replace(
            settings,
            eta=checked_eta(self._who, self.eta, settings.kernel, 1.0),
            max_task_rows=checked_rows(self._who, self.max_task_rows),
        )
