"""Combines the margins of the beliefs linearly, beside the mixture.

The mixture is about as good as the best belief. Beliefs that are wrong on different examples, such as one on linear
features and one on bins, can together be better than the best of them. So a linear model learns how to combine them:

    x_b = ℓ_b − m,   z = m + Σ_b β_b x_b

m is the margin of the mixture, ℓ_b that of belief b, and z that of the combination. With more than two classes, all
three are log probabilities, one per class c, and z is normalised. A belief that sleeps has x_b = 0. All β begin at 0,
so the combination begins as the mixture. β is learned with the online Newton step:

    g = [y] − p(z),   u_b = Σ_c g_c x_bc
    β += ω Pu/(1 + ω uᵀPu),   P −= ω Pu(Pu)ᵀ/(1 + ω uᵀPu),   P ← P/0.9997

p(z) are the class probabilities, [y] is 1 for the true class y and 0 for the others. ω is the weight of the example; a
weight above 1 counts as 1. P is the covariance of β. It is divided by 0.9997 at every step, so that β keeps following
beliefs that still learn. A variance that would exceed its prior is set to the prior, and its covariances shrink so that
correlations stay the same.

The prediction averages the probabilities of m and z, weighted by how well each of the two has predicted (`mixture`).
So where the combination does not help, its cost in log loss is at most ln 2 once, plus 5e-5 per example: each update of
`mixture` divides 10⁻⁴ of the weight equally, so m loses at most half of that.

Combining predictions linearly: D. Wolpert, Stacked generalization, Neural Networks 1992. The Newton step: E. Hazan, A.
Agarwal, S. Kale, Logarithmic regret algorithms for online convex optimization, Machine Learning 2007.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.examples.rows import Array, Integers
from budgetron.engine.reference.rules.budgetron import mixture
from budgetron.engine.reference.rules.budgetron.parts.steps import gradient, log_probabilities
from budgetron.engine.saved_state import Field, Layout, packed, require, triangle, unpacked

PRIOR = 0.03
"""The variance of every β before the first example."""
KEEP = 0.9997
"""P is divided by this number at every step. So β depends mostly on the last 3,000 examples or so."""


class Combination:
    """β with its covariance P, and the weights `w` of m and z."""

    def __init__(self, beliefs: int) -> None:
        self.beta, self.P = np.zeros(beliefs), PRIOR * np.eye(beliefs)
        self.w = np.full(2, 0.5)

    def margins(self, logs: Array, beliefs: Integers, m: Array) -> Array:
        """Return the margin of the average probabilities of m and z.

        `beliefs` are the numbers of the beliefs that are awake, and `logs` their log probabilities, (beliefs, classes).
        """
        return m if len(beliefs) == 1 else mixture.margins(self._both(logs, beliefs, m), self.w)

    @property
    def is_no_worse(self) -> bool:
        """Whether z has predicted at least as well as m so far."""
        return bool(self.w[1] >= 0.5)

    def _both(self, logs: Array, beliefs: Integers, m: Array) -> Array:
        """Return m and z as the rows of an array."""
        z = m + self.beta[beliefs] @ _differences(logs, m)
        return np.stack([m, log_probabilities(z) if len(z) > 1 else z])

    def learn(self, logs: Array, beliefs: Integers, m: Array, code: int, omega: float) -> None:
        """Learn from an example of class `code` with weight ω."""
        if len(beliefs) == 1:
            return
        # As in the calibration, the weight is limited, so that a heavy example cannot make β jump.
        omega = min(omega, 1.0)
        both = self._both(logs, beliefs, m)
        self.w = mixture.weights(both, self.w, code, omega)
        u = np.zeros(len(self.beta))
        u[beliefs] = _differences(logs, m) @ gradient(both[1], code)[-len(m) :]
        spread = self.P @ u
        step = omega / (1 + omega * (u @ spread))
        self.beta += step * spread
        self.P -= step * np.outer(spread, spread)
        self.P /= KEEP
        scales = np.sqrt(np.minimum(1.0, PRIOR / np.diagonal(self.P)))
        self.P *= np.outer(scales, scales)

    def coefficients(self, w: Array, beliefs: Integers) -> Array:
        """Return c such that the prediction is about Σ_b c_b ℓ_b over the awake beliefs.

        For this sum, m is taken to be Σ_b w_b ℓ_b, and m and z are averaged instead of their probabilities. `w` are the
        weights of these beliefs in the mixture. Both w and c have a sum of 1.
        """
        if len(beliefs) == 1:
            return w
        beta = self.beta[beliefs]
        return np.asarray((1 - self.w[1] * beta.sum()) * w + self.w[1] * beta)

    def drop(self, beliefs: range) -> None:
        self.beta = np.delete(self.beta, beliefs)
        self.P = np.delete(np.delete(self.P, beliefs, axis=0), beliefs, axis=1)

    # ---- state

    def state(self) -> dict[str, Any]:
        return {"combination_beta": self.beta, "combination_matrix": packed(self.P), "combination_weight": self.w}

    def restore(self, state: dict[str, Any]) -> None:
        self.beta = np.array(state["combination_beta"], dtype=np.float64)
        self.P = unpacked(np.asarray(state["combination_matrix"], dtype=np.float64))
        self.w = np.array(state["combination_weight"], dtype=np.float64)


def _differences(logs: Array, m: Array) -> Array:
    """Return x, (beliefs, outputs)."""
    return np.asarray((logs[:, 1:] - logs[:, :1] if len(m) == 1 else logs) - m)


def fields(beliefs: int) -> Layout:
    """Return the layout of `Combination.state`."""
    return {"combination_beta": Field("float64", (beliefs,)), "combination_weight": Field("float64", (2,)),
            "combination_matrix": Field("float64", (triangle(beliefs),))}  # fmt: skip


def verify(arrays: Arrays) -> None:
    """Reject a saved combination with numbers that learning cannot produce."""
    weight, matrix = arrays["combination_weight"], arrays["combination_matrix"]
    is_distribution = (weight > 0).all() and abs(weight.sum() - 1) < 1e-6
    require(is_distribution, "state.combination_weight", "positive weights that add up to 1")
    variances = np.diagonal(unpacked(matrix))
    are_variances = ((variances > 0) & (variances <= PRIOR * (1 + 1e-9))).all()
    require(are_variances, "state.combination_matrix", f"variances above 0 and at most {PRIOR} on the diagonal")


def with_one_more(state: dict[str, Any], belief: int) -> None:
    """Split `belief` in two in the arrays of a saved model: each has half of β, and the second has the prior variance.

    `resize` calls it. The second belief comes directly after the first.
    """
    beta, P = np.array(state["combination_beta"]), unpacked(np.asarray(state["combination_matrix"], dtype=np.float64))
    beta[belief] /= 2  # the two beliefs predict the same, so together they have the effect that one had before
    state["combination_beta"] = np.insert(beta, belief + 1, beta[belief])
    P = np.insert(np.insert(P, belief + 1, 0.0, axis=0), belief + 1, 0.0, axis=1)
    P[belief + 1, belief + 1] = PRIOR
    state["combination_matrix"] = packed(P)


def with_one_less(state: dict[str, Any], belief: int) -> None:
    """Merge a belief with the next one, which predicts about the same.

    This is the opposite of `with_one_more` for β. The merged belief keeps the variance of the first.
    """
    beta, P = np.array(state["combination_beta"]), unpacked(np.asarray(state["combination_matrix"], dtype=np.float64))
    beta[belief] += beta[belief + 1]
    state["combination_beta"] = np.delete(beta, belief + 1)
    state["combination_matrix"] = packed(np.delete(np.delete(P, belief + 1, axis=0), belief + 1, axis=1))
