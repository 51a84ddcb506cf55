"""One row of weights per task, at most `max_rows` rows.

A row holds the numbers that each part stores for a task, one part after the other. A task without a row has the prior
of every part, except of those parts that have a short row for it (`short_rows`). A cluster of tasks has a row too; in
model files, `row_common` is 1 for rows of clusters. Rows are in a queue: an updated row moves to the end.

If all rows are in use, rows that were updated often stay, because they have learned most. A row counts its
updates, up to 15. If another task needs a row, the first row of the queue is looked at. If its count is 0, it is
evicted. Otherwise the count falls by 1, the row moves to the end, and the task gets no row this time. What the task
learns from the example is then lost, except in shared weights, hashed arrays and short rows. If the least recently
updated row were always evicted instead, a stream with slightly more tasks than rows would lose the weights of all tasks
again and again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rules.budgetron.parts.part import Part

MAX_COUNT = 15
"""The largest count of a row."""
ROW_OVERHEAD = 56 + 32 + 24
"""Bytes of a task's row in the core in addition to its numbers: two headers, and its entry in the index."""
RowKey = tuple[int, bool]
"""Task id or cluster, and whether it is a cluster."""


class TaskRows:
    """The rows of tasks and clusters, by `RowKey`."""

    def __init__(self, parts: Sequence[Part], max_rows: int | None, may_grow: bool = False) -> None:
        self.max_rows, self.may_grow = max_rows, may_grow
        self.rows: OrderedDict[RowKey, Array] = OrderedDict()
        self.counts: dict[RowKey, int] = {}
        self.lay_out(parts)

    def lay_out(self, parts: Sequence[Part]) -> None:
        """Set where the numbers of each part begin in a row."""
        self.parts, self.width = list(parts), 0
        for part in parts:
            part.at = self.width
            self.width += part.row_width

    @property
    def row_bytes(self) -> int:
        return 8 * self.width + ROW_OVERHEAD

    def drop_part(self, part: Part) -> int:
        """Remove the numbers of a part from every row; return how many bytes others may use instead."""
        for key, row in self.rows.items():
            self.rows[key] = np.delete(row, range(part.at, part.at + part.row_width))
        self.lay_out([other for other in self.parts if other is not part])
        # The plan has reserved bytes for `max_rows` rows, so the bytes of all these rows are freed, even if fewer
        # exist. Without `may_grow`, others must not use the freed bytes.
        return 8 * part.row_width * (self.max_rows or 0) * self.may_grow

    @property
    def wants_more(self) -> bool:
        return self.may_grow and self.width > 0 and self.max_rows is not None and len(self.rows) >= self.max_rows

    def take(self, spare: int) -> int:
        """Use spare bytes for more rows, if all rows are in use; return the bytes that remain."""
        if not self.wants_more:
            return spare
        assert self.max_rows is not None
        self.max_rows += spare // self.row_bytes
        return spare % self.row_bytes

    def peek(self, key: RowKey) -> Array:
        """Return the row, or a new row with what the parts know of the task. `keep` may store the new row later."""
        row = self.rows.get(key)
        if row is None:
            row = np.zeros(self.width)
            for part in self.parts:
                part.begin_row(row, key[0])
        return row

    def keep(self, rows: dict[RowKey, Array]) -> None:
        """Store the rows of one example if there is room, and move them to the end of the queue.

        What parts have learned of a task that gets no row may be kept in their short rows.
        """
        if self.width == 0:
            return
        for key in rows:
            # Existing rows are moved to the end first, so that a new row of this example evicts none of them.
            if key in self.rows:
                self.rows.move_to_end(key)
                self.counts[key] = min(self.counts[key] + 1, MAX_COUNT)
        missing = [key for key in rows if key not in self.rows]
        for key in missing:
            if self._has_room():
                self.rows[key], self.counts[key] = rows[key], 1
        for key in missing:
            if key not in self.rows:
                self._end(key, rows[key])

    def _end(self, key: RowKey, row: Array) -> None:
        for part in self.parts:
            part.end_row(row, key[0])

    def _has_room(self) -> bool:
        """Whether a row may be added. If all rows are in use, evicts the first one if its count is 0."""
        if self.max_rows is None or len(self.rows) < self.max_rows:
            return True
        first = next(iter(self.rows))
        if self.counts[first] > 0:
            self.counts[first] -= 1
            self.rows.move_to_end(first)
            return False
        self._end(first, self.rows.pop(first))
        del self.counts[first]
        return True

    def forget(self, task_id: int) -> None:
        self.rows.pop((task_id, False), None)
        self.counts.pop((task_id, False), None)

    def state(self) -> dict[str, Any]:
        ids, are_clusters = [key[0] for key in self.rows], [key[1] for key in self.rows]
        return {
            "row_limit": self.max_rows or 0,
            "row_id": np.array(ids, dtype=np.int64),
            "row_common": np.array(are_clusters, dtype=np.int64),
            "row_count": np.array([self.counts[key] for key in self.rows], dtype=np.int64),
            "row_values": np.array(list(self.rows.values())).reshape(len(self.rows), self.width),
        }

    def restore(self, state: dict[str, Any]) -> None:
        if self.may_grow:
            self.max_rows = int(state["row_limit"])
        values = np.asarray(state["row_values"], dtype=np.float64).reshape(len(state["row_id"]), self.width)
        are_clusters = np.asarray(state["row_common"]).astype(bool).tolist()
        keys = list(zip(np.asarray(state["row_id"]).tolist(), are_clusters, strict=True))
        self.counts = dict(zip(keys, np.asarray(state["row_count"]).tolist(), strict=True))
        self.rows = OrderedDict((key, row.copy()) for key, row in zip(keys, values, strict=True))

    @property
    def nbytes(self) -> int:
        # 64 is an estimate for the key and the entry of the dictionary. `row_bytes` is the size of a row in the core.
        return len(self.rows) * (8 * self.width + 64)
