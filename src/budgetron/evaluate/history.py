"""Compare recorded runs: test whether the figures of two runs differ significantly."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from budgetron.evaluate.result import Validation


def record_of(validation: Validation) -> dict[str, Any]:
    """Return the figures of a run for JSON, so that later runs can be compared with it."""
    counts = None if validation.confusion is None else validation.confusion.counts
    positives = None if counts is None or len(counts) != 2 else int(counts[1].sum())
    return {
        **validation.overall.to_dict(),
        "positives": positives,
        "tasks": len(validation.per_task),
        "k": validation.k,
        "rare": validation.rare is not None,
        "n_alarms": validation.n_alarms,
    }


class Change(NamedTuple):
    """A figure of two runs, and the difference in standard deviations."""

    figure: str
    before: float
    after: float
    deviations: float

    @property
    def is_significant(self) -> bool:
        """Whether the figures differ significantly, at the 5 % level."""
        return abs(self.deviations) > 1.96


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """Return the changes of error and AUC between two runs, for the figures that both records have.

    The standard error of a share is √(p (1 − p)/n). The standard error of an AUC is computed as in Hanley and McNeil
    (1982).

    >>> changes({"n": 1000, "error": 0.1}, {"n": 1000, "error": 0.2})[0].is_significant
    True
    """
    differences = []
    for figure, standard_error in (("error", _standard_error_of_share), ("auc", _standard_error_of_auc)):
        first, second = before.get(figure), after.get(figure)
        if first is None or second is None:
            continue
        error_before, error_after = standard_error(before), standard_error(after)
        if error_before is not None and error_after is not None:
            deviation = math.hypot(error_before, error_after)  # of the difference, if the runs are independent
            differences.append(Change(figure, first, second, (second - first) / deviation if deviation else 0.0))
    return differences


def _standard_error_of_share(record: dict[str, Any]) -> float | None:
    """Return the standard error of the error rate."""
    share, n = record["error"], max(record["n"], 1)
    # Without the lower limit, an error of 0 or 1 would have a standard error of 0.
    return math.sqrt(max(share * (1 - share), 0.25 / n) / n)


def _standard_error_of_auc(record: dict[str, Any]) -> float | None:
    """Return the standard error of the AUC by Hanley and McNeil (1982); None if a class has no examples."""
    auc, p = record["auc"], record.get("positives")
    n = None if p is None else record["n"] - p
    if not p or not n:
        return None
    q1, q2 = auc / (2 - auc), 2 * auc * auc / (1 + auc)
    variance = (auc * (1 - auc) + (p - 1) * (q1 - auc * auc) + (n - 1) * (q2 - auc * auc)) / (p * n)
    return math.sqrt(max(variance, 0.0))
