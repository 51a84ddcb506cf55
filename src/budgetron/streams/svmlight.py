"""svmlight text: `label qid:task index:value index:value … # comment`, sparse and as it is: nothing is scaled.

The task is the `qid`, or line k of another file, `task="file:PATH"`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from budgetron.errors import refuse, shown
from budgetron.streams.guess import HASHED
from budgetron.streams.lines import LineReader, NotARow
from budgetron.streams.records import Records
from budgetron.streams.source import WHO, Source
from budgetron.streams.table import Table, Wants
from budgetron.streams.values import LARGEST, coded

FILE = "file:"
MOST_COLUMNS = 1 << 30


class Row(NamedTuple):
    """A row of a sparse format."""

    label: str
    task: str
    indices: list[int]
    values: list[float]
    weight: float = 1.0


class Svmlight(LineReader):
    """A reader of svmlight files."""

    layout: str = "svmlight"

    def __init__(self, source: Source, task: str | None, width: int) -> None:
        super().__init__(source)
        self.width = width  # 0 until the first rows tell
        self._tasks = None
        if task is not None and task.startswith(FILE):
            self._tasks, task = _TaskFile(source.closing(Source(task.removeprefix(FILE)))), "file"
        if task not in (None, "qid") and self._tasks is None:
            raise refuse(WHO, "task", f'"qid" or "{FILE}PATH" for svmlight', shown(task))
        self.task = task
        self.names = ["label", "qid"]

    def row(self, line: bytes) -> Row | None:
        """The row of a line; None for a comment."""
        words = line.partition(b"#")[0].decode().split()
        if not words:
            return None
        label, task, indices, values = words[0], "", [], []
        for word in words[1:]:
            name, colon, value = word.partition(":")
            if name == "qid" and colon:
                task = value
                continue
            try:
                index, number = int(name), float(value)
            except ValueError:
                raise NotARow(f"a label and index:value pairs; got {shown(word)}") from None
            if not (name.isascii() and name.isdigit() and index < MOST_COLUMNS and abs(number) <= LARGEST):
                raise NotARow(f"of indices from 0 to {MOST_COLUMNS - 1} and numbers up to 1e100; got {shown(word)}")
            indices.append(index)
            values.append(number)
        return Row(label, task, indices, values)

    def table(self, rows: list[Row], lines: Any, content: Any, wants: Wants | None) -> Table:
        """The rows as a table with a CSR matrix; the first call tells its width."""
        if self.task is None and any(row.task for row in rows) and not self.width:
            self.task = "qid"
        if not self.width:
            largest = max((index for row in rows for index in row.indices), default=0)
            self.width = max(HASHED, 1 << largest.bit_length())
        tasks = [row.task for row in rows]
        if self._tasks is not None and wants is not None:
            tasks = [self._tasks.at(line) for line in lines.tolist()]
        texts = {"label": [row.label for row in rows]}
        if self.task is not None:
            texts[self.task] = tasks
        return sparse_table(rows, texts, self.width, lines, content, wants)


def sparse_table(
    rows: list[Row], texts: dict[str, list[str]], width: int, lines: Any, content: Any, wants: Wants | None
) -> Table:
    """Rows of a sparse format as a table."""
    indptr = np.concatenate([[0], np.cumsum([len(row.indices) for row in rows])]).astype(np.int64)
    indices = np.array([index for row in rows for index in row.indices], dtype=np.int64) % width
    values = np.array([value for row in rows for value in row.values], dtype=np.float64)
    X = sparse.csr_matrix((values, indices.astype(np.int32), indptr), shape=(len(rows), width))
    X.sum_duplicates()
    wanted = {name: coded(column) for name, column in texts.items() if wants is None or name in wants.texts}
    weights = np.array([row.weight for row in rows])
    weighted = None if (weights == 1.0).all() else weights
    return Table(lines, np.zeros((len(rows), 0)), wanted, content, X, weighted)


class _TaskFile:
    """The tasks of the lines of another file, in step with it."""

    def __init__(self, source: Source) -> None:
        self._records = Records(source)
        self._held: dict[int, str] = {}

    def at(self, wanted: int) -> str:
        """The task of a line, none before the last asked for; empty where there is none."""
        while wanted not in self._held:
            found, content, offset = self._records.next(",", b"", 4096, 1)
            if not len(found.lines) or found.lines[0] > wanted:
                return ""
            extents = zip(found.lines.tolist(), found.begins.tolist(), found.ends.tolist(), strict=True)
            self._held = {line: content[offset + begin : offset + end].decode() for line, begin, end in extents}
        return self._held[wanted]


