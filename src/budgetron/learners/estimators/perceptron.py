"""The multitask kernel Perceptron, without a budget: the paper's baseline.

    f_i(x) = Σ_j β_j (A⁻¹)_{i_j, i} K'(x_j, x)                       the sum is over the stored examples S
    on a mistake, y_t f_{i_t}(x_t) ≤ 0:   S ← S ∪ {t},  β_t = y_t

t is the new example, of task i_t with label y_t = ±1. β_j is the weight and i_j the task of the stored example x_j. K'
is the kernel of rows, A⁻¹ the graph's coupling of tasks (`budgetron.graphs`). With a disconnected graph this is one
independent Perceptron per task. Memory grows with every mistake.
The rule is in `src/core/rules/perceptron.cpp`, and in NumPy in `budgetron/engine/reference/rules/perceptron.py`.
"""

from __future__ import annotations

from typing import ClassVar

from budgetron.graphs import TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel
from budgetron.learners.learner import Learner


class Perceptron(Learner):
    """Multitask kernel Perceptron without a memory limit.

    Every mistake is stored and none is ever evicted. It is the baseline for the learners with a budget.

    Parameters
    ----------
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
        The labels, the number of features, the kernel in use, and the largest number of stored examples (None). The
        first block of examples fixes them, except that ``gamma="scale"`` is estimated from the first 64 examples.
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
    >>> from budgetron import Perceptron, kernels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0], [0.2, 1.0], [1.0, 0.1]])
    >>> y = ["ham", "spam", "ham", "spam", "ham", "spam"]
    >>> users = ["ann", "ann", "bob", "bob", "ann", "bob"]
    >>> model = Perceptron(kernel=kernels.Linear(bias=1.0))
    >>> margins = model.predict_then_learn(X, y, tasks=users)
    >>> model.n_mistakes_ == model.n_stored_
    True
    >>> print(model.predict([[0.0, 1.0]], tasks=["bob"]))
    ['ham']

    References
    ----------
    G. Cavallanti and N. Cesa-Bianchi. Memory Constraint Online Multitask Classification. 2012.
    """

    rule: ClassVar[str] = "perceptron"

    def __init__(
        self,
        kernel: Kernel = Gaussian(),
        graph: TaskGraph = complete(),
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.graph = graph
        self.task_column = task_column
        self.engine = engine
