"""Ranking metrics from counts per score: ROC-AUC, average precision (PR-AUC) and precision at k.

Positives and negatives are counted per distinct score, or per bin of scores (`decisions.score_grid`). Within a bin the
order is unknown. The metrics assume a random order there, and the largest error of this assumption is reported too:

    AUC   Σ_b p_b (N_below + n_b/2) / (P N)          error at most Σ_b p_b n_b / (2 P N)
    AP    Σ_b p_b/P · (mean precision in the bin)    error: from the best and the worst order in each bin

p_b and n_b are the positives and negatives of bin b, P and N their sums, N_below the negatives in lower bins. With more
than two classes, each class is ranked against the rest, and the metrics are means over the classes that have both
positives and negatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from budgetron.errors import input_error, shown

Floats = NDArray[np.float64]


class Ranks(NamedTuple):
    """Metrics of a ranking. A metric is None where it is undefined.

    AUC and average precision need a positive and a negative example, and precision at k needs k examples.
    """

    auc: float | None = None
    average_precision: float | None = None
    precision_at_k: float | None = None


@dataclass(frozen=True, eq=False)
class Ranking:
    """Counts of positives and negatives per score, in ascending order of scores. One row per ranked class.

    >>> ranking = Ranking.of([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    >>> ranking.auc, round(ranking.average_precision, 3), ranking.precision_at(1), ranking.auc_within
    (0.75, 0.833, 1.0, 0.0)
    """

    thresholds: Floats  # the lower end of each bin, or the distinct score itself
    positives: Floats  # (classes, bins)
    negatives: Floats
    exact: bool  # whether each bin contains one score only

    @classmethod
    def of(cls, scores: Any, positive: Any, sample_weight: Any = None) -> Ranking:
        """Rank these scores exactly; `positive` says which examples are positive."""
        as_floats = np.asarray(scores, dtype=np.float64)
        weight = np.ones(len(as_floats)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        is_positive = np.asarray(positive).astype(bool)
        if as_floats.ndim != 1 or is_positive.shape != as_floats.shape or weight.shape != as_floats.shape:
            got = f"shapes {as_floats.shape}, {is_positive.shape} and {weight.shape}"
            raise input_error(
                "Ranking.of", "scores, positive and sample_weight", "one-dimensional, of one length", got
            )
        values, positives, negatives = by_score(as_floats, is_positive, weight)
        return cls(values, positives[None], negatives[None], True)

    @property
    def auc(self) -> float | None:
        """The area under the ROC curve: the probability that a positive is scored above a negative; ties count half."""
        return mean_of(auc(self.positives, self.negatives))

    @property
    def auc_within(self) -> float | None:
        """The largest possible error of `auc`; 0 if the ranking is exact."""
        return 0.0 if self.exact else mean_of(auc_within(self.positives, self.negatives))

    @property
    def average_precision(self) -> float | None:
        """The area under the precision-recall curve, as a sum of precisions weighted by gains in recall."""
        return mean_of(average_precision(self.positives, self.negatives, self.exact))

    @property
    def average_precision_within(self) -> float | None:
        """The largest possible error of `average_precision`; 0 if the ranking is exact."""
        return 0.0 if self.exact else mean_of(average_precision_within(self.positives, self.negatives))

    def precision_at(self, k: int) -> float | None:
        """Return the share of positives among the k highest scores; None if there are fewer than k examples.

        If several examples are tied at the k-th place, the places that are left for them count with the share of
        positives among the tied examples.
        """
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise input_error("Ranking.precision_at", "k", "an integer >= 1", shown(k))
        return mean_of(precision_at(self.positives, self.negatives, int(k)))

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and their largest possible errors, for JSON."""
        return {
            "auc": self.auc,
            "auc_within": self.auc_within,
            "average_precision": self.average_precision,
            "average_precision_within": self.average_precision_within,
            "exact": self.exact,
        }

    def roc(self) -> tuple[Floats, Floats]:
        """Return the ROC curve as false and true positive rates, from the highest threshold to the lowest.

        With several classes, it is the curve of all classes together (micro average).
        """
        tp, fp = _from_highest(self.positives.sum(axis=0)), _from_highest(self.negatives.sum(axis=0))
        return _from_zero(fp / max(fp[-1], 1e-300)), _from_zero(tp / max(tp[-1], 1e-300))

    def precision_recall(self) -> tuple[Floats, Floats]:
        """Return recall and precision, from the highest threshold to the lowest. They begin with 0 and 1."""
        tp, fp = _from_highest(self.positives.sum(axis=0)), _from_highest(self.negatives.sum(axis=0))
        any_above = tp + fp > 0
        recall, precision = tp[any_above] / max(tp[-1], 1e-300), tp[any_above] / (tp + fp)[any_above]
        return _from_zero(recall), np.concatenate([[1.0], precision])


def by_score(
    scores: Floats, positive: NDArray[np.bool_], weight: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """Return the distinct scores in ascending order, and the positives and negatives (or their weights) of each."""
    order = np.argsort(scores)
    ordered, true = scores[order], positive[order].astype(np.float64)
    weights = np.ones(len(order)) if weight is None else weight[order]
    # The last position of each distinct score; equal scores count together.
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1) if len(ordered) else np.arange(0)
    positives_up_to, all_up_to = np.cumsum(true * weights)[ends], np.cumsum(weights)[ends]
    positives = np.diff(positives_up_to, prepend=0.0)
    return ordered[ends], positives, np.diff(all_up_to, prepend=0.0) - positives


# ---- metrics of arrays of counts (…, bins), bins in ascending order; NaN where a metric is undefined


def auc(positives: Floats, negatives: Floats) -> Floats:
    """Return the area under the ROC curve of each row."""
    # The negatives with a lower score, and half of those with the same score.
    below = np.cumsum(negatives, axis=-1) - negatives / 2
    return _ratio((positives * below).sum(axis=-1), positives.sum(axis=-1) * negatives.sum(axis=-1))


def auc_within(positives: Floats, negatives: Floats) -> Floats:
    """Return half the share of pairs that are in the same bin."""
    same = (positives * negatives).sum(axis=-1) / 2
    return _ratio(same, positives.sum(axis=-1) * negatives.sum(axis=-1))


def average_precision(positives: Floats, negatives: Floats, exact: bool = False) -> Floats:
    """Return the average precision of each row.

    If `exact`, the examples of a bin have the same score, and all get the precision at the end of the bin. Otherwise,
    their order within the bin is assumed to be random.

    c examples come before the bin, a of them positive. In a random order of the bin, its i-th positive comes about r i
    examples later, r = (p + n + 1)/(p + 1), so the sum of the precisions is
    Σ_{i=1…p} (a + i)/(c + r i) = (p + (a − c/r) (ψ(c/r + p + 1) − ψ(c/r + 1))) / r,
    where ψ is the digamma function, ψ(x + 1) ≈ ln(x + ½).
    """
    p, n = np.flip(positives, axis=-1), np.flip(negatives, axis=-1)
    # True and false positives if all bins down to this one are predicted positive.
    tp, fp = np.cumsum(p, axis=-1), np.cumsum(n, axis=-1)
    if exact:
        total = p * np.divide(tp, tp + fp, out=np.zeros_like(tp), where=tp > 0)
    else:
        a, c, r = tp - p, tp + fp - p - n, (p + n + 1) / (p + 1)
        total = (p + (a - c / r) * np.log((c / r + p + 0.5) / (c / r + 0.5))) / r
    return _ratio(total.sum(axis=-1), np.where(negatives.sum(axis=-1) > 0, positives.sum(axis=-1), 0.0))


def average_precision_within(positives: Floats, negatives: Floats) -> Floats:
    """Return how far the average precision of any order within the bins can be from `average_precision`.

    At best, the p positives of a bin come before its n negatives, all with one score. At worst, they come after the
    negatives, with distinct scores: Σ_{i=1…p} (a + i)/(b + i) = p − (b − a) (ψ(b + p + 1) − ψ(b + 1)). Here b examples
    come before the first positive of the bin, and a of them are positive.
    """
    p, n = np.flip(positives, axis=-1), np.flip(negatives, axis=-1)
    a = np.cumsum(p, axis=-1) - p
    fp = np.cumsum(n, axis=-1)
    best = p * np.divide(a + p, a + p + fp - n, out=np.zeros_like(p), where=a + p > 0)
    worst = p - fp * (digamma(a + fp + p + 1) - digamma(a + fp + 1))
    total = np.where(negatives.sum(axis=-1) > 0, positives.sum(axis=-1), 0.0)
    value = average_precision(positives, negatives)
    return np.maximum(_ratio(best.sum(axis=-1), total) - value, value - _ratio(worst.sum(axis=-1), total))


def precision_at(positives: Floats, negatives: Floats, k: int) -> Floats:
    """Return the precision among the k highest scores of each row; NaN with fewer than k examples."""
    p, in_bin = np.flip(positives, axis=-1), np.flip(positives + negatives, axis=-1)
    up_to_bin = np.cumsum(in_bin, axis=-1)
    # All examples of the higher bins count; of the bin with the k-th score, only as many as are needed to reach k.
    taken = np.clip(k - (up_to_bin - in_bin), 0.0, in_bin)
    hits = np.divide(p * taken, in_bin, out=np.zeros_like(p), where=in_bin > 0).sum(axis=-1)
    if not up_to_bin.shape[-1]:
        return np.full(up_to_bin.shape[:-1], np.nan)
    return np.asarray(np.where(up_to_bin[..., -1] >= k, hits / k, np.nan))


def _from_highest(counts: Floats) -> Floats:
    """Return the number of examples at or above each bin, from the highest bin to the lowest."""
    return np.asarray(np.cumsum(np.flip(counts, axis=-1), axis=-1))


def _from_zero(rates: Floats) -> Floats:
    return np.concatenate([[0.0], rates])


def _ratio(part: Floats, total: Floats) -> Floats:
    """Return part / total; NaN where total is 0."""
    return np.asarray(np.divide(part, total, out=np.full(np.shape(part), np.nan), where=total > 0))


def mean_of(values: Floats) -> float | None:
    """Return the mean over the classes for which a figure is defined; None if there is none."""
    defined = [value for value in values.tolist() if value == value]  # NaN is unequal to itself
    return sum(defined) / len(defined) if defined else None
