"""A block of examples cut by shard, and the answers put back in the caller's order.

Rows of one shard keep their order, so every task sees its examples as they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.distributed.door import Admitted
from budgetron.distributed.worker import Parcel
from budgetron.errors import BudgetronError

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cut:
    """The rows of a block that go to one shard."""

    shard: int
    rows: Ints


def cuts(shards: Ints, rows: Ints | None = None) -> Iterator[Cut]:
    """One cut for each shard that has rows, shards ascending; `rows` are the numbers of the rows, 0, 1, … if left out.

    >>> [(cut.shard, cut.rows.tolist()) for cut in cuts(np.array([2, 0, 2, 0, 0]))]
    [(0, [1, 3, 4]), (2, [0, 2])]
    """
    numbers = np.arange(len(shards)) if rows is None else rows
    order = np.argsort(shards, kind="stable")
    edges = np.flatnonzero(np.diff(shards[order])) + 1
    for places in np.split(order, edges):
        if len(places):
            yield Cut(int(shards[places[0]]), numbers[places])


def taken(values: Any, rows: Ints) -> Any:
    """The rows of an array, a CSR matrix or a list; None of None."""
    if values is None:
        return None
    if isinstance(values, (list, tuple)):
        return [values[row] for row in rows.tolist()]
    return values[rows]


class OtherRows(BudgetronError):
    """A key that came before with other rows."""


@dataclass(frozen=True)
class Job:
    """A block that was admitted, on its way: its rows' shards, what its keys begin with, and where the margins go.

    `learned` marks rows that their shards have learned already, under the same key: these are not sent to be learned.
    """

    block: Admitted
    shards: Ints
    margins: NDArray[np.float64]
    stem: str | None = None
    learned: NDArray[np.bool_] | None = None

    def resumed(self, remembered: Mapping[int, Sequence[tuple[int, int]]]) -> tuple[Job, list[Cut]]:
        """The job without the rows that are learned already, and the cuts in which those were sent.

        `remembered` has what each shard remembers of the key: the number of the first row of each cut, and how many
        rows of the shard it had. The cuts are those of the call that sent them, whatever its block size was. Sent again
        just so, each is answered from the shard's log, which compares the rows.
        """
        learned = np.zeros(self.block.n, dtype=bool)
        cuts: list[Cut] = []
        for shard, sent in remembered.items():
            mine = np.flatnonzero(self.shards == shard)
            for first, n in sent:
                place = int(np.searchsorted(mine, first))
                if len(mine) < place + n or mine[place] != first:
                    raise OtherRows
                cuts.append(Cut(shard, mine[place : place + n]))
            # A shard learns its rows in order. So all rows before the last cut are learned, even where the log has
            # forgotten what it answered (it remembers the latest 100,000 keys): their margins are not known any more.
            last = max(int(cut.rows[-1]) for cut in cuts if cut.shard == shard)
            learned[mine[mine <= last]] = True
        self.margins[learned] = np.nan
        return replace(self, learned=learned), cuts

    def unlearned(self, start: int, stop: int) -> Ints:
        """The numbers of the rows from `start` to `stop` that are still to be sent."""
        if self.learned is None:
            return np.arange(start, stop)
        return start + np.flatnonzero(~self.learned[start:stop])

    def parcel(self, cut: Cut) -> Parcel:
        """What one shard is sent. Its key is that of the call and the position of its first row in the call."""
        block, rows = self.block, cut.rows
        key = None if self.stem is None else f"{self.stem}/{rows[0]}"
        named = taken(block.tasks, rows), taken(block.labels, rows), taken(block.weights, rows)
        return Parcel(cut.shard, 0, taken(block.rows, rows), *named, key)


def batches(jobs: Sequence[Job], rows: range, size: int) -> Iterator[list[tuple[Job, Cut]]]:
    """The rows of each job in parts of `size`, and small jobs together until there are as many rows."""
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
