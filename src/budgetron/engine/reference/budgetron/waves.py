"""Random Fourier features of a Gaussian kernel on standardised columns: cos(ω·z) and sin(ω·z) for frequencies ω.

Frequencies are drawn once from N(0, 2γ I), as small integers in units of √(2γ)/32, one byte each. The first half has
γ = 1/d, the other half γ = 2/d: a wrong bandwidth costs more than half of the features.
"""

from __future__ import annotations

import numpy as np

from budgetron.engine.reference.budgetron.hashing import gaussian, mix64
from budgetron.engine.reference.rows import Array

BANDWIDTHS = (1.0, 2.0)
"""γ·d of the two halves."""
UNIT = 32


class Waves:
    """`count` frequencies for d columns; `width` multiplies every γ."""

    def __init__(self, d: int, count: int, width: float) -> None:
        self.count = count
        self.frequencies = gaussian(mix64(np.arange(d * count, dtype=np.int64))).astype(np.int8).reshape(count, d)
        first = np.arange(count) < (count + 1) // 2
        gamma = np.where(first, *BANDWIDTHS) * width / d
        self.scale = np.sqrt(2 * gamma) / UNIT

    def features(self, z: Array) -> Array:
        """Return the cosine and the sine of each frequency in turn."""
        phase = (self.frequencies.astype(np.float64) @ z) * self.scale
        return np.stack([np.cos(phase), np.sin(phase)], axis=1).ravel()

    @property
    def nbytes(self) -> int:
        return self.frequencies.nbytes
