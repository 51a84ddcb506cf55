"""mtforg, the multitask Self-Tuned Forgetron.

S are the stored examples, β_j and i_j the weight and the task of x_j in S, t the new example and y_t = ±1 its label. B
is the budget, M the number of mistakes, Q a sum that starts at 0, and c_G the largest norm of an example under a
normalised kernel and this graph. K' is the kernel of rows, A⁻¹ the graph's coupling of tasks (`budgetron.graphs`).

    f_i(x) = Σ_j β_j (A⁻¹)_{i_j, i} K'(x_j, x)
    on a mistake:  M ← M + 1,  S ← S ∪ {t},  β_t = y_t.  If now |S| = B + 1:
      r = the oldest,  σ = |β_r|,  y_r = sign β_r,  μ = y_r f'_{i_r}(x_r)   (f' includes the new example)
      φ = the largest in (0, 1] with  c_G²σ²φ² + 2c_G²σφ − 2σμφ² + Q ≤ (15/32) c_G² M
      Q ← Q + c_G²σ²φ² + 2c_G²σφ − 2σμφ²,   β ← φβ,   S ← S ∖ {r}

The rule is in `src/core/rules/forgetron.cpp`, and in NumPy in `budgetron/engine/reference/rules/forgetron.py`.
"""

from __future__ import annotations

from typing import ClassVar

from budgetron.graphs import TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel
from budgetron.learners.learner import Learner


class Forgetron(Learner):
    """Self-Tuned Forgetron on the multitask kernel (mtforg).

    Every mistake is stored. When the budget is full, all weights shrink, just enough for the mistake bound to hold, and
    the oldest example is evicted. So most stored examples belong to the tasks with the most recent mistakes.

    Parameters
    ----------
    budget : int, str or None, default=500
        The number of examples that all tasks together may store; or a size such as ``"64 MiB"``, which limits all
        memory of the model; or None for no limit.
    kernel : kernels.Kernel, default=Gaussian(gamma="scale")
        The kernel K' between the features of two examples.
    graph : graphs.TaskGraph, default=complete()
        How strongly tasks are related.
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
    >>> from budgetron import Forgetron, kernels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0], [0.2, 1.0], [1.0, 0.1]])
    >>> y = ["ham", "spam", "spam", "ham", "ham", "ham"]
    >>> users = ["ann", "ann", "bob", "bob", "ann", "bob"]
    >>> model = Forgetron(budget=2, kernel=kernels.Linear(bias=1.0))
    >>> margins = model.predict_then_learn(X, y, tasks=users)
    >>> model.n_stored_, model.n_stored_ < model.n_mistakes_
    (2, True)

    References
    ----------
    G. Cavallanti and N. Cesa-Bianchi. Memory Constraint Online Multitask Classification. 2012.
    """

    rule: ClassVar[str] = "forgetron"
    paper_name: ClassVar[str | None] = "mtforg"
    theorem = 2

    def __init__(
        self,
        budget: int | str | None = 500,
        kernel: Kernel = Gaussian(),
        graph: TaskGraph = complete(),
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.budget = budget
        self.kernel = kernel
        self.graph = graph
        self.task_column = task_column
        self.engine = engine
