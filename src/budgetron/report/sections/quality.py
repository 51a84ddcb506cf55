"""The sections about the ranking (ROC, precision and recall), the confusion matrix and the calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.evaluate import Confusion, Validation
from budgetron.report.page import as_count, as_decimal, as_percent, escape, name_of
from budgetron.report.parts import Chart, Section, chart, paragraph, rounded, table

_MAX_CLASSES = 12  # with more classes, only the most frequent confusions are listed
_MAX_PAIRS = 20
Floats = NDArray[np.float64]


def confusion(validation: Validation) -> Section | None:
    """Return the section with the table of true and predicted labels."""
    matrix = validation.confusion
    if matrix is None:
        if not validation.overall.n:
            return None
        return Section("confusion", "Confusion", paragraph("There are too many classes for a table."))
    parts = [_matrix_table(matrix)] if len(matrix.classes) <= _MAX_CLASSES else []
    if len(matrix.classes) > 2:
        parts.append(_most_confused(matrix))
    return Section("confusion", "Confusion", "".join(parts))


def _matrix_table(matrix: Confusion) -> str:
    """Return the confusion matrix as a table."""
    labels = [name_of(label, 24) for label in matrix.classes]
    heads = "".join(f'<th scope="col" class="number">{escape(label)}</th>' for label in labels)
    rows = []
    for i, label in enumerate(labels):
        total = max(int(matrix.counts[i].sum()), 1)
        cells = "".join(
            f'<td class="number{" right" if i == j else ""}">{as_count(n)}<small>{as_percent(n / total)}</small></td>'
            for j, n in enumerate(matrix.counts[i].tolist())
        )
        rows.append(f'<tr><th scope="row">{escape(label)}</th>{cells}</tr>')
    return (
        paragraph("Rows are true labels, columns predicted ones. Shares are per row. Correct cells are framed.", "note")
        + '<div class="scroll" tabindex="0" role="group" aria-label="Confusion"><table class="shaded">'
        f'<thead><tr><th scope="col">true \\ predicted</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _most_confused(matrix: Confusion) -> str:
    """Return a table of the pairs of classes that are confused most often."""
    counts = matrix.counts.copy()
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[:_MAX_PAIRS]
    rows = []
    for cell in order.tolist():
        true, predicted = divmod(cell, len(counts))
        if counts[true, predicted]:
            share = counts[true, predicted] / max(int(matrix.counts[true].sum()), 1)
            pair = f"{name_of(matrix.classes[true], 24)} predicted as {name_of(matrix.classes[predicted], 24)}"
            rows.append((pair, as_count(counts[true, predicted]), as_percent(share)))
    return table(("Most often confused", "Times", "Of that class"), rows) if rows else paragraph("No errors.")


def ranking(validation: Validation) -> Section | None:
    """Return the section with the ROC and the precision-recall curve; None if nothing can be ranked."""
    ranks, overall = validation.ranking, validation.overall
    if ranks is None or overall.auc is None:
        return None
    fpr, tpr = ranks.roc()
    recall, precision = ranks.precision_recall()
    # A browser need not draw more than about 200 points of each curve.
    kept = _spread(fpr)
    fpr, tpr = fpr[kept], tpr[kept]
    kept = _spread(recall)
    recall, precision = recall[kept], precision[kept]
    charts: dict[str, Chart] = {
        "roc": _unit_chart(fpr, tpr, "share of negatives", "share of positives", diagonal=fpr),
        "pr": _unit_chart(recall, precision, "recall", "precision", diagonal=None),
    }
    share = validation.share_of_positives
    if share is not None:
        charts["pr"]["mark"] = {"label": "random", "value": rounded(share)}
    roc = (
        "The shares of positives and of negatives above a threshold, for all thresholds. The area below is the "
        f"AUC, {as_decimal(overall.auc)}{_within(ranks.auc_within)}. The dashed line is the curve of random scores."
    )
    pr = (
        "Precision, the share of positives among the examples above a threshold, against recall, the share of all "
        "positives that are above it. "
        f"The area below is the average precision, {as_decimal(overall.average_precision)}"
        f"{_within(ranks.average_precision_within)}."
    )
    rows = [
        (as_count(k), as_percent(at_k)) for k in (10, 30, 100, 300, 1000, 3000, 10000)
        if (at_k := ranks.precision_at(k)) is not None
    ]  # fmt: skip
    numbers = table(("Highest scores", "Precision"), rows, caption="Precision at k")
    parts = chart("roc", "ROC curve", roc) + chart("pr", "Precision and recall", pr, numbers)
    return Section("ranking", "Ranking", f'<div class="pair">{parts}</div>', charts)


def _within(error: float | None) -> str:
    """Return in words how exact an area is; empty if it is exact. On long streams, only counts in bins are known."""
    return "" if not error else f" (within {error:.3f})"


def _spread(x: Floats) -> NDArray[np.intp]:
    """Return about 200 positions, spread evenly over the values of x, with the first and the last."""
    wanted = np.linspace(x[0], x[-1], 200)
    return np.unique(np.concatenate([[0], np.searchsorted(x, wanted).clip(0, len(x) - 1), [len(x) - 1]]))


def _unit_chart(x: Floats, y: Floats, x_label: str, y_label: str, diagonal: Floats | None) -> Chart:
    """Describe a chart with both axes from 0 to 1. `diagonal` is the line of random scores, if it is to be drawn."""
    series: list[dict[str, Any]] = [{"label": y_label, "values": [rounded(value) for value in y.tolist()]}]
    if diagonal is not None:
        series.append({"label": "random", "values": [rounded(value) for value in diagonal.tolist()], "thin": True})
    return {
        "x": [rounded(value) for value in x.tolist()], "xLabel": x_label, "xFormat": "percent", "format": "percent",
        "range": [0, 1], "height": 320, "sync": y_label, "series": series,
    }  # fmt: skip


def calibration(validation: Validation) -> Section | None:
    """Return the section with the reliability curve; None if the model gives no probabilities."""
    counts = validation.calibration
    if counts is None or not counts.n.sum():
        return None
    bins = counts.bins()
    caption = (
        "How often predictions came true, against their predicted probability. Perfect probabilities lie on the "
        f"dashed line. The expected calibration error, the mean distance from that line, is {as_percent(counts.ece)}."
    )
    rows = [(as_percent(row["predicted"]), as_percent(row["came_true"]), as_count(row["n"])) for row in bins]
    numbers = table(("Predicted", "Came true", "Examples"), rows, caption="Calibration")
    # The ends 0 and 1 have no observation. They are added so that the dashed line crosses the complete chart.
    x = [0.0, *(rounded(row["predicted"]) for row in bins), 1.0]
    observed = [None, *(rounded(row["came_true"]) for row in bins), None]
    reliability: Chart = {
        "x": x,
        "xLabel": "predicted probability",
        "xFormat": "percent",
        "format": "percent",
        "range": [0, 1],
        "height": 320,
        "sync": "calibration",
        "series": [
            {"label": "came true", "values": observed, "points": True},
            {"label": "perfect", "values": x, "thin": True},
        ],
    }
    markup = f'<div class="pair">{chart("reliability", "Reliability", caption, numbers)}</div>'
    return Section("calibration", "Calibration", markup, {"reliability": reliability})
