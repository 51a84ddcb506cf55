"""Read CSV and TSV: an optional header, then records as RFC 4180 defines them. Called by `choose`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from budgetron.errors import InputError, shown
from budgetron.io.encoding.values import parse_number
from budgetron.io.formats.records import Records
from budgetron.io.formats.scan import (
    FIELD_COUNT,
    IGNORED,
    NUMBER,
    TEXT,
    BadRecord,
    Scan,
    describe_problem,
    split_record,
)
from budgetron.io.source import Source
from budgetron.io.table import (
    MAX_EARLY_BAD,
    SAMPLE_BYTES,
    SAMPLE_ROWS,
    BadLine,
    Selection,
    Table,
    parse_numbers,
    shorten,
)

MAX_COLUMNS = 1 << 16
MAX_NAME = 1 << 12  # the longest column name, in characters
_DELIMITERS = ",;\t|"


class Delimited:
    """Reader of delimited text.

    If `delimiter` is None, it is the one of comma, semicolon, tab and bar that is most frequent in line 1. If `header`
    is None, the first line names the columns unless all its fields are numbers or missing values.
    """

    layout: str = "table"
    typed = False

    def __init__(self, source: Source, delimiter: str | None, header: bool | None) -> None:
        self._source = source
        self._records = Records(source)
        self.early: list[BadLine] = []  # bad lines that `sample` consumed; `tables` yields them
        self.first_bad: BadLine | None = None
        self._delimiter = delimiter or ","  # a placeholder: the next line needs one to describe problems
        self._delimiter = delimiter or self._most_frequent_delimiter()
        scan, content, offset = self._records.first(self._delimiter, bytes([IGNORED]))
        begin, end = self._first_record(scan, content, offset)
        fields = split_record(content[offset + begin : offset + end], self._delimiter)
        if header is None:
            header = not all(parse_number(field) is not None for field in fields)
        if header:
            self._records.next(self._delimiter, bytes([IGNORED]), 1, 1)
        self.names = column_names(source.name, fields if header else [""] * len(fields))
        self.renamed = renamed_columns(fields, self.names) if header else []

    def _most_frequent_delimiter(self) -> str:
        """Return the delimiter that occurs most often in the first line."""
        scan, content, offset = self._records.first(",", b"")
        begin, end = self._first_record(scan, content, offset)
        # Text between quotes may contain any delimiter, so only the parts outside quotes are counted.
        unquoted = "".join(content[offset + begin : offset + end].decode("utf-8").split('"')[::2])
        return max(_DELIMITERS, key=unquoted.count)

    def _first_record(self, scan: Scan, content: bytes, offset: int) -> tuple[int, int]:
        """Return the position of the first record. Raise an error if it can be neither a header nor a row."""
        if len(scan.first_lines):
            return int(scan.begins[0]), int(scan.ends[0])
        if not scan.bad:
            raise InputError(f"{self._source.name} is empty; a header or rows of text were expected.")
        first = scan.bad[0]
        # The number of fields is unknown before the header is read, so a "wrong" number of fields is not an error here.
        if first.problem != FIELD_COUNT:
            record = content[offset + first.begin : offset + first.end]
            problem = describe_problem(first, [], record, self._delimiter)
            raise InputError(f"{self._source.name}, line {first.line}: {problem}.")
        return first.begin, first.end

    def sample(self) -> Table:
        """Return the first rows with every column as text; `tables` returns them again."""
        selection = Selection((), tuple(self.names))
        while True:
            self._records.fill(SAMPLE_ROWS, SAMPLE_BYTES)
            chunk = self._records.peek(self._delimiter, self._kinds(selection), SAMPLE_ROWS)
            table, bad = self._table(selection, *chunk)
            if len(table) or self._records.at_end or len(self.early) >= MAX_EARLY_BAD:
                self.first_bad = next(iter([*self.early, *bad]), None)
                return table
            self.early += self._next(selection, SAMPLE_ROWS, SAMPLE_ROWS)[1]

    def tables(self, selection: Selection, rows: int, stop: bool) -> Iterator[tuple[Table, list[BadLine]]]:
        """Yield up to `rows` rows at a time with the bad lines among them; see `table.Reader`."""
        if self.early:
            yield self._table(selection, *self._records.empty_chunk(self._kinds(selection)))[0], self.early
        while True:
            table, bad = self._next(selection, rows, 1 if stop else rows)
            if not len(table) and not bad:
                return
            yield table, bad

    def _next(self, selection: Selection, rows: int, max_bad: int) -> tuple[Table, list[BadLine]]:
        return self._table(selection, *self._records.next(self._delimiter, self._kinds(selection), rows, max_bad))

    def _kinds(self, selection: Selection) -> bytes:
        """Return how the scanner should treat each field: as a number, as text, or not at all."""
        texts = (*selection.texts, *selection.number_formats)
        kinds = dict.fromkeys(selection.numbers, NUMBER) | dict.fromkeys(texts, TEXT)
        return bytes(kinds.get(name, IGNORED) for name in self.names)

    def _table(self, selection: Selection, scan: Scan, content: bytes, offset: int) -> tuple[Table, list[BadLine]]:
        """Convert the result of the scanner to a table in the order of the selection, and describe the bad lines."""
        as_text = {*selection.texts, *selection.number_formats}
        texts = dict(zip((name for name in self.names if name in as_text), scan.texts, strict=True))
        # The scanner returns plain numbers; the others come as text and are parsed below.
        in_order = [name for name in self.names if name in selection.numbers and name not in selection.number_formats]
        numbers = scan.numbers
        if selection.number_formats:
            columns = dict(zip(in_order, scan.numbers.T, strict=True))
            formats = selection.number_formats.items()
            columns |= {name: parse_numbers(texts[name], number_format) for name, number_format in formats}
            numbers = np.stack([columns[name] for name in selection.numbers], axis=1)
        # The scanner returns columns in the order of this file; a model may have learned from another order.
        elif in_order != list(selection.numbers):
            numbers = numbers[:, [in_order.index(name) for name in selection.numbers]]
        table = Table(
            scan.first_lines,
            numbers,
            {name: texts[name] for name in texts if name in selection.texts},
            lambda row: shorten(content[offset + int(scan.begins[row]) : offset + int(scan.ends[row])]),
        )
        return table, [self._bad_line(bad, content[offset + bad.begin : offset + bad.end]) for bad in scan.bad]

    def _bad_line(self, bad: BadRecord, record: bytes) -> BadLine:
        return BadLine(bad.line, shorten(record), describe_problem(bad, self.names, record, self._delimiter))


def column_names(file: str, fields: list[str]) -> list[str]:
    """Return unique column names: "column 3" for an empty name, "name.2" for the second column of the same name."""
    if len(fields) > MAX_COLUMNS:
        raise InputError(
            f"{file}: the header has {len(fields):,} columns; at most {MAX_COLUMNS:,} are accepted. "
            f"It begins with {shown(fields[:3])}; is the delimiter right?"
        )
    stripped = [field.strip()[:MAX_NAME] for field in fields]
    in_header, names = set(stripped), set()
    for column, field in enumerate(stripped, start=1):
        name, number = field or f"column {column}", 1
        # A numbered name must not collide with a name that occurs later in the header.
        while name in names or (number > 1 and name in in_header):
            number += 1
            name = f"{field or f'column {column}'}.{number}"
        names.add(name)
        stripped[column - 1] = name
    return stripped


def renamed_columns(fields: list[str], names: list[str]) -> list[tuple[str, str]]:
    """Return the columns that `column_names` renamed because of duplicates, as pairs of old and new name."""
    stripped = [field.strip()[:MAX_NAME] for field in fields]
    return [(field, name) for field, name in zip(stripped, names, strict=True) if field not in ("", name)]
