"""`TaskGraph`, the interface of all task graphs, and helpers that its implementations share.

Learners call `locate` to turn tasks into task ids and clusters; the NumPy engine calls `row` for similarities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class TaskGraph(ABC):
    """The relations among tasks, as the entries of A⁻¹.

    For an engine, a task is two 64-bit numbers: its task id and its cluster. Tasks in different clusters have
    similarity 0, so an engine can skip them.
    """

    is_open: bool
    """Whether new tasks may appear at any time."""
    tasks: tuple[Hashable, ...] | None
    """The tasks of an explicit graph, in index order; None for a closed form."""
    n_tasks: int | None
    """The number of tasks k, if it is known."""

    @abstractmethod
    def locate(self, tasks: Iterable[Any]) -> tuple[Ints, Ints]:
        """Return the task id and the cluster of each task."""

    def locate_one(self, task: Any) -> tuple[int, int]:
        """Return the task id and the cluster of one task."""
        task_ids, clusters = self.locate([task])
        return int(task_ids[0]), int(clusters[0])

    @abstractmethod
    def row(self, task_id: int, cluster: int, task_ids: Ints, clusters: Ints) -> Floats:
        """Return the similarities (A⁻¹)_ij of one task i with many tasks j, given by ids and clusters."""

    @property
    @abstractmethod
    def c_g_range(self) -> tuple[float, float]:
        """Proved lower and upper bounds of √(max_i (A⁻¹)_ii); they are equal unless the graph is very large."""

    @abstractmethod
    def components(self, tasks: Iterable[Any] | None = None) -> list[list[Hashable]]:
        """Return the connected components of the given tasks, or of all tasks of the graph, as lists of tasks."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the graph as plain values and arrays, from which `from_description` restores an equal graph."""

    @property
    def c_g(self) -> float:
        """c_G = √(max_i (A⁻¹)_ii), the largest norm of an example [x, i] under a kernel with K'(x, x) = 1.

        If only bounds are known, this is the upper bound, because the mistake bounds must hold.
        """
        return self.c_g_range[1]

    def similarity(self, task: Hashable, other: Hashable) -> float:
        """Return the entry (A⁻¹)_ij for two tasks."""
        task_ids, clusters = self.locate([task, other])
        return float(self.row(int(task_ids[0]), int(clusters[0]), task_ids[1:], clusters[1:])[0])

    # scikit-learn allows a default parameter to be an instance only if it is callable.
    __call__ = similarity

    def __copy__(self) -> TaskGraph:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TaskGraph:
        return self  # graphs are immutable, so no copy is needed


def grouped(tasks: Iterable[Hashable], numbers: Ints) -> list[list[Hashable]]:
    """Group the tasks by their numbers, in order of first appearance."""
    groups: dict[int, list[Hashable]] = {}
    for task, number in zip(tasks, numbers.tolist(), strict=True):
        groups.setdefault(number, []).append(task)
    return list(groups.values())


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Make the array read-only, in place, and return it."""
    array.flags.writeable = False
    return array
