"""The thresholds at which the share of wrong decisions stays below a limit, with a stated confidence.

For each class c there are 64 candidate thresholds t, fixed in advance. Suppose that n decisions for class c had a score
of at least t, and that k of them were wrong. The Clopper–Pearson bound says that the true share of wrong ones is at
most Beta⁻¹(1 − δ'; k + 1, n − k), except with probability δ'. With δ' = δ / (64 · number of classes) all bounds hold
together with probability at least 1 − δ, so that any threshold may be chosen after looking at them. This is a union
bound, as in Learn then Test (Angelopoulos, Bates, Candès, Jordan and Lei, 2021).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from budgetron.decisions.score_grid import BINS

Floats = NDArray[np.float64]
# Lower edges of bins: scores from −8 to 7.75 in steps of a quarter, in units of the scale of scores (`score_grid`).
CANDIDATES: NDArray[np.intp] = np.arange(BINS // 2 - 128, BINS // 2 + 128, 4)


def error_bounds(wrong: NDArray[np.int64], n: NDArray[np.int64], delta: float) -> Floats:
    """Return upper confidence bounds of the share of wrong decisions, if `wrong` of `n` decisions were wrong.

    The bound is 1 if n is 0, or if all decisions were wrong.

    >>> error_bounds(np.array([0, 0, 3]), np.array([0, 100, 100]), 0.05).round(3).tolist()
    [1.0, 0.03, 0.076]
    """
    bounds = np.ones(len(n))
    any_right = n > wrong
    bounds[any_right] = betaincinv(wrong[any_right] + 1.0, (n - wrong)[any_right], 1.0 - delta)
    return bounds


def safe_thresholds(
    right: NDArray[np.int64], wrong: NDArray[np.int64], max_error: float, delta: float
) -> NDArray[np.intp]:
    """Return the candidates whose bound on the share of wrong decisions is at most `max_error`, in ascending order.

    `right` and `wrong` count decisions for one class by bin, ascending. `delta` is the δ' above: each single
    bound holds with probability 1 − delta.
    """
    wrong_above = np.cumsum(wrong[::-1])[::-1][CANDIDATES]
    right_above = np.cumsum(right[::-1])[::-1][CANDIDATES]
    bounds = error_bounds(wrong_above, wrong_above + right_above, delta)
    safe: NDArray[np.intp] = CANDIDATES[bounds <= max_error]
    return safe
