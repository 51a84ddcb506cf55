"""ROC-AUC, average precision and precision at k of a stream: overall, per task and per window, in bounded memory.

The first scores are stored, so the metrics of a short stream are exact. Beyond `EXACT` scores, all scores are
counted in fixed bins instead: 1,024 bins overall and 256 per task (1/16 and 1/4 wide in log odds near 0). `ranking`
computes the metrics from the counts, and the largest error that the bins can cause. In practice the error of AUC is
below 0.001 overall, and below 0.005 per task. `Tally` calls this.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from budgetron.decisions.score_grid import BINS, bins_of, edges, scale_of
from budgetron.evaluate.metrics.ranking import (
    Floats,
    Ranking,
    Ranks,
    auc,
    average_precision,
    by_score,
    mean_of,
    precision_at,
)
from budgetron.evaluate.metrics.window_ranks import sums_of

EXACT = 4096  # up to this many scores (examples × ranked classes) are stored; with more, bins are used
MAX_CLASSES = 64  # with more classes, nothing is ranked
MAX_WINDOW_CLASSES = 8  # with more classes, windows are not ranked
_TASK_BINS, _MERGED = 256, BINS // 256  # bins per task, and how many of the overall bins each of them covers
_TASK_CELLS = 2**20  # counters of all tasks together: 4 MiB, with two classes enough for 2,048 tasks


class RankingCounts:
    """Counts scores by bin, class and task. `k` is the k of precision at k.

    Tasks are given by their rows in the table of `TaskCounts`, from 0.
    """

    def __init__(self, k: int) -> None:
        self.k = k
        self._scores: list[tuple[Floats, NDArray[np.intp], NDArray[np.intp]]] = []
        self._n_scores = 0
        self._scale: float | None = None
        self._total: NDArray[np.int64] | None = None  # (classes, negative or positive, bins), once bins are used
        self._by_task: NDArray[np.uint32] = np.zeros((0, 0), dtype=np.uint32)
        # The counts at the beginning of the current window; while scores are stored, the number of examples before it.
        self._before: NDArray[np.int64] | int = 0

    def add(self, scores: Floats, truth: NDArray[np.intp], task_rows: NDArray[np.intp], log_odds: bool) -> None:
        """Count examples, given scores (n, classes), true classes and tasks. Scores other than log odds are scaled."""
        if scores.shape[1] > MAX_CLASSES:
            return
        if self._total is None:
            self._scores.append((scores, truth, task_rows))
            self._n_scores += scores.size
            if self._n_scores <= EXACT:
                return
            scores, truth, task_rows = self._all_scores()
            self._scale = 1.0 if log_odds else scale_of(scores)
            self._total = np.zeros((scores.shape[1], 2, BINS), dtype=np.int64)
            self._by_task = np.zeros((0, 2 * _TASK_BINS * scores.shape[1]), dtype=np.uint32)
            # From now on `_before` is an array of counts: count the examples before the current window first.
            if start := int(np.max(self._before)):
                self._count(scores[:start], truth[:start], task_rows[:start])
                scores, truth, task_rows = scores[start:], truth[start:], task_rows[start:]
            self._before, self._scores = self._total.copy(), []
        self._count(scores, truth, task_rows)

    def _count(self, scores: Floats, truth: NDArray[np.intp], task_rows: NDArray[np.intp]) -> None:
        """Count examples per bin of scores: for all examples, and for each task."""
        assert self._total is not None and self._scale is not None
        bins, positive = bins_of(scores, self._scale), _positive(scores, truth)
        columns = np.arange(scores.shape[1])
        # The position in the array of counts: class, then negative or positive, then bin.
        flat = (2 * columns + positive) * BINS + bins
        self._total += np.bincount(flat.ravel(), minlength=self._total.size).reshape(self._total.shape)
        cells = 2 * _TASK_BINS * scores.shape[1]
        rows = _TASK_CELLS // cells
        self._grow(min(int(task_rows.max(initial=0)) + 1, rows), rows)
        if len(task_rows) and task_rows.max() >= rows:  # tasks beyond the memory for counters count overall only
            counted = task_rows < rows
            task_rows, bins, positive = task_rows[counted], bins[counted], positive[counted]
        # The same for the table of tasks, whose bins are `_MERGED` times as wide.
        of_task = task_rows[:, None] * cells + (2 * columns + positive) * _TASK_BINS + bins // _MERGED
        np.add.at(self._by_task.reshape(-1), of_task.ravel(), np.uint32(1))

    def _grow(self, rows: int, max_rows: int) -> None:
        """Make room for this many tasks."""
        if len(self._by_task) < rows:
            grown = np.zeros((min(2 * rows, max_rows), self._by_task.shape[1]), dtype=np.uint32)
            grown[: len(self._by_task)] = self._by_task
            self._by_task = grown

    def _all_scores(self) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
        scores, truth, task_rows = zip(*self._scores, strict=True)
        return np.concatenate(scores), np.concatenate(truth), np.concatenate(task_rows)

    # ---- windows

    def close_window(self) -> tuple[Floats | None, Ranks]:
        """Return the sums (`window_ranks`) of the current window and the figures so far, and begin the next window."""
        sums_and_ranks = self.window()
        self._before = sum(len(truth) for _, truth, _ in self._scores) if self._total is None else self._total.copy()
        return sums_and_ranks

    def window(self) -> tuple[Floats | None, Ranks]:
        """Return the sums of the current window and the figures so far."""
        if self._total is None:
            return self._exact_window()
        # Rank the window and the complete stream in one pass, over the bins that are in use.
        used = np.flatnonzero(self._total.any(axis=(0, 1)))
        counts = np.stack([self._total - self._before, self._total])[..., used[0] : used[-1] + 1].astype(np.float64)
        figures = _figures(counts[:, :, 1], counts[:, :, 0], self.k, False)
        return self._sums(figures[0], counts[0]), _ranks(figures[1])

    def _exact_window(self) -> tuple[Floats | None, Ranks]:
        """As `window`, while the scores are still stored one by one."""
        if not self._scores:
            return None, Ranks()
        scores, truth, _ = self._all_scores()
        complete, start = exact(scores, truth), int(np.max(self._before))
        if start == len(truth):
            return None, _ranks(_figures(complete.positives, complete.negatives, self.k, True))
        part = exact(scores[start:], truth[start:])
        figures = _figures(part.positives, part.negatives, self.k, True)
        sums = self._sums(figures, np.stack([part.negatives, part.positives], axis=1))
        return sums, _ranks(_figures(complete.positives, complete.negatives, self.k, True))

    def _sums(self, figures: Floats, counts: Floats) -> Floats | None:
        """Return the sums of a window, from which windows can be merged; None with too many classes."""
        if len(figures) > MAX_WINDOW_CLASSES:
            return None
        return sums_of(figures, counts[:, 1].sum(axis=-1), counts[:, 0].sum(axis=-1), self.k)

    # ---- reading

    def ranking(self) -> Ranking | None:
        """Return the ranking of all examples; None if there are none, or too many classes."""
        if self._total is not None:
            assert self._scale is not None
            counts = self._total.astype(np.float64)
            return Ranking(edges(self._scale), counts[:, 1], counts[:, 0], False)
        if not self._scores:
            return None
        return exact(*self._all_scores()[:2])

    def overall(self) -> Ranks:
        """Return the figures of all examples."""
        ranking = self.ranking()
        if ranking is None:
            return Ranks()
        return _ranks(_figures(ranking.positives, ranking.negatives, self.k, ranking.exact))

    def by_task_row(self, task_rows: Sequence[int]) -> list[Ranks]:
        """Return the metrics of the tasks in these rows, undefined ones for tasks beyond the memory for counters."""
        if self._total is None:
            ranks = self._exact_by_task_row()
            return [ranks.get(task_row, Ranks()) for task_row in task_rows]
        counted = [task_row for task_row in task_rows if task_row < len(self._by_task)]
        # Leave out the unused bins at both ends. Often only a sixth of the bins is in use.
        used = np.flatnonzero(self._total.reshape(-1, _TASK_BINS, _MERGED).any(axis=(0, 2)))
        rows = self._by_task[counted].reshape(-1, len(self._total), 2, _TASK_BINS)
        table = rows[..., used[0] : used[-1] + 1].astype(np.float64)
        figures = _figures(table[:, :, 1], table[:, :, 0], self.k, False)
        ranks_by_row = dict(zip(counted, map(_ranks, figures), strict=True))
        return [ranks_by_row.get(task_row, Ranks()) for task_row in task_rows]

    def _exact_by_task_row(self) -> dict[int, Ranks]:
        """Return the metrics of each task, while the scores are still stored one by one."""
        if not self._scores:
            return {}
        scores, truth, task_rows = self._all_scores()
        order = np.argsort(task_rows, kind="stable")
        starts = np.flatnonzero(np.diff(task_rows[order], prepend=-1))
        by_task_row = {}
        for rows in np.split(order, starts[1:]):
            of_task = exact(scores[rows], truth[rows])
            by_task_row[int(task_rows[rows[0]])] = _ranks(_figures(of_task.positives, of_task.negatives, self.k, True))
        return by_task_row


def exact(scores: Floats, truth: NDArray[np.intp]) -> Ranking:
    """Rank each class by its scores (n, classes), without bins. A single column contains the scores of class 1."""
    positive = _positive(scores, truth)
    if scores.shape[1] == 1:
        values, positives, negatives = by_score(scores[:, 0], positive[:, 0])
        return Ranking(values, positives[None], negatives[None], True)
    values, inverse = np.unique(scores, return_inverse=True)
    inverse = inverse.reshape(scores.shape)
    counts = np.zeros((2, scores.shape[1], len(values)))
    np.add.at(counts, (positive.astype(np.intp), np.arange(scores.shape[1]), inverse), 1.0)
    return Ranking(values, counts[1], counts[0], True)


def _positive(scores: Floats, truth: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return, per example and ranked class, whether the example belongs to the class."""
    classes = np.arange(scores.shape[1]) if scores.shape[1] > 1 else np.array([1])
    positive: NDArray[np.bool_] = truth[:, None] == classes
    return positive


def _figures(positives: Floats, negatives: Floats, k: int, is_exact: bool) -> Floats:
    """Return AUC, average precision and precision at k of each class, as the last axis."""
    precision = average_precision(positives, negatives, is_exact)
    return np.stack([auc(positives, negatives), precision, precision_at(positives, negatives, k)], axis=-1)


def _ranks(figures: Floats) -> Ranks:
    """Return the means over the classes of figures (classes, 3)."""
    return Ranks(*(mean_of(column) for column in figures.T))
