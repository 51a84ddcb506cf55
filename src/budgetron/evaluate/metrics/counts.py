"""Count errors per task, and derive error rate, F-measure, precision, recall, log loss and Brier score from the counts.

error      share of wrong labels (a margin of zero predicts the first class)
mistakes   as in the paper: y f(x) <= 0, so a margin of zero is a mistake for either label
F          2 TP / (2 TP + FP + FN) of the positive class, classes_[1]; None, not 0, if there are no positives and none
           were predicted. For more than two classes, the mean over the classes for which it is not None.
Brier      the mean of (p − y)², p the probability of the positive class; for more than two classes, the mean of
           Σ_c (p_c − y_c)²
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.evaluate.metrics.ranking import Ranks
from budgetron.graphs.task_ids import plain

Floats = NDArray[np.float64]
# The columns of a row of counts. From FIRST_CLASS on there are three columns per class: TP, FP and FN.
SEEN, WRONG, MISTAKES, LOG_LOSS, BRIER, FIRST_CLASS = range(6)
OTHERS = 0  # the row shared by all tasks after the first `max_tasks`


@dataclass(frozen=True)
class Figures:
    """Error rate, F-measure and other metrics of a stream, of one task or of one window.

    `auc`, `average_precision` and `precision_at_k` are defined in `evaluate.Ranking`.
    """

    n: int
    mistakes: int
    error: float | None
    f_measure: float | None
    precision: float | None
    recall: float | None
    log_loss: float | None
    brier: float | None = None
    auc: float | None = None
    average_precision: float | None = None
    precision_at_k: float | None = None

    @property
    def error_at_least(self) -> float:
        """The lower confidence limit of the error, by Wilson's interval at three standard deviations.

        Three and not two standard deviations, because among thousands of tasks some have many errors by chance.
        """
        z2, n, error = 3.0**2, max(self.n, 1), self.error or 0.0
        return (error + z2 / (2 * n) - math.sqrt(z2 * (error * (1 - error) / n + z2 / (4 * n * n)))) / (1 + z2 / n)

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def figures(counts: Floats, probabilistic: bool, ranks: Ranks = Ranks()) -> Figures:
    """Compute the figures from one row of counts. For such short rows, Python floats are faster than NumPy."""
    n, wrong, mistakes, loss, squares, *classes = counts.tolist()
    true_positives, false_positives, false_negatives = classes[0::3], classes[1::3], classes[2::3]
    return Figures(
        n=int(n),
        mistakes=int(mistakes),
        error=_ratio(wrong, n),
        f_measure=_mean_ratio(
            [(2 * t, 2 * t + p + m) for t, p, m in zip(true_positives, false_positives, false_negatives, strict=True)]
        ),
        precision=_mean_ratio([(t, t + p) for t, p in zip(true_positives, false_positives, strict=True)]),
        recall=_mean_ratio([(t, t + m) for t, m in zip(true_positives, false_negatives, strict=True)]),
        log_loss=_ratio(loss, n) if probabilistic else None,
        brier=_ratio(squares, n) if probabilistic else None,
        **ranks._asdict(),
    )


def macro(rows: Sequence[Figures]) -> dict[str, float | None]:
    """Return the mean of each figure over the tasks for which it is defined."""
    names = ("error", "f_measure", "precision", "recall", "log_loss", "brier", *Ranks._fields)
    values = {name: [value for row in rows if (value := getattr(row, name)) is not None] for name in names}
    return {name: float(np.mean(defined)) if defined else None for name, defined in values.items()}


def increments(
    truth: NDArray[np.intp],
    predicted: NDArray[np.intp],
    is_mistake: NDArray[np.bool_],
    n_classes: int,
    losses: tuple[Floats, Floats] | None,
) -> Floats:
    """Return the row that each example adds to the counts of its task. `truth` and `predicted` are class codes.

    `losses` are the log losses and the squared errors (Brier); None for a model without probabilities.
    """
    # With two classes, only the positive class counts for precision and recall.
    counted = [1] if n_classes == 2 else range(n_classes)
    # In Fortran order, because columns are written and added up one by one.
    rows = np.zeros((len(truth), FIRST_CLASS + 3 * len(counted)), order="F")
    rows[:, SEEN] = 1.0
    rows[:, WRONG] = truth != predicted
    rows[:, MISTAKES] = is_mistake
    if losses is not None:
        rows[:, LOG_LOSS], rows[:, BRIER] = losses
    for k, code in enumerate(counted):
        positive, chosen = truth == code, predicted == code
        true_positives, start = positive & chosen, FIRST_CLASS + 3 * k
        rows[:, start] = true_positives
        rows[:, start + 1] = chosen & ~true_positives
        rows[:, start + 2] = positive & ~true_positives
    return rows


class TaskCounts:
    """Counts per task for the first `max_tasks` tasks that appear; all later tasks share one row."""

    def __init__(self, max_tasks: int) -> None:
        self.max_tasks = max_tasks
        self._row: dict[Hashable, int] = {}
        self.names: list[Hashable] = []  # the tasks with a row of their own, in order of appearance
        self._table: Floats = np.zeros((1, FIRST_CLASS))

    def __len__(self) -> int:
        return len(self._row)

    def task_rows(self, tasks: Sequence[Any] | NDArray[Any] | None, n: int) -> NDArray[np.intp]:
        """Return the row of each example's task: 1, 2, … in order of appearance; 0 for tasks after `max_tasks`."""
        if tasks is None:
            return np.full(n, self._task_row(None), dtype=np.intp)
        names = tasks.tolist() if isinstance(tasks, np.ndarray) else tasks
        # OTHERS: a new task, or one after the first `max_tasks`. No known task has this row.
        rows = np.fromiter(map(self._row.get, names, repeat(OTHERS)), np.intp, len(names))
        for i in np.flatnonzero(rows == OTHERS).tolist():
            rows[i] = self._task_row(names[i])
        return rows

    def add(self, task_rows: NDArray[np.intp], rows: Floats) -> None:
        """Add one row of counts per example to the row of its task."""
        if self._table.shape[1] < rows.shape[1]:  # the first block decides how many classes are counted
            self._table = np.zeros((len(self._table), rows.shape[1]))
        if len(self._table) <= len(self._row):
            # Doubling keeps the cost per new task constant on average.
            grown = np.zeros((2 * len(self._row) + 1, self._table.shape[1]))
            grown[: len(self._table)] = self._table
            self._table = grown
        # One bincount per column is several times faster than np.add.at on whole rows.
        for column, values in enumerate(rows.T):
            self._table[:, column] += np.bincount(task_rows, weights=values, minlength=len(self._table))

    def _task_row(self, task: Any) -> int:
        """Return the row of a task. Tasks beyond the first `max_tasks` share one row."""
        task = plain(task)
        row = self._row.get(task)
        if row is None:
            row = self._row[task] = len(self._row) + 1 if len(self._row) < self.max_tasks else OTHERS
            if row == OTHERS:  # keep no entry, or memory would grow with the number of tasks
                del self._row[task]
            else:
                self.names.append(task)
        return row

    @property
    def total(self) -> Floats:
        total: Floats = self._table.sum(axis=0)
        return total

    @property
    def others(self) -> Floats:
        others: Floats = self._table[OTHERS]
        return others

    def seen_and_wrong(self, limit: int) -> NDArray[np.int64]:
        """Return the examples and errors of the first `limit` tasks, in order of appearance."""
        table: NDArray[np.int64] = self._table[1 : min(len(self._row), limit) + 1, SEEN : WRONG + 1].astype(np.int64)
        return table

    def by_task(self) -> dict[Hashable, Floats]:
        return {task: self._table[row] for task, row in self._row.items()}


def _ratio(part: float, total: float) -> float | None:
    return float(part / total) if total > 0 else None


def _mean_ratio(parts: Sequence[tuple[float, float]]) -> float | None:
    """Return the mean of numerator / denominator over the classes with a denominator above 0."""
    ratios = [part / total for part, total in parts if total > 0]
    return sum(ratios) / len(ratios) if ratios else None
