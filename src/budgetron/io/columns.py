"""The columns of a file: what each is, and the running scales; from the first rows, kept with the model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import refuse, refuse_type, shown
from budgetron.io.encode import encoded, feature_names
from budgetron.io.guess import AS_ASKED
from budgetron.io.scaling import Scaling
from budgetron.io.table import Table, Wants, table_of
from budgetron.io.values import NO_NAME, Coded, moment_of, task_of, whole_of
from budgetron.persist.columns import ARRAYS, Kept, is_hashed, width
from budgetron.persist.schema import Plan

MAX_LABEL = 1000  # characters


class Described(NamedTuple):
    """A line of the table that says what was made of a file."""

    column: str
    role: str  # label, task, feature or ignored
    kind: str
    makes: str  # columns of X
    note: str


class Block(NamedTuple):
    """Some rows: X, labels, tasks, and the lines of the file they begin on (rows of a binary file), from 1.

    `y` is None where no labels are read, `tasks` where all rows are one task, `weights` where the format has none.
    """

    X: Any
    y: NDArray[Any] | None
    tasks: NDArray[Any] | None
    rows: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.rows)


class Columns:
    """What the columns of a file are and become, with the scales learned so far.

    Made by `budgetron.io.read` from the first rows of a file, or by `load_model` from a model file.

    >>> from io import BytesIO
    >>> from budgetron import io
    >>> file = BytesIO(b"user,age,colour,bought\\nann,20,red,no\\nbob,,blue,yes\\nann,40,red,no\\n")
    >>> with io.read(file) as stream:
    ...     columns = stream.columns
    >>> columns.label, columns.task, columns.names
    ('bought', 'user', ['age', 'colour'])
    >>> columns.encode([{"age": 30, "colour": "blue"}]).tolist()
    [[0.0, 0.0, 1.0, 0.0, 0.0]]
    >>> columns.feature_names
    ['age', 'age missing', 'colour=blue', 'colour=red', 'colour=other']
    """

    def __init__(self, plan: Plan, scaling: Scaling) -> None:
        self.plan = plan
        self.scaling = scaling

    # ---- what they are

    @property
    def label(self) -> str | None:
        """The column that holds the label."""
        return self.plan.label

    @property
    def task(self) -> str | None:
        """The column that holds the task; None where all rows are one task."""
        return self.plan.task

    @property
    def names(self) -> list[str]:
        """The columns that X is made of."""
        return [column.name for column in self.plan.columns if column.kind != "ignored"]

    @property
    def feature_names(self) -> list[str]:
        """The names of the columns of X; those that values are hashed into have none, and come last."""
        return feature_names(self.plan)

    @property
    def n_features(self) -> int:
        """The columns of X."""
        return self.plan.hashed + sum(map(width, self.plan.columns))

    @property
    def sparse(self) -> bool:
        """Whether X is a CSR matrix."""
        return self.plan.hashed > 0

    @property
    def memory_bytes(self) -> int:
        """Bytes of names, categories and scales, which a model carries beside its own. They do not grow."""
        plan = self.plan
        texts = [plan.label or "", plan.task or "", plan.label_note, plan.task_note]
        for column in plan.columns:
            texts += [column.name, column.note, *(column.values or ())]
        columns = sum(map(sys.getsizeof, plan.columns))
        return columns + sum(map(sys.getsizeof, texts)) + sum(array.nbytes for array in self.saved().arrays.values())

    def describe(self) -> list[Described]:
        """A line for each column: what it is taken for, what it becomes, and why."""
        plan = self.plan
        lines = []
        if plan.label is not None:
            kind = "whole numbers" if plan.whole_labels else "text"
            lines.append(Described(plan.label, "label", kind, "", plan.label_note))
        lines.append(Described(plan.task or "", "task", "" if plan.task is None else "name", "", plan.task_note))
        if plan.layout != "table":
            lines.append(Described("", "feature", plan.layout, f"hashed into {plan.hashed:,}", "not scaled"))
        for column in plan.columns:
            role = "ignored" if column.kind == "ignored" else "feature"
            makes = f"hashed into {plan.hashed:,}" if is_hashed(column) else str(width(column) or "")
            note = ", ".join(part for part in (column.note, "gaps marked" if column.gaps else "") if part)
            lines.append(Described(column.name, role, "" if role == "ignored" else column.kind, makes, note))
        return lines

    def doubts(self) -> list[str]:
        """What was taken for a category and may be numbers, a sentence each."""
        doubtful = [c for c in self.plan.columns if c.kind == "category" and c.note not in ("", AS_ASKED)]
        return [
            f"Column {column.name!r} is taken for a category, {column.note}. "
            "Leave fields without a value empty; or say that it is categorical."
            for column in doubtful
        ]

    def __repr__(self) -> str:
        made = f"{self.n_features:,} of {'a CSR matrix' if self.sparse else 'an array'}"
        return f"<Columns {shown(self.names)} to {made}; label {self.label!r}, task {self.task!r}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Columns):
            return NotImplemented
        ours, theirs = self.saved().arrays, other.saved().arrays
        return self.plan == other.plan and all(np.array_equal(ours[name], theirs[name]) for name in ARRAYS)

    __hash__ = None  # type: ignore[assignment]

    # ---- from and to a model file

    @classmethod
    def of(cls, kept: Kept) -> Columns:
        """The columns of a model file, going on where they stopped."""
        return cls(kept.plan, Scaling(*(kept.arrays[name].copy() for name in ARRAYS)))

    def saved(self) -> Kept:
        """The plan and the scales as a model file has them."""
        return Kept(self.plan, {name: getattr(self.scaling, name) for name in ARRAYS})

    # ---- rows to X

    def encode(self, records: Any, learn: bool = False) -> Any:
        """X of records: a list of dicts, or a dict (or frame) of columns.

        Columns that are not known are ignored, and one that is absent is missing. With `learn` the scales go on.
        """
        return self._block(records, self._features(), learn).X

    def block(self, records: Any, labelled: bool = False, learn: bool = False) -> Block:
        """X, tasks and, if wanted, labels of records; see `encode`."""
        return self._block(records, self.wants(labelled), learn)

    def _block(self, records: Any, wants: Wants, learn: bool) -> Block:
        table = self._table(records, wants)
        wrong = self.wrong_rows(table)
        if wrong:
            row = min(wrong)
            raise refuse("Columns.encode", f"record {row}", *wrong[row].split("; got ", 1))
        return self.block_of(table, learn)

    def _features(self) -> Wants:
        used = [column for column in self.plan.columns if column.kind != "ignored"]
        numbers = tuple(column.name for column in used if column.kind == "number")
        return Wants(numbers, tuple(column.name for column in used if column.kind != "number"))

    def wants(self, labelled: bool) -> Wants:
        """The columns to be read, and as what."""
        numbers, texts = self._features()
        names = (self.label if labelled else None, self.task)
        return Wants(numbers, (*texts, *(name for name in names if name is not None)))

    def wrong_rows(self, table: Table, classes: Sequence[Any] | None = None) -> dict[int, str]:
        """The rows that cannot be used, and why: "what is accepted; got what came"."""
        wrong: dict[int, str] = {}
        for row, place in np.argwhere(np.isinf(table.numbers)).tolist():
            name = self._features().numbers[place]
            wrong.setdefault(row, f"with a number in column {name!r}; got something else")
        for column in self.plan.columns:
            if column.kind == "date":
                accepted = f"with a date such as 2024-02-29 in column {column.name!r}"
                _note(wrong, table.texts[column.name], accepted, _is_moment)
        if self.task in table.texts:
            _note(wrong, table.texts[self.task], f"with a task in column {self.task!r}", _is_name)
        if self.label in table.texts:
            known = None if classes is None else set(classes)

            def is_label(text: str) -> bool:
                label = self._label_of(text)
                return label is not None and (known is None or label in known)

            what = "a label" if known is None else f"one of the labels {shown(sorted(known))}"
            _note(wrong, table.texts[self.label], f"with {what} in column {self.label!r}", is_label)
        return wrong

    def block_of(self, table: Table, learn: Any) -> Block:
        """The rows of a table, none of which is wrong."""
        if self.plan.layout == "table":
            X = encoded(self.plan, self.scaling, table.numbers, table.texts, learn)
        else:
            X = table.sparse
        y = self._labels(table.texts[self.label]) if self.label in table.texts else None
        tasks = _tasks(table.texts[self.task]) if self.task in table.texts else None
        return Block(X, y, tasks, table.lines, table.weights)

    def _label_of(self, text: str) -> int | str | None:
        if self.plan.whole_labels:
            return whole_of(text)
        stripped = text.strip()
        return stripped if stripped not in NO_NAME and len(stripped) <= MAX_LABEL else None

    def classes_in(self, table: Table) -> list[Any] | None:
        """The labels of a table, sorted; None where there are fewer than two."""
        if self.label is None:
            return None
        labels = {label for text in table.texts[self.label].values if (label := self._label_of(text)) is not None}
        return sorted(labels) if len(labels) > 1 else None

    def _labels(self, text: Coded) -> NDArray[Any]:
        each = [self._label_of(value) for value in text.values]
        if self.plan.whole_labels:
            return np.array([0 if label is None else label for label in each], dtype=np.int64)[text.codes]
        return np.array(["" if label is None else label for label in each], dtype=np.str_)[text.codes]

    def _table(self, records: Any, wants: Wants) -> Table:
        if self.plan.layout != "table":
            came = f"one of {self.plan.layout} files"
            raise refuse("Columns.encode", "the model", "one that learned from a table", came)
        values = _columns_of(records, [*wants.numbers, *wants.texts])
        n = len(next(iter(values.values())))
        return table_of(values, wants, np.arange(1, n + 1), shown)


def _is_moment(text: str) -> bool:
    return moment_of(text) is not None


def _is_name(text: str) -> bool:
    return text.strip() not in NO_NAME


def _note(wrong: dict[int, str], text: Coded, accepted: str, is_right: Any) -> None:
    """Note the rows whose value is not right."""
    fine = np.array([is_right(value) for value in text.values], dtype=bool)
    if fine.all():
        return
    for row in np.flatnonzero(~fine[text.codes]).tolist():
        came = text.values[text.codes[row]]
        wrong.setdefault(row, f"{accepted}; got {shown(came) if came.strip() else 'nothing'}")


def _tasks(text: Coded) -> NDArray[Any]:
    each = [task_of(value.strip()) for value in text.values]
    if all(type(task) is int for task in each):
        return np.array(each, dtype=np.int64)[text.codes]
    names = np.empty(len(each), dtype=object)
    names[:] = each
    return names[text.codes]


def _columns_of(records: Any, names: list[str]) -> dict[str, list[Any]]:
    """Records as columns of values; None where a record has none."""
    if hasattr(records, "columns") and hasattr(records, "to_dict"):  # a frame
        known = {name: records[name].to_list() for name in records.columns if name in set(names)}
        records = known or {"": [None] * len(records)}
    if isinstance(records, Mapping):
        lengths = {len(values) for values in records.values()}
        if len(lengths) != 1:
            raise refuse("Columns.encode", "records", "columns of one length", f"lengths {sorted(lengths)}")
        n = lengths.pop()
        return {name: list(records[name]) if name in records else [None] * n for name in names}
    if not isinstance(records, Sequence) or not all(isinstance(record, Mapping) for record in records):
        raise refuse_type("Columns.encode", "records", "a list of dicts, or a dict of columns", shown(records))
    return {name: [record.get(name) for record in records] for name in names}
