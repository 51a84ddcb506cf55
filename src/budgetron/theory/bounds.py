"""The mistake bounds of the paper's two theorems, for mtrbp (`RandomBudgetPerceptron`) and mtforg (`Forgetron`).

    Theorem 1, mtrbp, in expectation over its random choices, for any ε in (0, 1):
        E[M] ≤ (L + c S √B + ε B^{3/2}/2 + (ε B/4) ln(B/3)) / (1 − ε)     if ‖g_t‖ ≤ ε √B / (2c)
    Theorem 2, mtforg, B > 83:
        M ≤ 4L + (B + 1)/(2 ln(B + 1))                                    if ‖g‖ ≤ √((B + 1)/ln(B + 1)) / (4c)

M is the number of mistakes, L the hinge loss of the comparator g (g_t at step t, if it changes), S its total shift, B
the budget, and c is c_G, the largest norm of a multitask instance. The first bound grows with ε, so the best ε is the
smallest that the norm allows, ε = 2c‖g‖/√B.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from budgetron.errors import input_error, shown
from budgetron.graphs import TaskGraph, similarity_matrix

SMALLEST_FORGETRON_BUDGET = 84  # the theorem asks for B > 83


class Bound(NamedTuple):
    """A bound on the mistakes. It is infinite where the theorem gives none: for example, if the norm exceeds `radius`.

    `epsilon` is the ε of Theorem 1, and None for other bounds.
    """

    mistakes: float
    radius: float
    epsilon: float | None = None


def random_budget_radius(budget: int, c: float, epsilon: float = 1.0) -> float:
    """Return the largest norm of a comparator that mtrbp competes with; ε = 1 gives the limit."""
    return epsilon * math.sqrt(budget) / (2 * c)


def random_budget_bound(hinge_loss: float, norm: float, shift: float, c: float, budget: int) -> Bound:
    """Return the bound of Theorem 1 with the best ε."""
    radius = random_budget_radius(budget, c)
    epsilon = norm / radius
    if epsilon >= 1:
        return Bound(math.inf, radius, None)
    return Bound(random_budget_bound_at(epsilon, hinge_loss, shift, c, budget), radius, epsilon)


def random_budget_bound_at(epsilon: float, hinge_loss: float, shift: float, c: float, budget: int) -> float:
    """Return the bound of Theorem 1 at a given ε."""
    cost_of_evictions = epsilon * budget * math.sqrt(budget) / 2 + epsilon * budget / 4 * math.log(budget / 3)
    return (hinge_loss + c * shift * math.sqrt(budget) + cost_of_evictions) / (1 - epsilon)


def forgetron_radius(budget: int, c: float) -> float:
    """Return the largest norm of a comparator that mtforg competes with."""
    return math.sqrt((budget + 1) / math.log(budget + 1)) / (4 * c)


def forgetron_bound(hinge_loss: float, norm: float, c: float, budget: int) -> Bound:
    """Return the bound of Theorem 2; infinite also if the budget is too small for it."""
    radius = forgetron_radius(budget, c)
    if norm > radius or budget < SMALLEST_FORGETRON_BUDGET:
        return Bound(math.inf, radius)
    return Bound(4 * hinge_loss + (budget + 1) / (2 * math.log(budget + 1)), radius)


def longest(
    shape: ArrayLike, graph: TaskGraph, budget: int, tasks: Iterable[Any] | None = None, epsilon: float = 1.0
) -> float:
    """Return the largest norm a that mtrbp competes with, for tasks g_i = a·u_i with given cosines.

    `shape` has the products ⟨u_i, u_j⟩ of the directions, with 1 on the diagonal. Equal tasks may have large norms,
    because all of them use the same stored examples. Tasks far apart, such as the corners of a simplex, must divide the
    budget.

    >>> import numpy as np
    >>> from budgetron import graphs
    >>> k = 4
    >>> equal, simplex = np.ones((k, k)), (np.eye(k) - 1 / k) * k / (k - 1)
    >>> lengths = [longest(shape, graphs.complete(n_tasks=k), budget=800) for shape in (equal, simplex)]
    >>> [round(length**2, 6) for length in lengths]  # (k+1)/k · B/8 and B/(8k)
    [125.0, 25.0]
    """
    products = np.asarray(shape, dtype=np.float64)
    similarity = similarity_matrix(graph, tasks)
    if products.shape != similarity.shape:
        raise input_error("theory.longest", "shape", f"a matrix of shape {similarity.shape}", shown(products.shape))
    # The norm of the comparator scales with a, so the largest a is the radius divided by the norm for a = 1.
    norm_at_one = math.sqrt(float(np.sum(products * np.linalg.pinv(similarity, hermitian=True))))
    return random_budget_radius(budget, graph.c_g, epsilon) / norm_at_one
