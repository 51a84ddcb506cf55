"""Mistake bounds of related learners: multitask Perceptrons (CCG10), and a Forgetron that shrinks by a fixed factor.

M is the number of mistakes, u_i the weight vector of task i in the comparator, and u all of them together. L is the
comparator's hinge loss and ‖g‖² its squared norm Σ_ij A_ij u_i·u_j, where A is the graph's interaction matrix. c = c_G
is the largest norm of a multitask instance, k the number of tasks and d the number of columns.

    multitask Perceptron     M ≤ L + N + √(N L),   N = c²‖g‖²
    multitask p-norm         M ≤ L + H + √(2 H L),
                             H = 8e² ln max(k, d) X_∞² (Σ_i ‖u_i + Σ_{j≠i} (u_i − u_j)‖₁)² / (k+1)²
                             on the complete graph, with p = 2 ln max(k, d); X_∞ is the largest |x_n| of a row x
    second order, a = 1      M ≤ L + √((‖g‖² + Σ_t g(x_t)²) Σ_j ln(1 + λ_j))
                             a is its parameter; t runs over the mistakes, λ_j over the eigenvalues of the
                             mistakes' Gram matrix

The fixed-shrink Forgetron has another a: at a mistake it multiplies all weights by 1 − a. It evicts the oldest of B + 1
examples. Its comparator may change from step to step: it is g_t at step t, ‖g_t‖ ≤ U and Σ‖g_t − g_{t−1}‖ = V. For
kernels with K_tt ≤ 1, and with ε = (1−a)^B, q = 2a − a², R = (ε + √(ε² + (1−ε²)q))/q and ν = 1/(U√a):

    M (1 − 1/(2ν) − aνU²/(2(2−a)) − (ε/ν)(R + νU + 1 + aR) − ε²/(2ν)) ≤ L + νU²/2 + V(R + νU)

R bounds the norm of the learner's f. The bracket is 1 minus a multiple of U. It is positive for U below a radius, and
only then does the inequality bound M. This bound was derived for this library; it is not published elsewhere.

CCG10: Cavallanti, Cesa-Bianchi and Gentile. Linear Algorithms for Online Multitask Classification. 2010.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from budgetron.engine.reference.rules.shifting_perceptron import shrink_for
from budgetron.errors import input_error, shown
from budgetron.theory.bounds import Bound


def perceptron_bound(hinge_loss: float, norm: float, c: float) -> float:
    """Return the bound of the multitask Perceptron (CCG10), which has no budget."""
    N = (c * norm) ** 2
    return hinge_loss + N + math.sqrt(N * hinge_loss)


def p_norm_bound(hinge_loss: float, weights: ArrayLike, largest: float) -> float:
    """Return the bound of the multitask p-norm Perceptron on the complete graph, for the comparators u_i = weights[i].

    `largest` is X_∞, the largest absolute value in a row. The bound applies to ``LinearPerceptron(norm="auto",
    graph=complete(n_tasks=k))``.
    """
    u = np.asarray(weights, dtype=np.float64)
    if u.ndim != 2:
        raise input_error("theory.p_norm_bound", "weights", "a matrix, one row per task", shown(u.shape))
    k, d = u.shape
    # u_i + Σ_{j≠i} (u_i − u_j) = (k + 1) u_i − Σ_j u_j
    l1_norm = float(np.abs((k + 1) * u - u.sum(axis=0)).sum()) / (k + 1)
    H = 8 * math.e**2 * math.log(max(k, d)) * largest**2 * l1_norm**2
    return float(hinge_loss + H + math.sqrt(2 * H * hinge_loss))


def second_order_bound(hinge_loss: float, norm: float, agreement: ArrayLike, eigenvalues: ArrayLike) -> float:
    """Return the bound of the multitask second-order Perceptron with a = 1 and without a budget.

    `agreement` has the comparator's values g(x_t) on the mistakes, `eigenvalues` the eigenvalues of their Gram matrix.
    """
    squares = norm**2 + float((np.asarray(agreement, dtype=np.float64) ** 2).sum())
    logs = float(np.log1p(np.maximum(np.asarray(eigenvalues, dtype=np.float64), 0.0)).sum())
    return hinge_loss + math.sqrt(squares * logs)


def fixed_shrink_bound(
    hinge_loss: float, norm: float, shift: float, c: float, budget: int, shrink: float | None = None
) -> Bound:
    """Return the bound of a Forgetron that shrinks by a fixed factor, against comparators that shift.

    `norm` is the largest ‖g_t‖, `shift` is Σ‖g_t − g_{t−1}‖, `budget` is B, and `shrink` is a; None means ln(B)/B.
    """
    a = shrink_for(budget) if shrink is None else shrink
    if not 0 < a < 1:
        return Bound(math.inf, 0.0)
    U, V = c * norm, c * shift
    eps, q, root = (1 - a) ** budget, 2 * a - a * a, math.sqrt(a)
    R = (eps + math.sqrt(eps * eps + (1 - eps * eps) * q)) / q
    # The bracket of the module's docstring is 1 − slope·U, because 1/ν = U√a.
    slope = root / 2 + root / (2 * (2 - a)) + eps * (root * (R + 1 + a * R) + 1) + eps * eps * root / 2
    radius = 1 / slope
    if not 0 <= U < radius:
        return Bound(math.inf, radius / c)
    # νU = 1/√a. Written without ν, which is infinite for U = 0, where the bound is finite.
    return Bound((hinge_loss + U / (2 * root) + V * (R + 1 / root)) / (1 - slope * U), radius / c)
