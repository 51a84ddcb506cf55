"""Infer the types of a file's columns from its first rows: number, category, date or text; label and task by name.

label     the column that the caller named; otherwise the column named label; otherwise y, target or class, in this
          order; otherwise the last column
task      the column that the caller named; otherwise the column named task, user, customer or device, in this order,
          also with an ending such as _id; otherwise all rows belong to one task
number    at least 95 % of the values are numbers, missing values aside. A row with another value, or with an infinite
          number, is a bad line. Decimal commas and thousands separators are recognised; words such as n.a. are missing
          values.
date      at least 95 % of the values are dates such as 2024-02-29 or 2024-02-29T12:30:00, missing values aside
text      at least three words per value on average, and the number of different values is more than half the number of
          rows with a value
ignored   a column without values; words, if there are at least 100 and no two are equal; a first column that numbers
          the rows and is named accordingly, such as id; integers whose column name says that they are identifiers, if
          there are at least 100 and no two are equal, or if there are more than 32 different ones and each occurs at
          least twice on average
category  any other column. If it has at most 32 values and all are short, X has one column per value, and one for all
          other values. Otherwise the values are hashed. If all columns with few short values together have more than
          512 values, these columns are hashed too

`stream.read` calls this once per file, unless its caller passes the columns of a saved model. The result never changes
afterwards.
Choices that may be wrong are reported as sentences (`choice_warnings`), so that no guess is silent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, cast

import msgspec
import numpy as np

from budgetron.errors import InputError, shown
from budgetron.io.encoding import choice_warnings
from budgetron.io.encoding.column_options import ColumnOptions
from budgetron.io.encoding.encode import parse_date_values
from budgetron.io.encoding.number_formats import ENOUGH, NA_LIKE, NumberFormat, infer_formats
from budgetron.io.encoding.task_column import default_task, is_candidate, is_identifier
from budgetron.io.encoding.values import (
    MISSING,
    NO_NAME,
    CodedColumn,
    format_value,
    is_numeric_literal,
    parse_category,
    parse_integer,
    parse_number,
    parse_truth,
)
from budgetron.io.table import Table
from budgetron.persist.columns import is_hashed
from budgetron.persist.schema import Column, Plan

LABELS = ("label", "y", "target", "class")
HASHED = 1 << 18  # the number of columns of X that words and large categories are hashed to
MAX_ONE_HOT = 32  # a category with more values than this is hashed
MAX_ONE_HOT_TOTAL = 512
MAX_ONE_HOT_LENGTH = 200  # characters of a value; this bounds the bytes of a category in a saved model
MAX_CLASSES = 1000
AS_ASKED = "as asked"
_BY_NAME = "recognised by name"
_MANY_NUMBERS = 0.5  # warn about a category if at least this share of its values are numbers
# Names that pandas, R and this package give to a first column without a name, and common names for row numbers.
_ROW_NUMBER_NAMES = ("column 1", "Unnamed: 0", "rownames", "row_names", "index", "id")


def infer_columns(reader: Any, sample: Table, options: ColumnOptions, labelled: bool) -> tuple[Plan, list[str]]:
    """Decide the role and the type of each column, by the caller's arguments and the first rows.

    Returns the plan, and one sentence per choice that may be wrong.
    """
    names: list[str] = reader.names
    for parameter, name in options.columns():
        if name not in names:
            # Without the prefix "io.read", because the command line shows the same sentence.
            known = shown(names, 400)
            raise InputError(f"{parameter}: there is no column {shown(name)}. The columns are {known}.")
    task, task_note = (options.task, AS_ASKED) if options.task is not None else _default_task(names, options)
    label, label_note = options.label, AS_ASKED
    if label is None:
        label, label_note = _default_label(names, task, options, labelled)
    _check_roles({"label": label, "task": task, "weight": options.weight, "offset": options.offset})
    # Columns with a role of their own are not features.
    with_role = (label, task, options.weight, options.offset)
    inference = _Inference(sample, options, [name for name in names if name not in with_role], reader.typed)
    columns = _limit_one_hot([inference.column(name, names.index(name)) for name in inference.present])
    if all(column.kind == "ignored" for column in columns):
        raise InputError(
            f"The file has no columns to learn from besides the label and the task. Its columns are "
            f"{shown(names)}; columns without a value in the first rows and identifiers do not count."
        )
    warnings = inference.warnings
    if options.task is None:
        warnings = choice_warnings.about_task(task, task_note, inference.candidates) + warnings
    else:
        left_out = {name: n for name, n in inference.candidates.items() if name in inference.left_out}
        warnings += [choice_warnings.about_identifier(name, n) for name, n in left_out.items()]
    kind = _label_kind(label, sample.texts[label]) if label is not None and labelled else "text"
    if kind == "truth" and any(parse_truth(format_value(value)) is None for value in options.classes or ()):
        kind = "text"  # the caller named a further class, which the first rows do not contain
    if label is not None and labelled and kind == "text" and options.classes is None:
        warnings += choice_warnings.about_label(label, _value_counts(sample.texts[label], NO_NAME))
    for name, renamed in getattr(reader, "renamed", ()):
        if renamed not in options.drop:
            warnings.append(choice_warnings.about_repeated(name, renamed, _same_values(sample, name, renamed)))
    hashed = HASHED if any(map(is_hashed, columns)) else 0
    plan = Plan("table", label, kind == "integers", task, columns, hashed, label_note, task_note,
                kind == "truth", options.weight, options.offset)  # fmt: skip
    return plan, warnings


def sparse_columns(reader: Any, sample: Table, options: ColumnOptions, labelled: bool) -> Plan:
    """Return the plan for svmlight and Vowpal Wabbit files, whose rows are already sparse vectors."""
    # The plan below calls the first word of a line "label", so this name is accepted.
    accepted = [("label", "label"), ("task", options.task)]
    named = [name for parameter, name in options.columns() if (parameter, name) not in accepted]
    if named:
        raise InputError(
            f"label, weight, offset, drop, text and categorical name columns, but {reader.layout} has none; "
            f"got {shown(named)}."
        )
    integer_labels = labelled and _label_kind("label", sample.texts["label"]) == "integers"
    note = "not asked for: all rows belong to one task" if reader.task is None else AS_ASKED
    note = _BY_NAME if reader.task is not None and options.task is None else note
    return Plan(reader.layout, "label", integer_labels, reader.task, [], reader.width, "the first word of a line", note)


def _check_roles(roles: Mapping[str, str | None]) -> None:
    """Reject a column that was named for two roles."""
    named_roles = [(role, name) for role, name in roles.items() if name is not None]
    for i, (role, name) in enumerate(named_roles):
        for other, other_name in named_roles[i + 1 :]:
            if name == other_name:
                raise InputError(f"{role} and {other} are both the column {name!r}. Name two different columns.")


def _default_task(names: list[str], options: ColumnOptions) -> tuple[str | None, str]:
    """Return the task column by its name, and a note that says how it was chosen."""
    others = (options.label, options.weight, options.offset, *options.drop, *options.text, *options.categorical)
    task = default_task(name for name in names if name not in others)
    if task is None:
        return None, "no column is named task, user, customer or device: all rows belong to one task"
    return task, _BY_NAME


def _default_label(
    names: list[str], task: str | None, options: ColumnOptions, labelled: bool
) -> tuple[str | None, str]:
    """Return the label column by its name, otherwise the last column, and a note on the choice."""
    other_roles = (task, options.weight, options.offset, *options.drop)
    free = [name for name in names if name not in other_roles]
    for label in LABELS:
        for name in free:
            if name.lower() == label:
                return name, _BY_NAME
    if not labelled:
        return None, ""
    if not free:
        raise InputError("No column is left for the label. Name it: label=...")
    return free[-1], "the last column; none is named label, y, target or class"


def _value_counts(values: CodedColumn, missing: Iterable[str]) -> dict[str, int]:
    """Return how many rows have each value, without missing ones."""
    counts = np.bincount(values.codes, minlength=len(values.values))
    pairs = zip(values.values, counts.tolist(), strict=True)
    return {value: n for value, n in pairs if n and value.strip() not in missing}


def _same_values(sample: Table, name: str, other: str) -> bool:
    first, second = (
        [column.values[code] for code in column.codes] for column in (sample.texts[name], sample.texts[other])
    )
    return first == second


class _Inference:
    """Infers the types of columns one by one, and collects warnings and candidates for the task."""

    def __init__(self, sample: Table, options: ColumnOptions, names: list[str], typed: bool) -> None:
        self._sample, self._options = sample, options
        missing = MISSING.union(options.na_values)
        # How often each value of a column occurs in the first rows, without missing values.
        self.present = {name: _value_counts(sample.texts[name], missing) for name in names}
        # The decimal separator of the file is inferred only from columns whose type is inferred.
        free = {name: values for name, values in self.present.items()
                if name not in (*options.drop, *options.text, *options.categorical)}  # fmt: skip
        self._formats = infer_formats(free, options.decimal, typed)
        self.warnings: list[str] = []
        self.candidates: dict[str, int] = {}  # columns that may be the task → number of values
        self.left_out: set[str] = set()  # candidates that are not used as features either

    def column(self, name: str, index: int) -> Column:
        """Infer the kind of a column from its name and its values in the first rows."""
        options, present = self._options, self.present[name]
        if name in options.drop:
            return Column(name, "ignored", note=AS_ASKED)
        if name in options.text:
            return Column(name, "text", note=AS_ASKED)
        if name in options.categorical:
            return self._category(name, AS_ASKED)
        if not present:
            return Column(name, "ignored", note="no value in the first rows")
        if is_candidate(name, present):
            self.candidates[name] = len(present)
        n = sum(present.values())
        # `infer_formats` returns None if the format is ambiguous: treat the column as plain, and warn below.
        number_format = NumberFormat(self._formats.get(name) or "", options.na_values)
        words = [value for value in present if not number_format.is_number(value)]
        n_numbers = n - sum(present[word] for word in words)
        like_na = [word for word in words if word.strip().casefold() in NA_LIKE]
        n_others = n - sum(present[word] for word in like_na)  # the rows that are not missing
        if n_numbers and n_numbers >= ENOUGH * n_others:
            return self._number(name, index, number_format, like_na)
        parsed = parse_date_values(list(present)).tolist()
        days = {value: None if day == math.inf else day for value, day in zip(present, parsed, strict=True)}
        if sum(present[value] for value, day in days.items() if day is not None) >= ENOUGH * n_others > 0:
            clock = any((day or 0.0) % 1 for day in days.values())
            missing = self._missing_codes(word for word in like_na if days[word] is None)
            gaps, note = self._has_missing(name, missing), _note("", missing, options)
            return Column(name, "date", gaps=gaps, clock=clock, note=note, missing=missing)
        n_words = sum(k * len(value.split()) for value, k in present.items())
        if n_words >= 3 * n and len(present) > n / 2:
            note = f"{n_words / n:.0f} words per value, {len(present):,} distinct values in {n:,} rows"
            return Column(name, "text", note=note)
        if len(present) == n >= 100:
            return Column(name, "ignored", note="a different value on every row: an identifier")
        self._warn_of_category(name, words, n_numbers, n)
        return self._category(name, "" if n_numbers < _MANY_NUMBERS * n else _mostly_numbers(words, n_numbers, n))

    def _number(self, name: str, index: int, number_format: NumberFormat, like_na: list[str]) -> Column:
        """Return the column as numbers, unless its name and values show that it is an identifier."""
        present, options = self.present[name], self._options
        values = self._sample.texts[name]
        if index == 0 and name in _ROW_NUMBER_NAMES and _numbers_the_rows(values):
            return Column(name, "ignored", note="it numbers the rows")
        is_integer_id = is_identifier(name) and all(parse_integer(value) is not None for value in present)
        # `present` counts the rows per value: if every value occurs once, the column identifies the rows.
        if is_integer_id and len(present) == sum(present.values()) >= 100:
            return Column(name, "ignored", note="a different value on every row: an identifier")
        if is_integer_id and name in self.candidates:
            if len(present) <= MAX_ONE_HOT:
                return self._category(name, "an identifier by its name")
            self.left_out.add(name)
            return Column(name, "ignored", note="an identifier by its name")
        missing = self._missing_codes(like_na)
        form = number_format.format
        note = _note(f"written as {form}" if form else "", missing, options)
        return Column(name, "number", gaps=self._has_missing(name, missing), note=note, format=cast(Any, form),
                      missing=missing)  # fmt: skip

    def _missing_codes(self, detected: Iterable[str]) -> list[str]:
        """Return the words for missing values in a column: those that the caller named and those that were detected."""
        return sorted({*self._options.na_values, *(word.strip() for word in detected)})

    def _has_missing(self, name: str, missing: list[str]) -> bool:
        rows = len(self._sample.texts[name].codes)
        return rows > sum(n for value, n in self.present[name].items() if value.strip() not in missing)

    def _warn_of_category(self, name: str, words: list[str], n_numbers: int, n: int) -> None:
        """Warn if a column that became a category was probably meant as numbers or dates."""
        present = self.present[name]
        if self._formats.get(name, "") is None:
            self.warnings.append(choice_warnings.about_number(name, next(value for value in present if "," in value)))
        elif n_numbers >= _MANY_NUMBERS * n:
            self.warnings.append(choice_warnings.about_words(name, n_numbers, n, words[0]))
        else:
            self.warnings += choice_warnings.about_dates(name, present)

    def _category(self, name: str, note: str) -> Column:
        """Return a category column. Missing values are a category too, the empty text."""
        missing = list(self._options.na_values)
        values = self._sample.texts[name]
        counts = np.bincount(values.codes, minlength=len(values.values))
        seen = {parse_category(value, missing) for value, n in zip(values.values, counts, strict=True) if n}
        is_one_hot = len(seen) <= MAX_ONE_HOT and all(len(value) <= MAX_ONE_HOT_LENGTH for value in seen)
        return Column(name, "category", values=sorted(seen) if is_one_hot else None, note=note, missing=missing)


def _note(number_format: str, missing: list[str], options: ColumnOptions) -> str:
    """Return a note: how numbers are written, and which values count as missing."""
    not_named = [code for code in missing if code not in options.na_values]
    codes = f"{', '.join(map(shown, not_named[:5]))} count as missing" if len(not_named) > 1 else ""
    codes = f"{shown(not_named[0])} counts as missing" if len(not_named) == 1 else codes
    return ", ".join(part for part in (number_format, codes) if part)


def _mostly_numbers(words: list[str], n_numbers: int, n: int) -> str:
    """Return a note: why a category may have been meant as a column of numbers."""
    return f"although {n_numbers:,} of {n:,} values are numbers: {shown(words[0])} is not"


def _limit_one_hot(columns: list[Column]) -> list[Column]:
    """Hash all categories if the one-hot ones have more than `MAX_ONE_HOT_TOTAL` values together."""
    if sum(len(column.values or ()) for column in columns) <= MAX_ONE_HOT_TOTAL:
        return columns
    return [msgspec.structs.replace(column, values=None) for column in columns]


def _numbers_the_rows(values: CodedColumn) -> bool:
    numbers = [parse_number(values.values[code]) for code in values.codes[:200]]
    return len(numbers) > 1 and all(a is not None and b == a + 1 for a, b in pairwise(numbers))


def _label_kind(label: str, values: CodedColumn) -> str:
    """Return "integers", "truth" or "text". Raise an error for too many values, and for measurements."""
    present = [value for value in values.values if value.strip() not in NO_NAME]
    if len(present) > MAX_CLASSES:
        raise InputError(
            f"The label column {label!r} has {len(present):,} different values in the first rows; at most "
            f"{MAX_CLASSES:,} classes are accepted. If another column is the label, name it: label=..."
        )
    if not present:
        return "text"
    if all(value.strip().lower() in ("true", "false") for value in present):
        return "truth"
    # Values that are not integers: words, or fractions if all values are numbers.
    fractions = [value for value in present if parse_integer(value) is None]
    if fractions and all(map(is_numeric_literal, present)):
        raise InputError(
            f"The label column {label!r} contains measurements such as {fractions[0]}, not classes. "
            "If another column is the label, name it: label=...; or make classes of it by a threshold."
        )
    return "text" if fractions else "integers"
