"""`Table`: the intermediate form between a file and X, with some columns as numbers and some as coded text.

Readers of all formats produce `Table`s; `columns` turns them into X. `Reader` is the interface that a new format must
implement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from budgetron.io.encoding.number_formats import NumberFormat
from budgetron.io.encoding.values import (
    LARGEST,
    CodedColumn,
    code_texts,
    format_value,
    is_numeric_literal,
)

PLAIN = NumberFormat()
SAMPLE_ROWS = 4096  # rows from which types and first scales are inferred
SAMPLE_BYTES = 1 << 24  # the sample of a text format has fewer rows if SAMPLE_ROWS rows take more bytes than this
MAX_EARLY_BAD = 1000  # after this many bad lines without a good one, the file probably has another format
_SHOWN = 200  # how many characters of a bad line are shown


class BadLine(NamedTuple):
    """A line that was left out: its number in the file (from 1), its content, and its problem."""

    number: int
    content: str
    reason: str  # a clause without a full stop, such as "the line has 2 fields instead of 3"


def shorten(content: bytes | str) -> str:
    """Shorten a line for display."""
    if isinstance(content, bytes):
        content = content[: 4 * _SHOWN].decode("utf-8", "backslashreplace")
    return content if len(content) <= _SHOWN else content[: _SHOWN - 1] + "…"


@dataclass
class Table:
    """Rows of a file. `numbers` contains the columns that were selected as numbers, in the order of the selection."""

    lines: NDArray[np.int64]  # the line on which each row begins, from 1
    numbers: NDArray[np.float64]  # NaN if missing, infinity if it is not a number
    texts: dict[str, CodedColumn]
    content: Callable[[int], str]  # returns the text of a row for error messages
    sparse: Any = None  # a CSR matrix, for formats with sparse rows
    weights: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.lines)

    def rows(self, keep: Any) -> Table:
        """Return some of the rows, by a mask or a slice."""
        rows = np.arange(len(self))[keep]
        return Table(
            self.lines[keep],
            self.numbers[keep],
            {name: column.rows(keep) for name, column in self.texts.items()},
            lambda row: self.content(int(rows[row])),
            None if self.sparse is None else self.sparse[keep],
            None if self.weights is None else self.weights[keep],
        )


class Selection(NamedTuple):
    """Which columns a reader must return as numbers and which as text; it skips the others."""

    numbers: tuple[str, ...]
    texts: tuple[str, ...]
    # Only for columns whose numbers are not written like 1234.5, or that have codes for missing values.
    number_formats: Mapping[str, NumberFormat] = {}


class Reader(Protocol):
    """Reader of one file format."""

    names: list[str]  # the column names; empty if the file has no header and each row names its columns
    layout: str  # "table", "svmlight" or "vw"
    typed: bool  # whether the format distinguishes numbers from text
    first_bad: BadLine | None  # the first bad line in or before the sample

    def sample(self) -> Table:
        """Return the first rows with every column as text; `tables` returns them again."""

    def tables(self, selection: Selection, rows: int, stop: bool) -> Iterator[tuple[Table, list[BadLine]]]:
        """Yield up to `rows` rows at a time with the bad lines among them; with `stop`, end at the first bad line."""


def parse_numbers(column: CodedColumn, number_format: NumberFormat = PLAIN) -> NDArray[np.float64]:
    """Parse a coded column as numbers; NaN if missing, infinity if it is not a number."""
    distinct = number_format.parse_all(column.values)
    return distinct[column.codes] if len(distinct) else np.zeros(len(column.codes))


def table_from_values(
    values: Mapping[str, list[Any]], selection: Selection, lines: NDArray[np.int64], content: Any
) -> Table:
    """Make a table from typed values, one list per column; None means missing."""
    numbers = _to_numbers([values[name] for name in selection.numbers], len(lines))
    for name, number_format in selection.number_formats.items():
        numbers[:, selection.numbers.index(name)] = _parse_number_column(values[name], number_format)
    return Table(lines, numbers, {name: _texts(values[name]) for name in selection.texts}, content)


def replace_missing_codes(numbers: NDArray[np.float64], number_format: NumberFormat) -> NDArray[np.float64]:
    """Replace typed numbers that are codes for missing values, such as −999, by NaN."""
    codes = [float(code) for code in number_format.missing if is_numeric_literal(code)]
    return np.where(np.isin(numbers, codes), np.nan, numbers) if codes else numbers


def _parse_number_column(column: list[Any], number_format: NumberFormat) -> NDArray[np.float64]:
    """Convert a column to numbers. Texts are parsed by the rules of `number_format`; numbers stay as they are."""
    numbers = _to_numbers([[None if isinstance(value, str) else value for value in column]], len(column))[:, 0]
    numbers = replace_missing_codes(numbers, number_format)
    for row, value in enumerate(column):
        if isinstance(value, str):
            parsed = number_format.parse(value)
            numbers[row] = np.inf if parsed is None else parsed
    return numbers


def _texts(column: list[Any]) -> CodedColumn:
    """Code values as text. A column of integers only, or of strings only, is coded before its values are formatted.

    So each distinct value of such a column is formatted once.
    """
    if set(map(type, column)) in ({int}, {str}):
        coded = code_texts(column)
        return CodedColumn(list(map(format_value, coded.values)), coded.codes)
    return code_texts(map(format_value, column))


def _to_numbers(columns: list[list[Any]], n: int) -> NDArray[np.float64]:
    """Convert columns of values to numbers: all at once if all are Python numbers, otherwise by parsing their text."""
    if columns and set(map(type, chain.from_iterable(columns))) <= {int, float, type(None)}:
        try:
            # None becomes NaN, which means missing.
            numbers = np.ascontiguousarray(np.array(columns, dtype=np.float64).T)
            return np.where(np.abs(numbers) > LARGEST, np.inf, numbers)
        except OverflowError:  # an integer too large for a float
            pass
    parsed = [parse_numbers(code_texts(map(format_value, column))) for column in columns]
    return np.stack(parsed, axis=1) if parsed else np.zeros((n, 0))
