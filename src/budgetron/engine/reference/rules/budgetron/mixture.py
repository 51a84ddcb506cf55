"""Mixes the beliefs of all parts by how well they predict.

    p̄ = Σ_b w_b p_b / Σ_b w_b,   margin: its logit (log p̄_c for more than two classes)
    w_b ← w_b p_b(y)^ω, normalised; then every belief gets an equal share of 10⁻⁴, so that it can come back

Sums are over the beliefs that are awake for the example, and together they keep the weight that they had. (Sleeping
experts: Y. Freund, R. Schapire, Y. Singer, M. Warmuth, Using and combining predictors that specialize, STOC 1997.)
A part is idle while its beliefs together have less than 1 %. After 2,500 idle steps a part with Fourier features rests:
it is awake for one example in eight. After 5,000 a part is dropped, and its memory is freed.
"""

from __future__ import annotations

import numpy as np

from budgetron.engine.reference.rows import Array
from budgetron.engine.reference.rules.budgetron.parts.steps import log_probabilities

SHARE = 1e-4
NEGLIGIBLE = 0.01
REST, WAKE, PATIENCE = 2_500, 8, 5_000
LEAST = np.log(1e-6)
"""No belief is taken to be surer than one in a million: surer ones are wrong more often than that."""


def margins(f: Array, w: Array) -> Array:
    """Return the margins of the mixture, one per output, from f (beliefs, outputs) and w of the beliefs awake."""
    if len(w) == 1:
        return f[0] if f.shape[1] == 1 else log_probabilities(f[0])
    logs = np.maximum(np.stack([log_probabilities(row) for row in f]), LEAST)
    top = logs.max(axis=0)
    mixed = top + np.log(w @ np.exp(logs - top) / w.sum())
    return np.asarray(mixed[1:] - mixed[:1] if f.shape[1] == 1 else mixed)


def weights(f: Array, w: Array, code: int, omega: float) -> Array:
    """Return the new weights of the beliefs awake."""
    if len(w) == 1:
        return w
    logs = np.maximum([log_probabilities(row)[code] for row in f], LEAST)
    # Relative to the best, and in logarithms: the largest finite ω must give neither 0/0 nor ∞ − ∞.
    new = np.log(w) + omega * (logs - logs.max())
    new = np.exp(new - new.max())
    # Beliefs that rest keep their weight, so those that are awake share what they had together.
    return np.asarray(w.sum() * ((1 - SHARE) * new / new.sum() + SHARE / len(w)))
