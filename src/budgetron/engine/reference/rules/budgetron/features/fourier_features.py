"""Random Fourier features of a Gaussian kernel on standardised columns: cos(ω·z) and sin(ω·z) for frequencies ω.

Frequencies are drawn once from N(0, 2γ I), as small integers in units of √(2γ)/32, one byte each. Of every 128
frequencies, the first 96 have γ = 1/d and the other 32 have γ = 2/d: a quarter of the features insures against a wrong
bandwidth, which would cost more. A frequency does not depend on how many there are, so more can be added later.
"""

from __future__ import annotations

import numpy as np

from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rules.budgetron.features.hashing import gaussian, mix64

NARROW, WIDE = 1.0, 2.0
"""γ·d of the two bandwidths."""
BLOCK = 32  # consecutive frequencies with the same bandwidth; of every four blocks, the last is wide
UNIT = 32  # a frequency of 32 is one standard deviation
FIRST_FREQUENCIES = 64
"""Frequencies that a part uses at first: few enough to cost little on a stream that does not need them."""


class FourierFeatures:
    """Frequencies for d columns; `width` multiplies every γ."""

    def __init__(self, d: int, width: float) -> None:
        self.d, self.width = d, width
        self.resize(0)

    def resize(self, count: int) -> None:
        d = self.d
        self.frequencies = gaussian(mix64(np.arange(d * count, dtype=np.int64))).astype(np.int8).reshape(count, d)
        wide = np.arange(count) // BLOCK % 4 == 3
        self.scale = np.sqrt(2 * np.where(wide, WIDE, NARROW) * self.width / d) / UNIT

    def features(self, z: Array) -> Array:
        """Return the cosine and the sine of each frequency in turn."""
        phase = (self.frequencies.astype(np.float64) @ z) * self.scale
        return np.stack([np.cos(phase), np.sin(phase)], axis=1).ravel()

    @property
    def nbytes(self) -> int:
        return self.frequencies.nbytes
