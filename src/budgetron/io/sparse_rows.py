"""Rows of the sparse formats. The core reads the usual lines of a piece at once; what is unusual is read line by line.

What a line means is said once, by `row` of the reader. The core leaves any line to it that is not plain: with a
character that is not printable ASCII, a number that is not in digits, with anything that must be refused. So both ways
give the same rows and the same refusals; a test holds one to the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetron.engine import native
from budgetron.io.lines import Gathered, LineReader
from budgetron.io.records import Piece
from budgetron.io.table import Table, Wants
from budgetron.io.values import Coded, coded

ROW, NOTHING, UNUSUAL = range(3)  # what the core calls a line
Ints = NDArray[np.int64]


class Row(NamedTuple):
    """A row of a sparse format."""

    label: str
    task: str
    indices: list[int]
    values: list[float]
    weight: float = 1.0


class SparseRows(NamedTuple):
    """Many of them: row i has the indices and values from indptr[i] to indptr[i + 1]."""

    indptr: Ints
    indices: Ints
    values: NDArray[np.float64]
    weights: NDArray[np.float64]
    labels: Coded
    tasks: Coded

    @classmethod
    def of(cls, rows: list[Row]) -> SparseRows:
        return cls(
            np.concatenate([[0], np.cumsum([len(row.indices) for row in rows])]).astype(np.int64),
            np.array([index for row in rows for index in row.indices], dtype=np.int64),
            np.array([value for row in rows for value in row.values], dtype=np.float64),
            np.array([row.weight for row in rows], dtype=np.float64),
            coded(row.label for row in rows),
            coded(row.task for row in rows),
        )

    def at(self, places: Ints) -> SparseRows:
        """Some of the rows, in this order."""
        counts = np.diff(self.indptr)[places]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        taken = np.repeat(self.indptr[places] - indptr[:-1], counts) + np.arange(indptr[-1])
        return SparseRows(
            indptr, self.indices[taken], self.values[taken], self.weights[places],
            *(coded(text.values[code] for code in text.codes[places].tolist()) for text in (self.labels, self.tasks)),
        )  # fmt: skip

    def and_then(self, other: SparseRows) -> SparseRows:
        """The rows of both."""
        return SparseRows(
            np.concatenate([self.indptr, self.indptr[-1] + other.indptr[1:]]),
            np.concatenate([self.indices, other.indices]),
            np.concatenate([self.values, other.values]),
            np.concatenate([self.weights, other.weights]),
            _both(self.labels, other.labels),
            _both(self.tasks, other.tasks),
        )

    def table(self, texts: dict[str, Coded], width: int, lines: Any, content: Any, wants: Wants | None) -> Table:
        """A table with a CSR matrix of so many columns; indices beyond are folded in."""
        n = len(self.weights)
        indices = (self.indices % width).astype(np.int32)
        X = sparse.csr_matrix((self.values, indices, self.indptr), shape=(n, width))
        X.sum_duplicates()
        wanted = {name: column for name, column in texts.items() if wants is None or name in wants.texts}
        weights = None if (self.weights == 1.0).all() else self.weights
        return Table(lines, np.zeros((n, 0)), wanted, content, X, weights)


def _both(one: Coded, other: Coded) -> Coded:
    return Coded([*one.values, *other.values], np.concatenate([one.codes, other.codes + np.int32(len(one.values))]))


class SparseReader(LineReader):
    """A reader of lines that are sparse rows; `row` of one line gives a `Row`, `table` takes `SparseRows`."""

    layout: str
    task: str | None

    def rows(self, piece: Piece, wants: Wants | None, stop: bool) -> Gathered:
        """The rows of all lines; with `stop` up to the first that is none."""
        compiled = native.sparse_lines
        if compiled is None:
            slow = super().rows(piece, wants, stop)
            return slow._replace(rows=SparseRows.of(slow.rows))
        found, content, offset = piece
        begins, ends = found.begins + offset, found.ends + offset
        kinds, indptr, indices, values, weights, labels, tasks = compiled(
            content, begins, ends, self.layout == "vw", self.task
        )
        fast = SparseRows(indptr, indices, values, weights, Coded(*labels), Coded(*tasks))
        usual, unusual = np.flatnonzero(kinds == ROW), np.flatnonzero(kinds == UNUSUAL)
        if not len(unusual):
            return Gathered(fast, usual, [])
        slow = self.line_by_line(piece, unusual.tolist(), self.row, stop)
        places = np.concatenate([usual, slow.places])
        order = np.argsort(places)
        if stop and slow.bad:
            order = order[found.lines[places[order]] < slow.bad[0].number]
        return Gathered(fast.and_then(SparseRows.of(slow.rows)).at(order), places[order], slow.bad)
