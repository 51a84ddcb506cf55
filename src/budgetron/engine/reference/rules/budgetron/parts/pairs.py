"""Which pairs of features a sparse row has.

Where features are categories, such as the words of an advertisement and the hour, their effects often depend on each
other. A belief on pairs of features can learn this. A row of n features has n(n − 1)/2 pairs, so rows with many
features have no pairs. Pairs consist of frequent features only: pairs of rare features would take cells and learn
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.reference.examples.rows import Integers
from budgetron.engine.reference.rules.budgetron.features.hashing import Hashes, mix64


@dataclass
class PairEntries:
    """The pairs of a row: for each pair the numbers of its two entries, its hash, its cell, and its value φ."""

    first: Integers
    second: Integers
    h: Hashes
    cell: Integers
    phi: NDArray[np.float32]  # 1/√(number of pairs), with the sign of the product of both features


def most_pairs(longest: int) -> int:
    """Return the largest number of pairs of a row, if rows with more than `longest` features have none."""
    return longest * (longest - 1) // 2


def pairs_of(h: Hashes, positive: NDArray[np.bool_], frequent: NDArray[np.bool_], longest: int) -> PairEntries:
    """Return the pairs of the frequent features of a row, without their cells."""
    n = len(h)
    pairs = [(i, j) for i in range(n) for j in range(i) if n <= longest and frequent[i] and frequent[j]]
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    sign = np.where(positive[first] == positive[second], np.float32(1), np.float32(-1))
    phi = sign / np.sqrt(np.float32(max(1, len(pairs))))
    # The sum of the two hashes is hashed, because the order of the two features does not matter.
    return PairEntries(first, second, mix64((h[first] + h[second]).view(np.int64)), np.full(len(pairs), -1), phi)
