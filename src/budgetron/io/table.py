"""Rows on their way from a file to X: some columns as numbers, some as coded text, and what was wrong on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from budgetron.io.values import LARGEST, Coded, coded, number_of, text_of

SAMPLE_ROWS = 4096  # what kinds and scales are told from
SAMPLE_BYTES = 1 << 24
ENOUGH_BAD = 1000  # lines without a good one before them: this is no such file
_SHOWN = 200  # characters of a bad line


class BadLine(NamedTuple):
    """A line that was left out: its number in the file from 1, what it says, and what is wrong with it."""

    number: int
    content: str
    reason: str  # "of 3 fields, as the header is; got 2 fields"


def cut_short(content: bytes | str) -> str:
    """A line, short enough to be shown."""
    if isinstance(content, bytes):
        content = content[: 4 * _SHOWN].decode("utf-8", "backslashreplace")
    return content if len(content) <= _SHOWN else content[: _SHOWN - 1] + "…"


@dataclass
class Table:
    """Rows of a file. `numbers` has a column for each that was wanted as numbers, in the order of the file."""

    lines: NDArray[np.int64]  # on which each row begins, from 1
    numbers: NDArray[np.float64]
    texts: dict[str, Coded]
    content: Callable[[int], str]  # of a row, as it is written
    sparse: Any = None  # a CSR matrix, of formats that have one
    weights: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.lines)

    def rows(self, keep: Any) -> Table:
        """Some of the rows, by a mask or a slice."""
        places = np.arange(len(self))[keep]
        return Table(
            self.lines[keep],
            self.numbers[keep],
            {name: column.rows(keep) for name, column in self.texts.items()},
            lambda place: self.content(int(places[place])),
            None if self.sparse is None else self.sparse[keep],
            None if self.weights is None else self.weights[keep],
        )


class Wants(NamedTuple):
    """Which columns a reader gives as numbers and which as text; it leaves the others."""

    numbers: tuple[str, ...]
    texts: tuple[str, ...]


class Reader(Protocol):
    """A file of some format."""

    names: list[str]  # of its columns; none where only the rows tell
    layout: str  # "table", "svmlight" or "vw"
    first_bad: BadLine | None  # of the sample, or before it

    def sample(self) -> Table:
        """The first rows, every column as text; they will be read again."""

    def tables(self, wants: Wants, rows: int, stop: bool) -> Iterator[tuple[Table, list[BadLine]]]:
        """Up to `rows` rows at a time, with what was bad among them; with `stop` nothing comes after the first bad."""


def numbers_of(column: Coded) -> NDArray[np.float64]:
    """A coded column as numbers; NaN where it has a gap, infinity where it says no number."""
    values = [number_of(text) for text in column.values]
    each = np.array([np.inf if value is None else value for value in values], dtype=np.float64)
    return each[column.codes] if len(each) else np.zeros(len(column.codes))


def table_of(values: Mapping[str, list[Any]], wants: Wants, lines: NDArray[np.int64], content: Any) -> Table:
    """Typed values, a list a column, as a table; None is a gap."""
    numbers = _numbers([values[name] for name in wants.numbers], len(lines))
    return Table(lines, numbers, {name: _texts(values[name]) for name in wants.texts}, content)


def _texts(column: list[Any]) -> Coded:
    """Values as coded text; where they are all integers, each is written once."""
    if set(map(type, column)) == {int}:
        found = coded(column)
        return Coded(list(map(str, found.values)), found.codes)
    return coded(map(text_of, column))


def _numbers(columns: list[list[Any]], n: int) -> NDArray[np.float64]:
    """Columns of values as numbers: all at once where they are plain, by what they say where not."""
    if columns and set(map(type, chain.from_iterable(columns))) <= {int, float, type(None)}:
        try:
            numbers = np.ascontiguousarray(np.array(columns, dtype=np.float64).T)
            return np.where(np.abs(numbers) > LARGEST, np.inf, numbers)
        except OverflowError:  # an integer beyond all floats
            pass
    each = [numbers_of(coded(map(text_of, column))) for column in columns]
    return np.stack(each, axis=1) if each else np.zeros((n, 0))
