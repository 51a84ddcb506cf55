"""CSV and TSV: a header (or none, where the first line is all numbers), then records, as RFC 4180 has them."""

from __future__ import annotations

from collections.abc import Iterator

from budgetron.errors import refuse, shown
from budgetron.io.records import Records
from budgetron.io.scan import FIELDS, NOT_A_NUMBER, NOTHING, NUMBER, TEXT, Bad, Scan, fields_of, sentence
from budgetron.io.source import Source
from budgetron.io.table import ENOUGH_BAD, SAMPLE_BYTES, SAMPLE_ROWS, BadLine, Table, Wants, cut_short
from budgetron.io.values import number_of

MAX_COLUMNS = 1 << 16
MAX_NAME = 1 << 12  # characters
_DELIMITERS = ",;\t|"


class Delimited:
    """A reader of delimited text; `delimiter` None means the commonest of comma, semicolon, tab and bar in line 1."""

    layout: str = "table"

    def __init__(self, source: Source, delimiter: str | None, header: bool | None) -> None:
        self._source = source
        self._records = Records(source)
        self.early: list[BadLine] = []  # before the first good row
        self.first_bad: BadLine | None = None
        self._delimiter = delimiter or self._commonest_delimiter()
        found, content, offset = self._records.first(self._delimiter, bytes([NOTHING]))
        begin, end = self._extent(found)
        fields = fields_of(content[offset + begin : offset + end], self._delimiter)
        if header is None:
            header = not all(number_of(field) is not None for field in fields)
        if header:
            self._records.next(self._delimiter, bytes([NOTHING]), 1, 1)
        self.names = named(source.name, fields if header else [""] * len(fields))

    def _commonest_delimiter(self) -> str:
        found, content, offset = self._records.first(",", b"")
        begin, end = self._extent(found)
        unquoted = "".join(content[offset + begin : offset + end].decode("utf-8").split('"')[::2])
        return max(_DELIMITERS, key=unquoted.count)

    def _extent(self, found: Scan) -> tuple[int, int]:
        """Where the first record is, if it can be a header or a row."""
        if len(found.lines):
            return int(found.begins[0]), int(found.ends[0])
        if not found.bad:
            raise refuse(self._source.name, "the file", "a header or rows of text", "nothing")
        first = found.bad[0]
        if first.trouble != FIELDS:  # how many there must be is not known yet
            accepted, came = sentence(first.trouble, first.field, [])
            raise refuse(f"{self._source.name}:{first.line}", "the first line", accepted, came)
        return first.begin, first.end

    def sample(self) -> Table:
        """The first rows, every column as text; they will be read again."""
        wants = Wants((), tuple(self.names))
        while True:
            self._records.fill(SAMPLE_ROWS, SAMPLE_BYTES)
            table, bad = self._table(wants, *self._records.peek(self._delimiter, self._bytes(wants), SAMPLE_ROWS))
            if len(table) or self._records.at_end or len(self.early) >= ENOUGH_BAD:
                self.first_bad = next(iter([*self.early, *bad]), None)
                return table
            self.early += self._next(wants, SAMPLE_ROWS, SAMPLE_ROWS)[1]

    def tables(self, wants: Wants, rows: int, stop: bool) -> Iterator[tuple[Table, list[BadLine]]]:
        """Up to `rows` rows at a time, with what was bad among them; with `stop` nothing comes after the first bad."""
        if self.early:
            yield self._table(wants, *self._records.nothing(self._bytes(wants)))[0], self.early
        while True:
            table, bad = self._next(wants, rows, 1 if stop else rows)
            if not len(table) and not bad:
                return
            yield table, bad

    def _next(self, wants: Wants, rows: int, max_bad: int) -> tuple[Table, list[BadLine]]:
        return self._table(wants, *self._records.next(self._delimiter, self._bytes(wants), rows, max_bad))

    def _bytes(self, wants: Wants) -> bytes:
        kinds = dict.fromkeys(wants.numbers, NUMBER) | dict.fromkeys(wants.texts, TEXT)
        return bytes(kinds.get(name, NOTHING) for name in self.names)

    def _table(self, wants: Wants, found: Scan, content: bytes, offset: int) -> tuple[Table, list[BadLine]]:
        in_order = [name for name in self.names if name in set(wants.texts)]
        numbers_in_order = [name for name in self.names if name in set(wants.numbers)]
        numbers = found.numbers
        if numbers_in_order != list(wants.numbers):  # another file than the one that was learned from
            numbers = numbers[:, [numbers_in_order.index(name) for name in wants.numbers]]
        table = Table(
            found.lines,
            numbers,
            dict(zip(in_order, found.texts, strict=True)),
            lambda row: cut_short(content[offset + int(found.begins[row]) : offset + int(found.ends[row])]),
        )
        return table, [self._bad_line(bad, content[offset + bad.begin : offset + bad.end]) for bad in found.bad]

    def _bad_line(self, bad: Bad, line: bytes) -> BadLine:
        accepted, came = sentence(bad.trouble, bad.field, self.names)
        if bad.trouble == NOT_A_NUMBER:
            came = shown(fields_of(line, self._delimiter)[bad.field])
        return BadLine(bad.line, cut_short(line), f"{accepted}; got {came}")


def named(file: str, fields: list[str]) -> list[str]:
    """The columns' names: their own, "column 3" where there is none, "name.2" for the second of a name."""
    if len(fields) > MAX_COLUMNS:
        raise refuse(file, "the header", f"of at most {MAX_COLUMNS:,} columns", f"{len(fields):,}")
    stripped = [field.strip()[:MAX_NAME] for field in fields]
    taken, names = set(stripped), set()
    for place, field in enumerate(stripped, start=1):
        name, number = field or f"column {place}", 1
        while name in names or (number > 1 and name in taken):
            number += 1
            name = f"{field or f'column {place}'}.{number}"
        names.add(name)
        stripped[place - 1] = name
    return stripped
