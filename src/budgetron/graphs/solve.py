"""Solve A c = b on a large sparse graph by conjugate gradients, and cache columns of A⁻¹ and A⁻².

A is I + L for the Laplacian L of the graph, or L itself (`singular`), whose pseudoinverse A⁺ takes the place of A⁻¹.
A direct solver would need the Cholesky factor, which is dense: for a random graph of 100,000 tasks it takes tens of
gigabytes. Conjugate gradients only multiply by A. No eigenvalue of I + L is below 1, so a few dozen products are enough
unless the weights are large. The preconditioner is the diagonal of A. (The compiled engine first eliminates
tasks with few neighbours; see src/core/algebra/sparse_inverse.hpp.)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

import numpy as np

from budgetron.graphs.taskgraph import Floats, read_only

TOLERANCE = 1e-13
"""The largest relative residual of a solution, unless rounding errors are larger, or three attempts do not reach it."""


def solve(matrix: Any, b: Floats, singular: bool = False) -> Floats:
    """Return the solution c of A c = b; if A is the Laplacian of a connected graph (`singular`), c = A⁺ b."""
    if singular:
        # A Laplacian maps constant vectors to 0, so only the part of b with mean 0 has a solution.
        b = b - b.mean()
    scale = matrix.diagonal()
    scale[scale == 0] = 1.0  # the Laplacian of a single task is 0, and so is b
    # A residual computed in floating point has an error of up to about 4 eps · ‖A‖ · ‖c‖, and ‖A‖ ≤ 2 max A_ii.
    rounding = 4 * np.finfo(np.float64).eps * 2 * float(scale.max(initial=0.0))
    c = np.zeros_like(b)
    residual, norm = b.copy(), float(np.linalg.norm(b))
    # The iteration updates its residual instead of computing it, so rounding errors accumulate. If the true residual
    # is still too large, the iteration starts again from the true residual, at most twice. The last solution is
    # returned even if its residual is too large.
    for _ in range(3):
        c += _conjugate_gradients(matrix, residual, scale, 0.3 * TOLERANCE * norm)
        if singular:
            # Of all solutions, A⁺ b is the one with mean 0.
            c -= c.mean()
        residual = b - matrix @ c
        if np.linalg.norm(residual) <= TOLERANCE * norm + rounding * np.linalg.norm(c):
            break
    return c


def _conjugate_gradients(matrix: Any, b: Floats, scale: Floats, goal: float) -> Floats:
    """Run preconditioned conjugate gradients from zero until the residual's norm is at most `goal`."""
    c, residual = np.zeros_like(b), b.copy()
    z = residual / scale
    direction, energy = z.copy(), float(residual @ z)
    # In exact arithmetic len(b) steps are enough; with rounding errors it may take more.
    for _ in range(10 * len(b) + 100):
        if np.linalg.norm(residual) <= goal:
            break
        image = matrix @ direction
        curvature = float(direction @ image)
        if not curvature > 0:  # only by rounding: A is positive definite, or semidefinite with b in its range
            break
        step = energy / curvature
        c += step * direction
        residual -= step * image
        np.divide(residual, scale, out=z)
        previous, energy = energy, float(residual @ z)
        # The next direction is conjugate to all earlier ones.
        direction *= energy / previous
        direction += z
    return c


class ColumnCache:
    """A thread-safe LRU cache of columns, limited in bytes."""

    def __init__(self, limit: int = 64 * 2**20) -> None:
        self.limit = limit
        self._columns: OrderedDict[Hashable, Floats] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return ColumnCache, (self.limit,)  # columns can be recomputed, and locks cannot be pickled

    @property
    def nbytes(self) -> int:
        """Bytes of the cached columns."""
        return self._bytes

    def get(self, name: Hashable, compute: Callable[[], Floats]) -> Floats:
        """Return the column of that name; if it is not cached, compute it, without holding the lock."""
        with self._lock:
            if name in self._columns:
                self._columns.move_to_end(name)
                return self._columns[name]
        column: Floats = read_only(compute())
        with self._lock:
            # Another thread may have computed the same column meanwhile.
            if name not in self._columns and column.nbytes <= self.limit:
                self._columns[name] = column
                self._bytes += column.nbytes
                while self._bytes > self.limit:
                    self._bytes -= self._columns.popitem(last=False)[1].nbytes
        return column
