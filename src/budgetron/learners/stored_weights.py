"""Base classes of learners that store weights instead of examples. They show a task's weights and compare tasks."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetron.errors import input_error
from budgetron.learners.inspection import Inspection
from budgetron.plots import axes_for, matrix


class WithoutExamples(Inspection):
    """A learner that stores no examples."""

    @property
    def capacity_(self) -> int:
        """The largest number of stored examples: always 0, because this learner stores weights."""
        self._check_fitted()
        return 0


class ComparableTasks(WithoutExamples):
    """A learner that can compute how similar the functions of its tasks are."""

    task_similarity: Any

    def plot_task_similarity(self, tasks: Iterable[Any], *, ax: Any = None) -> Any:
        """Plot `task_similarity` as a matrix: blue for similar tasks, red for opposed ones. Returns the Axes."""
        names = list(tasks)
        if not names:
            raise input_error(self._who, "tasks", "at least one task", "none")
        values = self.task_similarity(names)
        return matrix(axes_for(self._who, ax), names, values, "correlation of the tasks' functions", signed=True)


def cosines(w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine of each pair of rows; 0 if a row is all zeros."""
    sizes = np.linalg.norm(w, axis=1)
    # A task that has learned nothing has zero weights, which cannot be scaled to length 1.
    w = w / np.where(sizes > 0, sizes, 1.0)[:, None]
    return np.asarray(w @ w.T)


class LinearWeights(ComparableTasks):
    """Adds the weights and the similarity of tasks to a linear learner, whose margin is f_i(x) = w_i·x for task i."""

    decision_function: Any

    def linear_weights(self, task: Hashable = None) -> NDArray[np.float64]:
        """Return the weights w of a task, for which f_task(x) = w·x.

        The shape is (n_features,) for two classes, and (n_classes, n_features) for more.
        """
        self._check_fitted()
        d, is_sparse = self._engine.settings.n_features, self._engine.settings.sparse
        # The margin of the j-th unit vector is the weight of column j.
        units: Any = sparse.identity(d, format="csr") if is_sparse else np.eye(d)
        weights = self.decision_function(units, tasks=None if task is None else [task] * d)
        return np.asarray(weights.T)

    def task_similarity(self, tasks: Iterable[Any]) -> NDArray[np.float64]:
        """Return how similar the tasks' functions are: a (k, k) matrix of cosines between their weights.

        1 for tasks whose functions are proportional, 0 for unrelated tasks, −1 for opposed ones. A task that was never
        seen has the weights that the graph gives to a new task; if they are 0, so is its similarity to every task and
        to itself.
        """
        return cosines(np.array([self.linear_weights(task).ravel() for task in tasks]))
