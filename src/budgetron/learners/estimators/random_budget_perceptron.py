"""mtrbp, the multitask Randomized Budget Perceptron.

    f_i(x) = Σ_j β_j (A⁻¹)_{i_j, i} K'(x_j, x)
    on a mistake:  if |S| = B remove a uniformly random member;  S ← S ∪ {t},  β_t = y_t

S are the stored examples, B is the budget, and t the new example with label y_t = ±1. β_j is the weight and i_j the
task of the stored example x_j. K' is the kernel of rows, A⁻¹ the graph's coupling of tasks (`budgetron.graphs`).
The rule is in `src/core/rules/random_budget_perceptron.cpp`, and in NumPy in
`budgetron/engine/reference/rules/random_budget_perceptron.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from budgetron.engine.settings import Settings
from budgetron.graphs import TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel
from budgetron.learners.learner import Learner
from budgetron.learners.parameters import checked_seed


class RandomBudgetPerceptron(Learner):
    """Randomized Budget Perceptron on the multitask kernel (mtrbp).

    Every mistake is stored. When the budget is full, a random stored example is evicted. No other learner with a budget
    has a cheaper update. The bound on its expected number of mistakes holds for comparators with a norm up to the order
    of √B, which is the largest possible order.

    Parameters
    ----------
    budget : int, str or None, default=500
        The number of examples that all tasks together may store; or a size such as ``"64 MiB"``, which limits all
        memory of the model; or None for no limit.
    kernel : kernels.Kernel, default=Gaussian(gamma="scale")
        The kernel K' between the features of two examples.
    graph : graphs.TaskGraph, default=complete()
        How strongly tasks are related.
    random_state : int, RandomState or None, default=0
        The seed of the evictions. Equal seeds give equal models. None takes a new seed for every fit.
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
    >>> from budgetron import RandomBudgetPerceptron, kernels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0], [0.2, 1.0], [1.0, 0.1]])
    >>> y = ["ham", "spam", "spam", "ham", "ham", "ham"]
    >>> users = ["ann", "ann", "bob", "bob", "ann", "bob"]
    >>> model = RandomBudgetPerceptron(budget=2, kernel=kernels.Linear(bias=1.0))
    >>> margins = model.predict_then_learn(X, y, tasks=users)
    >>> model.n_stored_, model.n_stored_ < model.n_mistakes_
    (2, True)

    References
    ----------
    G. Cavallanti and N. Cesa-Bianchi. Memory Constraint Online Multitask Classification. 2012.
    """

    rule: ClassVar[str] = "random_budget_perceptron"
    paper_name: ClassVar[str | None] = "mtrbp"
    theorem = 1

    def __init__(
        self,
        budget: int | str | None = 500,
        kernel: Kernel = Gaussian(),
        graph: TaskGraph = complete(),
        random_state: Any = 0,
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.budget = budget
        self.kernel = kernel
        self.graph = graph
        self.random_state = random_state
        self.task_column = task_column
        self.engine = engine

    def _with_rule(self, settings: Settings) -> Settings:
        return settings.with_parameters(seed=checked_seed(self._who, self.random_state))
