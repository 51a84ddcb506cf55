"""One vector of weights per task and output: the state of the linear rules that store no examples.

Rows are in the order of each task's first mistake. (On an explicit graph, `LinearPerceptron` has a row for every task
from the start.) When a row is removed, the last row moves into its place, as in the core.

    vectors[r]  (n_outputs, d) of the task with id task[r]      where  task id → r
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.examples.rows import Array, Instance, Integers, without
from budgetron.engine.reference.rule import Located, Rule
from budgetron.engine.saved_state import Field, Layout, length, require
from budgetron.engine.settings import Settings


class TaskVectors:
    """The rows, and their tasks."""

    def __init__(self, settings: Settings) -> None:
        self.shape = (settings.n_outputs, settings.n_features)
        self.task: Integers = np.empty(0, dtype=np.int64)
        self.cluster: Integers = np.empty(0, dtype=np.int64)
        self.vectors: Array = np.zeros((0, *self.shape))
        self.where: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.task)

    def add(self, task_id: int, cluster: int) -> int:
        """Return the row of a task; it is added, with zeros, if there is none."""
        if task_id not in self.where:
            self.where[task_id] = len(self)
            self.task, self.cluster = np.append(self.task, task_id), np.append(self.cluster, cluster)
            self.vectors = np.concatenate([self.vectors, np.zeros((1, *self.shape))])
        return self.where[task_id]

    def remove(self, r: int) -> None:
        del self.where[int(self.task[r])]
        self.task, self.cluster = without(self.task, r), without(self.cluster, r)
        self.vectors = without(self.vectors, r, axis=0)
        if r < len(self):
            self.where[int(self.task[r])] = r

    def products(self, x: Instance) -> Array:
        """⟨w_r, x⟩ for every row and output, (n, n_outputs)."""
        return np.asarray((self.vectors[:, :, columns(x)] * x.values).sum(axis=2))

    def state(self) -> dict[str, Any]:
        return {"task": self.task.copy(), "task_cluster": self.cluster.copy(), "vectors": self.vectors.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        self.task, self.cluster = np.array(state["task"]), np.array(state["task_cluster"])
        self.vectors = np.array(state["vectors"], dtype=np.float64)
        self.where = {task_id: r for r, task_id in enumerate(self.task.tolist())}

    @property
    def nbytes(self) -> int:
        return self.vectors.nbytes + 2 * self.task.nbytes


def columns(x: Instance) -> Any:
    """Return the columns of the values of x, as an index for arrays."""
    return slice(None) if x.indices is None else x.indices


def explain_linear(rule: Rule, examples: Iterable[Located]) -> dict[str, Any]:
    """Answer the query "explain" of a linear rule: what each value of an example adds to its margin."""
    margins, terms = [], []
    for x, task_id, cluster in examples:
        margins.append(rule.predict(x, task_id, cluster))
        # Axes: source (shared, own, related), output, value of x; the last value is the constant. A linear rule uses
        # only the source `own`.
        terms_of_x = np.zeros((3, len(margins[-1]), len(x.values) + 1))
        # The rule is linear in x, so the margin of x with one value alone is the term of that value.
        for n in np.flatnonzero(x.values):
            terms_of_x[1, :, n] = rule.predict(_only(x, int(n)), task_id, cluster)
        terms.append(terms_of_x.ravel())
    empty: Integers = np.empty(0, dtype=np.int64)
    return {"margins": np.concatenate(margins), "columns": np.concatenate(terms), "fourier": np.empty(0),
            "part": empty, "part_frequencies": empty}  # fmt: skip


def _only(x: Instance, n: int) -> Instance:
    """Return x with all values but one set to 0."""
    values = np.zeros_like(x.values)
    values[n] = x.values[n]
    return Instance(values, x.indices, float(values[n] ** 2))


def vector_fields(settings: Settings, arrays: Arrays) -> Layout:
    """Return the fields of `TaskVectors.state`."""
    n = length(arrays, "task")
    return {"task": Field("int64", (n,)), "task_cluster": Field("int64", (n,)),
            "vectors": Field("float64", (n, settings.n_outputs, settings.n_features))}  # fmt: skip


def verify_vectors(settings: Settings, arrays: Arrays) -> None:
    """Check that no task is listed twice, that an explicit graph has these tasks, and that no examples are stored."""
    require(len(arrays["key"]) == 0, "state.key", "empty: nothing is stored", str(len(arrays["key"])))
    task = arrays["task"]
    require(len(np.unique(task)) == len(task), "state.task", "without repetition")
    if not settings.graph.is_open and len(task):
        inside = task.min() >= 0 and task.max() < (settings.graph.n_tasks or 0)
        require(bool(inside), "state.task", "within the graph")
