"""mtbprj, the multitask Budget Projectron.

S are the stored examples, β their weights, B the budget, and η the parameter `eta`. x_t is the new example, and y_t =
±1 its label. The multitask kernel K is the kernel of rows times A⁻¹, the graph's coupling of tasks
(`budgetron.graphs`).

    H = Gram matrix of S in the multitask kernel, k_t = the kernel values of x_t with S
    on a mistake:  α = H⁻¹k_t,  δ² = K_tt − k_tᵀα
      δ ≤ η:   β ← β + y_t α
      else:    S ← S ∪ {t},  β_t = y_t.  If now |S| = B + 1, with P = H⁻¹ of the B + 1 instances:
               r = argmin over the old of |β_j| / √P_jj,   γ_j = −P_jr / P_rr,   β_j += β_r γ_j,   S ← S ∖ {r}

The rule is in `src/core/rules/budget_projectron.cpp`, and in NumPy in
`budgetron/engine/reference/rules/budget_projectron.py`.
"""

from __future__ import annotations

from typing import ClassVar

from budgetron.engine.settings import Settings
from budgetron.graphs import TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel
from budgetron.learners.learner import Learner
from budgetron.learners.parameters import checked_eta


class BudgetProjectron(Learner):
    """Budget Projectron on the multitask kernel (mtbprj).

    When the budget is full, one example is evicted. It is first projected on the remaining examples: their weights
    change so that they replace it as well as possible. With ``budget=None`` this is the Projectron.

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
        The distance is a norm in the multitask kernel, so it depends on the graph's scale.
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
    >>> from budgetron import BudgetProjectron, kernels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0], [0.2, 1.0], [1.0, 0.1]])
    >>> y = ["ham", "spam", "spam", "ham", "ham", "ham"]
    >>> users = ["ann", "ann", "bob", "bob", "ann", "bob"]
    >>> model = BudgetProjectron(budget=2, kernel=kernels.Linear(bias=1.0))
    >>> margins = model.predict_then_learn(X, y, tasks=users)
    >>> model.n_stored_, model.n_stored_ < model.n_mistakes_
    (2, True)

    References
    ----------
    G. Cavallanti and N. Cesa-Bianchi. Memory Constraint Online Multitask Classification. 2012.
    """

    rule: ClassVar[str] = "budget_projectron"
    paper_name: ClassVar[str | None] = "mtbprj"

    def __init__(
        self,
        budget: int | str | None = 500,
        kernel: Kernel = Gaussian(),
        graph: TaskGraph = complete(),
        eta: float = 0.01,
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.budget = budget
        self.kernel = kernel
        self.graph = graph
        self.eta = eta
        self.task_column = task_column
        self.engine = engine

    def _with_rule(self, settings: Settings) -> Settings:
        return settings.with_parameters(eta=checked_eta(self._who, self.eta, settings.kernel, settings.graph.c_g))
