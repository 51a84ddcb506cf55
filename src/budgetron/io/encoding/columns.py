"""`Columns`: describes the columns of a file, and turns its rows into X, y and tasks.

`stream.read` creates it from the first rows of a file, `model_files.load_model` from a saved model. It is saved with
the model, so that the model can encode a single record years later exactly as it encoded its training rows. The
encoding of a column must never change after the first rows, or the columns of X would change their meaning.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import InputError, input_error, input_type_error, shown
from budgetron.io.encoding.encode import encode_rows, feature_names, hashed_names
from budgetron.io.encoding.infer_types import AS_ASKED
from budgetron.io.encoding.labels import labels_of
from budgetron.io.encoding.number_formats import NumberFormat
from budgetron.io.encoding.running_scale import RunningScale
from budgetron.io.encoding.values import CodedColumn, parse_task
from budgetron.io.encoding.wrong_rows import number_expected, wrong_rows
from budgetron.io.table import Selection, Table, table_from_values
from budgetron.learners.input.nested import flattened
from budgetron.persist.columns import ARRAYS, SavedColumns, is_hashed, width
from budgetron.persist.schema import Plan


class ColumnSummary(NamedTuple):
    """How one column of a file is used; `Columns.describe` returns one per column."""

    column: str
    role: str  # label, task, weight, offset, feature or ignored
    kind: str
    output: str  # how many columns of X it becomes, or that it is hashed
    note: str  # why it has this role and kind


class Block(NamedTuple):
    """A block of rows: X, labels, tasks, and the line of the file on which each row begins, counted from 1.

    `y` is None if no labels are read. `tasks` is None if all rows belong to one task. `weights` is None if the file has
    none.
    """

    X: Any
    y: NDArray[Any] | None
    tasks: NDArray[Any] | None
    rows: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None
    # Returns the names of columns of X. A hashed column has a name only if a row of this block uses it.
    names: Callable[[], dict[int, str]] | None = None
    offsets: NDArray[np.float64] | None = None  # another model's scores, if the file has a column with them

    def __len__(self) -> int:
        return len(self.rows)


class Columns:
    """The columns of a file: their types, how they become X, and the means and deviations learned so far.

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

    def __init__(self, plan: Plan, scaling: RunningScale, warnings: Sequence[str] = ()) -> None:
        self.plan = plan
        self.scaling = scaling
        self._warnings = tuple(warnings)

    # ---- description

    @property
    def label(self) -> str | None:
        """The name of the column with the label."""
        return self.plan.label

    @property
    def task(self) -> str | None:
        """The name of the column with the task; None if all rows belong to one task."""
        return self.plan.task

    @property
    def weight(self) -> str | None:
        """The name of the column with the weight of each example; None if there is none."""
        return self.plan.weight

    @property
    def offset(self) -> str | None:
        """The name of the column with another model's score; None if there is none."""
        return self.plan.offset

    @property
    def names(self) -> list[str]:
        """The names of the columns that X is made from."""
        return [column.name for column in self.plan.columns if column.kind != "ignored"]

    @property
    def feature_names(self) -> list[str]:
        """The names of the columns of X. Hashed columns come last and have no names."""
        return feature_names(self.plan)

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return self.plan.hashed + sum(map(width, self.plan.columns))

    @property
    def sparse(self) -> bool:
        """Whether X is a CSR matrix."""
        return self.plan.hashed > 0

    @property
    def memory_bytes(self) -> int:
        """Bytes of names, categories and scales, which do not grow. The model's own memory is counted separately."""
        plan = self.plan
        role_columns = (plan.label, plan.task, plan.weight, plan.offset)
        texts = [*(name or "" for name in role_columns), plan.label_note, plan.task_note]
        for column in plan.columns:
            texts += [column.name, column.note, *(column.values or ()), *column.missing]
        columns = sum(map(sys.getsizeof, plan.columns))
        return columns + sum(map(sys.getsizeof, texts)) + sum(array.nbytes for array in self.saved().arrays.values())

    def describe(self) -> list[ColumnSummary]:
        """Return one summary per column: its role, its kind, its columns of X, and why."""
        plan = self.plan
        lines = []
        if plan.label is not None:
            kind = "integers" if plan.whole_labels else "true or false" if plan.truth_labels else "text"
            lines.append(ColumnSummary(plan.label, "label", kind, "", plan.label_note))
        lines.append(ColumnSummary(plan.task or "", "task", "" if plan.task is None else "name", "", plan.task_note))
        if plan.weight is not None:
            lines.append(ColumnSummary(plan.weight, "weight", "number", "", AS_ASKED))
        if plan.offset is not None:
            lines.append(ColumnSummary(plan.offset, "offset", "log odds", "", AS_ASKED))
        if plan.layout != "table":
            lines.append(ColumnSummary("", "feature", plan.layout, f"hashed into {plan.hashed:,}", "not scaled"))
        for column in plan.columns:
            role = "ignored" if column.kind == "ignored" else "feature"
            output = f"hashed into {plan.hashed:,}" if is_hashed(column) else str(width(column) or "")
            missing = "with an indicator for missing values" if column.gaps else ""
            note = ", ".join(part for part in (column.note, missing) if part)
            lines.append(ColumnSummary(column.name, role, "" if role == "ignored" else column.kind, output, note))
        return lines

    def warnings(self) -> list[str]:
        """Return one sentence per choice that may be wrong: the task, the type of a column, a label; with the remedy.

        The sentences are about the first rows of a file. They are not saved, so a loaded model has none.
        """
        return list(self._warnings)

    def __repr__(self) -> str:
        features = f"{self.n_features:,} of {'a CSR matrix' if self.sparse else 'an array'}"
        return f"<Columns {shown(self.names)} to {features}; label {self.label!r}, task {self.task!r}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Columns):
            return NotImplemented
        own_arrays, other_arrays = self.saved().arrays, other.saved().arrays
        return self.plan == other.plan and all(np.array_equal(own_arrays[name], other_arrays[name]) for name in ARRAYS)

    __hash__ = None  # type: ignore[assignment]

    # ---- model files

    @classmethod
    def of(cls, saved: SavedColumns) -> Columns:
        """Restore the columns of a model file, with the scales as they were saved."""
        return cls(saved.plan, RunningScale(*(saved.arrays[name].copy() for name in ARRAYS)))

    def saved(self) -> SavedColumns:
        """Return the column types and scales in the form that a model file stores."""
        return SavedColumns(self.plan, {name: getattr(self.scaling, name) for name in ARRAYS})

    # ---- rows to X

    def encode(self, records: Any, learn: bool = False) -> Any:
        """Encode records as X. Records are a list of dicts, a dict of columns, or a data frame.

        Nested dicts are flattened. Unknown columns are ignored, and absent columns count as missing values; but a
        record that has only unknown columns is rejected. With `learn`, these records update the means and deviations.
        """
        return self.encode_checked(self.checked(records), learn)

    def encode_checked(self, records: Any, learn: bool = False) -> Any:
        """Encode records that `checked` returned earlier, such as records in a write-ahead log."""
        return self._block(records, self._features(), learn).X

    def checked(self, records: Any, who: str = "Columns.encode", parameter: str = "the record") -> Any:
        """Return the records with nested dicts flattened. Raise an error if a record has only unknown columns."""
        if isinstance(records, Sequence) and all(isinstance(record, Mapping) for record in records):
            records = [flattened(record) for record in records]
            names_of_records: list[Any] = [record.keys() for record in records]
        elif hasattr(records, "to_dict") and hasattr(records, "columns"):  # a data frame, checked like one record
            names_of_records = [records.columns]
        else:  # a dict of columns, checked like one record
            names_of_records = [records.keys()] if isinstance(records, Mapping) else []
        known = set(self.names)
        for row, names in enumerate(names_of_records if self.plan.layout == "table" else ()):
            if len(names) and known.isdisjoint(names):
                where = f"{parameter} {row}" if len(names_of_records) > 1 else parameter
                accepted = f"values of some of the columns {shown(self.names, 200)}"
                raise input_error(who, where, accepted, f"none of them, but {shown(list(names))}")
        return records

    def doubt(self, record: Mapping[str, Any]) -> str | None:
        """Return a warning if a record has unknown names, or fewer than half of the columns; otherwise None."""
        names = self.names
        present = sum(name in record for name in names)
        # The usual case: exactly the columns of the model.
        if present == len(names) == len(record):
            return None
        known = {*(column.name for column in self.plan.columns), self.label, self.task, self.weight, self.offset}
        unknown = [name for name in record if name not in known]
        if unknown:
            return f"Unknown features are ignored: {shown(unknown)}. The columns of the model are {shown(names, 200)}."
        if 2 * present < len(names):
            missing = [name for name in names if name not in record]
            return f"Only {present} of {len(names)} columns are given; the others count as missing: {shown(missing)}."
        return None

    def block(self, records: Any, labelled: bool = False, learn: bool = False) -> Block:
        """Encode records as X, tasks and, with `labelled`, labels; see `encode`."""
        return self._block(self.checked(records), self.selection(labelled), learn)

    def _block(self, records: Any, selection: Selection, learn: bool) -> Block:
        """Convert records to a block; reject the first record that cannot be used."""
        table = self._table(records, selection)
        wrong = wrong_rows(self, table)
        if wrong:
            row = min(wrong)
            raise InputError(f"Columns.encode: record {row}: {_with_value(wrong[row], records, row)}.")
        return self.block_of(table, learn)

    def _features(self) -> Selection:
        """Return the columns that are used as features, and how their numbers are written."""
        used = [column for column in self.plan.columns if column.kind != "ignored"]
        numbers = [column for column in used if column.kind == "number"]
        formats = {c.name: NumberFormat(c.format, tuple(c.missing)) for c in numbers if c.format or c.missing}
        texts = tuple(column.name for column in used if column.kind != "number")
        return Selection(tuple(column.name for column in numbers), texts, formats)

    def selection(self, labelled: bool) -> Selection:
        """Return which columns a reader must return as numbers and which as text.

        The order of the numbers is: features, offset, weight. `block_of` relies on this order.
        """
        numbers, texts, formats = self._features()
        names = (self.label if labelled else None, self.task)
        weight = (self.weight,) if labelled and self.weight is not None else ()
        offset = () if self.offset is None else (self.offset,)
        return Selection((*numbers, *offset, *weight), (*texts, *(name for name in names if name is not None)), formats)

    def block_of(self, table: Table, learn: Any) -> Block:
        """Encode the rows of a table. The caller must have removed the rows that `wrong_rows` reports."""
        weights = table.weights
        if self.plan.layout == "table":
            # The numbers of the table are features, offset and weight; only the features are encoded.
            weights, n = self.weights_in(table), len(self._features().numbers)
            numbers = table.numbers if table.numbers.shape[1] == n else np.ascontiguousarray(table.numbers[:, :n])
            X = encode_rows(self.plan, self.scaling, numbers, table.texts, learn)
        else:
            X = table.sparse
        y = labels_of(self.plan, table.texts[self.label]) if self.label in table.texts else None
        tasks = _tasks(table.texts[self.task]) if self.task in table.texts else None
        names = partial(self._names_in, table)
        return Block(X, y, tasks, table.lines, weights, names, self.offsets_in(table))

    def names_of(self, records: Any) -> dict[int, str]:
        """Return the names of the columns of X, for `Learner.explain(..., names=...)`.

        A hashed column has a name only if one of these records uses it. The records are hashed again to find these
        names, because a hash cannot be reversed.
        """
        return self._names_in(self._table(self.checked(records), self._features()))

    def _names_in(self, table: Table) -> dict[int, str]:
        names = dict(enumerate(self.feature_names))
        return names | hashed_names(self.plan, table.texts) if self.plan.layout == "table" else names

    def weights_in(self, table: Table) -> NDArray[np.float64] | None:
        """Return the weights: the last column of numbers in a table with labels. None if there are no weights."""
        if self.weight is None or self.label not in table.texts:
            return None
        return np.ascontiguousarray(table.numbers[:, -1])

    def offsets_in(self, table: Table) -> NDArray[np.float64] | None:
        """Return the offsets: the column of numbers after the features. None if there are no offsets."""
        n = len(self._features().numbers)
        if self.offset is None or table.numbers.shape[1] == n:  # `encode` reads only the features
            return None
        return np.ascontiguousarray(table.numbers[:, n])

    def _table(self, records: Any, selection: Selection) -> Table:
        """Return these columns of the records as a table, with rows numbered from 1."""
        if self.plan.layout != "table":
            raise InputError(
                f"Columns.encode needs a model that learned from a table, but this one learned from {self.plan.layout} "
                "files, which have no named columns. Write the rows in that format and read them with io.read."
            )
        values = _columns_of(records, [*selection.numbers, *selection.texts])
        n = len(next(iter(values.values())))
        return table_from_values(values, selection, np.arange(1, n + 1), shown)


