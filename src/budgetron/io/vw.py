"""Vowpal Wabbit text: `label importance base 'tag|namespace:scale feature:value feature |namespace …`, hashed.

The task is the tag, `task="tag"`, or what a namespace holds, `task="user"` for `|user ann`; that namespace is then no
feature. Without a task asked for, all rows are one.
"""

from __future__ import annotations

from typing import Any

from sklearn.utils import murmurhash3_32

from budgetron.errors import shown
from budgetron.io.guess import HASHED
from budgetron.io.lines import NotARow
from budgetron.io.source import Source
from budgetron.io.sparse_rows import Row, SparseReader, SparseRows
from budgetron.io.table import Table, Wants
from budgetron.io.values import LARGEST


class VowpalWabbit(SparseReader):
    """A reader of Vowpal Wabbit text."""

    layout: str = "vw"

    def __init__(self, source: Source, task: str | None, width: int) -> None:
        super().__init__(source)
        self.task = task
        self.width = width or HASHED
        self.names = ["label", "tag"]

    def row(self, line: bytes) -> Row | None:
        """The row of a line; None for one of blanks."""
        head, *namespaces = line.decode().split("|")
        words = head.split()
        if not namespaces:
            if not words:
                return None
            raise NotARow(f"one with a namespace, |name features; got {shown(head)}")
        tag = words.pop() if words and (not head[-1].isspace() or words[-1].startswith("'")) else ""
        if len(words) > 3:
            raise NotARow(f"label, importance, base and 'tag before the first bar; got {shown(head)}")
        weight = self._number(words[1]) if len(words) > 1 else 1.0
        if weight < 0:
            raise NotARow(f"of an importance that is not negative; got {weight:g}")
        task = tag.removeprefix("'") if self.task == "tag" else ""
        indices: list[int] = []
        values: list[float] = []
        for part in namespaces:
            named = not part[:1].isspace()
            name, *features = part.split() if named and part.split() else ["", *part.split()]
            name, _, scale = name.partition(":")
            if name == self.task and self.task != "tag":
                task = " ".join(features)
                continue
            factor = self._number(scale) if scale else 1.0
            for feature in features:
                word, colon, value = feature.rpartition(":")
                word, number = (word, self._number(value)) if colon else (feature, 1.0)
                indices.append(murmurhash3_32(f"{name}^{word}", positive=True))
                values.append(number * factor)
        return Row(words[0] if words else "", task, indices, values, weight)

    def _number(self, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = LARGEST * 10
        if not abs(number) <= LARGEST:
            raise NotARow(f"of numbers up to 1e100 after colons and the label; got {shown(text)}")
        return number

    def table(self, rows: SparseRows, lines: Any, content: Any, wants: Wants | None) -> Table:
        """The rows as a table with a CSR matrix."""
        texts = {"label": rows.labels} | ({} if self.task is None else {self.task: rows.tasks})
        return rows.table(texts, self.width, lines, content, wants)
