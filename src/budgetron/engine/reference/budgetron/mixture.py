"""Mixes the beliefs of all parts by how well they predict.

    p̄ = Σ_b w_b p_b,   margin: its logit (log p̄_c for more than two classes)
    w_b ← w_b p_b(y)^ω, normalised; then every belief gets an equal share of 10⁻⁴, so that it can come back

A part whose beliefs together stay below 1 % for 5,000 steps is dropped, and its memory is freed.
"""

from __future__ import annotations

import numpy as np

from budgetron.engine.reference.budgetron.steps import log_probabilities
from budgetron.engine.reference.rows import Array

SHARE = 1e-4
NEGLIGIBLE = 0.01
PATIENCE = 5_000
LEAST = np.log(1e-6)
"""No belief is taken to be surer than one in a million: surer ones are wrong more often than that."""


def margins(f: Array, w: Array) -> Array:
    """Return the margins of the mixture, one per output, from f (beliefs, outputs)."""
    if len(w) == 1:
        return f[0] if f.shape[1] == 1 else log_probabilities(f[0])
    logs = np.maximum(np.stack([log_probabilities(row) for row in f]), LEAST)
    top = logs.max(axis=0)
    mixed = top + np.log(w @ np.exp(logs - top))
    return np.asarray(mixed[1:] - mixed[:1] if f.shape[1] == 1 else mixed)


def weights(f: Array, w: Array, code: int, omega: float) -> Array:
    """Return the new weights."""
    logs = np.maximum([log_probabilities(row)[code] for row in f], LEAST)
    # Relative to the best, and in logarithms: the largest finite ω must give neither 0/0 nor ∞ − ∞.
    new = np.log(w) + omega * (logs - logs.max())
    new = np.exp(new - new.max())
    return np.asarray((1 - SHARE) * new / new.sum() + SHARE / len(w))
