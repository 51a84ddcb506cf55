"""Formats with one row a line: what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from budgetron.streams.records import Piece, Records
from budgetron.streams.scan import sentence
from budgetron.streams.source import Source
from budgetron.streams.table import ENOUGH_BAD, SAMPLE_BYTES, SAMPLE_ROWS, BadLine, Table, Wants, cut_short


class NotARow(Exception):
    """A line that is no row: "what is accepted; got what came"."""


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
    def table(self, rows: list[Any], lines: Any, content: Any, wants: Wants | None) -> Table:
        """The rows as a table; without wants, of all columns."""

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
        rows, lines, written, bad = [], [], [], []
        for number, begin, end in zip(found.lines.tolist(), found.begins.tolist(), found.ends.tolist(), strict=True):
            line = content[offset + begin : offset + end]
            try:
                row = self.row(line)
            except NotARow as why:
                bad.append(BadLine(number, cut_short(line), str(why)))
                if stop:
                    break
                continue
            if row is not None:
                rows.append(row)
                lines.append(number)
                written.append((offset + begin, offset + end))
        for one in found.bad:
            accepted, came = sentence(one.trouble, one.field, [])
            line = content[offset + one.begin : offset + one.end]
            bad.append(BadLine(one.line, cut_short(line), f"{accepted}; got {came}"))
        numbers = np.array(lines, dtype=np.int64)
        return self.table(rows, numbers, lambda row: cut_short(content[slice(*written[row])]), wants), sorted(bad)
