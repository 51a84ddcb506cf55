"""`Tally`: counts errors, rankings, calibration and drift of predicted examples. Used by `Validator` and the service.

Memory does not grow with the length of the stream, nor with the number of tasks beyond `max_tasks`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.evaluate.curve import Curve, Point
from budgetron.evaluate.drift import DriftMonitor
from budgetron.evaluate.metrics.calibration import Calibration
from budgetron.evaluate.metrics.confusion import ConfusionCounts
from budgetron.evaluate.metrics.counts import LOG_LOSS, MISTAKES, OTHERS, WRONG, Figures, TaskCounts, figures
from budgetron.evaluate.metrics.ranking_counts import RankingCounts
from budgetron.evaluate.scoring import Scored, count_increments


class Tally:
    """Counts overall, per task and over time. `probabilistic` says whether margins are log odds."""

    def __init__(self, max_tasks: int, k: int, probabilistic: bool) -> None:
        self.k, self.probabilistic = k, probabilistic
        self.position = 0  # examples counted so far
        self.counts, self.curve, self.calibration = TaskCounts(max_tasks), Curve(), Calibration.empty()
        self.confusion, self.ranking = ConfusionCounts(), RankingCounts(k)
        self.drift = DriftMonitor(max_tasks, "log loss" if probabilistic else "error")
        self._in_window: Any = 0.0

    def add(self, classes: NDArray[Any], part: Scored) -> NDArray[np.float64]:
        """Count examples, and return the row that each adds to the counts."""
        rows, truth, scores = count_increments(
            classes, part, self.calibration if self.probabilistic else None, self.confusion
        )
        task_rows = self.counts.task_rows(part.tasks, len(rows))
        self.counts.add(task_rows, rows)
        self.ranking.add(scores, truth, task_rows, self.probabilistic)
        self._in_window = self._in_window + rows.sum(axis=0)
        self.position += len(rows)
        losses = rows[:, LOG_LOSS if self.probabilistic else WRONG]
        self.drift.add(task_rows, losses, self.position, self.counts.names)
        return rows

    def close_window(self, model: Any) -> None:
        """End the current window of the curve."""
        self.curve.close_window(self.position, self._in_window, model, *self.ranking.close_window())
        self._in_window = 0.0

    # ---- reading

    @property
    def overall(self) -> Figures:
        """The figures of all examples."""
        return figures(self.counts.total, self.probabilistic, self.ranking.overall())

    def per_task(self, limit: int | None = None) -> dict[Hashable, Figures]:
        """Return the figures of the tasks that are counted separately, in order of appearance.

        With `limit`, return only that many tasks: those with the most mistakes, in that order.
        """
        rows = list(enumerate(self.counts.by_task().items(), start=1))
        if limit is not None:
            rows = sorted(rows, key=lambda row: -row[1][1][MISTAKES])[:limit]
        ranks = self.ranking.by_task_row([task_row for task_row, _ in rows])
        counts = [task_and_counts for _, task_and_counts in rows]
        return {
            task: figures(row, self.probabilistic, ranks_of_task)
            for (task, row), ranks_of_task in zip(counts, ranks, strict=True)
        }

    def of_task(self, task: Hashable) -> Figures | None:
        """Return the figures of one task; None if it is not counted separately."""
        for task_row, (name, row) in enumerate(self.counts.by_task().items(), start=1):
            if name == task:
                return figures(row, self.probabilistic, self.ranking.by_task_row([task_row])[0])
        return None

    def others(self) -> Figures | None:
        """Return the figures of all tasks after the first `max_tasks` together; None if there are no such tasks."""
        row = self.counts.others
        return figures(row, self.probabilistic, self.ranking.by_task_row([OTHERS])[0]) if row[0] else None

    def points(self, model: Any) -> list[Point]:
        """Return the curve, including the current window if it has examples."""
        curve = self.curve
        if np.ndim(self._in_window):
            curve = curve.copy()
            curve.close_window(self.position, self._in_window, model, *self.ranking.window())
        return curve.points(self.probabilistic)
