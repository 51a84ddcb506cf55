"""Base class of the readers of svmlight and Vowpal Wabbit. The core parses ordinary lines, Python all others.

The method `row` of a reader defines the meaning of a line. The core leaves a line to `row` if the line has an error, a
number that is not written in digits, or a character other than printable ASCII and tabs. So the core and Python give
the same rows and the same error messages; a property test compares them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetron.engine import native
from budgetron.io.encoding.values import CodedColumn, code_texts
from budgetron.io.formats.line_reader import LineReader, ParsedLines
from budgetron.io.formats.records import Chunk
from budgetron.io.table import Selection, Table

ROW, NO_ROW, LEFT_TO_PYTHON = range(3)  # the core's verdict on a line: parsed; blank or a comment; left to `row`
Ints = NDArray[np.int64]


class Row(NamedTuple):
    """One row of a sparse format."""

    label: str
    task: str
    indices: list[int]
    values: list[float]
    weight: float = 1.0


class SparseRows(NamedTuple):
    """Many rows in CSR form: row i has the indices and values from indptr[i] to indptr[i + 1]."""

    indptr: Ints
    indices: Ints
    values: NDArray[np.float64]
    weights: NDArray[np.float64]
    labels: CodedColumn
    tasks: CodedColumn

    @classmethod
    def of(cls, rows: list[Row]) -> SparseRows:
        """Join parsed rows into arrays."""
        return cls(
            np.concatenate([[0], np.cumsum([len(row.indices) for row in rows])]).astype(np.int64),
            np.array([index for row in rows for index in row.indices], dtype=np.int64),
            np.array([value for row in rows for value in row.values], dtype=np.float64),
            np.array([row.weight for row in rows], dtype=np.float64),
            code_texts(row.label for row in rows),
            code_texts(row.task for row in rows),
        )

    def select(self, order: Ints) -> SparseRows:
        """Return the rows at these indices, in this order."""
        counts = np.diff(self.indptr)[order]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        # Positions of all entries of the chosen rows: the start of each row plus 0, 1, 2, …
        entries = np.repeat(self.indptr[order] - indptr[:-1], counts) + np.arange(indptr[-1])
        return SparseRows(
            indptr, self.indices[entries], self.values[entries], self.weights[order],
            *(
                code_texts(text.values[code] for code in text.codes[order].tolist())
                for text in (self.labels, self.tasks)
            ),
        )  # fmt: skip

    def concatenate(self, other: SparseRows) -> SparseRows:
        """Return these rows, followed by those of `other`."""
        return SparseRows(
            np.concatenate([self.indptr, self.indptr[-1] + other.indptr[1:]]),
            np.concatenate([self.indices, other.indices]),
            np.concatenate([self.values, other.values]),
            np.concatenate([self.weights, other.weights]),
            _concatenate_texts(self.labels, other.labels),
            _concatenate_texts(self.tasks, other.tasks),
        )

    def table(
        self, texts: dict[str, CodedColumn], width: int, lines: Any, content: Any, selection: Selection | None
    ) -> Table:
        """Return a table with a CSR matrix of `width` columns; larger indices wrap around."""
        n = len(self.weights)
        indices = (self.indices % width).astype(np.int32)
        X = sparse.csr_matrix((self.values, indices, self.indptr), shape=(n, width))
        X.sum_duplicates()
        selected = {name: column for name, column in texts.items() if selection is None or name in selection.texts}
        weights = None if (self.weights == 1.0).all() else self.weights
        return Table(lines, np.zeros((n, 0)), selected, content, X, weights)


def _concatenate_texts(first: CodedColumn, second: CodedColumn) -> CodedColumn:
    codes = np.concatenate([first.codes, second.codes + np.int32(len(first.values))])
    return CodedColumn([*first.values, *second.values], codes)


class SparseReader(LineReader):
    """Reader of lines that are sparse rows: `row` returns a `Row`, and `table` receives `SparseRows`."""

    layout: str
    task: str | None

    def rows(self, chunk: Chunk, selection: Selection | None, stop: bool) -> ParsedLines:
        """Parse all lines of a chunk; with `stop`, only up to the first bad one."""
        compiled = native.sparse_lines
        if compiled is None:
            slow = super().rows(chunk, selection, stop)
            return slow._replace(rows=SparseRows.of(slow.rows))
        scan, content, offset = chunk
        begins, ends = scan.begins + offset, scan.ends + offset
        kinds, indptr, indices, values, weights, labels, tasks = compiled(
            content, begins, ends, self.layout == "vw", self.task
        )
        fast = SparseRows(indptr, indices, values, weights, CodedColumn(*labels), CodedColumn(*tasks))
        in_core, in_python = np.flatnonzero(kinds == ROW), np.flatnonzero(kinds == LEFT_TO_PYTHON)
        if not len(in_python):
            return ParsedLines(fast, in_core, [])
        slow = self.line_by_line(chunk, in_python.tolist(), self.row, stop)
        # Merge both kinds of lines back into the order of the file: the order of examples matters to a learner.
        line_indices = np.concatenate([in_core, slow.line_indices])
        order = np.argsort(line_indices)
        if stop and slow.bad:
            # With `stop`, rows after the first bad line are not returned.
            order = order[scan.first_lines[line_indices[order]] < slow.bad[0].number]
        return ParsedLines(fast.concatenate(SparseRows.of(slow.rows)).select(order), line_indices[order], slow.bad)
