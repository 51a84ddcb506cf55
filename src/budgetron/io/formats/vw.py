"""Read Vowpal Wabbit text: `label importance base 'tag|namespace:scale feature:value feature |namespace …`.

Feature names are hashed. The importance is the weight of the example; the base is ignored. With `task="tag"`, the tag
is the task. Any other `task` names a namespace, whose content is the task: with `task="user"`, the task of `|user ann`
is ann. The namespace of the task is not used as a feature. Without `task`, all rows belong to one task.
"""

from __future__ import annotations

from typing import Any

from sklearn.utils import murmurhash3_32

from budgetron.errors import shown
from budgetron.io.encoding.infer_types import HASHED
from budgetron.io.encoding.values import LARGEST
from budgetron.io.formats.line_reader import InvalidLine
from budgetron.io.formats.sparse_rows import Row, SparseReader, SparseRows
from budgetron.io.source import Source
from budgetron.io.table import Selection, Table


class VowpalWabbit(SparseReader):
    """Reader of Vowpal Wabbit text."""

    layout: str = "vw"

    def __init__(self, source: Source, task: str | None, width: int) -> None:
        super().__init__(source)
        self.task = task
        self.width = width or HASHED
        self.names = ["label", "tag"]

    def row(self, line: bytes) -> Row | None:
        """Parse a line; None for a blank one."""
        head, *namespaces = line.decode().split("|")
        words = head.split()
        if not namespaces:
            if not words:
                return None
            raise InvalidLine(f"the line should have a namespace (|name features) but is {shown(head)}")
        # In Vowpal Wabbit, the last word before the bar is a tag if there is no space between it and the bar, or if it
        # begins with a quote.
        tag = words.pop() if words and (not head[-1].isspace() or words[-1].startswith("'")) else ""
        if len(words) > 3:
            expected = "at most label, importance, base and 'tag"
            raise InvalidLine(f"there should be {expected} before the first bar but there is {shown(head)}")
        weight = self._number(words[1]) if len(words) > 1 else 1.0
        if weight < 0:
            raise InvalidLine(f"the importance should be at least 0 but is {weight:g}")
        task = tag.removeprefix("'") if self.task == "tag" else ""
        indices: list[int] = []
        values: list[float] = []
        for part in namespaces:
            # The first word is the name of the namespace if it follows the bar without a space.
            has_name = not part[:1].isspace()
            name, *features = part.split() if has_name and part.split() else ["", *part.split()]
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
        """Parse a number. Reject the line if the text is not a number, or if the number is too large."""
        try:
            number = float(text)
        except ValueError:
            number = LARGEST * 10  # so that the test below rejects it, with the same message as for a large number
        if not abs(number) <= LARGEST:
            raise InvalidLine(f"there should be a number up to 1e100 but there is {shown(text)}")
        return number

    def table(self, rows: SparseRows, lines: Any, content: Any, selection: Selection | None) -> Table:
        """Combine rows into a table with a CSR matrix."""
        texts = {"label": rows.labels} | ({} if self.task is None else {self.task: rows.tasks})
        return rows.table(texts, self.width, lines, content, selection)
