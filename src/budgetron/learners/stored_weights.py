"""Base classes of learners that store weights instead of examples: what a task has learned, and how alike tasks are."""

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
        """0: it stores weights, not examples."""
        self._check_begun()
        return 0


class ComparableTasks(WithoutExamples):
    """A learner that can say how alike the functions of its tasks are."""

    task_similarity: Any

    def plot_task_similarity(self, tasks: Iterable[Any], *, ax: Any = None) -> Any:
        """Draw `task_similarity` of these tasks as a matrix: blue for alike, red for opposed. Returns the Axes."""
        names = list(tasks)
        if not names:
            raise input_error(self._who, "tasks", "at least one task", "none")
        values = self.task_similarity(names)
        return matrix(axes_for(self._who, ax), names, values, "correlation of the tasks' functions", signed=True)


def cosines(w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine between each two rows; 0 for rows of zeros."""
    sizes = np.linalg.norm(w, axis=1)
    w = w / np.where(sizes > 0, sizes, 1.0)[:, None]
    return np.asarray(w @ w.T)


class LinearWeights(ComparableTasks):
    """Mixed into learners whose functions are f_i(x) = w_i·x."""

    decision_function: Any

    def linear_weights(self, task: Hashable = None) -> NDArray[np.float64]:
        """Return the weights w of a task, f_task(x) = w·x: (n_features,), or (n_classes, n_features) for several."""
        self._check_begun()
        d, is_sparse = self._engine.settings.n_features, self._engine.settings.sparse
        units: Any = sparse.identity(d, format="csr") if is_sparse else np.eye(d)
        weights = self.decision_function(units, tasks=None if task is None else [task] * d)
        return np.asarray(weights.T)

    def task_similarity(self, tasks: Iterable[Any]) -> NDArray[np.float64]:
        """Return how alike the tasks' functions are: the cosine between their weights, (k, k).

        1 for tasks with the same function up to its size, 0 for unrelated ones, −1 for opposed ones.
        """
        return cosines(np.array([self.linear_weights(task).ravel() for task in tasks]))
