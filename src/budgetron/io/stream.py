"""Open a file and read it once, as a stream of blocks of examples. `read` is the main function of this package."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import BadLineError, InputError, input_error, input_type_error, is_integer, shown
from budgetron.io.encoding.choice_warnings import quoted
from budgetron.io.encoding.column_options import ColumnOptions
from budgetron.io.encoding.columns import Block, Columns
from budgetron.io.encoding.encode import parse_dates
from budgetron.io.encoding.infer_types import infer_columns, sparse_columns
from budgetron.io.encoding.labels import classes_in, parsed_classes
from budgetron.io.encoding.number_formats import NumberFormat
from budgetron.io.encoding.running_scale import RunningScale
from budgetron.io.encoding.values import CodedColumn
from budgetron.io.encoding.wrong_rows import number_expected, wrong_rows
from budgetron.io.formats.choose import reader_of
from budgetron.io.source import WHO, Source
from budgetron.io.table import BadLine, Reader, Selection, Table, parse_numbers
from budgetron.persist.schema import Column
from budgetron.progress import ProgressLine

logger = logging.getLogger("budgetron.io")
_MAX_SHOWN_BAD = 20  # the largest number of bad lines in `Stream.bad`
_SKIP = 'Skip such lines with on_error="skip"'


def read(
    source: Any,
    *,
    format: str = "auto",
    label: str | None = None,
    task: str | None = None,
    drop: Iterable[str] = (),
    text: Iterable[str] = (),
    categorical: Iterable[str] = (),
    weight: str | None = None,
    offset: str | None = None,
    decimal: str | None = None,
    na_values: Iterable[str] = (),
    encoding: str = "utf-8",
    columns: Columns | None = None,
    on_error: str = "stop",
    labelled: bool = True,
    block_rows: int = 4096,
    classes: Sequence[Any] | None = None,
    header: bool | None = None,
    learn: bool | None = None,
    skip: int = 0,
    limit: int | None = None,
    progress: bool = False,
) -> Stream:
    """Open a file for one pass, and read it in blocks that a learner accepts.

    Parameters
    ----------
    source : path, "-" for standard input, or a file opened in binary mode. Gzip and Zstandard are decompressed.
    format : "auto" (by the name, then by the content), "csv", "tsv", "parquet", "arrow", "ndjson", "svmlight" or "vw".
    label, task : names of the columns with the label and the task. By default they are found by common names such as
        "label" and "user"; see `budgetron.io.encoding.infer_types`.
    drop, text, categorical : names of columns to leave out, to read as free text, or to read as categories.
    weight : name of the column with the weight of each example, a number >= 0; `Block.weights` has them.
    offset : name of the column with another model's score, in log odds; `Block.offsets` has them.
    decimal : the decimal separator of numbers, "." or ",". The other of these two, blanks and apostrophes may separate
        thousands. By default the decimal separator is detected for each column.
    na_values : further values that mean "missing" in numbers, dates and categories, such as "k.A." or "-999".
    encoding : the encoding of text, such as "cp1252" or "utf-16".
    columns : the columns of a saved model. Then nothing is inferred, and other columns of the file are ignored.
    on_error : "stop" raises at the first bad line; "skip" leaves bad lines out and counts them.
    labelled : whether labels are read. If so, a row without a label is a bad line.
    block_rows : the largest number of rows per block. It does not change the rows or their encoding.
    classes : all labels; a row with another label is a bad line. By default the labels of the first rows (at most
        4,096), if there are at least two labels and `columns` is not given.
    header : whether the first line of delimited text names the columns. By default it does, unless it has only numbers
        and missing values.
    learn : whether these rows update the means and deviations of the columns. By default they do if labels are read.
    skip : number of rows to skip at the beginning, not counting bad lines. If `columns` are those of a model that
        learned from exactly these rows, the other rows are encoded bit for bit as in a pass without interruption.
    limit : the largest number of rows to return.
    progress : whether to show a line with the rows so far, the speed and the time left, also in a notebook.

    Choices that may be wrong, such as a column that may be the task, are logged as warnings of the logger
    "budgetron.io" and listed by `stream.columns.warnings()`.

    >>> from io import BytesIO
    >>> from budgetron import RandomBudgetPerceptron, io
    >>> file = BytesIO(b"task,size,weight,label\\n" + b"ann,1,7,ham\\nbob,9,2,spam\\n" * 50)
    >>> model = RandomBudgetPerceptron(budget=10, random_state=0)
    >>> with io.read(file) as stream:
    ...     for block in stream:
    ...         model = model.partial_fit(block.X, block.y, tasks=block.tasks, classes=stream.classes)
    >>> stream.n_rows, stream.n_bad
    (100, 0)
    >>> model.predict(stream.columns.encode([{"size": 8, "weight": 3}]), tasks=["ann"]).tolist()
    ['spam']
    """
    if on_error not in ("stop", "skip"):
        raise input_error(WHO, "on_error", '"stop" or "skip"', shown(on_error))
    if not is_integer(block_rows) or block_rows < 1:
        raise input_error(WHO, "block_rows", "an integer >= 1", shown(block_rows))
    for name, value, least in (("skip", skip, 0), ("limit", 1 if limit is None else limit, 1)):
        if not is_integer(value) or value < least:
            raise input_error(WHO, name, f"an integer >= {least}", shown(value))
    if columns is not None and not isinstance(columns, Columns):
        raise input_type_error(WHO, "columns", "the columns of a saved model (from io.load_model)", shown(columns))
    options = ColumnOptions.of(label, task, weight, offset, drop, text, categorical, decimal, na_values, classes)
    columns_fixed = columns is not None
    file = Source(source, encoding)
    try:
        reader = reader_of(file, format, header, _task_argument(task, columns), columns)
        sample_end = 0
        if columns is None:
            sample = reader.sample()
            _check_rows(file.name, reader, sample)
            columns, sample_end = _infer_columns(reader, sample, options, labelled), _last_line(sample)
            _log_choices(file.name, columns)
            if classes is None and labelled:
                classes = classes_in(columns.plan, sample)
        else:
            _check_names(file.name, reader, columns.selection(labelled))
            # With `skip`, the scales of the saved model already contain the rows of the sample. They must not be
            # counted twice.
            sample_end = _last_line(reader.sample()) if skip else 0
        classes = None if classes is None else parsed_classes(columns.plan, classes)
    except BaseException:
        file.close()
        raise
    learns = labelled if learn is None else learn
    stop = on_error == "stop"
    stream = Stream(
        file, reader, columns, stop, labelled, block_rows, classes, learns, sample_end, skip, limit, columns_fixed
    )
    stream._progress_line = ProgressLine(progress, "rows")
    return stream


class Stream:
    """An open file. Iterate over it once for its blocks; close it, or use it in a `with` statement.

    Attributes
    ----------
    columns : the columns of the file, with their scales as of the last block.
    classes : the sorted classes for a learner's first call: those that `read` was given, otherwise False and True for
        boolean labels, otherwise the labels of the first rows. Without given classes, None if the first rows have a
        single label that is not boolean, if no labels are read, or if `read` was given the columns of a saved model.
    tasks : the accepted tasks; a row with another task is a bad line. None, the default, accepts all tasks. The caller
        sets this attribute if the graph has a fixed list of tasks.
    n_rows, n_bad : the numbers of rows returned and of bad lines skipped so far.
    bad : the first 20 bad lines: number, content and reason.
    bytes_read, bytes_total : progress in the file; the total is None if it is unknown, as for a pipe.
    """

    def __init__(
        self, source: Source, reader: Reader, columns: Columns, stop: bool, labelled: bool, block_rows: int,
        classes: Sequence[Any] | None, learn: bool, sample_end: int, skip: int, limit: int | None,
        columns_fixed: bool,
    ) -> None:  # fmt: skip
        self.columns = columns
        self.classes = classes
        self.tasks: Collection[Any] | None = None
        self.n_rows = self.n_bad = 0
        self.bad: list[BadLine] = []
        self._source, self._stop = source, stop
        self._learn, self._sample_end = learn, sample_end
        self._columns_fixed = columns_fixed
        self._skip, self._limit = int(skip), limit
        # NDJSON has no header, so its first rows show whether the file has the columns of the model.
        self._names_unchecked = not reader.names and reader.layout == "table"
        self._progress_line = ProgressLine(False, "rows")
        self._tables = reader.tables(columns.selection(labelled), int(block_rows), stop)

    @property
    def name(self) -> str:
        """The name of the file."""
        return self._source.name

    @property
    def bytes_read(self) -> int:
        return self._source.bytes_read

    @property
    def bytes_total(self) -> int | None:
        return self._source.bytes_total

    def __iter__(self) -> Iterator[Block]:
        for table, bad in self._tables:
            wrong = wrong_rows(self.columns, table, self.classes, self.tasks)
            if wrong:
                wrong_lines = [BadLine(int(table.lines[row]), table.content(row), why) for row, why in wrong.items()]
                bad = sorted([*bad, *wrong_lines])
                keep = np.ones(len(table), dtype=bool)
                keep[list(wrong)] = False
                if self._stop:
                    # With on_error="stop", only the rows before the first bad line are returned.
                    keep[min(wrong) :] = False
                table = table.rows(keep)
            if self._names_unchecked:
                self._check_first_names(table)
            table = self._within_limits(table)
            if len(table):
                self.n_rows += len(table)
                yield self.columns.block_of(table, self._rows_to_learn(table))
                if self._progress_line.due():
                    self._show_progress()
            at_limit = self.n_rows == self._limit
            if at_limit:  # a line after the last row is neither returned nor counted
                bad = [line for line in bad if line.number < table.lines[-1]]
            if bad and self._stop:  # the rows before the bad line have been returned above
                raise _bad_line_error(self.name, bad[0], f"{_SKIP}{self._other_remedies(bad[0])}.")
            for line in bad[: _MAX_SHOWN_BAD - len(self.bad)]:
                logger.info("%s, line %d skipped: %s", self.name, line.number, line.reason)
            self.n_bad += len(bad)
            self.bad += bad[: _MAX_SHOWN_BAD - len(self.bad)]
            if at_limit:
                return

    def _other_remedies(self, bad: BadLine) -> str:
        """Return further remedies for a word in a column of numbers. They change how the column is read."""
        expected = number_expected(bad.reason)
        # A saved model keeps its columns, and a weight or an offset is never missing.
        if expected is None or self._columns_fixed or expected[0] in (self.columns.weight, self.columns.offset):
            return ""
        name, value = expected
        as_missing = f", treat it as missing with na_values=[{quoted(value)}]" if value else ""
        return f"{as_missing}, or treat the column as categories with categorical=[{quoted(name)}]"

    def _check_first_names(self, table: Table) -> None:
        """Reject a file whose first rows have no value in any column that the model learned from."""
        if not len(table):
            return
        self._names_unchecked = False
        features = set(self.columns.names)
        texts = [column for name, column in table.texts.items() if name in features]
        n = sum(name in features for name in self.columns.selection(False).numbers)
        is_empty = np.isnan(table.numbers[:, :n]).all()
        if is_empty and not any(column.values[code] for column in texts for code in column.codes):
            raise InputError(
                f"{self.name} has none of the columns that the model learned from, {shown(self.columns.names, 200)}. "
                f"Its first row is {shown(table.content(0), 200)}."
            )

    def _within_limits(self, table: Table) -> Table:
        """Return the table without the rows to skip and those past the limit."""
        start = min(self._skip, len(table))
        self._skip -= start
        end = len(table) if self._limit is None else min(len(table), start + self._limit - self.n_rows)
        if end - start == len(table):
            return table
        indices = np.arange(len(table))
        return table.rows((indices >= start) & (indices < end))

    def _rows_to_learn(self, table: Table) -> Any:
        """Return which rows update the scales. The rows of the sample are already counted in the scales."""
        if not self._learn or table.lines[-1] <= self._sample_end:
            return False
        # Only the block in which the sample ends has both rows of the sample and later rows.
        return True if table.lines[0] > self._sample_end else table.lines > self._sample_end

    def _show_progress(self) -> None:
        """Update the progress line, by bytes or by rows, whichever is further."""
        by_bytes = self.bytes_read / self.bytes_total if self.bytes_total else None
        by_rows = None if self._limit is None else self.n_rows / self._limit
        known = [share for share in (by_bytes, by_rows) if share is not None]
        self._progress_line.show(self.n_rows, max(known, default=None))

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self.n_rows:
            self._show_progress()
        self._progress_line.end()
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _infer_columns(reader: Reader, sample: Table, options: ColumnOptions, labelled: bool) -> Columns:
    """Choose the columns from the first rows, and begin their scaling with these rows."""
    if reader.layout != "table":
        plan = sparse_columns(reader, sample, options, labelled)
        return Columns(plan, RunningScale.of(np.zeros((0, 0))))
    plan, warnings = infer_columns(reader, sample, options, labelled)
    scaled = [column for column in plan.columns if column.kind in ("number", "date")]
    raw = [_sample_values(column, sample.texts[column.name]) for column in scaled]
    values = np.stack(raw, axis=1) if raw else np.zeros((len(sample), 0))
    return Columns(plan, RunningScale.of(values), warnings)


def _sample_values(column: Column, texts: CodedColumn) -> NDArray[np.float64]:
    """Return the values of a number or date column in the first rows."""
    if column.kind == "date":
        return parse_dates(texts, column.missing)
    return parse_numbers(texts, NumberFormat(column.format, tuple(column.missing)))


def _log_choices(file: str, columns: Columns) -> None:
    """Log which columns were chosen, and warn about doubtful choices."""
    plan = columns.plan
    what = f"{file}: label {plan.label!r} ({plan.label_note}), task {plan.task!r} ({plan.task_note})"
    logger.info("%s, %d columns to %d of X", what, len(columns.names), columns.n_features)
    for sentence in columns.warnings():
        logger.warning("%s: %s", file, sentence)


def _task_argument(task: str | None, columns: Columns | None) -> str | None:
    """Return the task argument of the reader: the caller's argument; with the columns of a saved model, their task.

    If the model learned its tasks from a separate file, the caller must name the file with the tasks of this input.
    """
    if columns is None or (columns.task == "file" and task is not None):
        return task
    if columns.task == "file" and columns.plan.layout == "svmlight":
        remedy = "The model learned its tasks from a separate file; name the file with the tasks of this input."
        raise input_error(WHO, "task", '"file:PATH"', shown(task), remedy)
    return columns.task


def _check_rows(file: str, reader: Reader, sample: Table) -> None:
    """Reject a file without a usable row."""
    if len(sample):
        return
    if reader.first_bad is not None:
        raise _bad_line_error(file, reader.first_bad, "No line of the file could be read; is the format right?")
    raise InputError(f"{file} has no rows. A header and comments do not count.")


def _bad_line_error(file: str, bad: BadLine, remedy: str) -> BadLineError:
    return BadLineError(f"{file}, line {bad.number}: {bad.reason}, in {shown(bad.content, 220)}. {remedy}")


def _last_line(sample: Table) -> int:
    return int(sample.lines[-1]) if len(sample) else 0


def _check_names(file: str, reader: Reader, selection: Selection) -> None:
    """Reject a file that lacks columns of the model."""
    known = set(reader.names)
    missing = [name for name in (*selection.numbers, *selection.texts) if name not in known]
    if missing and known and reader.layout == "table":
        raise InputError(
            f"{file} lacks columns that the model learned from: {shown(missing)}. It has {shown(reader.names, 200)}."
        )
