"""Parse the labels of a file as integers, booleans or words; the `Plan` of the file says which.

Called by `columns`, `stream` and `wrong_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import input_error, shown
from budgetron.io.encoding.values import NO_NAME, CodedColumn, format_value, parse_integer, parse_truth
from budgetron.io.table import Table
from budgetron.persist.schema import Plan

MAX_LABEL = 1000  # the longest label, in characters


def label_of(plan: Plan, text: str) -> int | str | None:
    """Parse a label; None if the text is not a label of this kind."""
    if plan.whole_labels:
        return parse_integer(text)
    if plan.truth_labels:
        return parse_truth(text)
    stripped = text.strip()
    return stripped if stripped not in NO_NAME and len(stripped) <= MAX_LABEL else None


def labels_of(plan: Plan, text: CodedColumn) -> NDArray[Any]:
    """Return the label of each row. Rows without a label must have been removed before."""
    distinct = [label_of(plan, value) for value in text.values]
    if plan.whole_labels:
        return np.array([0 if label is None else label for label in distinct], dtype=np.int64)[text.codes]
    if plan.truth_labels:
        return np.array([bool(label) for label in distinct], dtype=np.bool_)[text.codes]
    return np.array(["" if label is None else label for label in distinct], dtype=np.str_)[text.codes]


def classes_in(plan: Plan, table: Table) -> list[Any] | None:
    """Return the sorted labels of a table; None if there are fewer than two. For boolean labels, False and True."""
    if plan.label is None:
        return None
    if plan.truth_labels:
        return [False, True]
    # `label_of` is None for texts that are not labels; their rows are bad lines.
    labels = {label for text in table.texts[plan.label].values if (label := label_of(plan, text)) is not None}
    return sorted(labels) if len(labels) > 1 else None


def parsed_classes(plan: Plan, classes: Sequence[Any]) -> list[Any]:
    """Convert classes that a caller named, as text or as values, to the kind of labels in this file."""
    parsed = [label_of(plan, format_value(label)) for label in classes]
    if None in parsed:
        kind = "integers" if plan.whole_labels else "true and false" if plan.truth_labels else "text"
        got = shown(classes[parsed.index(None)])
        raise input_error("io.read", "classes", f"{kind}, like the labels of column {plan.label!r}", got)
    return sorted(set(parsed))
