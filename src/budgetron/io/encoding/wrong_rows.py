"""Find the rows of a table that cannot be used, with a reason for each. Called by `columns` and `stream`."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import shown
from budgetron.io.encoding.encode import parse_date_values
from budgetron.io.encoding.labels import label_of
from budgetron.io.encoding.values import NO_NAME, CodedColumn, parse_task
from budgetron.io.table import Table
from budgetron.learners.input.validation import LARGEST_OFFSET

if TYPE_CHECKING:
    from budgetron.io.encoding.columns import Columns

# The column and the value are written by `repr`, which uses double quotes for a text that contains a single quote.
_TEXT = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_NUMBER_EXPECTED = re.compile(rf"column {_TEXT} should be a number(?: but contains {_TEXT}$)?")


def wrong_rows(
    columns: Columns, table: Table, classes: Sequence[Any] | None = None, tasks: Collection[Any] | None = None
) -> dict[int, str]:
    """Return the rows that cannot be used, each with a sentence that says why."""
    wrong: dict[int, str] = {}
    # Readers mark a value that is not a number by infinity, because NaN already means a missing value.
    for row, column_index in np.argwhere(np.isinf(table.numbers)).tolist():
        wrong.setdefault(row, _not_a_number(columns, column_index))
    weights = columns.weights_in(table)
    if weights is not None:
        for row in np.flatnonzero(~(weights >= 0)).tolist():
            wrong.setdefault(row, f"column {columns.weight!r} should be a weight, a number >= 0, but is not")
    offsets = columns.offsets_in(table)
    if offsets is not None:
        for row in np.flatnonzero(~(np.abs(offsets) <= LARGEST_OFFSET)).tolist():
            expected = "should be a score in log odds, from -1e6 to 1e6, but is not"
            wrong.setdefault(row, f"column {columns.offset!r} {expected}")
    for column in columns.plan.columns:
        if column.kind == "date":
            expected = f"column {column.name!r} should be a date such as 2024-02-29"
            text = table.texts[column.name]
            _add_wrong(wrong, text, expected, ~np.isinf(parse_date_values(text.values, column.missing)))
    if columns.task in table.texts:
        _collect_wrong(wrong, table.texts[columns.task], f"column {columns.task!r} should name the task", _is_name)
        if tasks is not None:
            expected = f"column {columns.task!r} should be a task of the graph"
            _collect_wrong(wrong, table.texts[columns.task], expected, lambda text: parse_task(text.strip()) in tasks)
    if columns.label in table.texts:
        known = None if classes is None else set(classes)

        def is_label(text: str) -> bool:
            label = label_of(columns.plan, text)
            return label is not None and (known is None or label in known)

        what = "a label" if known is None else f"one of the labels {shown(sorted(known))}"
        _collect_wrong(wrong, table.texts[columns.label], f"column {columns.label!r} should be {what}", is_label)
    return wrong


def _not_a_number(columns: Columns, index: int) -> str:
    """Return the sentence for a value that is not a number in this column."""
    names = columns.selection(True).numbers
    number_format = next((column.format for column in columns.plan.columns if column.name == names[index]), "")
    example = f" such as {number_format}" if number_format else ""
    return f"column {names[index]!r} should be a number{example} but is not"


def number_expected(reason: str) -> tuple[str, str | None] | None:
    """Return the column that should be a number, and its value if the reason has it; None for another problem."""
    match = _NUMBER_EXPECTED.match(reason)
    if match is None:
        return None
    return ast.literal_eval(match[1]), None if match[2] is None else ast.literal_eval(match[2])


def _is_name(text: str) -> bool:
    return text.strip() not in NO_NAME


def _collect_wrong(wrong: dict[int, str], text: CodedColumn, expected: str, is_right: Any) -> None:
    """Add the rows whose value fails the test `is_right`. Each distinct value is tested once, not once per row."""
    _add_wrong(wrong, text, expected, np.array([is_right(value) for value in text.values], dtype=bool))


def _add_wrong(wrong: dict[int, str], text: CodedColumn, expected: str, is_valid: NDArray[np.bool_]) -> None:
    """Add the rows with an invalid value. `is_valid` has one entry per distinct value.

    A row that is in `wrong` already keeps its first problem.
    """
    if is_valid.all():
        return
    for row in np.flatnonzero(~is_valid[text.codes]).tolist():
        value = text.values[text.codes[row]]
        wrong.setdefault(row, f"{expected} but " + (f"contains {shown(value)}" if value.strip() else "is empty"))
