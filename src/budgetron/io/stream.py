"""A file as a stream of blocks: opened, told what it is, and read once, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from budgetron.errors import InputError, is_whole, refuse, refuse_type, shown
from budgetron.io.columns import Block, Columns
from budgetron.io.encode import moments_of
from budgetron.io.formats import reader_of
from budgetron.io.guess import plan_of, sparse_plan
from budgetron.io.scaling import Scaling
from budgetron.io.source import WHO, Source
from budgetron.io.table import BadLine, Reader, Table, Wants, numbers_of

_MOST_BAD = 20  # bad lines that are kept to be shown


def read(
    source: Any,
    *,
    format: str = "auto",
    label: str | None = None,
    task: str | None = None,
    drop: Iterable[str] = (),
    text: Iterable[str] = (),
    categorical: Iterable[str] = (),
    columns: Columns | None = None,
    on_error: str = "stop",
    labelled: bool = True,
    block_rows: int = 4096,
    classes: Sequence[Any] | None = None,
    header: bool | None = None,
    learn: bool | None = None,
    skip: int = 0,
    limit: int | None = None,
) -> Stream:
    """Open a file for one pass, in blocks that a learner takes.

    Parameters
    ----------
    source : path, "-" for standard input, or a file opened in binary. Gzip and Zstandard are told by the first bytes.
    format : "auto" (by the name, then by the content), "csv", "tsv", "parquet", "arrow", "ndjson", "svmlight" or "vw".
    label, task : names of columns. By default, `budgetron.io.guess` says which.
    drop, text, categorical : names of columns to leave out, to take as raw text, or as categories.
    columns : of a saved model. Then nothing is guessed; other columns are ignored, and the label may be absent where
        `labelled` is False.
    on_error : "stop" refuses a file at its first bad line; "skip" leaves such lines out and counts them.
    labelled : whether labels are read. A row without one is then a bad line.
    block_rows : the most rows in a block. Where blocks are cut changes nothing else.
    classes : the labels there are; any other makes a bad line. By default those of the first 4,096 rows, if they are
        at least two.
    header : whether the first line of delimited text names the columns; by default, unless it is all numbers.
    learn : whether the scales of the columns go on learning; by default where labels are read.
    skip : rows at the beginning to leave out, bad lines aside. With the columns of a model that learned just these,
        a pass that was stopped goes on bit for bit.
    limit : rows to give at most.

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
        raise refuse(WHO, "on_error", '"stop" or "skip"', shown(on_error))
    if not is_whole(block_rows) or block_rows < 1:
        raise refuse(WHO, "block_rows", "an integer >= 1", shown(block_rows))
    for name, value, least in (("skip", skip, 0), ("limit", 1 if limit is None else limit, 1)):
        if not is_whole(value) or value < least:
            raise refuse(WHO, name, f"an integer >= {least}", shown(value))
    if columns is not None and not isinstance(columns, Columns):
        raise refuse_type(WHO, "columns", "columns of a saved model, from io.load_model", shown(columns))
    opened = Source(source)
    try:
        reader = reader_of(opened, format, header, _task(task, columns), columns)
        sample_end = 0
        if columns is None:
            sample = reader.sample()
            _check_rows(opened.name, reader, sample)
            columns, sample_end = _columns(reader, sample, label, task, drop, text, categorical, labelled), _end(sample)
            classes = classes if classes is not None or not labelled else columns.classes_in(sample)
        else:
            _check_names(opened.name, reader, columns.wants(labelled))
            sample_end = _end(reader.sample()) if skip else 0  # the scales began with these rows
    except BaseException:
        opened.close()
        raise
    learns = labelled if learn is None else learn
    stop = on_error == "stop"
    return Stream(opened, reader, columns, stop, labelled, block_rows, classes, learns, sample_end, skip, limit)


