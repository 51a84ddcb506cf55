"""Infer the types of a file's columns from its first rows: number, category, date or text; label and task by name.

label     the column asked for; else the first one named label, y, target or class; else the last column
task      the column asked for; else the first one named task, user, customer or device (also with _id); else all rows
          belong to one task
number    at least 95 % of the values present are numbers. The others are bad lines, and so are infinite numbers.
date      at least 95 % of the values present are dates such as 2024-02-29 or 2024-02-29T12:30:00
text      on average three words per value or more, and more than half of the rows differ
ignored   no value at all; a different word on each of 100 rows or more; a first column that numbers the rows
category  anything else: one column of X per value if there are at most 32 short values, otherwise hashed

`stream.read` calls this once per file without a saved model. The result never changes afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from budgetron.errors import InputError, shown
from budgetron.io.encoding.values import (
    MISSING,
    NO_NAME,
    CodedColumn,
    is_numeric_literal,
    looks_numeric,
    parse_category,
    parse_date,
    parse_integer,
    parse_number,
)
from budgetron.io.table import Table
from budgetron.persist.columns import is_hashed
from budgetron.persist.schema import Column, Plan

LABELS = ("label", "y", "target", "class")
TASKS = ("task", "user", "customer", "device", "task_id", "user_id", "customer_id", "device_id")
HASHED = 1 << 18  # columns of X for words and for categories with many values
MOST_ONE_HOT = 32  # values of one category that get their own column of X
MOST_ONE_HOT_IN_ALL = 512
LONGEST_ONE_HOT = 200  # characters; this bounds the bytes that a model keeps per category
MOST_CLASSES = 1000
AS_ASKED = "as asked"
_ENOUGH = 0.95  # share of numbers or dates that makes a column one of numbers or dates
_MANY = 0.5  # share of numbers among the values of a category above which the user is warned
_ROW_NUMBER_NAMES = ("column 1", "Unnamed: 0", "rownames", "row_names", "index", "id")


def infer_columns(
    names: list[str], sample: Table, *, label: str | None, task: str | None, drop: Iterable[str], text: Iterable[str],
    categorical: Iterable[str], labelled: bool,
) -> Plan:  # fmt: skip
    """Decide the role and type of each column, from the first rows and from what the caller asked for."""
    asked = {"drop": _listed(drop), "text": _listed(text), "categorical": _listed(categorical)}
    for parameter, wanted in (asked | {"label": [label], "task": [task]}).items():
        for name in wanted:
            if name is not None and name not in names:
                # Without a prefix, because the same sentence is shown by Python and by the command line.
                known = shown(names, 400)
                raise InputError(f"{parameter}: there is no column {shown(name)}. The columns are {known}.")
    task, task_note = (task, AS_ASKED) if task is not None else _default_task(names, label, asked["drop"])
    label_note = AS_ASKED
    if label is None:
        label, label_note = _default_label(names, task, asked["drop"], labelled)
    if label is not None and label == task:
        raise InputError(f"label and task are both the column {label!r}. Name two different columns.")
    columns = [
        _column(name, place, sample.texts[name], asked)
        for place, name in enumerate(names)
        if name not in (label, task)
    ]  # fmt: skip
    columns = _limit_one_hot(columns)
    if all(column.kind == "ignored" for column in columns):
        raise InputError(
            f"The file has no columns to learn from beside the label and the task. Its columns are "
            f"{shown(names)}; columns without a value in the first rows do not count."
        )
    whole = label is not None and labelled and _labels_are_integers(label, sample.texts[label])
    hashed = HASHED if any(map(is_hashed, columns)) else 0
    return Plan("table", label, whole, task, columns, hashed, label_note, task_note)


def sparse_columns(reader: Any, sample: Table, label: str | None, others: list[str], labelled: bool) -> Plan:
    """Return the roles for svmlight and Vowpal Wabbit, whose rows are sparse vectors already."""
    if label not in (None, "label") or others:
        raise InputError(
            f"label, drop, text and categorical name columns, but {reader.layout} has none; "
            f"got {shown([label, *others])}."
        )
    whole = labelled and _labels_are_integers("label", sample.texts["label"])
    note = "not asked for: all rows belong to one task" if reader.task is None else AS_ASKED
    return Plan(reader.layout, "label", whole, reader.task, [], reader.width, "the first word of a line", note)


def _listed(names: Any) -> list[str]:
    if isinstance(names, str):
        return [names]
    return list(names)


def _default_task(names: list[str], label: str | None, drop: list[str]) -> tuple[str | None, str]:
    free = {name.lower(): name for name in reversed(names) if name != label and name not in drop}
    for name in TASKS:
        if name in free:
            return free[name], "recognised by name"
    return None, "no column has such a name: all rows belong to one task"


def _default_label(names: list[str], task: str | None, drop: list[str], labelled: bool) -> tuple[str | None, str]:
    free = {name.lower(): name for name in reversed(names) if name != task and name not in drop}
    for name in LABELS:
        if name in free:
            return free[name], "recognised by name"
    if not labelled:
        return None, ""
    if not free:
        raise InputError("No column is left for the label. Name it: label=...")
    return next(iter(free.values())), "the last column: no column is named label, y, target or class"


def _column(name: str, place: int, values: CodedColumn, asked: dict[str, list[str]]) -> Column:
    counts = np.bincount(values.codes, minlength=len(values.values))
    each = zip(values.values, counts.tolist(), strict=True)
    present = {value: n for value, n in each if n and value.strip() not in MISSING}
    rows, n = len(values.codes), sum(present.values())
    gaps = n < rows
    if name in asked["drop"]:
        return Column(name, "ignored", note=AS_ASKED)
    if name in asked["text"]:
        return Column(name, "text", note=AS_ASKED)
    if name in asked["categorical"]:
        return _category(name, values, counts, AS_ASKED)
    if not present:
        return Column(name, "ignored", note="no value in the first rows")
    n_numbers = sum(k for value, k in present.items() if looks_numeric(value))
    if n_numbers >= _ENOUGH * n:
        if place == 0 and name in _ROW_NUMBER_NAMES and _numbers_the_rows(values):
            return Column(name, "ignored", note="it numbers the rows")
        return Column(name, "number", gaps=gaps)
    if sum(k for value, k in present.items() if parse_date(value) is not None) >= _ENOUGH * n:
        clock = any((parse_date(value) or 0.0) % 1 for value in present)
        return Column(name, "date", gaps=gaps, clock=clock)
    words = sum(k * len(value.split()) for value, k in present.items())
    if words >= 3 * n and len(present) > n / 2:
        note = f"{words / n:.0f} words per value, {len(present):,} distinct values in {n:,} rows"
        return Column(name, "text", note=note)
    if len(present) == n >= 100:
        return Column(name, "ignored", note="a different value on every row: an identifier")
    return _category(name, values, counts, "" if n_numbers < _MANY * n else _mostly_numbers(present, n_numbers, n))


def _mostly_numbers(present: dict[str, int], n_numbers: int, n: int) -> str:
    """Say why a category may be meant as a column of numbers."""
    words = [value for value in present if not looks_numeric(value)]
    return f"although {n_numbers:,} of {n:,} values are numbers: {shown(words[0])} is not"


def _category(name: str, values: CodedColumn, counts: Any, note: str) -> Column:
    """Return a category column. Missing values are a category too, the empty text."""
    seen = {parse_category(value) for value, n in zip(values.values, counts, strict=True) if n}
    few = len(seen) <= MOST_ONE_HOT and all(len(value) <= LONGEST_ONE_HOT for value in seen)
    return Column(name, "category", values=sorted(seen) if few else None, note=note)


def _limit_one_hot(columns: list[Column]) -> list[Column]:
    """Hash all categories if one column of X per value would be too many in all."""
    if sum(len(column.values or ()) for column in columns) <= MOST_ONE_HOT_IN_ALL:
        return columns
    return [Column(c.name, c.kind, c.gaps, c.clock, None, c.note) for c in columns]


def _numbers_the_rows(values: CodedColumn) -> bool:
    numbers = [parse_number(values.values[code]) for code in values.codes[:200]]
    return len(numbers) > 1 and all(a is not None and b == a + 1 for a, b in pairwise(numbers))


def _labels_are_integers(label: str, values: CodedColumn) -> bool:
    """Whether all labels are integers. Raises if the column looks like measurements, which are no classes."""
    present = [value for value in values.values if value.strip() not in NO_NAME]
    if len(present) > MOST_CLASSES:
        raise InputError(
            f"The label column {label!r} has {len(present):,} different values in the first rows; at most "
            f"{MOST_CLASSES:,} classes are accepted. If another column is the label, name it: label=..."
        )
    if not present:
        return False
    fractions = [value for value in present if parse_integer(value) is None]
    if fractions and all(map(is_numeric_literal, present)):
        raise InputError(
            f"The label column {label!r} contains measurements such as {fractions[0]}, not classes. "
            "If another column is the label, name it: label=...; or make classes of it by a threshold."
        )
    return not fractions
