"""Warnings about inferences from a file that may be wrong: the task, the types of columns, the labels.

`infer_types` collects them, `stream.read` logs them, and the command line prints them. A warning names the choice, and
says why it may be wrong and which argument of `io.read` changes it. The command line writes its own option instead of
this argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from budgetron.errors import shown

_RARE = 0.001  # a label with at most this share of the rows may be a typing error
_MIN_ROWS = 50  # with fewer rows, a rare label means nothing
# Dates such as 29.02.2024 or 2/29/24, whose order of day and month is unknown.
_OTHER_DATES = re.compile(r"[0-9]{1,2}([./-])[0-9]{1,2}\1([0-9]{2}|[0-9]{4})([ T].*)?", re.ASCII)


def about_task(task: str | None, note: str, candidates: Mapping[str, int]) -> list[str]:
    """Warn that another column may be the task. `candidates` maps such columns to their numbers of distinct values."""
    if not candidates:
        return []
    name = next(iter(candidates))
    others = " and ".join(f"{shown(other)} ({n:,} values)" for other, n in list(candidates.items())[:3])
    if task is None:
        return [f"No column was recognised as the task, so all rows belong to one task. {others} could be the task: "
                f"name it with task={quoted(name)}, or use it as a feature with "
                f"categorical=[{quoted(name)}]."]  # fmt: skip
    return [f"Column {shown(task)} is used as the task ({note}), but {others} could also be the task. To change it, "
            f"use task={quoted(name)}."]  # fmt: skip


def about_label(label: str, counts: Mapping[str, int]) -> list[str]:
    """Warn about rare labels that look like typing errors of frequent ones."""
    rows = sum(counts.values())
    if rows < _MIN_ROWS or len(counts) < 3:
        return []
    warnings = []
    for rare, n in counts.items():
        # A typing error is rare itself, and looks like a label that is at least 20 times as frequent.
        is_rare = n <= max(2, _RARE * rows)
        likely = [other for other, m in counts.items() if is_rare and m >= 20 * n and _look_alike(rare, other)]
        if likely:
            classes = ", ".join(quoted(other) for other in sorted(counts) if other != rare)
            times = "once" if n == 1 else f"{n} times"
            warnings.append(
                f"Label {shown(rare)} occurs {times} in the first {rows:,} rows of column {shown(label)}, and looks "
                f"like {shown(likely[0])}. It is a class of its own unless you name the classes with "
                f'classes=[{classes}] and leave other lines out with on_error="skip".'
            )
    return warnings


def about_number(name: str, value: str) -> str:
    """Warn that the decimal separator of a column of numbers cannot be inferred."""
    return (
        f"Column {shown(name)} is read as categories, because the decimal separator of {shown(value)} is unclear. "
        'Set decimal="," or decimal="." to read it as numbers.'
    )


def about_words(name: str, n_numbers: int, n: int, word: str) -> str:
    """Warn about a category whose values are mostly numbers."""
    return (
        f"Column {shown(name)} is read as categories, although {n_numbers:,} of {n:,} values are numbers: "
        f"{shown(word)} is not. If it means that a value is missing, use na_values=[{quoted(word)}]; otherwise "
        f"declare the column with categorical=[{quoted(name)}]."
    )


def about_dates(name: str, values: Mapping[str, int]) -> list[str]:
    """Warn about a category whose values look like dates, but are not written like 2024-02-29."""
    if len(values) < 2 or not all(map(_OTHER_DATES.fullmatch, values)):
        return []
    return [f"Column {shown(name)} is read as categories, although {shown(next(iter(values)))} looks like a date. "
            f"Write dates as 2024-02-29, or declare the column with categorical=[{quoted(name)}]."]  # fmt: skip


def about_repeated(name: str, renamed: str, same: bool) -> str:
    """Warn that two columns have the same name."""
    what = "has the same values" if same else "has other values"
    return (
        f"Two columns are called {shown(name)}; the second is called {shown(renamed)} here and {what}. Leave it out "
        f"with drop=[{quoted(renamed)}], or rename it in the file."
    )


def about_identifier(name: str, n: int) -> str:
    """Warn that a column of identifiers is left out, if the caller named another column as the task."""
    return (
        f"Column {shown(name)} is left out, because its name says that its {n:,} numbers are identifiers. Use it with "
        f"categorical=[{quoted(name)}]."
    )


def quoted(text: str) -> str:
    """Return the text as a Python string in double quotes, for an argument that a message suggests."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _look_alike(first: str, second: str) -> bool:
    """Return whether one label may be a typing error of the other: they differ in case, or in one or two letters."""
    if first == second:
        return False
    if first.casefold() == second.casefold():
        return True
    # "class 1" and "class 2" are different labels and not typing errors.
    if re.sub(r"[0-9]", "", first) == re.sub(r"[0-9]", "", second) or min(len(first), len(second)) < 3:
        return False
    return _distance(first.casefold(), second.casefold()) <= (1 if min(len(first), len(second)) == 3 else 2)


def _distance(first: str, second: str) -> int:
    """Return the Levenshtein distance: the number of letters to insert, delete or replace.

    The result is 3 if the labels are too long to compare, or if their lengths differ by more than 2.
    """
    # The distance is at least the difference in length. The time grows with the product of the lengths.
    if abs(len(first) - len(second)) > 2 or len(first) > 100:
        return 3
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, start=1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(second, start=1):
            # One row of the dynamic program: replace, delete or insert a letter.
            diagonal, row[j] = row[j], min(diagonal + (letter != other), row[j] + 1, row[j - 1] + 1)
    return row[-1]
