"""SecondOrderPerceptron: the multitask second-order Perceptron in dual form, also within a budget.

    R = (aI + K_SS)⁻¹ over the mistakes S,   f = Σ_j β_j K(x_j, ·),   β = R y_S

K is the multitask kernel, K_SS its matrix and y_S the labels of the stored mistakes; a is the parameter `ridge`.
The formulas hold until the budget is full. From then on mistakes are replaced by their projections on the stored
mistakes, and R and β are computed from these projections.
The rule is in `src/core/rules/second_order_perceptron.cpp`, and in NumPy in
`budgetron/engine/reference/rules/second_order_perceptron.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from budgetron.engine.settings import Settings
from budgetron.errors import input_error, is_real, shown
from budgetron.graphs import TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel
from budgetron.learners.learner import Learner


class SecondOrderPerceptron(Learner):
    """Second-order Perceptron on the multitask kernel: ridge regression on its mistakes.

    Directions in which it has made many mistakes count less in the next step. So it often makes fewer mistakes than
    the Perceptron if the columns are correlated. A mistake costs O(B²) time. When the budget is full, one stored
    example is replaced by its projection on the others, in the weights and in the matrix R. It is the example whose
    replacement changes the learned function least.

    Parameters
    ----------
    budget : int, str or None, default=200
        The number of examples that all tasks together may store; or a size such as ``"64 MiB"``, which limits all
        memory of the model; or None for no limit.
    kernel : kernels.Kernel, default=Gaussian(gamma="scale")
        The kernel K' between the features of two examples.
    graph : graphs.TaskGraph, default=complete()
        How strongly tasks are related.
    ridge : float, default=1.0
        What is added to the diagonal of the kernel matrix. The larger it is, the more the learner resembles the
        Perceptron.
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
    >>> from budgetron import SecondOrderPerceptron, kernels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0], [0.2, 1.0], [1.0, 0.1]])
    >>> y = ["ham", "spam", "spam", "ham", "ham", "ham"]
    >>> users = ["ann", "ann", "bob", "bob", "ann", "bob"]
    >>> model = SecondOrderPerceptron(budget=2, kernel=kernels.Linear(bias=1.0))
    >>> margins = model.predict_then_learn(X, y, tasks=users)
    >>> model.n_stored_, model.n_stored_ < model.n_mistakes_
    (2, True)

    References
    ----------
    G. Cavallanti, N. Cesa-Bianchi, C. Gentile. Linear Algorithms for Online Multitask Classification. JMLR 11 (2010).
    The projection of the matrix: L. Csató, M. Opper. Sparse On-Line Gaussian Processes. Neural Computation 14 (2002).
    """

    rule: ClassVar[str] = "second_order_perceptron"
    exemptions: ClassVar[Mapping[str, str]] = {"ample_budget_is_perceptron": "it takes second-order steps"}

    def __init__(
        self,
        budget: int | str | None = 200,
        kernel: Kernel = Gaussian(),
        graph: TaskGraph = complete(),
        ridge: float = 1.0,
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.budget = budget
        self.kernel = kernel
        self.graph = graph
        self.ridge = ridge
        self.task_column = task_column
        self.engine = engine

    def _with_rule(self, settings: Settings) -> Settings:
        """Check the parameters of the rule, and return the settings with them."""
        if not is_real(self.ridge) or self.ridge <= 0:
            raise input_error(self._who, "ridge", "a finite number above 0", shown(self.ridge))
        return settings.with_parameters(ridge=float(self.ridge))
