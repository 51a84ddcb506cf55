"""Delimited text to numbers and coded text: the core's scanner, and the same in Python where there is no core.

The grammar is stated at the head of ``src/core/readers/delimited.cpp``; a test holds one to the other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetron.engine import native
from budgetron.errors import BudgetronError
from budgetron.io.values import Coded, coded, number_of

NOTHING, NUMBER, TEXT = range(3)  # what is wanted of a field
FIELDS, NOT_A_NUMBER, QUOTE, OPEN_QUOTE, NUL, UTF8, TOO_LONG = range(7)  # what can be wrong with a record
MAX_LINE = 1 << 20  # bytes of a record


class Bad(NamedTuple):
    """A record that was left out: the line it begins on (from 0), its bytes, and why."""

    line: int
    begin: int
    end: int
    trouble: int
    field: int


class Scan(NamedTuple):
    """The records of a piece of text; positions count from where the scan began."""

    numbers: NDArray[np.float64]  # rows × fields that want numbers; NaN where missing
    texts: list[Coded]
    lines: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    bad: list[Bad]
    consumed: int
    n_lines: int
    unfinished: bool  # the last line is too long, and goes on behind what was scanned


def scan(
    content: bytes, offset: int, last: bool, delimiter: str, wants: bytes, max_rows: int, max_bad: int,
    max_line: int = MAX_LINE,
) -> Scan:  # fmt: skip
    """The complete records from `offset` on; with `last`, also what no newline ends.

    `wants` has a byte a field; where it is empty records are lines, whatever is in them.
    """
    compiled = native.scan
    if compiled is None:
        return in_python(content, offset, last, delimiter, wants, max_rows, max_bad, max_line)
    numbers, texts, lines, begins, ends, bad, *rest = compiled(
        content, offset, last, delimiter, wants, max_rows, max_bad, max_line
    )
    shaped = numbers.reshape(len(lines), wants.count(NUMBER))
    return Scan(shaped, [Coded(*text) for text in texts], lines, begins, ends, [Bad(*b) for b in bad], *rest)


def in_python(
    content: bytes, offset: int, last: bool, delimiter: str, wants: bytes, max_rows: int, max_bad: int, max_line: int
) -> Scan:
    """The same, slowly."""
    return _Scanner(content[offset:], last, delimiter, wants, max_line).run(max_rows, max_bad)


def fields_of(record: bytes, delimiter: str) -> list[str]:
    """The fields of a record that can be scanned."""
    fields, _, _ = _Scanner(record, True, delimiter, b"", MAX_LINE).fields(0, len(record), len(record))
    return [field.decode() for field in fields]


class _Incomplete(BudgetronError):
    """More bytes are needed to say what the record is."""


class _Spoilt(BudgetronError):
    """Bad in a way that says nothing of where the record ends: its first line is left out, and no more."""


class _Scanner:
    def __init__(self, data: bytes, last: bool, delimiter: str, wants: bytes, max_line: int) -> None:
        self._data, self._last, self._wants, self._max_line = data, last, wants, max_line
        self._delimiter = delimiter.encode()
        self._at = self._line = 0
        self._unfinished = False
        self._rows: list[tuple[int, int, int]] = []
        self._numbers: list[list[float]] = []
        self._texts: list[list[str]] = []
        self._bad: list[Bad] = []

    def run(self, max_rows: int, max_bad: int) -> Scan:
        while len(self._rows) < max_rows and len(self._bad) < max_bad and self._at < len(self._data):
            try:
                self._record()
            except _Incomplete:
                break
        lines, begins, ends = np.array(self._rows, dtype=np.int64).reshape(-1, 3).T
        numbers = np.array(self._numbers, dtype=np.float64).reshape(len(lines), self._wants.count(NUMBER))
        columns = zip(*self._texts, strict=True) if self._texts else [()] * self._wants.count(TEXT)
        return Scan(
            numbers, [coded(column) for column in columns], lines, begins, ends, self._bad, self._at, self._line,
            self._unfinished,
        )  # fmt: skip

    def _record(self) -> None:
        begin, first_end = self._at, self._line_end(self._at)
        if first_end == len(self._data) and not self._last and len(self._data) - begin <= self._max_line:
            raise _Incomplete
        try:
            if first_end - begin > self._max_line:
                self._unfinished = first_end == len(self._data) and not self._last
                raise _Spoilt(TOO_LONG, 0)
            stop = self._without_return(begin, first_end)
            if stop == begin:
                self._go_on(first_end, 1)
                return
            end, fields = first_end, list[bytes]()
            if self._wants:
                fields, stop, end = self.fields(begin, stop, first_end)
        except _Spoilt as why:
            trouble, field = why.args
            self._bad.append(Bad(self._line, begin, self._without_return(begin, first_end), trouble, field))
            self._go_on(first_end, 1)
            return
        wrong = self._take(begin, stop, fields)
        if wrong is not None:
            self._bad.append(Bad(self._line, begin, stop, *wrong))
        self._go_on(end, 1 + self._data.count(b"\n", begin, end))

    def fields(self, begin: int, stop: int, first_end: int) -> tuple[list[bytes], int, int]:
        """The fields of the record that begins here, where it stops, and where its last line ends."""
        data, end, at = self._data, first_end, begin
        if b'"' not in data[begin:stop]:
            return data[begin:stop].split(self._delimiter), stop, end
        fields: list[bytes] = []
        while True:
            if at < stop and data[at : at + 1] == b'"':
                close = self._closing_quote(begin, at + 1, len(fields))
                if close >= end:
                    end = self._line_end(close)
                    if end == len(data) and not self._last and len(data) - begin <= self._max_line:
                        raise _Incomplete
                    if end - begin > self._max_line:
                        raise _Spoilt(OPEN_QUOTE, len(fields))
                    stop = self._without_return(close, end)
                fields.append(data[at + 1 : close].replace(b'""', b'"'))
                at = close + 1
                if at >= stop:
                    return fields, stop, end
                if data[at : at + 1] != self._delimiter:
                    raise _Spoilt(QUOTE, len(fields) - 1)
                at += 1
            else:
                found = data.find(self._delimiter, at, stop)
                fields.append(data[at : stop if found < 0 else found])
                if found < 0:
                    return fields, stop, end
                at = found + 1

    def _closing_quote(self, begin: int, at: int, field: int) -> int:
        size = len(self._data)
        limit = min(size, begin + self._max_line)
        while True:
            at = self._data.find(b'"', at, limit)
            if at < 0:
                if limit == size and not self._last:
                    raise _Incomplete
                raise _Spoilt(OPEN_QUOTE, field)
            if at + 1 == size and not self._last:
                raise _Incomplete
            if self._data[at + 1 : at + 2] != b'"':
                return at
            at += 2

    def _take(self, begin: int, stop: int, fields: list[bytes]) -> tuple[int, int] | None:
        """A record whose fields are known: into the columns, or what is wrong with it."""
        if 0 in self._data[begin:stop]:
            return NUL, 0
        try:
            self._data[begin:stop].decode()
            written = [field.decode() for field in fields]
        except UnicodeDecodeError:
            return UTF8, 0
        if self._wants and len(fields) != len(self._wants):
            return FIELDS, len(fields)
        numbers = []
        for place, want in enumerate(self._wants):
            if want == NUMBER:
                number = number_of(written[place])
                if number is None:
                    return NOT_A_NUMBER, place
                numbers.append(math.nan if number is None else number)
        self._rows.append((self._line, begin, stop))
        self._numbers.append(numbers)
        self._texts.append([written[place] for place, want in enumerate(self._wants) if want == TEXT])
        return None

    def _go_on(self, end: int, lines: int) -> None:
        self._at = min(end + 1, len(self._data))
        self._line += lines

    def _line_end(self, begin: int) -> int:
        found = self._data.find(b"\n", begin)
        return len(self._data) if found < 0 else found

    def _without_return(self, begin: int, end: int) -> int:
        return end - 1 if end > begin and self._data[end - 1 : end] == b"\r" else end


def sentence(trouble: int, field: int, names: list[str]) -> tuple[str, str]:
    """What a record must be, and what came, in words."""

    def name(place: int) -> str:
        return repr(names[place]) if place < len(names) else f"number {place + 1}"

    if trouble == FIELDS:
        return f"of {len(names)} fields, as the header is", f"{field} fields"
    if trouble == NOT_A_NUMBER:
        return f"with a number in column {name(field)}", "something else"
    if trouble == QUOTE:
        return "such that a closing quote ends its field", f"text after the quotes of column {name(field)}"
    if trouble == OPEN_QUOTE:
        return f"such that every quote is closed within {MAX_LINE:,} bytes", f"an open one in column {name(field)}"
    if trouble == NUL:
        return "text", "a NUL byte"
    if trouble == UTF8:
        return "UTF-8", "other bytes"
    return f"of at most {MAX_LINE:,} bytes", "more"
