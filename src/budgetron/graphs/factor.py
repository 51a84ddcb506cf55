"""A sparse factor R of a graph's A⁻¹: what couples the weights of related tasks.

    f_i = shared + Σ_j R_ij v_j,   v_j independent with variance s:   the own parts then have covariance s R Rᵀ = s A⁻¹

A small graph, whose A⁻¹ is a table, has R = (A⁻¹)^½. A large one has A = D − W, D its diagonal, and

    S = D^(−½) W D^(−½),   R = D^(−½) Σ_n c_n Sⁿ,   c_n = C(2n, n)/4ⁿ

so that a row of R needs only the neighbourhood of its task: no solve and no eigenvector. `entries` of every row are
kept, the largest ones, and rescaled to the row's norm; whatever is cut, R Rᵀ remains a covariance. All rows are scaled
so that their mean square norm is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sparse

from budgetron.graphs.explicit import Explicit
from budgetron.graphs.taskgraph import Floats, Ints

ENTRIES = 9
"""Entries per row: on a grid of tasks 5 to 9 are as good as all."""
HOPS = 6
"""Terms of the series: with 6 steps from neighbour to neighbour a grid is covered as far as it matters."""

_PLACE_MASK = np.int64(2**20 - 1)
_AT_ONCE = 2**22
"""Numbers that are sorted at once, to bound the memory."""


@dataclass(frozen=True, eq=False)
class Factor:
    """Rows of R: row i has the entries starts[i] … starts[i + 1], by ascending task."""

    starts: Ints
    tasks: Ints
    values: Floats

    def row(self, i: int) -> tuple[Ints, Floats]:
        """Return the tasks and the values of row i."""
        part = slice(int(self.starts[i]), int(self.starts[i + 1]))
        return self.tasks[part], self.values[part]


_factors: WeakKeyDictionary[Explicit, Factor] = WeakKeyDictionary()


def factor_of(graph: Explicit, entries: int | None = ENTRIES, hops: int = HOPS) -> Factor:
    """Return the factor of a graph. That with the usual number of entries is computed once per graph.

    >>> from budgetron import graphs
    >>> graph = graphs.from_edges([("ann", "bob"), ("bob", "cid")])
    >>> factor_of(graph).row(0)[0].tolist()
    [0, 1, 2]
    """
    if entries == ENTRIES and hops == HOPS and graph in _factors:
        return _factors[graph]
    whole = _root(graph.dense) if graph.dense is not None else _series(graph.matrix, entries, hops)
    factor = _scaled(_largest(sparse.csr_array(whole), entries, keep_norms=True))
    if entries == ENTRIES and hops == HOPS:
        _factors[graph] = factor
    return factor


def _root(inverse: Floats) -> Floats:
    values, vectors = np.linalg.eigh(inverse)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _series(matrix: Any, entries: int | None, hops: int) -> Any:
    diagonal = matrix.diagonal()
    root = sparse.diags_array(1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)))
    S = root @ (sparse.diags_array(diagonal) - matrix) @ root
    power = total = sparse.eye_array(matrix.shape[0], format="csr")
    c = 1.0
    for n in range(1, hops + 1):
        c *= (2 * n - 1) / (2 * n)
        # Twice the entries of the result are enough: on a grid it differs by 1e-4 from that of all entries.
        power = _largest(sparse.csr_array(power @ S), None if entries is None else 2 * entries)
        total = total + c * power
    return sparse.csr_array(root @ total)


def _largest(matrix: Any, entries: int | None, keep_norms: bool = False) -> Any:
    """Return the matrix with the largest entries of every row, by size; with `keep_norms` rescaled to its norm."""
    counts = np.diff(matrix.indptr)
    if entries is None or counts.max(initial=0) <= entries:
        return matrix
    kept = _places_of_largest(matrix, counts, entries)
    rows = np.repeat(np.arange(matrix.shape[0]), counts)
    data = matrix.data[kept]
    if keep_norms:
        before = np.bincount(rows, matrix.data**2, minlength=matrix.shape[0])
        after = np.bincount(rows[kept], data**2, minlength=matrix.shape[0])
        data = data * np.sqrt(before / np.where(after > 0, after, 1.0))[rows[kept]]
    return sparse.csr_array((data, (rows[kept], matrix.indices[kept])), shape=matrix.shape)


def _places_of_largest(matrix: Any, counts: Ints, entries: int) -> Ints:
    """Return the places in `matrix.data` of the largest entries of every row.

    Sizes are compared by their first ten digits, then by place. Equal weights give many sizes that differ by rounding
    alone, and a graph must have the same factor on every machine.
    """
    keys = np.abs(matrix.data).view(np.int64) & ~_PLACE_MASK
    first = np.repeat(matrix.indptr[:-1], counts)
    keys |= _PLACE_MASK - np.minimum(np.arange(len(keys)) - first, _PLACE_MASK)
    kept = np.ones(len(keys), dtype=bool)
    long = np.flatnonzero(counts > entries)
    long = long[np.argsort(-counts[long], kind="stable")]  # rows of about the same length side by side
    at = 0
    while at < len(long):
        width = int(counts[long[at]])
        some = long[at : at + max(1, _AT_ONCE // width)]
        places = matrix.indptr[some][:, None] + np.arange(width)
        inside = np.arange(width) < counts[some][:, None]
        order = np.argpartition(np.where(inside, keys[np.where(inside, places, 0)], -1), width - entries, axis=1)
        dropped = np.take_along_axis(places, order[:, : width - entries], axis=1)
        kept[dropped[np.take_along_axis(inside, order[:, : width - entries], axis=1)]] = False
        at += len(some)
    return np.flatnonzero(kept)


def _scaled(matrix: Any) -> Factor:
    matrix.eliminate_zeros()
    matrix.sort_indices()
    square = float((matrix.data**2).sum()) / matrix.shape[0]
    return Factor(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data / np.sqrt(square or 1.0))
