"""`Validation`: the result of progressive validation."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from budgetron.decisions.words import decimal, percent
from budgetron.evaluate import plotting
from budgetron.evaluate.curve import Point
from budgetron.evaluate.drift import Alarm
from budgetron.evaluate.metrics.calibration import Calibration
from budgetron.evaluate.metrics.confusion import Confusion, rare_label
from budgetron.evaluate.metrics.counts import Figures
from budgetron.evaluate.metrics.ranking import Ranking
from budgetron.evaluate.task_curves import TaskCurve
from budgetron.learners.input.classes import label_text
from budgetron.plots import MANY


@dataclass(frozen=True)
class Validation:
    """The figures of one pass over a stream.

    Attributes
    ----------
    overall : the figures over all examples (micro average)
    macro : the mean of the figures over the tasks in `per_task` (macro average)
    per_task : the figures per task, for the first `max_tasks` tasks that appeared
    others : the figures of all other tasks together; None if there are none
    curve : one point per window; beyond 512 points, neighbouring windows are merged and the window doubles
    calibration : None if the model gives no probabilities
    delay : how many further examples were predicted before a label arrived
    confusion : which label was predicted for which true label; None without examples, or with more than 256 classes
    task_curves : examples and errors over time per task, for the first 1,000 tasks of `per_task`
    ranking : the scores of all examples by class, for ROC and precision-recall curves and precision at any k; None
        without examples, or with more than 64 classes
    k : the k of `precision_at_k`: how many of the highest scores count
    alarms, n_alarms : the latest 100 drift alarms, oldest first, and the number of all alarms
    """

    overall: Figures
    macro: Mapping[str, float | None]
    per_task: Mapping[Hashable, Figures]
    others: Figures | None
    curve: list[Point]
    calibration: Calibration | None
    delay: int
    confusion: Confusion | None = None
    task_curves: Mapping[Hashable, TaskCurve] = field(default_factory=dict)
    ranking: Ranking | None = None
    k: int = 100
    alarms: list[Alarm] = field(default_factory=list)
    n_alarms: int = 0

    @property
    def rare(self) -> tuple[Any, float] | None:
        """The rarer of two labels and its share, if the share is below 10 %; otherwise None.

        If a label is rare, the error says little, because always predicting the other label has nearly the same error.
        Read `auc` and `average_precision` instead.
        """
        return rare_label(self.confusion)

    @property
    def share_of_positives(self) -> float | None:
        """The share of the positive label, the second of two; None unless there are two labels.

        Random scores have this average precision.
        """
        if self.confusion is None or len(self.confusion.classes) != 2 or not self.confusion.counts.sum():
            return None
        return float(self.confusion.counts[1].sum() / self.confusion.counts.sum())

    def worst_first(self) -> list[tuple[Hashable, Figures]]:
        """Return the tasks of `per_task`, sorted by the lower confidence limit of their error, highest first.

        The limit is `Figures.error_at_least`. A task with 40 errors in 100 examples comes before one with 3 errors in
        3, because three examples say little about the error.
        """
        return sorted(self.per_task.items(), key=lambda item: -item[1].error_at_least)

    def summary(self) -> str:
        """Return two lines of text: micro and macro averages."""
        overall = self.overall
        counted = f"{overall.n:,} examples of {len(self.per_task):,}{'' if self.others is None else ' + other'} tasks: "
        errors = (
            f"{overall.mistakes:,} mistakes, error {percent(overall.error)}, F {percent(overall.f_measure)}, "
            f"precision {percent(overall.precision)}, recall {percent(overall.recall)}"
        )
        ranked = f"AUC {decimal(overall.auc)}, average precision {decimal(overall.average_precision)}"
        if self.rare is None:
            text = f"{counted}{errors}, {ranked}"
        else:
            # If one label is rare, the error is small for any learner, so the ranking comes first.
            text = f"{counted}{ranked} ({percent(self.rare[1])} are {self.rare[0]}), {errors}"
        if overall.log_loss is not None and self.calibration is not None:
            text += (
                f", log loss {overall.log_loss:.3f}, Brier score {decimal(overall.brier)}, "
                f"calibration error {percent(self.calibration.ece)}"
            )
        error, f_measure = percent(self.macro["error"]), percent(self.macro["f_measure"])
        return f"{text}\nmean over tasks: error {error}, F {f_measure}"

    def plot_curve(self, figure: str = "error", *, ax: Any = None) -> Any:
        """Plot how a figure changes over the stream, with one point per window. Returns the Axes.

        `figure` is the name of the figure: error, f_measure, precision, recall, auc, average_precision, precision_at_k,
        log_loss or brier.
        """
        return plotting.curve(self, figure, ax)

    def plot_calibration(self, *, ax: Any = None) -> Any:
        """Plot the observed share of the positive label against its predicted probability. Returns the Axes.

        With more than two classes, it is the share of right predictions against their probability.
        """
        return plotting.calibration(self, ax)

    def plot_roc(self, *, ax: Any = None) -> Any:
        """Plot the ROC curve: true positive rate against false positive rate. Returns the Axes."""
        return plotting.roc(self, ax)

    def plot_precision_recall(self, *, ax: Any = None) -> Any:
        """Plot precision against recall, over all thresholds. Returns the Axes."""
        return plotting.precision_recall(self, ax)

    def plot_tasks(self, *, top: int = MANY, ax: Any = None) -> Any:
        """Plot the error of the first `top` tasks of `worst_first`, by default 20. Returns the Axes."""
        return plotting.tasks(self, top, ax)

    def to_dict(self) -> dict[str, Any]:
        """Return `rare` and all attributes except `task_curves` as a dict for JSON; tasks become strings."""
        return {
            "overall": self.overall.to_dict(),
            "macro": dict(self.macro),
            "per_task": {str(task): row.to_dict() for task, row in self.per_task.items()},
            "others": None if self.others is None else self.others.to_dict(),
            "curve": [point.to_dict() for point in self.curve],
            "calibration": None if self.calibration is None else self.calibration.to_dict(),
            "delay": self.delay,
            "confusion": None if self.confusion is None else self.confusion.to_dict(),
            "ranking": None if self.ranking is None else self.ranking.to_dict(),
            "k": self.k,
            "alarms": [alarm.to_dict() for alarm in self.alarms],
            "n_alarms": self.n_alarms,
            "rare": None if self.rare is None else {"label": label_text(self.rare[0]), "share": self.rare[1]},
        }

    def __str__(self) -> str:
        return self.summary()
