"""`PointFigures`: the expected cost of an operating point, and the cost of its decisions so far.

It is the base class of `OperatingPoint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from budgetron.decisions.costs import Costs
from budgetron.decisions.score_grid import BINS, edges

Floats = NDArray[np.float64]


class PointFigures:
    """Computes thresholds and costs from the counts of an operating point."""

    threshold: float | None
    costs: Costs | None
    max_error: float | None
    confidence: float
    log_odds: bool
    labels: NDArray[Any] | None
    scale: float | None
    counts: NDArray[np.int64]
    decided: NDArray[np.int64]
    cuts: list[int]

    @property
    def n(self) -> int:
        """How many examples were counted."""
        return int(self.counts.sum())

    @property
    def low(self) -> float | None:
        """Below this probability (or margin), the first of two labels is decided; None: never, or not two labels."""
        return None if len(self.counts) != 1 or self.cuts[0] == 0 else self._edge(self.cuts[0])

    @property
    def high(self) -> float | None:
        """From this probability (or margin) on, the second of two labels is decided; None: never, or not two labels."""
        return None if len(self.counts) != 1 or self.cuts[1] >= BINS else self._edge(self.cuts[1])

    def _edge(self, cut: int) -> float:
        if self.threshold is not None and self.max_error is None:
            return self.threshold
        edge = float(edges(self.scale or 1.0)[cut]) if cut < BINS else np.inf
        # JSON has no infinity, so margins end at the largest number.
        return float(expit(edge) if self.log_odds else np.nan_to_num(edge))

    @property
    def expected_cost(self) -> float | None:
        """The cost of the cuts per counted example; without costs, the share of examples that they decide wrongly."""
        if not self.n:
            return None
        wrong, asked = self._expected()
        return float(wrong @ self._prices()[:2] + asked * self._prices()[2]) / self.n

    @property
    def expected_asked(self) -> float | None:
        """The share of the examples counted for which the cuts ask a person."""
        return self._expected()[1] / self.n if self.n else None

    def _expected(self) -> tuple[Floats, float]:
        """Return the false positives and false negatives of the cuts, and the number of questions to a person.

        With more than two labels, the first number counts all errors.
        """
        if len(self.counts) == 1:
            negatives, positives = self.counts[0]
            low, high = self.cuts
            wrong = np.array([negatives[high:].sum(), positives[:low].sum()], dtype=np.float64)
            return wrong, float((negatives + positives)[low:high].sum())
        decided = np.arange(BINS) >= np.array(self.cuts)[:, None]
        wrong_ones = float((self.counts[:, 0] * decided).sum())
        return np.array([wrong_ones, 0.0]), float((self.counts.sum(axis=1) * ~decided).sum())

    def _prices(self) -> Floats:
        """Return the costs of a false positive, of a false negative and of asking."""
        if self.costs is None:
            return np.array([1.0, 1.0, 0.0])
        return np.array([self.costs.fp, self.costs.fn, self.costs.ask or 0.0])

    def constant_costs(self) -> tuple[float, float] | None:
        """Return the costs per example of always deciding the first, and always the second label.

        None without costs, and if nothing was counted.
        """
        if self.costs is None or not self.n:
            return None
        negatives, positives = self.counts[0].sum(axis=1)
        return self.costs.fn * float(positives) / self.n, self.costs.fp * float(negatives) / self.n

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, the cuts, the expected costs and the counts of decisions so far, for JSON."""
        asked = int(self.decided[:, -1].sum()) if self.decided.size else 0
        n = int(self.decided.sum())
        wrong = n - asked - int(np.trace(self.decided[:, :-1])) if n else 0
        return {
            "threshold": self.threshold,
            "costs": None if self.costs is None else vars(self.costs),
            "max_error": self.max_error,
            "confidence": self.confidence if self.max_error is not None else None,
            "of": "probability" if self.log_odds else "margin",
            "labels": [] if self.labels is None else self.labels.tolist(),
            "low": self.low,
            "high": self.high,
            "cuts": self._class_cuts(),
            "counted": self.n,
            "expected_cost": self.expected_cost,
            "expected_asked": self.expected_asked,
            "so_far": {"decided": n - asked, "wrong": wrong, "asked": asked, "cost": self._cost_so_far()},
        }

    def _class_cuts(self) -> Sequence[float | None] | None:
        """Return the lowest probability (or margin) at which each of several labels is decided; None: never."""
        if len(self.counts) < 2:
            return None
        return [self._edge(cut) if cut < BINS else None for cut in self.cuts]

    def _cost_so_far(self) -> float | None:
        """Return the cost per example of the decisions as they were made, before each example was counted."""
        n = int(self.decided.sum())
        if self.costs is None or not n:
            return None
        wrong = np.array([self.decided[0, 1], self.decided[1, 0]], dtype=np.float64)
        return float(wrong @ self._prices()[:2] + self.decided[:, -1].sum() * self._prices()[2]) / n
