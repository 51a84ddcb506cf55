"""Split delimited text into records, numbers and coded text.

`records` calls `scan` for every chunk of a text file. The compiled core does the work if it is installed, otherwise the
standard library's `csv`. The grammar is stated at the head of ``src/core/readers/delimited.cpp``; a property test
compares the two implementations.

They differ in two details only: `csv` does not tell in which column a quote is wrong, and in a record with quotes it
limits each field to 131,072 characters (`csv.field_size_limit`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from budgetron.engine import native
from budgetron.errors import BudgetronError, shown
from budgetron.io.encoding.values import CodedColumn, code_texts, parse_number

IGNORED, NUMBER, TEXT = range(3)  # how a field is to be returned
# The problems that a record can have. The core returns all but the last, so their order is fixed.
FIELD_COUNT, NOT_A_NUMBER, TEXT_AFTER_QUOTE, UNCLOSED_QUOTE, NUL_BYTE, NOT_UTF8, TOO_LONG, TOO_LONG_FOR_CSV = range(8)
UNKNOWN_FIELD = -1  # for `BadRecord.field`
MAX_RECORD = 1 << 20  # the longest record, in bytes; it may have several lines
# `csv` rejects a carriage return outside quotes unless it ends a line. So the fallback gives `csv` this character in
# its place. UTF-8 cannot encode it, and `_text` never returns it.
_CARRIAGE_RETURN = "\ud800"


class BadRecord(NamedTuple):
    """A record that was left out, and its problem. Positions count as in `Scan`."""

    line: int  # the line on which it begins, from 0
    begin: int  # its first byte
    end: int  # the byte after its last one; if the end of the record is unknown, the byte after its first line
    problem: int  # one of the codes above
    # The field that is wrong, from 0, or UNKNOWN_FIELD; for FIELD_COUNT, the record's number of fields. It is 0 for
    # NUL_BYTE, NOT_UTF8 and TOO_LONG, where it says nothing.
    field: int


class Scan(NamedTuple):
    """The records found in a chunk of text. Positions count from the offset at which the scan began."""

    numbers: NDArray[np.float64]  # one row per record, one column per field of kind NUMBER; NaN where it is missing
    texts: list[CodedColumn]  # one per field of kind TEXT
    first_lines: NDArray[np.int64]  # the line on which each record begins, from 0
    begins: NDArray[np.int64]  # the first byte of each record
    ends: NDArray[np.int64]  # the byte after its last one, without the newline
    bad: list[BadRecord]
    consumed: int  # the bytes that the next scan can skip: records, empty lines, the beginning of a line over the limit
    n_lines: int  # the lines in these bytes
    in_long_line: bool  # whether the chunk ends within a line that exceeds the limit


def scan(
    content: bytes, offset: int, last: bool, delimiter: str, kinds: bytes, max_rows: int, max_bad: int,
    max_record: int = MAX_RECORD,
) -> Scan:  # fmt: skip
    """Return the complete records from `offset` on; with `last`, also a final record without a newline.

    `kinds` has one byte per field: IGNORED, NUMBER or TEXT. If it is empty, every line is one record, which is not
    split into fields. The scan ends after `max_rows` good records or `max_bad` bad ones. A record of more than
    `max_record` bytes is bad.
    """
    compiled = native.scan
    if compiled is None:
        return scan_with_csv(content, offset, last, delimiter, kinds, max_rows, max_bad, max_record)
    numbers, texts, lines, begins, ends, bad, consumed, n_lines, in_long_line = compiled(
        content, offset, last, delimiter, kinds, max_rows, max_bad, max_record
    )
    shaped = numbers.reshape(len(lines), kinds.count(NUMBER))
    columns, bad_records = [CodedColumn(*text) for text in texts], [BadRecord(*record) for record in bad]
    return Scan(shaped, columns, lines, begins, ends, bad_records, consumed, n_lines, in_long_line)


def split_record(record: bytes, delimiter: str) -> list[str]:
    """Return the fields of one complete record, whose quotes `scan` has checked."""
    text = record.decode()
    if '"' not in text:
        return text.split(delimiter)
    # The core accepts fields that `csv` rejects: long ones, and carriage returns outside quotes.
    fields: list[str] = []
    begin = 0
    while begin <= len(text):
        if text.startswith('"', begin):
            end = text.find('"', begin + 1)
            while text.startswith('"', end + 1):  # a doubled quote is part of the field
                end = text.find('"', end + 2)
            fields.append(text[begin + 1 : end].replace('""', '"'))
            begin = end + 2
        else:
            end = text.find(delimiter, begin)
            end = len(text) if end < 0 else end
            fields.append(text[begin:end])
            begin = end + 1
    return fields


def describe_problem(
    bad: BadRecord, names: list[str], record: bytes, delimiter: str, max_record: int = MAX_RECORD
) -> str:
    """Describe the problem of a record, and name the column if it is known."""
    column = names[bad.field] if 0 <= bad.field < len(names) else None
    where = "a field" if column is None else f"column {column!r}"
    if bad.problem == FIELD_COUNT:
        return f"the line has {bad.field} fields instead of {len(names)}"
    if bad.problem == NOT_A_NUMBER:
        return f"{where} should be a number but contains {shown(split_record(record, delimiter)[bad.field])}"
    if bad.problem == TEXT_AFTER_QUOTE:
        return f'{where} continues after its closing quote; inside a quoted field, write each quote as ""'
    if bad.problem == UNCLOSED_QUOTE:
        return f'{where} opens a quote (") that is not closed before the end of the file or within {max_record:,} bytes'
    if bad.problem == NUL_BYTE:
        return "the line contains a NUL byte, so this may not be a text file"
    if bad.problem == NOT_UTF8:
        return "the line is not valid UTF-8" + _likely_encoding(record)
    if bad.problem == TOO_LONG_FOR_CSV:
        return (
            f"{where} is longer than {csv.field_size_limit():,} characters, which in a line with quotes only the "
            "compiled core accepts; install budgetron with it, or shorten the field"
        )
    return f"the line is longer than {max_record:,} bytes"


def _likely_encoding(record: bytes) -> str:
    """Show a part of the line in the most frequent other encoding, so that the user can judge."""
    non_ascii = [i for i, byte in enumerate(record) if byte >= 0x80]
    excerpt = record[max(0, non_ascii[0] - 12) : non_ascii[0] + 12].decode("cp1252", "replace") if non_ascii else ""
    return f' (as Windows-1252 it contains {shown(excerpt)}; if that is right, read it with encoding="cp1252")'


class _Incomplete(BudgetronError):
    """The record continues after the chunk."""


class _EndUnknown(BudgetronError):
    """The end of a record is unknown. Only its first line is skipped, so a single wrong quote loses only one line.

    Its arguments are the problem, which is TOO_LONG, TOO_LONG_FOR_CSV, TEXT_AFTER_QUOTE or UNCLOSED_QUOTE, and
    `BadRecord.field`.
    """


def scan_with_csv(
    content: bytes, offset: int, last: bool, delimiter: str, kinds: bytes, max_rows: int, max_bad: int, max_record: int
) -> Scan:
    """Like `scan`, but with the standard library's `csv`, for installations without the compiled core."""
    data = content[offset:]
    rows: list[tuple[int, int, int]] = []
    numbers: list[list[float]] = []
    texts: list[list[str]] = []
    bad: list[BadRecord] = []
    at = line = 0
    in_long_line = False
    while at < len(data) and len(rows) < max_rows and len(bad) < max_bad:
        begin, end = at, _line_end(data, at)
        stop = _without_carriage_return(data, begin, end)
        try:
            if end - begin > max_record:
                in_long_line = end == len(data) and not last
                raise _EndUnknown(TOO_LONG, 0)
            if end == len(data) and not last:
                raise _Incomplete
            fields: list[str] = []
            if kinds and stop > begin:
                fields, end = _fields(data, begin, end, last, delimiter, max_record)
                stop = _without_carriage_return(data, begin, end)
            problem = _problem(data[begin:stop], fields, kinds)
        except _Incomplete:
            break
        except _EndUnknown as error:
            problem = error.args
        if problem is not None:
            bad.append(BadRecord(line, begin, stop, *problem))
        elif stop > begin:  # empty lines are not records
            rows.append((line, begin, stop))
            pairs = list(zip(kinds, fields, strict=True))
            # `cast` tells mypy that `_problem` has rejected every field that is not a number.
            numbers.append([cast(float, parse_number(field)) for kind, field in pairs if kind == NUMBER])
            texts.append([field for kind, field in pairs if kind == TEXT])
        line += 1 + data.count(b"\n", begin, end)
        at = min(end + 1, len(data))
    lines, begins, ends = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    shaped = np.array(numbers, dtype=np.float64).reshape(len(rows), kinds.count(NUMBER))
    columns = zip(*texts, strict=True) if texts else [()] * kinds.count(TEXT)
    return Scan(shaped, [code_texts(column) for column in columns], lines, begins, ends, bad, at, line, in_long_line)


