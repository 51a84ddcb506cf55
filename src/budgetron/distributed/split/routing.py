"""Divide blocks of examples by shard into messages, and return margins in the caller's order.

`ShardedModel` calls this; nothing here sends anything. Rows of one shard keep their order, so every task sees its
examples in their original order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from budgetron.distributed.input_validation import ValidatedBlock
from budgetron.distributed.workers.worker import ShardMessage
from budgetron.durable import StreamRows
from budgetron.graphs import Explicit, TaskGraph

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
    for indices in np.split(order, edges):
        if len(indices):
            yield Cut(int(shards[indices[0]]), numbers[indices])


@dataclass(frozen=True)
class Job:
    """A valid block while it is processed: the shard of each row, and the array that receives the margins.

    `key` is the idempotency key of the whole call. For a shard it is the key of a stream, in which each row has the
    position that it has in the call. This way the shard's log skips rows that the shard has learned, however the call
    is divided into messages.
    """

    validated: ValidatedBlock
    shards: Ints
    margins: NDArray[np.float64]
    key: str | None = None
    digests: NDArray[np.uint64] | None = None  # a hash per row, if the caller chose the key and may have used it before
    learned: NDArray[np.bool_] | None = None  # the rows that their shards learned before under this key

    @property
    def n(self) -> int:
        return self.validated.n

    def n_new(self, rows: range) -> int:
        """How many of these rows were not learned before this call."""
        return len(rows) if self.learned is None else int((~self.learned[rows.start : rows.stop]).sum())

    def message(self, cut: Cut, graph: TaskGraph) -> ShardMessage:
        """The message with the rows of a cut; `graph` is the task graph of the shard."""
        block, weights = self.validated.block.take(cut.rows), self.validated.sample_weight
        if isinstance(graph, Explicit) and block.tasks is not None:
            task_ids, clusters = graph.locate(block.tasks)  # a shard numbers the tasks of its part of the graph
            block = replace(block, task_ids=task_ids, clusters=np.ascontiguousarray(clusters))
        weights = None if weights is None else weights[cut.rows]
        return ShardMessage(cut.shard, 0, block, weights, self.key, self._stream_rows(cut))

    def positions(self) -> Iterator[ShardMessage]:
        """One message per shard with the positions and digests of all its rows, to compare with the rows in its log."""
        for cut in cuts(self.shards):
            yield ShardMessage(cut.shard, 0, None, None, self.key, self._stream_rows(cut))

    def _stream_rows(self, cut: Cut) -> StreamRows | None:
        if self.key is None:
            return None
        return StreamRows(cut.rows, b"" if self.digests is None else self.digests[cut.rows].tobytes())

    def put(self, cut: Cut, margins: NDArray[np.float64]) -> None:
        """Store the margins in the answer to a message. They are NaN if the shard has deleted them."""
        self.margins[cut.rows] = margins if margins.ndim == self.margins.ndim else np.nan


def batches(jobs: Sequence[Job], rows: range, size: int) -> Iterator[list[tuple[Job, Cut]]]:
    """Cut jobs into batches of about `size` rows: large jobs are divided, small jobs are sent together."""
    batch: list[tuple[Job, Cut]] = []
    n = 0
    for job in jobs:
        stop = min(rows.stop, job.n)
        for start in range(rows.start, stop, size):
            numbers = np.arange(start, min(start + size, stop))
            batch += [(job, cut) for cut in cuts(job.shards[numbers], numbers)]
            n += len(numbers)
            if n >= size:
                yield batch
                batch, n = [], 0
    if batch:
        yield batch
