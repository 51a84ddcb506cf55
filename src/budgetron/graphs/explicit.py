"""Graphs with a fixed list of k tasks.

L is the graph's Laplacian, and A = I + L, or A = L with the pseudoinverse A⁺ in place of A⁻¹. The similarity of tasks
i and j is (A⁻¹)_ij. A graph stores one of two matrices:

    dense    A⁻¹ (k × k), if k ≤ 1024 or if the user passed A⁻¹ itself
    matrix   A, sparse, for larger graphs. Column i of A⁻¹ is the solution c of A c = e_i. It is computed when it is
             needed, in the connected component of i only, because the rest of the column is 0

The id of a task is its index in the list. Its cluster is the number of its connected component.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from budgetron.errors import UnknownTask, error_message, input_error, input_type_error, shown
from budgetron.graphs.extent import largest_diagonal
from budgetron.graphs.solve import ColumnCache, solve
from budgetron.graphs.task_ids import plain
from budgetron.graphs.taskgraph import Floats, Ints, TaskGraph, grouped, read_only

DENSE_LIMIT = 1024
"""The largest number of tasks for which a graph stores A⁻¹ as a full matrix (8 MiB)."""


@dataclass(frozen=True, eq=False, repr=False)
class Explicit(TaskGraph):
    """A graph with a fixed list of tasks, which stores A or A⁻¹.

    Created by `from_edges`, `from_networkx`, `from_laplacian` and `from_similarity`.

    Attributes
    ----------
    tasks : the tasks in index order.
    component : the number of each task's connected component, int64.
    dense : A⁻¹, or None.
    matrix : A as a SciPy CSR array if `dense` is None, otherwise None.
    singular : whether `matrix` is a Laplacian L. L has no inverse, so the pseudoinverse L⁺ is used.
    cache : recently computed columns of A⁻¹ and A⁻². Everything else in a graph is immutable.

    >>> from budgetron import graphs
    >>> graphs.from_edges([(1, 2), (2, 3)], tasks=[9])
    <graph of 4 tasks in 2 components>
    """

    tasks: tuple[Hashable, ...]
    component: Ints
    dense: Floats | None = None
    matrix: Any = None
    singular: bool = False
    cache: ColumnCache = field(default_factory=ColumnCache)

    is_open = False

    def __post_init__(self) -> None:
        parts = (self.dense,) if self.matrix is None else (self.matrix.data, self.matrix.indices, self.matrix.indptr)
        # Graphs are shared between learners and threads, so their arrays must not change.
        for part in (self.component, *parts):
            if part is not None:
                read_only(part)

    @property
    def n_tasks(self) -> int:  # type: ignore[override]
        return len(self.tasks)

    @cached_property
    def _index(self) -> dict[Hashable, int]:
        return {task: i for i, task in enumerate(self.tasks)}

    @cached_property
    def _members(self) -> Ints:
        """The task indices, sorted by component. Component c is _members[_starts[c]:_starts[c + 1]]."""
        return np.argsort(self.component, kind="stable")

    @cached_property
    def _starts(self) -> Ints:
        return np.concatenate([[0], np.cumsum(np.bincount(self.component))])

    @cached_property
    def _rank(self) -> Ints:
        """The position of each task among the members of its component."""
        rank = np.empty(self.n_tasks, dtype=np.int64)
        rank[self._members] = np.arange(self.n_tasks) - self._starts[self.component[self._members]]
        return rank

    def locate(self, tasks: Iterable[Any]) -> tuple[Ints, Ints]:
        index = self._index
        indices = [
            self._index_of(task) if (known_index := _lookup(index, task)) is None else known_index
            for task in (tasks.tolist() if isinstance(tasks, np.ndarray) else tasks)
        ]
        task_ids = np.array(indices, dtype=np.int64)
        return task_ids, self.component[task_ids]

    def row(self, task_id: int, cluster: int, task_ids: Ints, clusters: Ints) -> Floats:
        if self.dense is not None:
            return np.asarray(self.dense[task_id, task_ids])
        related = clusters == cluster
        similarities = np.zeros(len(task_ids))
        if related.any():  # solving for a column is slow, and unrelated tasks have similarity 0
            similarities[related] = self._local_column(task_id, 1)[self._rank[task_ids[related]]]
        return similarities

    def column(self, i: int) -> Floats:
        """Return column i of A⁻¹, over all k tasks."""
        return self.dense[i] if self.dense is not None else self._spread(i, self._local_column(i, 1))

    def square_column(self, i: int) -> Floats:
        """Return column i of A⁻², over all k tasks."""
        if self.dense is not None:
            return np.asarray(self.dense @ self.dense[i])
        return self._spread(i, self._local_column(i, 2))

    def apply(self, vector: Floats) -> Floats:
        """Return A⁻¹v for a vector v over all k tasks."""
        vector = np.asarray(vector, dtype=np.float64)
        if self.dense is not None:
            return np.asarray(self.dense @ vector)
        result = np.zeros(self.n_tasks)
        # A⁻¹v is zero in components where v is zero, so only the other components need a solution.
        for number in np.unique(self.component[np.flatnonzero(vector)]):
            members = self.members(number)
            result[members] = solve(self.block(number), vector[members], self.singular)
        return result

    @cached_property
    def _largest_diagonal(self) -> tuple[float, float]:
        """A lower and an upper bound of max_i (A⁻¹)_ii."""
        if self.dense is not None:
            largest = float(self.dense.diagonal().max())
            return largest, largest
        low = high = 0.0
        # Small components come first, because they are computed fast and exactly. The search in a large component
        # stops as soon as no entry there can exceed the largest value so far.
        for number in np.argsort(np.diff(self._starts), kind="stable"):
            low, top = largest_diagonal(self.block(number), self.singular, floor=low)
            high = max(high, top)
        return low, high

    @property
    def c_g_range(self) -> tuple[float, float]:
        low, high = self._largest_diagonal
        return math.sqrt(low), math.sqrt(high)

    def components(self, tasks: Iterable[Any] | None = None) -> list[list[Hashable]]:
        """Return the connected components as lists of tasks: of all tasks, or of the given ones only."""
        if tasks is None:
            return grouped(self.tasks, self.component)
        task_ids = np.unique(self.locate(tasks)[0])
        return grouped([self.tasks[task_id] for task_id in task_ids], self.component[task_ids])

    def members(self, number: int) -> Ints:
        """Return the indices of the tasks of one component, in ascending order."""
        return self._members[self._starts[number] : self._starts[number + 1]]

    def block(self, number: int) -> Any:
        """Return the rows and columns of `matrix` that belong to one component."""
        members = self.members(number)
        if len(members) == self.n_tasks:
            return self.matrix
        rows = self.matrix[members]
        # All non-zeros of these rows are in columns of the same component, so it is enough to renumber the columns.
        return type(rows)((rows.data, self._rank[rows.indices], rows.indptr), shape=(len(members), len(members)))

    def restricted(self, indices: Ints) -> Explicit:
        """Return the subgraph of the tasks with these indices, which must be ascending and form whole components.

        Similarities stay the same: exactly if A⁻¹ is stored, otherwise up to the tolerance of the solver.

        >>> from budgetron import graphs
        >>> graph = graphs.from_edges([("ann", "bob"), ("cid", "dan")])
        >>> graph.restricted(np.array([2, 3]))
        <graph of 2 tasks in 1 component>
        """
        indices = np.asarray(indices, dtype=np.int64)
        tasks = tuple(self.tasks[i] for i in indices.tolist())
        present, component = np.unique(self.component[indices], return_inverse=True)
        if int(np.diff(self._starts)[present].sum()) != len(indices):
            got = f"{len(indices)} tasks that cut a component"
            raise input_error("graph.restricted", "indices", "those of all tasks of one or more components", got)
        if self.dense is not None:
            return Explicit(tasks, component.astype(np.int64), dense=self.dense[np.ix_(indices, indices)])
        rows = self.matrix[indices]
        # The new index of each task that stays. Other tasks do not occur in these rows.
        number = np.zeros(self.n_tasks, dtype=rows.indices.dtype)
        number[indices] = np.arange(len(indices))
        matrix = type(rows)((rows.data, number[rows.indices], rows.indptr), shape=(len(indices), len(indices)))
        cache = ColumnCache(self.cache.limit)
        return Explicit(tasks, component.astype(np.int64), matrix=matrix, singular=self.singular, cache=cache)

    def with_cache(self, cache_bytes: int) -> Explicit:
        """Return the same graph with a column cache of that many bytes."""
        return replace(self, cache=ColumnCache(cache_bytes))

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"kind": "explicit", "tasks": self.tasks, "component": self.component}
        if self.dense is not None:
            return described | {"similarity": self.dense}
        m = self.matrix
        return described | {
            "data": m.data,
            "indices": m.indices,
            "indptr": m.indptr,
            "singular": self.singular,
        }

    def _local_column(self, i: int, power: int) -> Floats:
        """Return column i of A⁻¹ (or A⁻²), restricted to the component of i."""
        number = int(self.component[i])

        def compute() -> Floats:
            if power == 2:
                return solve(self.block(number), self._local_column(i, 1), self.singular)
            unit = np.zeros(len(self.members(number)))
            unit[self._rank[i]] = 1.0
            return solve(self.block(number), unit, self.singular)

        return self.cache.get((power, int(i)), compute)

    def _spread(self, i: int, local: Floats) -> Floats:
        """Extend a column over the component of i to all tasks, by zeros."""
        column = np.zeros(self.n_tasks)
        column[self.members(int(self.component[i]))] = local
        return column

    def _index_of(self, task: Any) -> int:
        """Convert a task (such as a NumPy date) to plain Python, and return its index; reject an unknown task."""
        index = _lookup(self._index, plain(task))
        if index is None:
            known = ", ".join(shown(name, 24) for name in self.tasks[:3]) + (", …" if self.n_tasks > 3 else "")
            raise UnknownTask(
                error_message(
                    "graph",
                    "a task",
                    f"one of the graph's {self.n_tasks} tasks ({known})",
                    shown(task),
                    "Name it when the graph is made (tasks=...), or use graphs.complete() or graphs.clusters(), "
                    "where tasks may appear at any time.",
                )
            )
        return index

    def __reduce__(self) -> tuple[Any, ...]:
        return Explicit, (self.tasks, self.component, self.dense, self.matrix, self.singular, self.cache)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Explicit):
            return NotImplemented
        # The cache is not compared: it has no influence on similarities.
        a, b = self.describe(), other.describe()
        return self is other or (
            a.keys() == b.keys()
            and all(np.array_equal(a[name], b[name]) for name in a if name not in ("tasks", "kind"))
            and self.tasks == other.tasks
        )

    def __hash__(self) -> int:
        # A cheap hash is enough: equal graphs have equal hashes, and graphs are rarely in large sets.
        return hash((self.n_tasks, self.dense is None, self.tasks[:8]))

    def __repr__(self) -> str:
        n_components = len(self._starts) - 1
        tasks = "1 task" if self.n_tasks == 1 else f"{self.n_tasks} tasks"
        return f"<graph of {tasks} in {n_components} component{'' if n_components == 1 else 's'}>"


def _lookup(index: dict[Hashable, int], task: Any) -> int | None:
    try:
        return index.get(task)
    except TypeError:
        raise input_type_error("graph", "a task", "a hashable name", shown(task), "Turn a list into a tuple.") from None
