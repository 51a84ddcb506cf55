"""What the hashed table (`table`) and the binned columns (`bins`) have in common.

In both, a row selects a few weights out of many, the weights learn by AdaGrad, and the evidence of naive Bayes is one
more feature:

    G ← keep·G + (gφ)²,  w += λ gφ/√(G + c S φ²)        every weight w of a feature φ
    b += λ g/√(Σ g²)                                    the bias
    n_c = Σ_j φ_j log(M_jc/M_c)                         the weight of n:  κ += 0.3 gn/√(1 + Σ (gn)²)

g is the negative gradient of the log loss with respect to an output, and S += (g² − S)/256 its running mean square. λ
is the step size, and `keep` the share of G that stays at a step: 1 in AdaGrad. M_jc is the mass of feature j in class
c, and M_c the mass of all features in class c. `table` explains masses, and the factor c of S (a number, not a class).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rules.budgetron.parts.adagrad import MIN_SQUARE
from budgetron.engine.reference.rules.budgetron.parts.steps import gradient

SHARED_PRIOR = 2.0
"""c of weights that all tasks share."""
MEAN_RATE = 1 / 256
"""Step size of the running mean S."""
PRIOR_MASS = 0.1
"""Prior mass of every feature in each class: M_jc before any example."""
TOTAL_MASS = 1000 * PRIOR_MASS
"""Prior mass of every class: M_c before any example, as if there were 1,000 features."""
BAYES_RATE = 0.3
"""Step size of κ."""
MIN_ERROR = 1e-5
"""A belief that gives the true class a probability above 99.999 % takes no step (if ω is 1)."""


def first_mean_squares(beliefs: int, outputs: int) -> Array:
    """Return S before the first example: the mean of g² if all classes are equally likely."""
    classes = max(2, outputs)
    return np.full((beliefs, outputs), (1 - 1 / classes) / classes)


def gradients(f: Array, code: int, omega: float, mean_squares: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return g (beliefs, outputs), and which beliefs take a step; update S, `mean_squares`, in place.

    Beliefs that are nearly certain of the true class take no step, and their g is 0.
    """
    per_class = omega * np.stack([gradient(row, code) for row in f])  # (beliefs, classes)
    takes_step = per_class[:, code] >= MIN_ERROR
    g = np.where(takes_step[:, None], per_class[:, -f.shape[1]:], 0.0)
    mean_squares += (g**2 - mean_squares) * MEAN_RATE
    return g, takes_step


def step_weights(w: Any, squares: Any, phi: Any, g: Array, rate: Any, keep: Any, expected: Array) -> None:
    """Take a step of AdaGrad in place; `expected` is c S. The arithmetic is in float32, as in the compiled engine."""
    feature, factor, rate, keep, prior = (np.asarray(a, dtype=np.float32) for a in (phi, g, rate, keep, expected))
    gradient = feature * factor
    squares[...] = keep * squares + gradient * gradient
    w += rate * gradient / np.sqrt(squares + prior * (feature * feature) + MIN_SQUARE)


def step_bias(bias: Array, squares: Array, g: Array, rate: Any) -> None:
    """Take a step of biases in place; `squares` are their sums of g²."""
    squares += g**2
    bias += rate * g / np.sqrt(squares + 1e-9)


def step_bayes(bayes: Array, squares: Array, gradient: Any) -> None:
    """Take a step of κ in place; `squares` are the sums of its squared gradients."""
    squares += gradient**2
    bayes += BAYES_RATE * gradient / np.sqrt(squares)


def evidence(mass: Array, total: Array, outputs: int) -> Array:
    """Return the evidence of each feature with φ = 1, (features, outputs).

    `mass` is M_jc without its prior, and `total` is M_c. For two classes, the evidence is the log ratio of the second
    class to the first. For more, it is the logarithm of each class minus their mean.
    """
    logs = np.log((mass + PRIOR_MASS) / total)
    return np.asarray(logs[:, 1:] - logs[:, :1] if outputs == 1 else logs - logs.mean(axis=1, keepdims=True))
