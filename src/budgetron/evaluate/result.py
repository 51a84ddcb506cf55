"""What progressive validation found: a plain record."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from budgetron.evaluate import pictures
from budgetron.evaluate.calibration import Calibration
from budgetron.evaluate.confusion import Confusion
from budgetron.evaluate.counts import Figures
from budgetron.evaluate.curve import Point
from budgetron.evaluate.task_curves import TaskCurve
from budgetron.plots import MANY


@dataclass(frozen=True)
class Validation:
    """Figures of one pass.

    Attributes
    ----------
    overall : every example counts alike (micro)
    macro : every task counts alike; over the tasks of `per_task` alone
    per_task : by task, the first `max_tasks` that appeared
    others : the rest of the tasks together, None where there were none
    curve : one point a window, with the budget's share by task at its end
    calibration : None where the model gives no probabilities
    delay : how many examples later each label came
    confusion : which label was said where another was true; None past 256 classes
    task_curves : by task, examples and errors over time; the first 1,000 tasks of `per_task`
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

    def worst_first(self) -> list[tuple[Hashable, Figures]]:
        """The tasks of `per_task`, those first that are most surely bad.

        The order is by `error_at_least`: three errors in three examples say less than forty in a hundred.
        """
        return sorted(self.per_task.items(), key=lambda item: -item[1].error_at_least)

    def summary(self) -> str:
        """Two lines, micro and macro."""
        one = self.overall
        text = (
            f"{one.n:,} examples of {len(self.per_task):,}{'' if self.others is None else ' + other'} tasks: "
            f"{one.mistakes:,} mistakes, error {_percent(one.error)}, F {_percent(one.f_measure)}, "
            f"precision {_percent(one.precision)}, recall {_percent(one.recall)}"
        )
        if one.log_loss is not None and self.calibration is not None:
            text += f", log loss {one.log_loss:.3f}, calibration error {_percent(self.calibration.ece)}"
        error, f_measure = _percent(self.macro["error"]), _percent(self.macro["f_measure"])
        return f"{text}\nmean over tasks: error {error}, F {f_measure}"

    def plot_curve(self, figure: str = "error", *, ax: Any = None) -> Any:
        """A figure over the stream (`error`, `f_measure`, `precision`, `recall`, `log_loss`). Gives the Axes."""
        return pictures.curve(self, figure, ax)

    def plot_calibration(self, *, ax: Any = None) -> Any:
        """The share that came true against the probability that was said. Gives the Axes."""
        return pictures.calibration(self, ax)

    def plot_tasks(self, *, top: int = MANY, ax: Any = None) -> Any:
        """The error of the `top` tasks that are most surely bad. Gives the Axes."""
        return pictures.tasks(self, top, ax)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON (tasks become strings)."""
        return {
            "overall": self.overall.to_dict(),
            "macro": dict(self.macro),
            "per_task": {str(task): row.to_dict() for task, row in self.per_task.items()},
            "others": None if self.others is None else self.others.to_dict(),
            "curve": [point.to_dict() for point in self.curve],
            "calibration": None if self.calibration is None else self.calibration.to_dict(),
            "delay": self.delay,
            "confusion": None if self.confusion is None else self.confusion.to_dict(),
        }

    def __str__(self) -> str:
        return self.summary()


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
