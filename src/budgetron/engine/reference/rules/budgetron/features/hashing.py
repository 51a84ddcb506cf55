"""Hashes, and random numbers that are computed from them.

Frequencies, starting points and table cells come from integer hashes, never from a random generator. The compiled
engine computes the same integers. So the results agree in both engines, on every machine and with every NumPy version,
and nothing needs to be saved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]


def mix64(x: Any) -> Hashes:
    """Return the splitmix64 hash of each 64-bit integer."""
    with np.errstate(over="ignore"):
        h = np.asarray(x).astype(np.int64, copy=False).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return h ^ (h >> np.uint64(31))


def mixed(x: Hashes | Any, y: Hashes | Any) -> Hashes:
    """Return one hash for each pair of hashes (x, y). The hash of (y, x) is the same."""
    return mix64((np.asarray(x, dtype=np.uint64) ^ np.asarray(y, dtype=np.uint64)).view(np.int64))


def gaussian(h: Hashes) -> NDArray[np.int64]:
    """Return an integer per hash, nearly normal with standard deviation 32, between −127 and 127.

    The sum of the eight bytes of a hash has mean 1020 and standard deviation 209.
    """
    total = sum(((h >> np.uint64(8 * byte)) & np.uint64(255)).astype(np.int64) for byte in range(8))
    deviation = np.asarray(total) - 1020
    # Rounded to the nearest integer. No negative integer is divided, because Python and C++ round negative quotients
    # differently.
    size = (np.abs(deviation) * 32 + 104) // 209
    return np.asarray(np.where(deviation < 0, -1, 1) * np.minimum(size, 127))
