"""Solving A c = b on a sparse graph, and keeping some of the answers.

Conjugate gradients with the diagonal as preconditioner. The factors of a sparse graph fill up (a random one
of 100,000 tasks would need tens of gigabytes), its products do not; and A = I + L has all eigenvalues ≥ 1,
so a few dozen products suffice unless the weights are large. (The compiled engine eliminates tasks of few
neighbours first; see src/core/algebra/sparse_inverse.hpp.)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

import numpy as np

from budgetron.graphs.taskgraph import Floats, read_only

TOLERANCE = 1e-13
"""Residual of a solution relative to the right-hand side (or rounding, where that is larger)."""


def solved(matrix: Any, b: Floats, singular: bool = False) -> Floats:
    """c with A c = b; where A is the Laplacian of a connected graph (`singular`), c = A⁺ b."""
    if singular:
        b = b - b.mean()
    scale = matrix.diagonal()
    scale[scale == 0] = 1.0  # an isolated task of a Laplacian: its row is zero, and so is b there
    rounding = (
        4 * np.finfo(np.float64).eps * 2 * float(scale.max(initial=0.0))
    )  # ‖A‖ ≤ 2 max A_ii for a Laplacian
    c = np.zeros_like(b)
    residual, norm = b.copy(), float(np.linalg.norm(b))
    for _ in range(3):  # the recurrence drifts from the true residual: start again from that, twice at most
        c += _descended(matrix, residual, scale, 0.3 * TOLERANCE * norm)
        if singular:
            c -= c.mean()
        residual = b - matrix @ c
        if np.linalg.norm(residual) <= TOLERANCE * norm + rounding * np.linalg.norm(c):
            break
    return c


def _descended(matrix: Any, b: Floats, scale: Floats, goal: float) -> Floats:
    """Preconditioned conjugate gradients from zero until the residual's norm is at most the goal."""
    c, residual = np.zeros_like(b), b.copy()
    z = residual / scale
    direction, energy = z.copy(), float(residual @ z)
    for _ in range(10 * len(b) + 100):
        if np.linalg.norm(residual) <= goal:
            break
        image = matrix @ direction
        curvature = float(direction @ image)
        if not curvature > 0:  # nothing left but rounding
            break
        step = energy / curvature
        c += step * direction
        residual -= step * image
        np.divide(residual, scale, out=z)
        previous, energy = energy, float(residual @ z)
        direction *= energy / previous
        direction += z
    return c


class ColumnCache:
    """The most recently used columns, within a fixed number of bytes; safe to use from several threads."""

    def __init__(self, limit: int = 64 * 2**20) -> None:
        self.limit = limit
        self._columns: OrderedDict[Hashable, Floats] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return ColumnCache, (self.limit,)  # what is kept can be solved for again, and a lock cannot travel

    @property
    def nbytes(self) -> int:
        """What the kept columns take."""
        return self._bytes

    def get(self, name: Hashable, compute: Callable[[], Floats]) -> Floats:
        """The column of that name, computed (outside the lock) if it is not kept."""
        with self._lock:
            if name in self._columns:
                self._columns.move_to_end(name)
                return self._columns[name]
        column: Floats = read_only(compute())
        with self._lock:
            if name not in self._columns and column.nbytes <= self.limit:
                self._columns[name] = column
                self._bytes += column.nbytes
                while self._bytes > self.limit:
                    self._bytes -= self._columns.popitem(last=False)[1].nbytes
        return column
