"""Compute bounds on the largest diagonal entry of A⁻¹ for a large graph, without computing A⁻¹.

`Explicit.c_g_range` calls `largest_diagonal` for each component. The bounds are proved and not estimated, because the
Forgetron's guarantee depends on the upper bound.

A = I + L, L is the graph's Laplacian, and e_i is the unit vector of task i.

*All tasks at once.* Let ν be the spectral measure of L at e_i; its moments are ν_j = (L^j)_ii. Then
    (A⁻¹)_ii = ∫ dν/(1 + s) = 1 − ∫ s dν/(1 + s).
A Gauss quadrature rule for the measure s dν, with one node (from ν₁, ν₂) or two nodes (up to ν₄), never exceeds the
last integral, and so gives an upper bound of (A⁻¹)_ii.

*A ball B around a task.* B is the task with its nearest neighbours. Let X = (A_BB)⁻¹, let x be column i of X, padded
by zeros, and let r = e_i − A x be its residual. Then
    (A⁻¹)_ii = X_ii + rᵀA⁻¹r,  so  X_ii ≤ (A⁻¹)_ii ≤ X_ii + ‖r‖²  (no eigenvalue of A is below 1).

Each step takes the task with the largest upper bound. The first time a task is taken, a ball improves the bounds of the
task and its neighbours; the second time, its entry is computed exactly. The algorithm stops when no upper bound is
above the largest value found. If very many tasks have equal entries (a torus of 100,000 tasks), it stops after a fixed
amount of work, and the two bounds differ.

*The pseudoinverse of a Laplacian.* The eigenvalues of L may be arbitrarily small, so ‖r‖² is no bound here. With c =
column j of L⁺,
    (L⁺)_ii = R_ij + 2c_i − c_j ≤ d_ij + 2c_i − c_j,
where R is the resistance distance, and d the length of the shortest path (an edge has length 1/weight). On trees R = d.
So every computed column gives a bound for all tasks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron.graphs.solve import solve
from budgetron.graphs.taskgraph import Floats, Ints

_DENSE_BLOCK = 2048  # components of up to this size are inverted as dense matrices
_BALL = 128  # tasks per ball
# These two limit the work if many tasks have equal entries.
_MAX_BALLS = 400
_MAX_SOLVES = 24
_MAX_PRODUCTS = 10**8  # if squaring L takes more multiplications than this, only two moments are used
_CLOSE = 1e-10  # bounds with a smaller relative difference count as equal


def largest_diagonal(matrix: Any, singular: bool, floor: float = 0.0) -> tuple[float, float]:
    """Return a lower and an upper bound of max_i (A⁻¹)_ii for one component; of max_i (A⁺)_ii if `singular`.

    Both are at least `floor`, the largest value that is known from other components.
    """
    size = matrix.shape[0]
    if size <= _DENSE_BLOCK:
        mean = 1.0 / size if singular else 0.0  # L⁺ = (L + J/n)⁻¹ − J/n, with J all ones
        value = float(np.linalg.inv(matrix.toarray() + mean).diagonal().max()) - mean
        return max(value, floor), max(value, floor)
    return _by_landmarks(matrix, floor) if singular else _by_balls(matrix, floor)


def _by_balls(matrix: Any, floor: float) -> tuple[float, float]:
    """Return the bounds for A = I + L, from moments, balls and single columns; see the top of this file."""
    upper = _bounds_from_moments(matrix)
    # (A⁻¹)_ii ≥ 1/A_ii holds for every positive definite matrix.
    lowest = max(floor, float((1.0 / matrix.diagonal()).max()))
    tightened = np.zeros(len(upper), dtype=bool)
    balls = solves = 0
    while True:
        i = int(upper.argmax())
        if upper[i] <= lowest * (1 + _CLOSE):
            return lowest, max(lowest, float(upper[i]))
        if not tightened[i]:
            if balls == _MAX_BALLS:
                return lowest, float(upper[i])
            balls += 1
            tightened[i] = True
            ball = _ball(matrix, i)
            low, high = _bounds_within(matrix, ball)
            upper[ball] = np.minimum(upper[ball], high)
            lowest = max(lowest, float(low.max()))
        else:
            if solves == _MAX_SOLVES:
                return lowest, float(upper[i])
            solves += 1
            unit = np.zeros(len(upper))
            unit[i] = 1.0
            upper[i] = solve(matrix, unit)[i]
            lowest = max(lowest, float(upper[i]))


def _bounds_from_moments(matrix: Any) -> Floats:
    """Return an upper bound of each (A⁻¹)_ii from the first two or four moments of L = A − I."""
    from scipy.sparse import csr_array, eye_array

    laplacian = csr_array(matrix - eye_array(matrix.shape[0], format="csr"))
    first = np.maximum(laplacian.diagonal(), np.finfo(np.float64).tiny)
    second = _row_products(laplacian, laplacian)
    # The Gauss rule with one node for the measure s dν: the node is its mean.
    node = second / first
    bound = 1.0 - first / (1.0 + node)
    degrees = np.diff(laplacian.indptr)
    if int((degrees.astype(np.float64) ** 2).sum()) > _MAX_PRODUCTS:
        return np.asarray(np.minimum(bound, 1.0))
    third, fourth = np.empty_like(first), np.empty_like(first)
    for start in range(0, len(first), 4096):  # L² in slices, because the complete matrix may not fit in memory
        rows = laplacian[start : start + 4096]
        square = rows @ laplacian
        third[start : start + 4096] = _row_products(rows, square)
        fourth[start : start + 4096] = _row_products(square, square)
    spread = third / first - node**2  # the Jacobi matrix of s dν is [[node, √spread], [√spread, farther]]
    usable = spread > 1e-6 * node**2  # otherwise the measure has almost a single node, and the division is inexact
    spread = np.where(usable, spread, 1.0)
    farther = (fourth - 2 * node * third + node**2 * second) / (first * spread)
    two_nodes = 1.0 - first / (1.0 + node - spread / (1.0 + farther))
    return np.asarray(np.minimum(np.where(usable, np.minimum(two_nodes, bound), bound), 1.0))


def _row_products(left: Any, right: Any) -> Floats:
    """Return the inner products of rows with the same index: for symmetric matrices, the diagonal of left·right."""
    return np.asarray(left.multiply(right).sum(axis=1), dtype=np.float64).ravel()


def _ball(matrix: Any, center: int) -> Ints:
    """Return the tasks nearest to the centre, by breadth-first search, up to a fixed number."""
    inside = np.array([center], dtype=np.int64)
    layer = inside
    while len(layer) and len(inside) < _BALL:
        layer = np.setdiff1d(matrix[layer].indices, inside)[: _BALL - len(inside)].astype(np.int64)
        inside = np.concatenate([inside, layer])
    return np.sort(inside)


def _bounds_within(matrix: Any, ball: Ints) -> tuple[Floats, Floats]:
    """Return lower and upper bounds of (A⁻¹)_ii for every i of the ball."""
    rows = matrix[ball]
    inside = np.isin(rows.indices, ball)
    # The entries of A between the ball and the tasks outside of it, which make up the residual.
    outward = rows.copy()
    outward.data = np.where(inside, 0.0, rows.data)
    outward.eliminate_zeros()
    x = np.linalg.inv(rows[:, ball].toarray())
    residual_squared = (x * ((outward @ outward.T) @ x)).sum(axis=0)
    return x.diagonal(), x.diagonal() + residual_squared


def _by_landmarks(matrix: Any, floor: float) -> tuple[float, float]:
    """Return the bounds for the pseudoinverse of a Laplacian, from single columns and shortest paths."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    size = matrix.shape[0]
    edges = matrix.tocoo()
    off_diagonal = edges.row != edges.col
    # SciPy 1.12 needs 32-bit indices here.
    ends = edges.row[off_diagonal].astype(np.int32), edges.col[off_diagonal].astype(np.int32)
    # The off-diagonal entries of a Laplacian are −weight, so −1/entry is the length 1/weight.
    lengths = csr_array((-1.0 / edges.data[off_diagonal], ends), shape=(size, size))
    upper, lowest = np.full(size, np.inf), floor
    for _ in range(_MAX_SOLVES):
        j = int(upper.argmax())
        unit = np.zeros(size)
        unit[j] = 1.0
        column = solve(matrix, unit, singular=True)
        upper = np.minimum(upper, dijkstra(lengths, directed=True, indices=j) + 2 * column - column[j])
        lowest = max(lowest, float(column[j]))
        if upper.max() <= lowest * (1 + _CLOSE):
            break
    return lowest, max(lowest, float(upper.max()))
