"""What every task graph can say."""

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

    A task reaches an engine as two 64-bit numbers, its key and its cluster. Tasks of different clusters
    have similarity 0, so an engine need not ask about them.
    """

    is_open: bool
    """Whether new tasks may appear at any time."""
    tasks: tuple[Hashable, ...] | None
    """The tasks of an explicit graph, in index order; None for a closed form."""
    n_tasks: int | None
    """k, where it is known."""

    @abstractmethod
    def locate(self, tasks: Iterable[Any]) -> tuple[Ints, Ints]:
        """The key and the cluster of each task."""

    def locate_one(self, task: Any) -> tuple[int, int]:
        """The key and the cluster of one task."""
        keys, clusters = self.locate([task])
        return int(keys[0]), int(clusters[0])

    @abstractmethod
    def row(self, key: int, cluster: int, keys: Ints, clusters: Ints) -> Floats:
        """The similarities (A⁻¹)_ij of one task i with many tasks j, all of them already located."""

    @property
    @abstractmethod
    def c_g_range(self) -> tuple[float, float]:
        """Certified bounds of √(max_i (A⁻¹)_ii) from below and above; they agree unless the graph is huge."""

    @abstractmethod
    def components(self, tasks: Iterable[Any] | None = None) -> list[list[Hashable]]:
        """The connected components, as lists of tasks: of the tasks given, or of all known by name."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The graph as plain values and arrays; `from_description` gives back an equal one."""

    @property
    def c_g(self) -> float:
        """c_G = √(max_i (A⁻¹)_ii), the largest norm of [x, i] where K'(x, x) = 1."""
        return self.c_g_range[1]

    def similarity(self, task: Hashable, other: Hashable) -> float:
        """The entry (A⁻¹)_ij for two tasks."""
        keys, clusters = self.locate([task, other])
        return float(self.row(int(keys[0]), int(clusters[0]), keys[1:], clusters[1:])[0])

    # scikit-learn allows a default parameter to be an instance only if it is callable.
    __call__ = similarity

    def __copy__(self) -> TaskGraph:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TaskGraph:
        return self  # a value: a copy could not be told from the original


def grouped(tasks: Iterable[Hashable], numbers: Ints) -> list[list[Hashable]]:
    """The tasks in lists, one a number, in order of first appearance."""
    groups: dict[int, list[Hashable]] = {}
    for task, number in zip(tasks, numbers.tolist(), strict=True):
        groups.setdefault(number, []).append(task)
    return list(groups.values())


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The array, closed to writing."""
    array.flags.writeable = False
    return array
