"""A block of examples cut by shard, and the answers put back in the caller's order.

Rows of one shard keep their order, so every task sees its examples as they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
