"""LinearPerceptron: the multitask Perceptron with one weight vector per task, and the multitask p-norm Perceptron.

    on a mistake of task i:   v_j ← v_j + y (A⁻¹)_ji x for every task j
    f_i(x) = v_i·x,   or with a p-norm   f_i(x) = Σ_j (A⁻¹)_ij w_j·x,   w = ∇½‖v‖_p²

A is the interaction matrix of the tasks. Without a p-norm, v_j are the weights of task j. With a p-norm, v_j are its
dual weights and w_j its weights. A⁻¹ is then in the update and in the prediction, so `norm=2` differs from None unless
A⁻¹ is the identity.

The rule is in `src/core/rules/linear_perceptron.cpp`, and in NumPy in
`budgetron/engine/reference/rules/linear_perceptron.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from budgetron.engine.reference.rules.linear_perceptron import LARGEST_P
from budgetron.engine.settings import Settings
from budgetron.errors import input_error, is_real, shown
from budgetron.graphs import TaskGraph, complete
from budgetron.learners.exemptions import ByParameters
from budgetron.learners.learner import Learner
from budgetron.learners.stored_weights import LinearWeights


def _exemptions(model: LinearPerceptron) -> Mapping[str, str]:
    """Return the laws that the learner does not obey with these parameters, and why."""
    reasons = {"ample_budget_is_perceptron": "it has no kernel; without norm, it agrees with a linear Perceptron"}
    if model.norm is not None:
        reasons["disconnected_is_separate"] = "the norm is over the weights of all tasks"
    return reasons


class LinearPerceptron(LinearWeights, Learner):
    """Linear multitask Perceptron: one weight vector per task, and no stored examples.

    Without `norm`, it makes the same mistakes as `Perceptron` with a linear kernel and the same graph. But the time per
    example does not grow with the stream, and the memory is one vector per task. With `norm` it is the multitask p-norm
    Perceptron, which makes fewer mistakes than without `norm` if only a few of many columns matter.

    Parameters
    ----------
    norm : float, "auto" or None, default=None
        The p of the p-norm Perceptron, from 2 to 50. "auto" means 2 ln max(k, d), within these limits, for d columns
        and k tasks, where k is 1 if the graph has no fixed number of tasks. None is the ordinary Perceptron.
    graph : graphs.TaskGraph, default=complete()
        How strongly tasks are related.
    task_column : int or str, optional
        The column of X that holds the task, as an alternative to the argument `tasks`.
    engine : {"auto", "core", "numpy"}, default="auto"
        The compiled engine, or the NumPy engine, which is slow.

    Attributes
    ----------
    classes_, n_features_in_
        The labels and the number of features. The first block of examples fixes them.
    n_seen_, n_mistakes_ : int
        The numbers of examples learned so far, and of wrong predictions or ties before an update.
    memory_bytes_ : int
        All bytes allocated for the model.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import LinearPerceptron, Perceptron, kernels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0], [0.2, 1.0], [1.0, 0.1]])
    >>> y = ["ham", "spam", "spam", "ham", "ham", "ham"]
    >>> users = ["ann", "ann", "bob", "bob", "ann", "bob"]
    >>> model = LinearPerceptron()
    >>> margins = model.predict_then_learn(X, y, tasks=users)
    >>> print(model.linear_weights("ann").round(2))
    [ 0.65 -0.35]
    >>> bool(np.allclose(margins, Perceptron(kernel=kernels.Linear()).predict_then_learn(X, y, tasks=users)))
    True

    References
    ----------
    G. Cavallanti, N. Cesa-Bianchi, C. Gentile. Linear Algorithms for Online Multitask Classification. JMLR 11 (2010).
    """

    rule: ClassVar[str] = "linear_perceptron"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"multitask-p-norm": {"norm": "auto"}}
    exemptions: ClassVar[Any] = ByParameters(_exemptions)

    def __init__(
        self,
        norm: float | str | None = None,
        graph: TaskGraph = complete(),
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.norm = norm
        self.graph = graph
        self.task_column = task_column
        self.engine = engine

    def _with_rule(self, settings: Settings) -> Settings:
        """Check the parameters of the rule, and return the settings with them."""
        p = self.norm
        if p == "auto":
            largest = max(settings.graph.n_tasks or 1, settings.n_features)
            # The paper's choice: the mistake bound then grows only with the logarithm of k and d.
            p = min(max(2.0, 2 * math.log(largest)), LARGEST_P)
        elif p is not None and not (is_real(p) and 2 <= float(p) <= LARGEST_P):
            raise input_error(self._who, "norm", f'a number from 2 to {LARGEST_P:g}, "auto" or None', shown(p))
        return settings.with_parameters(norm=None if p is None else float(p))
