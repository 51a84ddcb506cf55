"""svmlight text: `label qid:task index:value index:value … # comment`, sparse and as it is: nothing is scaled.

The task is the `qid`, or line k of another file, `task="file:PATH"`.
"""

from __future__ import annotations

from typing import Any

from budgetron.errors import refuse, shown
from budgetron.io.guess import HASHED
from budgetron.io.lines import NotARow
from budgetron.io.records import Records
from budgetron.io.source import WHO, Source
from budgetron.io.sparse_rows import Row, SparseReader, SparseRows
from budgetron.io.table import Table, Wants
from budgetron.io.values import LARGEST, coded

FILE = "file:"
MOST_COLUMNS = 1 << 30


class Svmlight(SparseReader):
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

    def table(self, rows: SparseRows, lines: Any, content: Any, wants: Wants | None) -> Table:
        """The rows as a table with a CSR matrix; the first call tells its width."""
        if self.task is None and any(rows.tasks.values) and not self.width:
            self.task = "qid"
        if not self.width:
            largest = int(rows.indices.max(initial=0))
            self.width = max(HASHED, 1 << largest.bit_length())
        tasks = rows.tasks
        if self._tasks is not None and wants is not None:
            tasks = coded(map(self._tasks.at, lines.tolist()))
        texts = {"label": rows.labels} | ({} if self.task is None else {self.task: tasks})
        return rows.table(texts, self.width, lines, content, wants)


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


