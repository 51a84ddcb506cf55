"""A block of examples cut by shard, and the answers put back in the caller's order.

Rows of one shard keep their order, so every task sees its examples as they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.distributed.door import Admitted
from budgetron.distributed.worker import Parcel

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cut:
    """The rows of a block that go to one shard."""

    shard: int
    rows: Ints


def cuts(shards: Ints, start: int = 0) -> Iterator[Cut]:
    """One cut a shard that has rows, shards ascending; rows are numbered from `start`.

    >>> [(cut.shard, cut.rows.tolist()) for cut in cuts(np.array([2, 0, 2, 0, 0]))]
    [(0, [1, 3, 4]), (2, [0, 2])]
    """
    order = np.argsort(shards, kind="stable")
    edges = np.flatnonzero(np.diff(shards[order])) + 1
    for rows in np.split(order, edges):
        if len(rows):
            yield Cut(int(shards[rows[0]]), rows + start)


def taken(values: Any, rows: Ints) -> Any:
    """The rows of an array, a CSR matrix or a list; None of None."""
    if values is None:
        return None
    if isinstance(values, (list, tuple)):
        return [values[row] for row in rows.tolist()]
    return values[rows]


@dataclass(frozen=True)
class Job:
    """A block that was admitted, on its way: its rows' shards, what its keys begin with, and where the margins go."""

    block: Admitted
    shards: Ints
    margins: NDArray[np.float64]
    stem: str | None = None

    def parcel(self, cut: Cut) -> Parcel:
        """What one shard is sent. Sent again it has the same key, wherever else the batch was cut."""
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
            part = job.shards[start : min(start + size, stop)]
            batch += [(job, cut) for cut in cuts(part, start)]
            n += len(part)
            if n >= size:
                yield batch
                batch, n = [], 0
    if batch:
        yield batch
