"""Base class of the readers of formats with one row per line: NDJSON, svmlight and Vowpal Wabbit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import BudgetronError
from budgetron.io.formats.records import Chunk, Records
from budgetron.io.formats.scan import describe_problem
from budgetron.io.source import Source
from budgetron.io.table import MAX_EARLY_BAD, SAMPLE_BYTES, SAMPLE_ROWS, BadLine, Selection, Table, shorten


class InvalidLine(BudgetronError):
    """A line that cannot be parsed as a row; the text says why."""


class ParsedLines(NamedTuple):
    """The rows of a chunk, in the form that `LineReader.table` expects."""

    rows: Any
    line_indices: NDArray[np.int64]  # for each row, the position of its line in the chunk
    bad: list[BadLine]


class LineReader(ABC):
    """Reader of lines. A subclass parses one line in `row` and combines rows in `table`."""

    names: list[str]
    typed = True

    def __init__(self, source: Source) -> None:
        self._source = source
        self._records = Records(source)
        self.early: list[BadLine] = []  # bad lines that `sample` consumed; `tables` yields them
        self.first_bad: BadLine | None = None

    @abstractmethod
    def row(self, line: bytes) -> Any:
        """Parse a line. Returns None for a comment or a blank line; raises `InvalidLine` if it is not a row."""

    @abstractmethod
    def table(self, rows: Any, lines: Any, content: Any, selection: Selection | None) -> Table:
        """Combine rows into a table of the selected columns, or of all columns without a selection."""

    def rows(self, chunk: Chunk, selection: Selection | None, stop: bool) -> ParsedLines:
        """Parse all lines of a chunk; with `stop`, only up to the first bad one."""
        return self.line_by_line(chunk, range(len(chunk[0].first_lines)), self.row, stop)

    def line_by_line(
        self, chunk: Chunk, line_indices: Iterable[int], row_of: Callable[[bytes], Any], stop: bool
    ) -> ParsedLines:
        """Parse some lines of a chunk one by one, with `row_of`."""
        scan, content, offset = chunk
        rows, parsed, bad = [], [], []
        for i in line_indices:
            line = content[offset + int(scan.begins[i]) : offset + int(scan.ends[i])]
            try:
                row = row_of(line)
            except InvalidLine as error:
                bad.append(BadLine(int(scan.first_lines[i]), shorten(line), str(error)))
                if stop:
                    break
                continue
            if row is not None:
                rows.append(row)
                parsed.append(i)
        return ParsedLines(rows, np.array(parsed, dtype=np.int64), bad)

    def sample(self) -> Table:
        """Return the first rows with every column as text; `tables` returns them again."""
        while True:
            self._records.fill(SAMPLE_ROWS, SAMPLE_BYTES)
            table, bad = self._parse(self._records.peek(",", b"", SAMPLE_ROWS), None, stop=False)
            if len(table) or self._records.at_end or len(self.early) >= MAX_EARLY_BAD:
                self.first_bad = next(iter([*self.early, *bad]), None)
                return table
            # These lines have no good row. They are consumed here, and `tables` reports the bad ones later.
            self.early += self._parse(self._records.next(",", b"", SAMPLE_ROWS, SAMPLE_ROWS), None, stop=False)[1]

    def tables(self, selection: Selection, rows: int, stop: bool) -> Iterator[tuple[Table, list[BadLine]]]:
        """Yield up to `rows` rows at a time with the bad lines among them; see `table.Reader`."""
        if self.early:
            yield self._parse(self._records.empty_chunk(b""), selection, stop)[0], self.early
        while True:
            chunk = self._records.next(",", b"", rows, 1 if stop else rows)
            if not len(chunk[0].first_lines) and not chunk[0].bad:
                return
            yield self._parse(chunk, selection, stop)

    def _parse(self, chunk: Chunk, selection: Selection | None, stop: bool) -> tuple[Table, list[BadLine]]:
        """Convert the lines of a chunk to a table, and collect the bad lines."""
        scan, content, offset = chunk
        rows, line_indices, bad = self.rows(chunk, selection, stop)
        for record in scan.bad:
            line = content[offset + record.begin : offset + record.end]
            bad.append(BadLine(record.line, shorten(line), describe_problem(record, [], line, ",")))

        def content_of(row: int) -> str:
            i = line_indices[row]
            return shorten(content[offset + int(scan.begins[i]) : offset + int(scan.ends[i])])

        return self.table(rows, scan.first_lines[line_indices], content_of, selection), sorted(bad)
