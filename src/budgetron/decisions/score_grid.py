"""Fixed bins for the scores of a stream, which store their distribution in bounded memory.

A score is divided by a scale: 1 for log odds, otherwise computed from the first margins (`scale_of`). Bins are 1/16
wide up to ±8. Beyond that, their width is 0.8 % of the score, up to ±160. Larger scores share the last bins.

    g(x) = x for |x| ≤ 8,   sign(x) · (8 + 8 ln(|x| / 8)) beyond,   bin = ⌊16 (g(x) + 32)⌋ in 0 … 1023
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

Floats = NDArray[np.float64]
BINS = 1024
_PER_UNIT, _LINEAR, _HALF = 16.0, 8.0, 32.0  # bins per unit of g; end of the linear part; half of the range of g


def bins_of(scores: Floats, scale: float = 1.0) -> NDArray[np.intp]:
    """Return the bin of each score; larger scores never have lower bins.

    >>> bins_of(np.array([-1e9, -1.0, 0.0, 0.03, 1.0, 1e9])).tolist()
    [0, 496, 512, 512, 528, 1023]
    """
    x = scores / scale
    size = np.abs(x)
    if size.size and size.max() > _LINEAR:
        with np.errstate(divide="ignore"):  # for a score of 0 the logarithm is −∞, but `where` does not use it
            x = np.where(size > _LINEAR, np.copysign(_LINEAR + _LINEAR * np.log(size / _LINEAR), x), x)
    bins: NDArray[np.intp] = np.clip((x + _HALF) * _PER_UNIT, 0, BINS - 1).astype(np.intp)
    return bins


def edges(scale: float = 1.0) -> Floats:
    """Return the lower edge of each bin, as a score; the lower edge of the first bin is −∞.

    >>> edges()[[0, 496, 512, 640]].tolist()
    [-inf, -1.0, 0.0, 8.0]
    """
    g = np.arange(BINS) / _PER_UNIT - _HALF
    size = np.abs(g)
    x = np.where(size > _LINEAR, np.copysign(_LINEAR * np.exp((size - _LINEAR) / _LINEAR), g), g) * scale
    x[0] = -np.inf
    return x


def one_against_rest(margins: Floats) -> Floats:
    """Return the log odds ln p − ln(1 − p) of each class, for the margins (n, classes) of a model with probabilities.

    >>> one_against_rest(np.log([[0.5, 0.25, 0.25]])).round(3).tolist()
    [[0.0, -1.099, -1.099]]
    """
    log_probability = log_softmax(margins, axis=1)
    with np.errstate(divide="ignore"):
        odds: Floats = log_probability - np.log(-np.expm1(log_probability))
    return np.clip(odds, -700.0, 700.0)


def scale_of(scores: Floats) -> float:
    """Return the scale of margins that are not log odds: their standard deviation or, if lower, their mean size.

    The size of a margin is its absolute value. If all margins are 0, the scale is 1. If a label is rare, all margins
    may be close to −1. With the mean size as the scale, nearly all of them would be in a few bins, and AUC would be
    wrong in the second digit. The scale is never below a twentieth of the mean size. A smaller scale would not help:
    beyond 8 scales, the width of a bin is 0.8 % of the score, whatever the scale.

    >>> scale_of(np.array([-2.0, 4.0])), scale_of(np.array([-10.5, -9.5])), scale_of(np.zeros(3))
    (3.0, 0.5, 1.0)
    """
    size = float(np.abs(scores).mean()) if scores.size else 0.0
    if not np.isfinite(size) or size <= 0:
        return 1.0
    return float(np.clip(scores.std(), size / 20.0, size))