class Stream:
    """An open file; iterate over it once for its blocks. Close it, or use it in a `with` statement.

    Attributes
    ----------
    columns : what the columns are, and their scales as of the last block.
    classes : the labels of the first rows, sorted, for a learner's first call; None where there are fewer than two.
    n_rows, n_bad : rows given and bad lines left out so far.
    bad : the first 20 bad lines: number, content and reason.
    bytes_read, bytes_total : how far we are in the file; the total is None where nobody knows.
    """

    def __init__(
        self, source: Source, reader: Reader, columns: Columns, stop: bool, labelled: bool, block_rows: int,
        classes: Sequence[Any] | None, learn: bool, sample_end: int, skip: int, limit: int | None,
    ) -> None:  # fmt: skip
        self.columns = columns
        self.classes = classes
        self.n_rows = self.n_bad = 0
        self.bad: list[BadLine] = []
        self._source, self._stop = source, stop
        self._learn, self._sample_end = learn, sample_end
        self._skip, self._limit = int(skip), limit
        self._tables = reader.tables(columns.wants(labelled), int(block_rows), stop)

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
            wrong = self.columns.wrong_rows(table, self.classes)
            if wrong:
                noted = [BadLine(int(table.lines[row]), table.content(row), why) for row, why in wrong.items()]
                bad = sorted([*bad, *noted])
                keep = np.ones(len(table), dtype=bool)
                keep[list(wrong)] = False
                if self._stop:
                    keep[min(wrong) :] = False
                table = table.rows(keep)
            table = self._asked_for(table)
            if len(table):
                self.n_rows += len(table)
                yield self.columns.block_of(table, self._learned_from(table))
            if self.n_rows == self._limit:
                return
            if bad and self._stop:
                raise _refusal(self.name, bad[0], 'on_error="skip" leaves such lines out and counts them.')
            self.n_bad += len(bad)
            self.bad += bad[: _MOST_BAD - len(self.bad)]

    def _asked_for(self, table: Table) -> Table:
        """The table without the rows to skip, and those past the limit."""
        start = min(self._skip, len(table))
        self._skip -= start
        end = len(table) if self._limit is None else min(len(table), start + self._limit - self.n_rows)
        if end - start == len(table):
            return table
        places = np.arange(len(table))
        return table.rows((places >= start) & (places < end))

    def _learned_from(self, table: Table) -> Any:
        """Which rows the scales learn from: those of the sample are in them already."""
        if not self._learn or table.lines[-1] <= self._sample_end:
            return False
        return True if table.lines[0] > self._sample_end else table.lines > self._sample_end

    def close(self) -> None:
        """Close the file, if it was opened here."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _columns(
    reader: Reader, sample: Table, label: Any, task: Any, drop: Any, text: Any, categorical: Any, labelled: bool
) -> Columns:
    if reader.layout != "table":
        plan = sparse_plan(reader, sample, label, [*drop, *text, *categorical], labelled)
        return Columns(plan, Scaling.of(np.zeros((0, 0))))
    plan = plan_of(
        reader.names, sample, label=label, task=task, drop=drop, text=text, categorical=categorical, labelled=labelled
    )
    raw = [
        moments_of(sample.texts[column.name]) if column.kind == "date" else numbers_of(sample.texts[column.name])
        for column in plan.columns
        if column.kind in ("number", "date")
    ]  # fmt: skip
    values = np.stack(raw, axis=1) if raw else np.zeros((len(sample), 0))
    return Columns(plan, Scaling.of(values))


def _task(task: str | None, columns: Columns | None) -> str | None:
    """What the reader is told of the task: for a saved model what it knows, but for a file of tasks."""
    if columns is None or (columns.task == "file" and task is not None):
        return task
    if columns.task == "file" and columns.plan.layout == "svmlight":
        raise refuse(WHO, "task", '"file:PATH", as the model learned its tasks from a file', shown(task))
    return columns.task


def _check_rows(file: str, reader: Reader, sample: Table) -> None:
    if len(sample):
        return
    if reader.first_bad is not None:
        raise _refusal(file, reader.first_bad, "No line could be read.")
    raise refuse(file, "the file", "one with rows", "none")


def _refusal(file: str, bad: BadLine, remedy: str) -> InputError:
    accepted, came = bad.reason.split("; got ", 1)
    return refuse(f"{file}:{bad.number}", "the line", accepted, f"{came}, in {shown(bad.content, 220)}", remedy)


def _end(sample: Table) -> int:
    return int(sample.lines[-1]) if len(sample) else 0


def _check_names(file: str, reader: Reader, wants: Wants) -> None:
    known = set(reader.names)
    missing = [name for name in (*wants.numbers, *wants.texts) if name not in known]
    if missing and known and reader.layout == "table":
        came = f"{shown(reader.names, 200)}, without {shown(missing)}"
        raise refuse(file, "the columns", "those that the model learned from", came)
