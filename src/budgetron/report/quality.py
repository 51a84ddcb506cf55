"""What was taken for what, and whether probabilities mean what they say."""

from __future__ import annotations

import numpy as np

from budgetron.evaluate import Confusion, Validation
from budgetron.report.page import as_count, as_percent, escape, name_of
from budgetron.report.parts import Section, paragraph, picture, table
from budgetron.report.pictures import reliability

_CLASSES = 12  # of the table; with more, the pairs most often confused
_PAIRS = 20


def confusion(validation: Validation) -> Section | None:
    """The table of true and predicted labels."""
    counted = validation.confusion
    if counted is None:
        if not validation.overall.n:
            return None
        return Section("confusion", "Confusion", paragraph("There are too many classes for a table of them."))
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
        paragraph("True label down, predicted label across; shares are of the row. Right answers are framed.", "note")
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
            pair = f"{name_of(counted.classes[true], 24)} taken for {name_of(counted.classes[said], 24)}"
            rows.append((pair, as_count(counts[true, said]), as_percent(share)))
    return table(("Most often confused", "Times", "Of that class"), rows) if rows else paragraph("No errors.")


def calibration(validation: Validation) -> Section | None:
    """The reliability of the probabilities; None where there are none."""
    counted = validation.calibration
    if counted is None or not counted.n.sum():
        return None
    bins = counted.bins()
    says = (
        f"Of the cases that were given a probability, how many came true; on the dashed line the two agree. "
        f"The expected calibration error is {as_percent(counted.ece)}. Larger dots stand for more examples."
    )
    rows = [(as_percent(row["predicted"]), as_percent(row["came_true"]), as_count(row["n"])) for row in bins]
    figures = table(("Probability given", "Came true", "Examples"), rows, caption="Calibration")
    return Section("calibration", "Calibration", picture("What came true", reliability(bins, says), says, figures))
