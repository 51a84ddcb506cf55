"""What each column of a file is, told from the first rows: number, category, date or text; label and task by name.

label     the column asked for; else the first named label, y, target or class; else the last
task      the column asked for; else the first named task, user, customer or device (also with _id); else there is one
number    at least 95 % of the values are numbers (others are then bad lines), gaps aside; inf counts, and is a bad line
date      at least 95 % are dates such as 2024-02-29 or 2024-02-29T12:30:00
text      three words a value and more, and more than half of the rows differ
ignored   no value at all; a different word on each of 100 rows or more; a first column that counts the rows
category  anything else: a column of X for each value, where there are at most 32 short ones; else hashed
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from budgetron.errors import refuse, shown
from budgetron.io.source import WHO
from budgetron.io.table import Table
from budgetron.io.values import (
    MISSING,
    NO_NAME,
    Coded,
    category_of,
    is_in_digits,
    is_meant_as_number,
    moment_of,
    number_of,
    whole_of,
)
from budgetron.persist.columns import is_hashed
from budgetron.persist.schema import Column, Plan

LABELS = ("label", "y", "target", "class")
TASKS = ("task", "user", "customer", "device", "task_id", "user_id", "customer_id", "device_id")
HASHED = 1 << 18  # columns of X for words and for categories that are many
MOST_ONE_HOT = 32  # values of a category that get a column of X each
MOST_ONE_HOT_IN_ALL = 512
LONGEST_ONE_HOT = 200  # characters; so what a model keeps of categories is bounded
MOST_CLASSES = 1000
AS_ASKED = "as asked"
_ENOUGH = 0.95
_MANY = 0.5  # numbers among the values of a category, from which on that may be a mistake
_COUNTERS = ("column 1", "Unnamed: 0", "rownames", "row_names", "index", "id")


def plan_of(
    names: list[str], sample: Table, *, label: str | None, task: str | None, drop: Iterable[str], text: Iterable[str],
    categorical: Iterable[str], labelled: bool,
) -> Plan:  # fmt: skip
    """The plan for files with these columns, from the first rows and what the caller knows."""
    asked = {"drop": _listed(drop), "text": _listed(text), "categorical": _listed(categorical)}
    for parameter, wanted in (asked | {"label": [label], "task": [task]}).items():
        for name in wanted:
            if name is not None and name not in names:
                raise refuse(WHO, parameter, f"among the columns {shown(names, 400)}", shown(name))
    task, task_note = (task, AS_ASKED) if task is not None else _default_task(names, label, asked["drop"])
    label_note = AS_ASKED
    if label is None:
        label, label_note = _default_label(names, task, asked["drop"], labelled)
    if label is not None and label == task:
        raise refuse(WHO, "task", "another column than the label", shown(task))
    columns = [
        _column(name, place, sample.texts[name], asked)
        for place, name in enumerate(names)
        if name not in (label, task)
    ]  # fmt: skip
    columns = _few_enough(columns)
    if all(column.kind == "ignored" for column in columns):
        raise refuse(WHO, "the file", "one with columns to learn from, beside label and task", shown(names))
    whole = label is not None and labelled and _are_whole(label, sample.texts[label])
    hashed = HASHED if any(map(is_hashed, columns)) else 0
    return Plan("table", label, whole, task, columns, hashed, label_note, task_note)


def sparse_plan(reader: Any, sample: Table, label: str | None, others: list[str], labelled: bool) -> Plan:
    """The plan for a format whose rows are sparse already."""
    if label not in (None, "label") or others:
        accepted = f"left alone: {reader.layout} has no named columns"
        raise refuse(WHO, "label, drop, text, categorical", accepted, shown([label, *others]))
    whole = labelled and _are_whole("label", sample.texts["label"])
    note = "none is asked for: all rows are one task" if reader.task is None else AS_ASKED
    return Plan(reader.layout, "label", whole, reader.task, [], reader.width, "the first word of a line", note)


def _listed(names: Any) -> list[str]:
    if isinstance(names, str):
        return [names]
    return list(names)


def _default_task(names: list[str], label: str | None, drop: list[str]) -> tuple[str | None, str]:
    free = {name.lower(): name for name in reversed(names) if name != label and name not in drop}
    for name in TASKS:
        if name in free:
            return free[name], "by its name"
    return None, "none is named: all rows are one task"


def _default_label(names: list[str], task: str | None, drop: list[str], labelled: bool) -> tuple[str | None, str]:
    free = {name.lower(): name for name in reversed(names) if name != task and name not in drop}
    for name in LABELS:
        if name in free:
            return free[name], "by its name"
    if not labelled:
        return None, ""
    if not free:
        raise refuse(WHO, "label", "a column of the file", "none that is left", "Name it: label=...")
    return next(iter(free.values())), "the last column: none is named label, y, target or class"


def _column(name: str, place: int, values: Coded, asked: dict[str, list[str]]) -> Column:
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
    n_numbers = sum(k for value, k in present.items() if is_meant_as_number(value))
    if n_numbers >= _ENOUGH * n:
        if place == 0 and name in _COUNTERS and _counts_rows(values):
            return Column(name, "ignored", note="it counts the rows")
        return Column(name, "number", gaps=gaps)
    if sum(k for value, k in present.items() if moment_of(value) is not None) >= _ENOUGH * n:
        clock = any((moment_of(value) or 0.0) % 1 for value in present)
        return Column(name, "date", gaps=gaps, clock=clock)
    words = sum(k * len(value.split()) for value, k in present.items())
    if words >= 3 * n and len(present) > n / 2:
        return Column(name, "text", note=f"{words / n:.0f} words a value, {len(present):,} different in {n:,} rows")
    if len(present) == n >= 100:
        return Column(name, "ignored", note="a different value on every row: a name, not a kind")
    return _category(name, values, counts, "" if n_numbers < _MANY * n else _doubt(present, n_numbers, n))


def _doubt(present: dict[str, int], n_numbers: int, n: int) -> str:
    """Why a category may be a column of numbers after all."""
    words = [value for value in present if not is_meant_as_number(value)]
    return f"though {n_numbers:,} of {n:,} values are numbers: {shown(words[0])} is none"


def _category(name: str, values: Coded, counts: Any, note: str) -> Column:
    """Gaps are a category too, the empty one."""
    seen = {category_of(value) for value, n in zip(values.values, counts, strict=True) if n}
    few = len(seen) <= MOST_ONE_HOT and all(len(value) <= LONGEST_ONE_HOT for value in seen)
    return Column(name, "category", values=sorted(seen) if few else None, note=note)


def _few_enough(columns: list[Column]) -> list[Column]:
    """All categories hashed, where a column of X for every value would be too many."""
    if sum(len(column.values or ()) for column in columns) <= MOST_ONE_HOT_IN_ALL:
        return columns
    return [Column(c.name, c.kind, c.gaps, c.clock, None, c.note) for c in columns]


def _counts_rows(values: Coded) -> bool:
    numbers = [number_of(values.values[code]) for code in values.codes[:200]]
    return len(numbers) > 1 and all(a is not None and b == a + 1 for a, b in pairwise(numbers))


def _are_whole(label: str, values: Coded) -> bool:
    """Whether labels are whole numbers; measurements are refused."""
    present = [value for value in values.values if value.strip() not in NO_NAME]
    if len(present) > MOST_CLASSES:
        raise refuse(
            WHO, "label", f"a column of classes, at most {MOST_CLASSES:,} in the first rows",
            f"{label!r} with {len(present):,} different values", "Name the right one: label=...",
        )  # fmt: skip
    if not present:
        return False
    fractions = [value for value in present if whole_of(value) is None]
    if fractions and all(map(is_in_digits, present)):
        raise refuse(
            WHO, "label", "a column of classes, not of measurements", f"{label!r} with values such as {fractions[0]}",
            "Name the right one: label=...; or make classes of it by a threshold.",
        )  # fmt: skip
    return not fractions
