"""The sections about confusions between labels and about the calibration of probabilities."""

from __future__ import annotations

import numpy as np

from budgetron.evaluate import Confusion, Validation
from budgetron.report.page import as_count, as_percent, escape, name_of
from budgetron.report.parts import Chart, Section, chart, paragraph, rounded, table

_CLASSES = 12  # with more classes, only the most frequent confusions are listed
_PAIRS = 20


def confusion(validation: Validation) -> Section | None:
    """Return the section with the table of true and predicted labels."""
    counted = validation.confusion
    if counted is None:
        if not validation.overall.n:
            return None
        return Section("confusion", "Confusion", paragraph("There are too many classes for a table."))
    parts = [_square(counted)] if len(counted.classes) <= _CLASSES else []
    if len(counted.classes) > 2:
        parts.append(_most_confused(counted))
    return Section("confusion", "Confusion", "".join(parts))


def _square(counted: Confusion) -> str:
    labels = [name_of(label, 24) for label in counted.classes]
    heads = "".join(f'<th scope="col" class="number">{escape(label)}</th>' for label in labels)
    rows = []
    for i, label in enumerate(labels):
        whole = max(int(counted.counts[i].sum()), 1)
        cells = "".join(
            f'<td class="number{" right" if i == j else ""}">{as_count(n)}<small>{as_percent(n / whole)}</small></td>'
            for j, n in enumerate(counted.counts[i].tolist())
        )
        rows.append(f'<tr><th scope="row">{escape(label)}</th>{cells}</tr>')
    return (
        paragraph("Rows are true labels, columns predicted; shares are of the row. Correct ones are framed.", "note")
        + '<div class="scroll" tabindex="0" role="group" aria-label="Confusion"><table class="shaded">'
        f'<thead><tr><th scope="col">true \\ predicted</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _most_confused(counted: Confusion) -> str:
    counts = counted.counts.copy()
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[:_PAIRS]
    rows = []
    for place in order.tolist():
        true, said = divmod(place, len(counts))
        if counts[true, said]:
            share = counts[true, said] / max(int(counted.counts[true].sum()), 1)
            pair = f"{name_of(counted.classes[true], 24)} predicted as {name_of(counted.classes[said], 24)}"
            rows.append((pair, as_count(counts[true, said]), as_percent(share)))
    return table(("Most often confused", "Times", "Of that class"), rows) if rows else paragraph("No errors.")


def calibration(validation: Validation) -> Section | None:
    """Return the section with the reliability curve; None if the model gives no probabilities."""
    counted = validation.calibration
    if counted is None or not counted.n.sum():
        return None
    bins = counted.bins()
    says = (
        "The share of examples that came true, against the predicted probability. Perfect probabilities lie on the "
        f"dashed line. The expected calibration error, the mean distance from it, is {as_percent(counted.ece)}."
    )
    rows = [(as_percent(row["predicted"]), as_percent(row["came_true"]), as_count(row["n"])) for row in bins]
    figures = table(("Predicted", "Came true", "Examples"), rows, caption="Calibration")
    # The ends 0 and 1 carry no observation; they let the dashed line cross the whole chart.
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
    markup = f'<div class="pair">{chart("reliability", "Reliability", says, figures)}</div>'
    return Section("calibration", "Calibration", markup, {"reliability": reliability})
