"""Names of the tasks that have something stored; the engines know keys alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.graphs import TaskGraph
from budgetron.graphs.task_ids import HASHED, is_named, plain


class TaskNames:
    """key → name, for tasks with stored examples; forgotten with them.

    With `limit` bytes, names that do not fit are not kept: the task goes on under its key, and is shown as
    ``#key``. Only what is shown depends on names, nothing that is learned.
    """

    def __init__(self, graph: TaskGraph, limit: int | None = None) -> None:
        self._graph = graph
        self.limit = limit
        self._names: dict[int, Hashable] = {}
        self._size = 0

    def wanted(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the keys do not say their task by themselves."""
        return np.full(len(keys), False) if self._graph.tasks is not None else keys >= HASHED

    def keep(self, key: int, task: Any, live: Callable[[], NDArray[np.int64]], n_live: int) -> None:
        """Remember the name of a task that was just stored. `live` gives the keys of all stored examples."""
        if self._graph.tasks is not None or not is_named(key) or key in self._names:
            return
        task = plain(task)
        size = sys.getsizeof(task) + 104  # the entry of a dict, key included
        if len(self._names) > 2 * n_live + 64 or (self.limit is not None and self._size + size > self.limit):
            self.drop_all_but(live())
        if self.limit is None or self._size + size <= self.limit:
            self._names[key] = task
            self._size += size

    def put(self, key: int, task: Hashable) -> bool:
        """Take up a name that was kept before; False where the key has one already."""
        if key in self._names:
            return False
        self._names[key] = task
        self._size += sys.getsizeof(task) + 104
        return True

    def items(self) -> list[tuple[int, Hashable]]:
        """Keys and names, as they were kept."""
        return list(self._names.items())

    def drop_all_but(self, live: NDArray[np.int64]) -> None:
        """Forget the names of tasks that have nothing stored."""
        stored = set(live.tolist())
        self._names = {key: name for key, name in self._names.items() if key in stored}
        self._size = sum(sys.getsizeof(name) + 104 for name in self._names.values())

    def of(self, keys: NDArray[np.int64]) -> list[Hashable]:
        """The tasks of many keys."""
        if self._graph.tasks is not None:
            return [self._graph.tasks[key] for key in keys.tolist()]
        return [self._names.get(key, f"#{key:x}") if is_named(key) else key for key in keys.tolist()]

    @property
    def bytes(self) -> int:
        return self._size