def _fields(data: bytes, begin: int, end: int, last: bool, delimiter: str, max_record: int) -> tuple[list[str], int]:
    """Return the fields of the record that begins here, and the end of its last line."""
    if b'"' not in data[begin:end]:
        return _text(data[begin : _without_carriage_return(data, begin, end)]).split(delimiter), end

    def lines() -> Iterator[str]:
        # csv requests another line only while a quote is open. So `end` becomes the end of the record's last line.
        nonlocal end
        start = begin
        while start < len(data):
            end = _line_end(data, start)
            if end - begin > max_record:
                raise _EndUnknown(UNCLOSED_QUOTE, UNKNOWN_FIELD)
            if end == len(data) and not last:
                raise _Incomplete
            stop = _without_carriage_return(data, start, end)
            yield _text(data[start:stop]).replace("\r", _CARRIAGE_RETURN) + _text(data[stop : end + 1])
            start = end + 1
        if not last and len(data) - begin <= max_record:
            raise _Incomplete

    try:
        fields = next(csv.reader(lines(), delimiter=delimiter, strict=True))
        return [field.replace(_CARRIAGE_RETURN, "\r") for field in fields], end
    except csv.Error as error:
        problem = TEXT_AFTER_QUOTE
        if "unexpected end" in str(error):
            problem = UNCLOSED_QUOTE
        elif "field limit" in str(error):
            problem = TOO_LONG_FOR_CSV
        raise _EndUnknown(problem, UNKNOWN_FIELD) from None


def _problem(record: bytes, fields: list[str], kinds: bytes) -> tuple[int, int] | None:
    """Return the problem of a complete record and its `BadRecord.field`; None if there is no problem."""
    if 0 in record:
        return NUL_BYTE, 0
    try:
        record.decode()
    except UnicodeError:
        return NOT_UTF8, 0
    if fields and len(fields) != len(kinds):
        return FIELD_COUNT, len(fields)
    for j, field in enumerate(fields):
        if kinds[j] == NUMBER and parse_number(field) is None:
            return NOT_A_NUMBER, j
    return None


def _text(line: bytes) -> str:
    """Decode without raising, so that the end of a record is found before its encoding is checked."""
    return line.decode("utf-8", "surrogateescape")


def _line_end(data: bytes, begin: int) -> int:
    newline = data.find(b"\n", begin)
    return len(data) if newline < 0 else newline


def _without_carriage_return(data: bytes, begin: int, end: int) -> int:
    """Return the end of a line without the \\r of a newline that is written \\r\\n."""
    return end - 1 if end > begin and data[end - 1 : end] == b"\r" else end
