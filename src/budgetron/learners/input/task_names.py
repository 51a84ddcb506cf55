"""Remembers the names of tasks with stored examples. Engines know only 64-bit ids; names are for display and saving.

Used by `Learner`. Names can be dropped, so nothing that is learned or predicted may depend on a name in here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.graphs import TaskGraph
from budgetron.graphs.task_ids import HASHED, is_named, plain


class TaskNames:
    """A map from task id to name, for tasks with stored examples.

    Names that do not fit into `limit` bytes are dropped: the task continues under its id and is shown as ``#id``.
    """

    def __init__(self, graph: TaskGraph, limit: int | None = None) -> None:
        self._graph = graph
        self.limit = limit
        self._names: dict[int, Hashable] = {}
        self._size = 0
        self._n_refused = 0  # names that did not fit since names were last dropped

    def wanted(self, task_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of the task ids need a name: only hashes do. Integers and positions in a graph need none."""
        return np.full(len(task_ids), False) if self._graph.tasks is not None else task_ids >= HASHED

    def keep(self, task_id: int, task: Any, stored_ids: Callable[[], NDArray[np.int64]], n_stored: int) -> None:
        """Remember the name of a task whose example was just stored.

        `stored_ids` returns the task id of each of the `n_stored` stored examples.
        """
        if self._graph.tasks is not None or not is_named(task_id) or task_id in self._names:
            return
        task = plain(task)
        size = sys.getsizeof(task) + 104  # 104 bytes for the dict entry and its integer
        if self.limit is not None and self._size + size > self.limit:
            self._n_refused += 1
        # When the last stored example of a task is evicted, the name of the task stays. Such names are dropped in bulk,
        # when there are more than 2 n_stored + 64 names, or when more than n_stored / 16 names did not fit. So the cost
        # per stored example stays constant on average.
        if len(self._names) > 2 * n_stored + 64 or self._n_refused > n_stored // 16:
            self.drop_all_but(stored_ids())
        if self.limit is None or self._size + size <= self.limit:
            self._names[task_id] = task
            self._size += size

    def put(self, task_id: int, task: Hashable) -> bool:
        """Add a name from a model file. Return False if the task id already has a name."""
        if task_id in self._names:
            return False
        self._names[task_id] = task
        self._size += sys.getsizeof(task) + 104
        return True

    def items(self) -> list[tuple[int, Hashable]]:
        """Task ids and names, in the order in which they were added."""
        return list(self._names.items())

    def drop_all_but(self, stored_ids: NDArray[np.int64]) -> None:
        """Drop the names of all tasks except those with stored examples."""
        stored = set(stored_ids.tolist())
        self._names = {task_id: name for task_id, name in self._names.items() if task_id in stored}
        self._size = sum(sys.getsizeof(name) + 104 for name in self._names.values())
        self._n_refused = 0

    def of(self, task_ids: NDArray[np.int64]) -> list[Hashable]:
        """Return the tasks of many task ids."""
        if self._graph.tasks is not None:
            return [self._graph.tasks[task_id] for task_id in task_ids.tolist()]
        return [
            self._names.get(task_id, f"#{task_id:x}") if is_named(task_id) else task_id for task_id in task_ids.tolist()
        ]

    @property
    def bytes(self) -> int:
        return self._size
