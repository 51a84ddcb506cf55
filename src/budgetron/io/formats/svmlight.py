"""Read svmlight text: `label qid:task index:value index:value … # comment`. Rows are sparse and are not scaled.

The task is the `qid`, if the first rows have one. With `task="file:PATH"` the tasks come from another file: line k of
that file is the task of line k of this file.
"""

from __future__ import annotations

from typing import Any

from budgetron.errors import input_error, shown
from budgetron.io.encoding.infer_types import HASHED
from budgetron.io.encoding.values import LARGEST, code_texts
from budgetron.io.formats.line_reader import InvalidLine
from budgetron.io.formats.records import Records
from budgetron.io.formats.sparse_rows import Row, SparseReader, SparseRows
from budgetron.io.source import WHO, Source
from budgetron.io.table import Selection, Table

FILE = "file:"
MAX_COLUMNS = 1 << 30


class Svmlight(SparseReader):
    """Reader of svmlight files."""

    layout: str = "svmlight"

    def __init__(self, source: Source, task: str | None, width: int) -> None:
        super().__init__(source)
        self.width = width  # columns of X; 0 until the first rows are known
        self._tasks = None
        if task is not None and task.startswith(FILE):
            self._tasks, task = _TaskFile(source.close_later(Source(task.removeprefix(FILE)))), "file"
        if task not in (None, "qid") and self._tasks is None:
            raise input_error(WHO, "task", f'"qid" or "{FILE}PATH" for svmlight files', shown(task))
        self.task = task
        self.names = ["label", "qid"]

    def row(self, line: bytes) -> Row | None:
        """Parse a line; None for a comment or a blank line."""
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
                reason = f"the line should be a label and index:value pairs but contains {shown(word)}"
                raise InvalidLine(reason) from None
            if not (name.isascii() and name.isdigit() and index < MAX_COLUMNS and abs(number) <= LARGEST):
                accepted = f"an index from 0 to {MAX_COLUMNS - 1} and a number from -1e100 to 1e100"
                raise InvalidLine(f"a pair should have {accepted} but is {shown(word)}")
            indices.append(index)
            values.append(number)
        return Row(label, task, indices, values)

    def table(self, rows: SparseRows, lines: Any, content: Any, selection: Selection | None) -> Table:
        """Combine rows into a table with a CSR matrix. The first call with a row decides the width of all matrices."""
        if self.task is None and any(rows.tasks.values) and not self.width:
            self.task = "qid"
        if not self.width and len(lines):
            largest = int(rows.indices.max(initial=0))
            # The next power of two above the largest index of the first rows, but at least HASHED. Larger indices in
            # later rows wrap around.
            self.width = max(HASHED, 1 << largest.bit_length())
        tasks = rows.tasks
        if self._tasks is not None and selection is not None:
            tasks = code_texts(map(self._tasks.at, lines.tolist()))
        texts = {"label": rows.labels} | ({} if self.task is None else {self.task: tasks})
        return rows.table(texts, self.width, lines, content, selection)


class _TaskFile:
    """The tasks in another file, read in step with the rows."""

    def __init__(self, source: Source) -> None:
        self._records = Records(source)
        self._task_of: dict[int, str] = {}  # line number → task, for one block of lines
        self._last = 0  # the last line that was read

    def at(self, number: int) -> str:
        """Return the task on line `number`; "" if that line is empty or missing. `number` must grow with each call."""
        while self._last < number:
            # With empty kinds of fields (b""), every line is one record that is not split, whatever the delimiter.
            scan, content, offset = self._records.next(",", b"", 4096, 1)
            if not len(scan.first_lines) and not scan.bad:
                return ""  # the end of the file
            extents = zip(scan.first_lines.tolist(), scan.begins.tolist(), scan.ends.tolist(), strict=True)
            self._task_of = {line: content[offset + begin : offset + end].decode() for line, begin, end in extents}
            self._last = max([*scan.first_lines.tolist()[-1:], *(bad.line for bad in scan.bad)])
        return self._task_of.get(number, "")  # an empty line is not a record, and a bad line has no task
