"""Costs of decisions, and the thresholds with the lowest cost among the scores that were counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from budgetron.decisions.score_grid import edges
from budgetron.errors import input_error, input_type_error, shown

_ACCEPTED = "costs of fp and fn, and perhaps ask: numbers >= 0, fp and fn above 0"


@dataclass(frozen=True)
class Costs:
    """The costs of a false positive, a false negative and a question to a person. A correct decision costs nothing."""

    fp: float
    fn: float
    ask: float | None = None

    @classmethod
    def of(cls, who: str, costs_by_name: Any) -> Costs:
        """Check costs that a user gave: a mapping, or Costs."""
        if isinstance(costs_by_name, Costs):
            costs_by_name = {name: value for name, value in asdict(costs_by_name).items() if value is not None}
        if not isinstance(costs_by_name, Mapping):
            raise input_type_error(who, "costs", 'a dict such as {"fp": 1, "fn": 20}', shown(costs_by_name))
        numbers = {name: value for name, value in costs_by_name.items() if _is_cost(value)}
        if numbers.keys() != costs_by_name.keys() or not {"fp", "fn"} <= costs_by_name.keys() <= {"fp", "fn", "ask"}:
            raise input_error(who, "costs", _ACCEPTED, shown(dict(costs_by_name)))
        costs = cls(**{name: float(value) for name, value in numbers.items()})
        if costs.fp <= 0 or costs.fn <= 0:
            raise input_error(who, "costs", _ACCEPTED, shown(dict(costs_by_name)))
        return costs

    def expected(self) -> tuple[int, int]:
        """Return the two cuts (indices of bins) that are best if the scores are the true log odds.

        Below the first cut the negative label is decided, and from the second cut on the positive label. Between the
        cuts a person is asked.
        """
        cut = _bin(self.fp / (self.fp + self.fn))
        if self.ask is None:
            return cut, cut
        low, high = _bin(min(self.ask / self.fn, 1.0)), _bin(max(1.0 - self.ask / self.fp, 0.0))
        return (low, high) if low < high else (cut, cut)

    def cheapest(self, negatives: NDArray[np.int64], positives: NDArray[np.int64]) -> tuple[int, int]:
        """Return the cuts with the lowest cost on the examples counted per bin; among ties the nearest to `expected`.

        The number of questions is the number of examples above the lower cut, plus the number below the upper cut,
        minus the number of all examples. The cost is therefore a sum of two functions, one of each cut, and the cuts
        can be chosen separately. If the lower cut chosen in this way is not below the upper one, asking never pays.
        """
        false_negatives, false_positives = self.fn * _below(positives), self.fp * _above(negatives)
        expected = self.expected()
        cut = _argmin(false_negatives + false_positives, expected[0])
        if self.ask is None:
            return cut, cut
        examples = negatives + positives
        low = _argmin(false_negatives + self.ask * _above(examples), expected[0])
        high = _argmin(false_positives + self.ask * _below(examples), expected[1])
        return (low, high) if low < high else (cut, cut)


def _is_cost(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(0 <= value < np.inf)


def _bin(probability: float) -> int:
    """Return the first bin whose lower edge is not below the log odds of a probability."""
    with np.errstate(divide="ignore"):
        return int(np.searchsorted(edges(), logit(probability), side="left"))


def _below(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how many examples are below each of the BINS + 1 cuts."""
    return np.concatenate([[0.0], np.cumsum(counts)])


def _above(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(counts.sum() - _below(counts))


def _argmin(cost: NDArray[np.float64], near: int) -> int:
    """Return the cut with the lowest cost; among ties the one nearest to `near`."""
    best = np.flatnonzero(cost <= cost.min() * (1 + 1e-12))
    return int(best[np.abs(best - near).argmin()])
