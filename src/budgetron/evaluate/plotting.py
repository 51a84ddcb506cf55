"""Plot a validation with matplotlib (the extra `plot`). Called by the `plot_…` methods of `Validation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from budgetron.errors import InputError, input_error, shown
from budgetron.plots import COLOURS, axes_for, bars, checked_top

if TYPE_CHECKING:
    from budgetron.evaluate.metrics.ranking import Ranking
    from budgetron.evaluate.result import Validation

_FIGURES = {
    "error": "error, %", "f_measure": "F, %", "precision": "precision, %", "recall": "recall, %",
    "precision_at_k": "precision at k, %",
}  # fmt: skip
_NUMBERS = {"auc": "AUC", "average_precision": "average precision", "log_loss": "log loss", "brier": "Brier score"}
_WHO = "Validation"


def curve(validation: Validation, figure: str, ax: Any) -> Any:
    """Plot a metric over the stream: per window, and over all examples so far."""
    if figure not in _FIGURES | _NUMBERS:
        raise input_error(_WHO, "figure", "one of " + ", ".join(_FIGURES | _NUMBERS), shown(figure))
    # Shares are plotted in per cent.
    scale = 1.0 if figure in _NUMBERS else 100.0
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
    ax.set_ylabel((_FIGURES | _NUMBERS)[figure])
    ax.set_ylim(bottom=0)
    ax.legend()
    return ax


def calibration(validation: Validation, ax: Any) -> Any:
    """Plot reliability: the share that came true against the predicted probability. A larger dot has more examples."""
    if validation.calibration is None:
        raise InputError(f"{_WHO}: no calibration, because the model gives no probabilities. Budgetron gives them.")
    bins = validation.calibration.bins()
    ax = axes_for(_WHO, ax)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--")
    max_count = max(bin_["n"] for bin_ in bins)
    predicted, true = [bin_["predicted"] for bin_ in bins], [bin_["came_true"] for bin_ in bins]
    ax.plot(predicted, true, color=COLOURS[0], linewidth=1)
    ax.scatter(predicted, true, s=[8 + 120 * bin_["n"] / max_count for bin_ in bins], color=COLOURS[0])
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("share that came true")
    ax.set_title(f"calibration error {100 * validation.calibration.ece:.1f} %")
    ax.set_aspect("equal")
    return ax


def tasks(validation: Validation, top: int, ax: Any) -> Any:
    """Plot the errors of the first tasks of `Validation.worst_first` as bars."""
    worst = validation.worst_first()[: checked_top(_WHO, top)]
    ax = axes_for(_WHO, ax)
    names = [f"{task} ({row.n:,})" for task, row in worst]
    bars(ax, names, [100 * (row.error or 0.0) for _, row in worst], "error, % (examples in brackets)", COLOURS[2])
    if validation.overall.error is not None:
        ax.axvline(100 * validation.overall.error, color="0.4", linestyle="--", linewidth=1, label="all")
        ax.legend()
    return ax


def roc(validation: Validation, ax: Any) -> Any:
    """Plot the ROC curve, and the diagonal of random scores."""
    fpr, tpr = _ranking(validation).roc()
    ax = axes_for(_WHO, ax)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--")
    ax.plot(fpr, tpr, color=COLOURS[0], linewidth=2)
    ax.set_xlabel("share of negatives above the threshold")
    ax.set_ylabel("share of positives above the threshold")
    ax.set_title(f"AUC {validation.overall.auc or 0.0:.3f}")
    ax.set_aspect("equal")
    return ax


def precision_recall(validation: Validation, ax: Any) -> Any:
    """Plot precision against recall, and the share of positives (the precision of random scores)."""
    ranking = _ranking(validation)
    recall, precision = ranking.precision_recall()
    positives = ranking.positives.sum()
    ax = axes_for(_WHO, ax)
    ax.axhline(positives / (positives + ranking.negatives.sum()), color="0.6", linewidth=1, linestyle="--")
    ax.plot(recall, precision, color=COLOURS[0], linewidth=2, drawstyle="steps-pre")
    ax.set_xlabel("recall")
    ax.set_ylabel("precision")
    ax.set_ylim(0, 1.02)
    ax.set_title(f"average precision {validation.overall.average_precision or 0.0:.3f}")
    return ax


def _ranking(validation: Validation) -> Ranking:
    """Return the ranking; raise an error if there is none to plot."""
    if validation.ranking is None or validation.overall.auc is None:
        raise InputError(f"{_WHO}: nothing can be ranked, because there is one class only, or more than 64 classes.")
    return validation.ranking
