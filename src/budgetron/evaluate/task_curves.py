"""How each task went over time: its examples and errors at a bounded number of moments.

Totals are kept, not windows: when there are too many moments every other one is left out, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from budgetron.evaluate.counts import TaskCounts

Ints = NDArray[np.int64]
MAX_MOMENTS = 64
MAX_TASKS = 1000  # the first that appear; so at most 64 · 1000 · 2 numbers


@dataclass(frozen=True, eq=False)
class TaskCurve:
    """One task over time: its totals at each position of the stream."""

    position: Ints  # examples of all tasks scored so far
    n: Ints
    errors: Ints

    def windows(self) -> tuple[Ints, Ints]:
        """Examples and errors of the task from each position to the next."""
        return np.diff(self.n, prepend=0), np.diff(self.errors, prepend=0)


class TaskCurves:
    """Gathers totals by task as windows end."""

    def __init__(self) -> None:
        self._moments: list[tuple[int, Ints]] = []
        self._windows, self._step = 0, 1

    def close_window(self, position: int, counts: TaskCounts) -> None:
        self._windows += 1
        if self._windows % self._step == 0:
            self._moments.append((position, counts.seen_and_wrong(MAX_TASKS)))
        if len(self._moments) >= MAX_MOMENTS:
            self._moments = self._moments[1::2]
            self._step *= 2

    def by_task(self, position: int, counts: TaskCounts) -> Mapping[Hashable, TaskCurve]:
        """The curves up to the position reached, which ends them all."""
        moments = [moment for moment in self._moments if moment[0] < position]
        moments.append((position, counts.seen_and_wrong(MAX_TASKS)))
        tasks = list(counts.by_task())[:MAX_TASKS]
        totals = np.zeros((len(tasks), 2, len(moments)), dtype=np.int64)
        for place, (_, table) in enumerate(moments):
            totals[: len(table), :, place] = table  # a task that had not come yet has zeros
        positions = np.array([moment[0] for moment in moments])
        return {task: TaskCurve(positions, *rows) for task, rows in zip(tasks, totals, strict=True)}
