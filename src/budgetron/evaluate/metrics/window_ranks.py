"""Ranking metrics of the windows of a curve, as sums that can be merged.

Each metric of a class is stored as a numerator and a denominator, which are added when `Curve` merges windows:

    AUC                pairs in the right order (a tie counts half), and all pairs
    average precision  its value times the number of positives, and the number of positives
    precision at k     positives among the k highest scores, and k

So even a merged window compares only examples of the same original window. Otherwise margins that grow over time would
lower the metrics.
"""

from __future__ import annotations

import numpy as np

from budgetron.evaluate.metrics.ranking import Floats, Ranks, mean_of


def sums_of(metrics: Floats, positives: Floats, negatives: Floats, k: int) -> Floats:
    """Return the sums (classes, 6) of a window, from its metrics (classes, 3), positives and negatives per class."""
    pairs = positives * negatives
    ap_weight = np.where(pairs > 0, positives, 0.0)  # average precision is undefined without negatives
    denominators = np.column_stack([pairs, ap_weight, np.where(np.isnan(metrics[:, 2]), 0.0, float(k))])
    sums = np.empty((len(metrics), 6))
    sums[:, 0::2], sums[:, 1::2] = np.nan_to_num(metrics) * denominators, denominators
    return sums


def added(first: Floats | None, second: Floats | None) -> Floats | None:
    """Return the sums of two windows together."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


def ranks(sums: Floats | None) -> Ranks:
    """Return the metrics: numerator over denominator per class, then the mean over classes."""
    if sums is None:
        return Ranks()
    numerators, denominators = sums[:, 0::2], sums[:, 1::2]
    ratios = np.divide(numerators, denominators, out=np.full(numerators.shape, np.nan), where=denominators > 0)
    return Ranks(*(mean_of(column) for column in ratios.T))
