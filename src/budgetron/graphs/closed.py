"""Graphs in closed form: cliques. Each pair of tasks in a clique is joined by an edge of weight w, the coupling.

    A⁻¹ = (I + wJ)/(1 + wn) on a clique of n tasks, J all ones

    n known:     diagonal (1 + w)/(1 + wn),  off-diagonal w/(1 + wn)     the paper's scale
    n unknown:   diagonal 1,                 off-diagonal w/(1 + w)      the same, times (1 + wn)/(1 + w)

w = 0 means no edges: tasks are independent. w = ∞ means one learner for all tasks (pooling). Two numbers describe
all similarities, so memory does not depend on the number of tasks, and new tasks may appear at any time. Only a graph
of clusters also stores a table: the cluster of each listed task.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from budgetron.errors import input_error, input_type_error, shown
from budgetron.graphs.task_ids import NOT_A_TASK, plain, task_id_of, task_ids_of
from budgetron.graphs.taskgraph import Floats, Ints, TaskGraph, grouped, read_only


@dataclass(frozen=True, eq=False, repr=False)
class Clique(TaskGraph):
    """One clique of all tasks, or one clique per cluster. Created by `complete`, `disconnected` and `clusters`."""

    coupling: float
    n_tasks: int | None = None
    mapped: Mapped | None = None

    is_open = True
    tasks = None

    @property
    def diagonal(self) -> float:
        """The similarity of a task to itself, (A⁻¹)_ii."""
        return 1.0 if self.n_tasks is None else _scaled_coupling(self.coupling, 1.0, self.n_tasks)

    @property
    def off_diagonal(self) -> float:
        """The similarity of two different tasks in one clique, (A⁻¹)_ij."""
        return _scaled_coupling(self.coupling, 0.0, 1 if self.n_tasks is None else self.n_tasks)

    @property
    def c_g_range(self) -> tuple[float, float]:
        c_g = math.sqrt(self.diagonal)
        return c_g, c_g

    def locate(self, tasks: Iterable[Any]) -> tuple[Ints, Ints]:
        task_ids = task_ids_of(tasks)
        if self.coupling == 0:
            # Without edges every task is a cluster of its own.
            return task_ids, task_ids
        if self.mapped is not None:
            return task_ids, self.mapped.clusters_of(task_ids)
        # One clique of all tasks: all have the cluster 0.
        return task_ids, np.zeros_like(task_ids)

    def locate_one(self, task: Any) -> tuple[int, int]:
        if self.mapped is not None:
            return super().locate_one(task)
        task_id = task_id_of(task)
        return task_id, task_id if self.coupling == 0 else 0

    def row(self, task_id: int, cluster: int, task_ids: Ints, clusters: Ints) -> Floats:
        related = np.where(clusters == cluster, self.off_diagonal, 0.0)
        return np.where(task_ids == task_id, self.diagonal, related)

    def components(self, tasks: Iterable[Any] | None = None) -> list[list[Hashable]]:
        """Return the given tasks (by default all tasks of the mapping), grouped by connected component."""
        if tasks is None:
            tasks = () if self.mapped is None else self.mapped.names
        names = list(dict.fromkeys(plain(task) for task in tasks))
        return grouped(names, self.locate(names)[1])

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"kind": "clique", "coupling": self.coupling, "n_tasks": self.n_tasks}
        if self.mapped is not None:
            described |= {"tasks": self.mapped.names, "clusters": self.mapped.numbers}
        return described

    def __reduce__(self) -> tuple[Any, ...]:
        return Clique, (self.coupling, self.n_tasks, self.mapped)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Clique):
            return NotImplemented
        return (self.coupling, self.n_tasks, self.mapped) == (other.coupling, other.n_tasks, other.mapped)

    def __hash__(self) -> int:
        return hash((self.coupling, self.n_tasks, self.mapped))

    def __repr__(self) -> str:
        if self.mapped is not None:
            return f"clusters(<{self.mapped}>, coupling={self.coupling!r})"
        if self.n_tasks is None and self.coupling == 0:
            return "disconnected()"
        size = "" if self.n_tasks is None else f"n_tasks={self.n_tasks}"
        strength = "" if self.coupling == 1 else f"coupling={self.coupling!r}"
        return f"complete({', '.join(part for part in (size, strength) if part)})"


class Mapped:
    """A map from tasks to clusters, sorted by task id.

    Clusters are numbered in the order in which they appear in the sorted map, whatever their labels. So mappings that
    differ only in their labels are equal.
    """

    def __init__(self, names: Iterable[Hashable], labels: Iterable[Hashable]) -> None:
        names, labels = list(names), list(labels)
        task_ids = task_ids_of(names)
        # Sorted by id, so that two mappings with the same entries are equal, whatever their order.
        order = np.argsort(task_ids, kind="stable")
        numbering: dict[Hashable, int] = {}
        numbers = [numbering.setdefault(labels[i], len(numbering)) for i in order]
        self.names = tuple(plain(names[i]) for i in order)
        self.task_ids: Ints = read_only(task_ids[order])
        self.numbers: Ints = read_only(np.array(numbers, dtype=np.int64))

        # A hash table made of arrays: bucket b has the rows _starts[b] to _starts[b + 1] of `_entries`.
        self._shift = np.uint64(64 - max(1, (len(task_ids) - 1).bit_length()))  # about as many buckets as tasks
        buckets = self._bucket_of(self.task_ids)
        by_bucket = np.argsort(buckets, kind="stable")
        # The number of tasks per bucket; the cumulative sums are the starts of the buckets.
        counts = np.bincount(buckets, minlength=(1 << (64 - int(self._shift))))
        self._starts: Ints = np.concatenate([[0], np.cumsum(counts)])
        self._entries: Ints = np.stack([self.task_ids[by_bucket], NOT_A_TASK + self.numbers[by_bucket]], axis=1)

    def clusters_of(self, task_ids: Ints) -> Ints:
        """Return the cluster of each task id. The cluster of a task outside the map is its own task id.

        The clusters of the map are numbered from `NOT_A_TASK`, so their numbers are never task ids. The lookup uses a
        hash table, because a binary search among a million tasks misses the CPU cache at every step.
        """
        clusters = task_ids.copy()
        bucket = self._bucket_of(task_ids)
        entry, end = self._starts[bucket], self._starts[bucket + 1]
        pending = np.flatnonzero(entry < end)  # the positions of tasks that are not found yet
        entry, end = entry[pending], end[pending]
        while pending.size:  # each round compares one more entry per bucket; buckets are short
            candidate = self._entries[entry]
            hit = candidate[:, 0] == task_ids[pending]
            clusters[pending[hit]] = candidate[hit, 1]
            entry += 1
            more = ~hit & (entry < end)
            pending, entry, end = pending[more], entry[more], end[more]
        return clusters

    def _bucket_of(self, task_ids: Ints) -> Ints:
        # Fibonacci hashing: the upper bits of a product with 2⁶⁴/φ spread consecutive ids over the buckets.
        mixed = task_ids.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> self._shift).view(np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        return Mapped, (self.names, self.numbers.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapped) and (
            np.array_equal(self.task_ids, other.task_ids) and np.array_equal(self.numbers, other.numbers)
        )

    def __hash__(self) -> int:
        return hash((self.task_ids.tobytes(), self.numbers.tobytes()))

    def __str__(self) -> str:
        n_clusters = int(self.numbers.max()) + 1
        tasks = "1 task" if len(self.task_ids) == 1 else f"{len(self.task_ids)} tasks"
        return f"{tasks} in {n_clusters} cluster{'' if n_clusters == 1 else 's'}"


def complete(n_tasks: int | None = None, coupling: float = 1.0) -> Clique:
    """Return the graph in which all pairs of tasks are related equally.

    Without `n_tasks`, any number of tasks may appear. A task has similarity 1 to itself and w/(1 + w) to any other.
    With `n_tasks` = k, similarities have the paper's scale: (1 + w)/(1 + wk) and w/(1 + wk). Tasks need not be listed,
    and it is not checked that at most `n_tasks` of them appear.

    Parameters
    ----------
    n_tasks : the number of tasks k, or None if it is unknown.
    coupling : the weight w >= 0 of every edge: how strongly tasks are related. ``math.inf`` pools all tasks.

    >>> complete(n_tasks=4).similarity("ann", "ann"), complete(n_tasks=4).similarity("ann", "bob")
    (0.4, 0.2)
    >>> complete(coupling=float("inf")).similarity("ann", "bob")
    1.0
    """
    if n_tasks is not None and (
        isinstance(n_tasks, bool) or not isinstance(n_tasks, (int, np.integer)) or not 1 <= n_tasks < 2**53
    ):
        raise input_error(
            "graphs.complete",
            "n_tasks",
            "an integer >= 1, or None",
            shown(n_tasks),
            "None leaves the number of tasks open.",
        )
    return Clique(_checked_coupling("graphs.complete", coupling), None if n_tasks is None else int(n_tasks))


def disconnected() -> Clique:
    """Return the graph without edges: tasks learn independently and share only the budget.

    >>> disconnected().similarity("ann", "ann"), disconnected().similarity("ann", "bob")
    (1.0, 0.0)
    """
    return Clique(0.0)


def clusters(mapping: Mapping[Any, Hashable], coupling: float = 1.0) -> Clique:
    """Return the graph in which tasks are related within their cluster, and unrelated across clusters.

    A task has similarity 1 to itself and w/(1 + w) to other tasks of its cluster. A task that is not in the mapping is
    a cluster of its own.

    Parameters
    ----------
    mapping : from each task to its cluster, which is any hashable label.
    coupling : the weight w >= 0 of every edge; ``math.inf`` pools the tasks of each cluster.

    >>> graph = clusters({"ann": "sales", "bob": "sales", "cid": "law"})
    >>> graph.similarity("ann", "bob"), graph.similarity("ann", "cid"), graph.similarity("new", "new")
    (0.5, 0.0, 1.0)
    >>> graph
    clusters(<3 tasks in 2 clusters>, coupling=1.0)
    """
    who = "graphs.clusters"
    if not isinstance(mapping, Mapping):
        raise input_type_error(
            who,
            "mapping",
            "a mapping from task to cluster",
            shown(mapping),
            "Make one from two lists with dict(zip(tasks, clusters)).",
        )
    if not mapping:
        raise input_error(
            who,
            "mapping",
            "a mapping with at least one task",
            "an empty one",
            "graphs.disconnected() is the graph without relations.",
        )
    for task, label in mapping.items():
        # NaN differs from itself, so two tasks with the label NaN would be in different clusters.
        if not isinstance(label, Hashable) or label != label:
            raise input_type_error(
                who,
                "a cluster",
                "a hashable label other than NaN",
                f"{shown(label)} for task {shown(task)}",
                "Number or name the clusters.",
            )
    return Clique(_checked_coupling(who, coupling), None, Mapped(mapping.keys(), mapping.values()))


def _scaled_coupling(w: float, extra: float, n: int) -> float:
    """Return (extra + w)/(1 + wn).

    For w > 1, numerator and denominator are divided by w, so that w = ∞ needs no special case.
    """
    return (extra + w) / (1.0 + w * n) if w <= 1 else (extra / w + 1.0) / (1.0 / w + n)


def _checked_coupling(who: str, coupling: Any) -> float:
    is_number = isinstance(coupling, (int, float, np.integer, np.floating)) and not isinstance(coupling, bool)
    if not is_number or not coupling >= 0:  # "not >=" also rejects NaN
        raise input_error(
            who,
            "coupling",
            "a number >= 0 (math.inf pools the tasks)",
            shown(coupling),
            "0 makes the tasks independent; negative weights are not supported.",
        )
    return float(coupling)
