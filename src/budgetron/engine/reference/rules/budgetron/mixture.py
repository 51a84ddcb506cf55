"""Mix the probabilities of all beliefs, weighted by how well each has predicted so far.

A belief b is one of the models that are mixed. p_b are its class probabilities, and w_b is its weight in the mixture.

    p̄ = Σ_b w_b p_b / Σ_b w_b          the prediction; its margin is logit p̄, or log p̄_c for more than two classes c
    w_b ← w_b p_b(y)^ω, normalised     the update for an example with label y and weight ω
    w_b ← (1 − 10⁻⁴) w_b + 10⁻⁴/n      so that each of the n beliefs keeps enough weight to recover

Some beliefs sleep: they neither predict an example nor learn from it. All sums are over the n beliefs that are awake,
and an update does not change the sum of their weights. (Sleeping experts: Y. Freund, R. Schapire, Y. Singer, M.
Warmuth, Using and combining predictors that specialize, STOC 1997.)

Beliefs that share arrays form a part, and sleep together. `rule` decides which parts sleep. A part is idle while the
weights of its beliefs add up to less than 1 %. A part that has been idle for long is awake only for every eighth
example: a part with Fourier features after 2,500 consecutive idle examples, and every part after 500 or 1,000 while the
combination of the beliefs is worse than their mixture (`growth`). After 5,000, a part is dropped and its memory is
freed. The filter that learns by AdaGrad and the table of sparse rows neither sleep nor are dropped.
"""

from __future__ import annotations

import numpy as np

from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rules.budgetron.parts.steps import log_probabilities, with_lapse

SHARE = 1e-4
"""The fraction of the total weight that an update divides equally between the beliefs that are awake."""
NEGLIGIBLE = 0.01
"""A part whose beliefs together have less weight than this is idle."""
SLEEP_AFTER, SLEEP_SOON, SLEEP_SOON_IF_SLOW, NEVER = 2_500, 500, 1_000, np.iinfo(np.int64).max
"""A part sleeps after so many idle examples; `growth` chooses one of these limits."""
WAKE_EVERY, DROP_AFTER = 8, 5_000
"""A part that sleeps wakes for one example in `WAKE_EVERY`, and is dropped after `DROP_AFTER` idle examples."""
MIN_LOG_PROBABILITY = np.log(1e-6)
"""Smaller probabilities are raised to one in a million, because a belief that is so certain is wrong more often than it
claims."""


def margins(f: Array, w: Array, lapses: Array | None = None) -> Array:
    """Return the margins of the mixture, one per output.

    f are the margins (beliefs, outputs) and w the weights of the beliefs that are awake. `lapses` has the share of
    labels that each belief assumes to be random; None if no belief assumes this.
    """
    if f.shape == (1, 1) and not (lapses is not None and lapses.any()):
        return np.asarray(f[0])  # exactly, without the limit on the probability
    log_p = logs(f, lapses)
    top = log_p.max(axis=0)
    mixed = top + np.log(w @ np.exp(log_p - top) / w.sum())
    return np.asarray(mixed[1:] - mixed[:1] if f.shape[1] == 1 else mixed)


def logs(f: Array, lapses: Array | None) -> Array:
    """Return the log probabilities (beliefs, classes), none of them below `MIN_LOG_PROBABILITY`."""
    log_p = np.maximum(np.stack([log_probabilities(row) for row in f]), MIN_LOG_PROBABILITY)
    if lapses is not None:
        has_lapse = lapses > 0
        log_p[has_lapse] = with_lapse(log_p[has_lapse], lapses[has_lapse, None])
    return log_p


def lapse_factors(f: Array, lapses: Array) -> Array:
    """Return the factors by which lapse rates shrink the margins f: logit(p)/f, where p includes the lapse rate."""
    factors = np.ones(len(f))
    for b in np.flatnonzero(lapses):
        no, yes = logs(f[b : b + 1], lapses[b : b + 1])[0]
        # The limit of the quotient at f = 0 is 1 minus the lapse rate.
        factors[b] = np.clip((yes - no) / f[b, 0], 0.0, 1.0) if abs(f[b, 0]) > 1e-6 else 1 - lapses[b]
    return factors


def weights(f: Array, w: Array, code: int, omega: float, lapses: Array | None = None) -> Array:
    """Return the weights after an example of class `code` with weight ω, for the beliefs that are awake."""
    if len(w) == 1:
        return w
    log_p = logs(f, lapses)[:, code]
    # Computed with logarithms relative to the best belief. So even the largest finite ω gives neither 0/0 nor ∞ − ∞.
    new = np.log(w) + omega * (log_p - log_p.max())
    new = np.exp(new - new.max())
    # Sleeping beliefs keep their weights, so the sum of the weights of those awake must stay the same.
    return np.asarray(w.sum() * ((1 - SHARE) * new / new.sum() + SHARE / len(w)))
