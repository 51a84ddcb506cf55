"""Measure calibration: of the examples predicted with probability 0.8, four in five should be positive.

ECE = Σ_b n_b/n · |mean probability in bin b − share of positives in bin b|
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BINS = 20


@dataclass(frozen=True, eq=False)
class Calibration:
    """Counts per predicted probability, in equal bins of [0, 1].

    The probability is that of the positive class or, with three or more classes, of the predicted class.
    """

    n: Floats
    predicted: Floats  # sum of probabilities per bin
    came_true: Floats  # number of positives (or right predictions) per bin

    @classmethod
    def empty(cls) -> Calibration:
        return cls(np.zeros(BINS), np.zeros(BINS), np.zeros(BINS))

    def add(self, probability: Floats, true: NDArray[np.bool_]) -> None:
        """Count predicted probabilities, and whether they came true."""
        # A probability of exactly 1 belongs to the last bin.
        bins = np.minimum((probability * BINS).astype(np.intp), BINS - 1)
        self.n[:] += np.bincount(bins, minlength=BINS)
        self.predicted[:] += np.bincount(bins, weights=probability, minlength=BINS)
        self.came_true[:] += np.bincount(bins[true], minlength=BINS)

    def copy(self) -> Calibration:
        """Return an independent copy."""
        return Calibration(self.n.copy(), self.predicted.copy(), self.came_true.copy())

    @property
    def ece(self) -> float:
        """The expected calibration error."""
        return float(np.abs(self.predicted - self.came_true).sum() / max(self.n.sum(), 1.0))

    def bins(self) -> list[dict[str, float]]:
        """Return the non-empty bins: mean probability, share that came true, number of examples."""
        return [
            {"predicted": float(p / n), "came_true": float(t / n), "n": int(n)}
            for n, p, t in zip(self.n, self.predicted, self.came_true, strict=True)
            if n
        ]

    def to_dict(self) -> dict[str, Any]:
        return {"ece": self.ece, "bins": self.bins()}
