"""Probabilities of the classes, and the size of a step that cannot overshoot.

A filter whose margin f has variance V moves f along the gradient to the maximum of the posterior:

    α = ω τ ([y] − p(f)),   τ ∈ (0, 1] solves   τ (1 − p_y(f)) = 1 − p_y(f + V α)

p(f) are the class probabilities, p_y is that of the true class y, [y] is 1 for y and 0 for other classes, and ω is the
weight of the example. For two classes this is the exact maximum. The right side decreases in τ, so the root is unique.
Newton's method finds it, with bisection where Newton's method leaves the interval or is slow. For a large weight ω, the
f after the step grows only with log ω.
"""

from __future__ import annotations

import numpy as np

from budgetron.engine.reference.examples.rows import Array


def per_class(f: Array) -> Array:
    """Return one number per class; a single output belongs to the second of two classes."""
    return np.concatenate([[0.0], f]) if len(f) == 1 else f


def log_probabilities(f: Array) -> Array:
    """Return log p of each class from the margins, one per output."""
    f = per_class(f)
    return np.asarray(f - (f.max() + np.log(np.exp(f - f.max()).sum())))


def gradient(f: Array, code: int) -> Array:
    """Return [y] − p of each class: the negative gradient of the log loss with respect to f."""
    p = np.exp(log_probabilities(f))
    g = -p
    g[code] = p.sum() - p[code]  # 1 − p_y without cancellation
    return g


def step(f: Array, code: int, omega: float, v: float) -> tuple[Array, float]:
    """Return α, one number per output, and the curvature h = ω p_y (1 − p_y) at the end of the step."""
    g = gradient(f, code)
    full = omega * g[-len(f):]  # α for τ = 1
    direction = per_class(v * full)  # the change of f for τ = 1
    # τ is in [low, high] throughout: the residual is positive at 0 and negative at 1.
    low, high, tau, last = 0.0, 1.0, 0.0, 1.0
    for _ in range(100):
        p = np.exp(log_probabilities(f + tau * v * full))
        residual = (p.sum() - p[code]) / g[code] - tau
        low, high = (tau, high) if residual > 0 else (low, tau)
        move = residual / (1.0 + p[code] * (direction[code] - p @ direction) / g[code])
        # Bisect if Newton's step leaves the interval, or is more than half as long as the step before.
        slow = not low <= tau + move <= high or abs(2 * move) > abs(last)
        last = (low + high) / 2 - tau if slow else move
        if abs(last) <= 1e-12 * tau:
            break
        tau += last
    p = np.exp(log_probabilities(f + tau * v * full))
    return tau * full, float(omega * p[code] * (p.sum() - p[code]))


def with_lapse(log_probability: Array, lapse: Array) -> Array:
    """Return log p of one of two classes if a share `lapse` of the labels is random.

    `log_probability` is log p without random labels.
    """
    return np.asarray(np.log(lapse / 2 + (1 - lapse) * np.exp(log_probability)))


def not_random(p: float, lapse: float) -> float:
    """Return the probability that a label is not random, if a share `lapse` of the labels is random.

    p is the probability of the label without random labels.
    """
    return (1 - lapse) * p / (lapse / 2 + (1 - lapse) * p)
