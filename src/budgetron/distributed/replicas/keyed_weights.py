"""Weights of replicas that are found by a key, and how an exchange combines them.

A key is a cell of a hashed table, a bin of a column, or a pair of bins. Every key has weights, which a learner has
adapted. Most keys also have sums, which grow with each example. At an exchange, x_h are the numbers of a key in
replica h, and x₀ its numbers in the baseline, which is the result of the last exchange:

    sums      x₀ + Σ_h (x_h − x₀), so that each example is counted once
    weights   Σ_h a_h x_h / Σ_h a_h, where a_h says how much replica h has learned about the key since the last exchange

a_h is the increase of the *amount* of the key: the total of its sums, or, if it has none, its sum of squared gradients.
So a replica that has not seen a feature does not change its weights, and a feature that only one replica has seen gets
the weights of that replica. The mean is taken, because R replicas may all correct the same error, and the sum of their
changes would correct it R times. Sums of squared gradients are averaged too: the larger they are, the smaller the next
steps. Their sum over the replicas would make the steps too small, because the mean weights have moved only about as far
as the weights of one replica.

A cell may have lost its feature since the last exchange, and been given to the same feature again. Then one of its sums
may be less than in the baseline, although sums otherwise only grow, and everything in the cell counts as new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MAX_SUM = 2.0**24
"""No sum in float32 grows beyond this: an example adds at most 1, and float32 rounds 2²⁴ + 1 to 2²⁴. Model files with
larger sums are rejected."""


@dataclass(frozen=True)
class KeyedWeights:
    """Numbers of a replica, or of a baseline, with a row per key."""

    keys: NDArray[np.int64]  # (n,), ascending
    counts: NDArray[np.int8]  # (n,), occurrences up to a limit; unlike `sums`, they may shrink
    sums: NDArray[Any]  # (n, …)
    weights: NDArray[Any]  # (n, …)
    squares: int  # the column of `weights` that is a sum of squared gradients

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.counts.nbytes + self.sums.nbytes + self.weights.nbytes

    @property
    def amounts(self) -> Array:
        """How much has been learned about each key."""
        total = self.sums.sum(axis=1, dtype=np.float64)
        return np.where(total > 0, total, self.weights[:, self.squares])

    def rows(self, index: NDArray[Any]) -> KeyedWeights:
        """The rows with these positions, or those that a mask selects."""
        arrays = {name: getattr(self, name)[index] for name in ("keys", "counts", "sums", "weights")}
        return replace(self, **arrays)

    def at(self, keys: NDArray[np.int64]) -> KeyedWeights:
        """A row for each of these keys, and zeros for keys that are missing."""
        place = np.searchsorted(self.keys, keys)
        found = np.isin(keys, self.keys)
        result = KeyedWeights(
            keys, np.zeros(len(keys), np.int64), np.zeros((len(keys), self.sums.shape[1])),
            np.zeros((len(keys), self.weights.shape[1])), self.squares,
        )  # fmt: skip
        for name in ("counts", "sums", "weights"):
            getattr(result, name)[found] = getattr(self, name)[place[found]]
        return result


def baseline(parts: Sequence[KeyedWeights]) -> KeyedWeights:
    """The last common state of replicas, as far as known.

    For each key, it has the smallest sums of all replicas, and the weights of the replica with the smallest amount.
    Right after an exchange, all replicas have the same numbers. If they have learned since then, for example before the
    coordinator was restarted, sums have only grown. So the smallest sums are closest to the sums of the exchange.
    """
    if all(part is parts[0] for part in parts):
        return parts[0]
    keys, amounts = (np.concatenate(arrays) for arrays in zip(*((part.keys, part.amounts) for part in parts),
                                                              strict=True))  # fmt: skip
    order = np.lexsort((amounts, keys))
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1) > 0)  # of the groups of equal keys
    together = {name: np.concatenate([getattr(part, name) for part in parts])[order]
                for name in ("counts", "sums", "weights")}  # fmt: skip
    if not len(starts):
        return parts[0]
    counts, sums = (np.minimum.reduceat(together[name], starts, axis=0) for name in ("counts", "sums"))
    return replace(parts[0], keys=keys[order][starts], counts=counts, sums=sums, weights=together["weights"][starts])


def combined(parts: Sequence[KeyedWeights], last: KeyedWeights, max_count: int) -> KeyedWeights:
    """The numbers after an exchange, for all keys that any replica has."""
    keys = np.unique(np.concatenate([part.keys for part in parts]))
    before = last.at(keys)
    counts, sums, weights = before.counts.copy(), before.sums.copy(), before.weights.copy()
    gains, weighted = np.zeros(len(keys)), np.zeros_like(weights)
    amounts_before = before.amounts
    for part in parts:
        place, amounts = np.searchsorted(keys, part.keys), part.amounts
        is_known = (amounts >= amounts_before[place]) & (part.sums >= before.sums[place]).all(axis=1)
        gain = amounts - is_known * amounts_before[place]
        counts[place] += part.counts - is_known * before.counts[place]
        sums[place] += part.sums - is_known[:, None] * before.sums[place]
        gains[place] += gain
        weighted[place] += gain[:, None] * part.weights
    changed = gains > 0
    weights[changed] = weighted[changed] / gains[changed, None]
    dtypes = parts[0].sums.dtype, parts[0].weights.dtype
    if dtypes[0] == np.float32:
        sums = np.minimum(sums, MAX_SUM)
    return KeyedWeights(keys, np.clip(counts, 0, max_count).astype(np.int8), sums.astype(dtypes[0]),
                        weights.astype(dtypes[1]), last.squares)  # fmt: skip
