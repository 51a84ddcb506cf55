"""Plot a validation with matplotlib (the extra `plot`). Called by the `plot_…` methods of `Validation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from budgetron.errors import InputError, refuse, shown
from budgetron.plots import COLOURS, axes_for, bars, checked_top

if TYPE_CHECKING:
    from budgetron.evaluate.result import Validation

_FIGURES = {"error": "error, %", "f_measure": "F, %", "precision": "precision, %", "recall": "recall, %"}
_WHO = "Validation"


def curve(validation: Validation, figure: str, ax: Any) -> Any:
    """Plot a figure over the stream: per window, and of all examples so far."""
    if figure not in (*_FIGURES, "log_loss"):
        raise refuse(_WHO, "figure", "one of " + ", ".join([*_FIGURES, "log_loss"]), shown(figure))
    scale = 1.0 if figure == "log_loss" else 100.0
    ax = axes_for(_WHO, ax)
    for what, colour, width in (("window", COLOURS[1], 1.0), ("so_far", COLOURS[0], 2.0)):
        points = [
            (point.position, scale * value)
            for point in validation.curve
            if (value := getattr(getattr(point, what), figure)) is not None
        ]
        if points:
            label = "per window" if what == "window" else "so far"
            ax.plot(*zip(*points, strict=True), color=colour, linewidth=width, label=label)
    if not ax.lines:
        raise InputError(f"{_WHO}: {figure} is undefined on the whole stream. Plot another figure, such as error.")
    ax.set_xlabel("examples")
    ax.set_ylabel(_FIGURES.get(figure, "log loss"))
    ax.set_ylim(bottom=0)
    ax.legend()
    return ax


def calibration(validation: Validation, ax: Any) -> Any:
    """Plot reliability: the share that came true against the predicted probability. Larger dots are more examples."""
    if validation.calibration is None:
        raise InputError(f"{_WHO}: no calibration, because the model gives no probabilities. Budgetron gives them.")
    bins = validation.calibration.bins()
    ax = axes_for(_WHO, ax)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--")
    most = max(each["n"] for each in bins)
    said, true = [each["predicted"] for each in bins], [each["came_true"] for each in bins]
    ax.plot(said, true, color=COLOURS[0], linewidth=1)
    ax.scatter(said, true, s=[8 + 120 * each["n"] / most for each in bins], color=COLOURS[0])
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("share that came true")
    ax.set_title(f"calibration error {100 * validation.calibration.ece:.1f} %")
    ax.set_aspect("equal")
    return ax


def tasks(validation: Validation, top: int, ax: Any) -> Any:
    """Plot the error of the tasks with the highest lower confidence limit, as bars."""
    worst = validation.worst_first()[: checked_top(_WHO, top)]
    ax = axes_for(_WHO, ax)
    names = [f"{task} ({row.n:,})" for task, row in worst]
    bars(ax, names, [100 * (row.error or 0.0) for _, row in worst], "error, % (examples in brackets)", COLOURS[2])
    if validation.overall.error is not None:
        ax.axvline(100 * validation.overall.error, color="0.4", linestyle="--", linewidth=1, label="all")
        ax.legend()
    return ax