def _tasks(text: CodedColumn) -> NDArray[Any]:
    """Return the task of each row: an array of integers if all tasks are integers, otherwise of objects."""
    distinct = [parse_task(value.strip()) for value in text.values]
    if all(type(task) is int for task in distinct):
        return np.array(distinct, dtype=np.int64)[text.codes]
    tasks = np.empty(len(distinct), dtype=object)
    tasks[:] = distinct
    return tasks[text.codes]


def _columns_of(records: Any, names: list[str]) -> dict[str, list[Any]]:
    """Return one list of values per column, with None where a record has no value."""
    if hasattr(records, "columns") and hasattr(records, "to_dict"):  # a pandas or polars frame
        known = {name: records[name].to_list() for name in records.columns if name in set(names)}
        # If no column is known, keep one column of missing values, so that the number of rows is known.
        records = known or {"": [None] * len(records)}
    if isinstance(records, Mapping):
        lengths = {len(values) for values in records.values()}
        if len(lengths) != 1:
            raise input_error("Columns.encode", "records", "columns of one length", f"lengths {sorted(lengths)}")
        n = lengths.pop()
        return {name: list(records[name]) if name in records else [None] * n for name in names}
    if not isinstance(records, Sequence) or not all(isinstance(record, Mapping) for record in records):
        raise input_type_error("Columns.encode", "records", "a list of dicts, or a dict of columns", shown(records))
    return {name: [record.get(name) for record in records] for name in names}


def _with_value(reason: str, records: Any, row: int) -> str:
    """Add the wrong value to a reason that says only which column should be a number, if the records are dicts."""
    expected = number_expected(reason)
    if expected is None or not isinstance(records, Sequence) or not isinstance(records[row], Mapping):
        return reason
    return reason.removesuffix(" but is not") + f"; got {shown(records[row].get(expected[0]))}"
