"""Random Fourier features of Gaussian kernels on standardised columns: cos(ω·z) and sin(ω·z) for frequencies ω.

Frequencies are drawn from N(0, I), stored as integers in units of 1/32 (one byte per column), and scaled by √(2γ) for a
kernel exp(−γ‖z − z'‖²). A frequency is computed from hashes of its index, so more can be added later without changing
the first ones.

All parts of a Budgetron share the frequencies. A part that assumes another bandwidth scales them
differently. The features at one scaling are called a *bank*. In bank 0, the first 96 of every 128 frequencies have
γ = 1/d for d columns, and the other 32 have γ = 2/d. After the first `useful_frequencies`, rounded up to a multiple of
32, γ is three times as large, because a decision boundary that needs so many frequencies has fine detail. The other
banks have one γ each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rules.budgetron.features.hashing import gaussian, mix64

SMALL, LARGE, DETAIL = 1.0, 2.0, 3.0
"""In bank 0, γ·d is `SMALL` for most frequencies and `LARGE` for every fourth block. After the useful frequencies, both
are multiplied by `DETAIL`."""
BLOCK = 32
"""The number of consecutive frequencies with the same γ."""
UNIT = 32
"""The integer that stands for a standard deviation of 1."""
COLUMN_UNIT = 4096
"""Columns are rounded to multiples of 1/COLUMN_UNIT."""


def useful_frequencies(n_features: int) -> int:
    """Return how many frequencies are enough for most streams.

    More frequencies cost time, and help only if the decision boundary has fine detail.
    """
    return min(1024, 48 * n_features)


def first_frequencies(bank: int) -> int:
    """Return how many frequencies a part uses at first: few enough to cost little on a stream that needs none."""
    return 64 if bank == 0 else 32


class FourierFeatures:
    """Frequencies for d columns. `gamma_factor` multiplies every γ; `bandwidths` has γ·d of banks 1, 2, …"""

    def __init__(self, d: int, gamma_factor: float, bandwidths: Sequence[float]) -> None:
        self.d, self.gamma_factor, self.bandwidths = d, gamma_factor, bandwidths
        self.resize(0)

    def resize(self, count: int) -> None:
        """Use `count` frequencies from now on. The first ones stay the same."""
        d, index = self.d, np.arange(count)
        self.frequencies = gaussian(mix64(np.arange(d * count, dtype=np.int64))).astype(np.int8).reshape(count, d)
        block = index // BLOCK
        gamma_d = np.where(block % 4 == 3, LARGE, SMALL)
        gamma_d *= np.where(block * BLOCK < useful_frequencies(d), 1.0, DETAIL)
        self.scale = self._scale(gamma_d)

    def _scale(self, gamma_d: Array | float) -> Array:
        return np.asarray(np.sqrt(2 * gamma_d * self.gamma_factor / self.d) / UNIT)

    def banks(self, z: Array) -> list[Array]:
        """Return the features of each bank: the cosine and the sine of each frequency in turn.

        Columns are between −3 and 3, and are rounded to multiples of 1/4096. Then nearly all sums of their products
        with small integers are exact in float32, and do not depend on the order of the additions.
        """
        rounded = (np.rint(z * COLUMN_UNIT) / COLUMN_UNIT).astype(np.float32)
        phase = self.frequencies.astype(np.float32) @ rounded
        scales = [self.scale, *(self._scale(gamma_d) for gamma_d in self.bandwidths)]
        angles = [(phase * s.astype(np.float32)).astype(np.float64) for s in scales]
        features = [np.stack([np.cos(angle), np.sin(angle)], axis=1).ravel() for angle in angles]
        return [each.astype(np.float32).astype(np.float64) for each in features]  # the core keeps them in float32

    @property
    def nbytes(self) -> int:
        return self.frequencies.nbytes
