"""Formats with one row a line: what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import BudgetronError
from budgetron.io.records import Piece, Records
from budgetron.io.scan import sentence
from budgetron.io.source import Source
from budgetron.io.table import ENOUGH_BAD, SAMPLE_BYTES, SAMPLE_ROWS, BadLine, Table, Wants, cut_short


class NotARow(BudgetronError):
    """A line that is no row: "what is accepted; got what came"."""


class Gathered(NamedTuple):
    """The rows of a piece, in the form that `LineReader.table` takes them in."""

    rows: Any
    places: NDArray[np.int64]  # which lines of the piece they are
    bad: list[BadLine]


class LineReader(ABC):
    """A reader of lines; `row` says what one is, `table` puts rows together."""

    names: list[str]

    def __init__(self, source: Source) -> None:
        self._source = source
        self._records = Records(source)
        self.early: list[BadLine] = []  # before the first good row
        self.first_bad: BadLine | None = None

    @abstractmethod
    def row(self, line: bytes) -> Any:
        """The row that a line says; `NotARow` if it says none, None where it is a comment."""

    @abstractmethod
    def table(self, rows: Any, lines: Any, content: Any, wants: Wants | None) -> Table:
        """The rows as a table; without wants, of all columns."""

    def rows(self, piece: Piece, wants: Wants | None, stop: bool) -> Gathered:
        """The rows of all lines; with `stop` up to the first that is none."""
        return self.line_by_line(piece, range(len(piece[0].lines)), self.row, stop)

    def line_by_line(
        self, piece: Piece, places: Iterable[int], row_of: Callable[[bytes], Any], stop: bool
    ) -> Gathered:
        """The rows of some of the lines."""
        found, content, offset = piece
        rows, kept, bad = [], [], []
        for place in places:
            line = content[offset + int(found.begins[place]) : offset + int(found.ends[place])]
            try:
                row = row_of(line)
            except NotARow as why:
                bad.append(BadLine(int(found.lines[place]), cut_short(line), str(why)))
                if stop:
                    break
                continue
            if row is not None:
                rows.append(row)
                kept.append(place)
        return Gathered(rows, np.array(kept, dtype=np.int64), bad)

    def sample(self) -> Table:
        """The first rows, every column as text; they will be read again."""
        while True:
            self._records.fill(SAMPLE_ROWS, SAMPLE_BYTES)
            table, bad = self._read(self._records.peek(",", b"", SAMPLE_ROWS), None, stop=False)
            if len(table) or self._records.at_end or len(self.early) >= ENOUGH_BAD:
                self.first_bad = next(iter([*self.early, *bad]), None)
                return table
            self.early += self._read(self._records.next(",", b"", SAMPLE_ROWS, SAMPLE_ROWS), None, stop=False)[1]

    def tables(self, wants: Wants, rows: int, stop: bool) -> Iterator[tuple[Table, list[BadLine]]]:
        """Up to `rows` rows at a time, with what was bad among them; with `stop` nothing comes after the first bad."""
        if self.early:
            yield self._read(self._records.nothing(b""), wants, stop)[0], self.early
        while True:
            piece = self._records.next(",", b"", rows, 1 if stop else rows)
            if not len(piece[0].lines) and not piece[0].bad:
                return
            yield self._read(piece, wants, stop)

    def _read(self, piece: Piece, wants: Wants | None, stop: bool) -> tuple[Table, list[BadLine]]:
        found, content, offset = piece
        rows, places, bad = self.rows(piece, wants, stop)
        for one in found.bad:
            accepted, came = sentence(one.trouble, one.field, [])
            line = content[offset + one.begin : offset + one.end]
            bad.append(BadLine(one.line, cut_short(line), f"{accepted}; got {came}"))

        def written(row: int) -> str:
            place = places[row]
            return cut_short(content[offset + int(found.begins[place]) : offset + int(found.ends[place])])

        return self.table(rows, found.lines[places], written, wants), sorted(bad)
