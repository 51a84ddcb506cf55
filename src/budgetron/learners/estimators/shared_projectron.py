"""mtbprj-2, the multitask Budget Projectron whose projection ignores tasks.

    H = Gram matrix of K' alone; each task l has its own weights:  f_l(x) = Σ_j (β_l)_j K'(x_j, x)
    on a mistake:  α = H⁻¹k',  δ² = K'_tt − k'ᵀα
      δ ≤ η:   (β_l)_j += α_j y_t (A⁻¹)_{l,i_t}  for all l
      else:    S ← S ∪ {t},  (β_l)_t = y_t (A⁻¹)_{l,i_t}.  If now |S| = B + 1, with P = H⁻¹ of the B + 1 instances:
               r = argmin over the old of ‖((β_1)_j … (β_k)_j)‖ / √P_jj,   γ_j = −P_jr / P_rr,
               (β_l)_j += γ_j (β_l)_r  for every l and j ≠ r,   S ← S ∖ {r}

S are the stored examples, B is the budget, η the parameter `eta`, k' the values of K' of x_t with S, and A⁻¹ the
graph's coupling of tasks. x_t is the new example, of task i_t with label y_t = ±1. The engines store C with β = A⁻¹C,
one row per task that made a mistake. The rule is in `src/core/rules/shared_projectron/`, and in NumPy in
`budgetron/engine/reference/rules/shared_projectron.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from budgetron.engine.settings import Settings
from budgetron.graphs import TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel
from budgetron.learners.learner import Learner
from budgetron.learners.parameters import checked_eta, checked_rows


class SharedProjectron(Learner):
    """Budget Projectron with one projection for all tasks (mtbprj-2).

    All tasks share the stored examples; each task has its own row of weights over them. With the same number of stored
    examples it is usually the most accurate of the paper's four budget learners, but the rows need extra memory.

    Parameters
    ----------
    budget : int, str or None, default=500
        The number of examples that all tasks together may store; or a size such as ``"64 MiB"``, which limits all
        memory of the model; or None for no limit.
    kernel : kernels.Kernel, default=Gaussian(gamma="scale")
        The kernel K' between the features of two examples.
    graph : graphs.TaskGraph, default=complete()
        How strongly tasks are related.
    eta : float, default=0.01
        An example at most this far from the span of the stored examples is projected on it instead of being stored.
    max_task_rows : int or None, default=10000
        The largest number of weight rows: one per task, and one per cluster of related tasks for the sum of their rows.
        Beyond it, the row that was updated longest ago is evicted. The task of this row then predicts from the sum of
        its cluster, which still contains the evicted row. Explicit graphs and `disconnected()` have no such sums: there
        the row is lost. A byte budget may set a lower limit.
    task_column : int or str, optional
        The column of X that holds the task, as an alternative to the argument `tasks`.
    engine : {"auto", "core", "numpy"}, default="auto"
        The compiled engine, or the NumPy engine, which is slow but can also run kernels that you write in Python.

    Attributes
    ----------
    classes_, n_features_in_, kernel_, capacity_
        The labels, the number of features, the kernel in use, and the largest number of stored examples. The first
        block of examples fixes them, except that ``gamma="scale"`` is estimated from the first 64 examples, and that
        `resize` changes the capacity.
    active_set_ : records.ActiveSet
        The stored examples, with their tasks, their positions in the stream and their weights.
    n_stored_, n_seen_, n_mistakes_ : int
        The numbers of stored examples, of examples learned so far, and of wrong predictions or ties before an update.
    budget_share_ : dict
        Each task's current share of the stored examples.
    memory_bytes_ : int
        All bytes allocated for the model.

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
    paper_name: ClassVar[str | None] = "mtbprj-2"
    exemptions: ClassVar[Mapping[str, str]] = {
        "disconnected_is_separate": "all tasks share the span of the stored examples, even unrelated ones",
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
        """Check the parameters of the rule, and return the settings with them."""
        return settings.with_parameters(
            eta=checked_eta(self._who, self.eta, settings.kernel, 1.0),
            max_task_rows=checked_rows(self._who, self.max_task_rows),
        )
