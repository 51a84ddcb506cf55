"""Record the examples and errors of each task over time, at a bounded number of positions.

The numbers are totals since the beginning, so every other position can be dropped when there are too many.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from budgetron.evaluate.metrics.counts import TaskCounts

Ints = NDArray[np.int64]
MAX_POSITIONS = 64
MAX_TASKS = 1000  # only the first tasks have a curve, which limits the memory to 64 · 1000 · 2 numbers


@dataclass(frozen=True, eq=False)
class TaskCurve:
    """The examples and errors of one task up to each position of the stream."""

    position: Ints  # examples of all tasks scored so far
    n: Ints
    errors: Ints

    def windows(self) -> tuple[Ints, Ints]:
        """Return the examples and errors between successive positions."""
        return np.diff(self.n, prepend=0), np.diff(self.errors, prepend=0)


class TaskCurves:
    """Collects totals per task as windows end."""

    def __init__(self) -> None:
        self._positions: list[tuple[int, Ints]] = []  # (position, totals of all tasks at this position)
        self._windows, self._step = 0, 1  # windows so far; every `_step`-th is recorded

    def close_window(self, position: int, counts: TaskCounts) -> None:
        """Record the counts of the tasks at the end of a window."""
        self._windows += 1
        if self._windows % self._step == 0:
            self._positions.append((position, counts.seen_and_wrong(MAX_TASKS)))
        if len(self._positions) >= MAX_POSITIONS:
            # Drop every other position and record half as often from now on.
            self._positions = self._positions[1::2]
            self._step *= 2

    def by_task(self, position: int, counts: TaskCounts) -> Mapping[Hashable, TaskCurve]:
        """Return the curves up to the current position."""
        recorded = [(p, table) for p, table in self._positions if p < position]
        recorded.append((position, counts.seen_and_wrong(MAX_TASKS)))
        tasks = list(counts.by_task())[:MAX_TASKS]
        # Axes: task; examples or errors; position.
        totals = np.zeros((len(tasks), 2, len(recorded)), dtype=np.int64)
        for j, (_, table) in enumerate(recorded):
            totals[: len(table), :, j] = table  # a task that had not appeared yet has zeros
        positions = np.array([p for p, _ in recorded])
        return {task: TaskCurve(positions, *rows) for task, rows in zip(tasks, totals, strict=True)}
