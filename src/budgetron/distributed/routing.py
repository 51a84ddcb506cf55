"""Cut blocks of examples by shard into messages, and return margins in the caller's order.

`ShardedModel` calls this; nothing here sends anything. Rows of one shard keep their order, so every task sees its
examples in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.distributed.input_validation import ValidatedBlock
from budgetron.distributed.worker import ShardMessage
from budgetron.errors import BudgetronError

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cut:
    """The rows of a block that go to one shard."""

    shard: int
    rows: Ints


def cuts(shards: Ints, rows: Ints | None = None) -> Iterator[Cut]:
    """Cut rows by shard: one cut per shard that has rows, shards ascending.

    `rows` are the numbers of the rows in the block; 0, 1, … if left out.

    >>> [(cut.shard, cut.rows.tolist()) for cut in cuts(np.array([2, 0, 2, 0, 0]))]
    [(0, [1, 3, 4]), (2, [0, 2])]
    """
    numbers = np.arange(len(shards)) if rows is None else rows
    order = np.argsort(shards, kind="stable")
    edges = np.flatnonzero(np.diff(shards[order])) + 1
    for places in np.split(order, edges):
        if len(places):
            yield Cut(int(shards[places[0]]), numbers[places])


def take_rows(values: Any, rows: Ints) -> Any:
    """Select rows of an array, a CSR matrix or a list. None stays None."""
    if values is None:
        return None
    if isinstance(values, (list, tuple)):
        return [values[row] for row in rows.tolist()]
    return values[rows]


class DifferentRows(BudgetronError):
    """An idempotency key that was used before with different rows."""


@dataclass(frozen=True)
class Job:
    """A valid block while it is processed: the shard of each row, and the array that receives the margins.

    `call_key` is the idempotency key of the whole call; the keys of its messages begin with it. `learned` marks rows
    that their shards learned before under the same key, and that are not sent again.
    """

    block: ValidatedBlock
    shards: Ints
    margins: NDArray[np.float64]
    call_key: str | None = None
    learned: NDArray[np.bool_] | None = None

    def resumed(self, remembered: Mapping[int, Sequence[tuple[int, int]]]) -> tuple[Job, list[Cut]]:
        """The job without the rows that were learned before, and the cuts in which those rows were sent.

        `remembered` maps each shard to the cuts that its log has under this key: the number of the first row, and the
        number of rows of the shard. These are the cuts of the earlier call, whatever its block size was. Sent again
        unchanged, each is answered from the shard's log, which also compares the rows.
        """
        learned = np.zeros(self.block.n, dtype=bool)
        cuts: list[Cut] = []
        for shard, sent in remembered.items():
            mine = np.flatnonzero(self.shards == shard)
            for first, n in sent:
                place = int(np.searchsorted(mine, first))
                if len(mine) < place + n or mine[place] != first:
                    raise DifferentRows
                cuts.append(Cut(shard, mine[place : place + n]))
            # A shard learns its rows in order. So all rows before the last cut were learned, even if the log has
            # deleted their keys (it stores the latest 100,000). The margins of such rows are NaN.
            last = max(int(cut.rows[-1]) for cut in cuts if cut.shard == shard)
            learned[mine[mine <= last]] = True
        self.margins[learned] = np.nan
        return replace(self, learned=learned), cuts

    def unlearned(self, start: int, stop: int) -> Ints:
        """The numbers of the rows from `start` to `stop` that still have to be sent."""
        if self.learned is None:
            return np.arange(start, stop)
        return start + np.flatnonzero(~self.learned[start:stop])

    def message(self, cut: Cut) -> ShardMessage:
        """The message for one shard. Its key is the key of the call and the number of its first row in the call."""
        block, rows = self.block, cut.rows
        key = None if self.call_key is None else f"{self.call_key}/{rows[0]}"
        columns = take_rows(block.tasks, rows), take_rows(block.labels, rows), take_rows(block.weights, rows)
        return ShardMessage(cut.shard, 0, take_rows(block.rows, rows), *columns, key)


def batches(jobs: Sequence[Job], rows: range, size: int) -> Iterator[list[tuple[Job, Cut]]]:
    """Cut jobs into batches of about `size` rows: large jobs are divided, small jobs are sent together."""
    batch: list[tuple[Job, Cut]] = []
    n = 0
    for job in jobs:
        stop = min(rows.stop, job.block.n)
        for start in range(rows.start, stop, size):
            numbers = job.unlearned(start, min(start + size, stop))
            batch += [(job, cut) for cut in cuts(job.shards[numbers], numbers)]
            n += len(numbers)
            if n >= size:
                yield batch
                batch, n = [], 0
    if batch:
        yield batch
