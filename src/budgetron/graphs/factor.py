"""Compute a sparse factor R of a graph's A⁻¹: R Rᵀ is nearly proportional to A⁻¹. Used by Budgetron and FourierSgd.

    f_i = shared + Σ_j R_ij v_j

f_i is the function of task i. If the v_j are independent with variance s, the own parts Σ_j R_ij v_j of the tasks have
the covariance s R Rᵀ, which is nearly proportional to A⁻¹.

A small graph stores A⁻¹, so R = (A⁻¹)^½. For a large graph, let D be the diagonal of A and A = D − W:

    S = D^(−½) W D^(−½),   R = D^(−½) Σ_n c_n Sⁿ,   c_n = C(2n, n)/4ⁿ

The sum is the power series of (I − S)^(−½), up to n = `hops`. A row of R needs only the neighbourhood of its task: no
system is solved and no eigenvector is computed. Only the `entries` largest entries of each row are stored, scaled so
that the row keeps its norm. Whatever is dropped, R Rᵀ remains a covariance matrix. Finally all rows are scaled by one
factor, so that their mean squared norm is 1.
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
"""The largest number of entries per row. On a grid of tasks, 5 to 9 entries give the same accuracy as all entries."""
HOPS = 6
"""The highest power of S in the series. On a grid, tasks more than 6 steps apart have negligible similarity."""

_POSITION_MASK = np.int64(2**20 - 1)  # the low bits of a sort key, which contain the position in the row
_BATCH = 2**22  # how many sort keys are compared at once, to bound the memory


@dataclass(frozen=True, eq=False)
class Factor:
    """The rows of R. Row i has the entries from starts[i] to starts[i + 1], sorted by task."""

    starts: Ints
    tasks: Ints
    values: Floats

    def row(self, i: int) -> tuple[Ints, Floats]:
        """Return the tasks and the values of row i."""
        part = slice(int(self.starts[i]), int(self.starts[i + 1]))
        return self.tasks[part], self.values[part]


# The factors of graphs that are still in use.
_factors: WeakKeyDictionary[Explicit, Factor] = WeakKeyDictionary()


def factor_of(graph: Explicit, entries: int | None = ENTRIES, hops: int = HOPS) -> Factor:
    """Return the factor of a graph. With the default arguments it is computed once per graph.

    >>> from budgetron import graphs
    >>> graph = graphs.from_edges([("ann", "bob"), ("bob", "cid")])
    >>> factor_of(graph).row(0)[0].tolist()
    [0, 1, 2]
    """
    if entries == ENTRIES and hops == HOPS and graph in _factors:
        return _factors[graph]
    full = _root(graph.dense) if graph.dense is not None else _series(graph.matrix, entries, hops)
    factor = _scaled(_largest(sparse.csr_array(full), entries, keep_norms=True))
    if entries == ENTRIES and hops == HOPS:
        _factors[graph] = factor
    return factor


def _root(inverse: Floats) -> Floats:
    """Return the symmetric square root of A⁻¹. Rounding may make eigenvalues slightly negative."""
    values, vectors = np.linalg.eigh(inverse)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _series(matrix: Any, entries: int | None, hops: int) -> Any:
    """Return R from the first terms of the power series."""
    diagonal = matrix.diagonal()
    # An isolated task of a Laplacian has a diagonal of 0; any scale will do for it.
    root = sparse.diags_array(1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)))
    # D − A = W, the weights of the edges.
    S = root @ (sparse.diags_array(diagonal) - matrix) @ root
    power = total = sparse.eye_array(matrix.shape[0], format="csr")
    c = 1.0
    for n in range(1, hops + 1):
        # c_n = C(2n, n)/4ⁿ, computed from c_{n−1}.
        c *= (2 * n - 1) / (2 * n)
        # Powers need only twice as many entries per row as the result: on a grid, more would change R by only 1e-4.
        power = _largest(sparse.csr_array(power @ S), None if entries is None else 2 * entries)
        total = total + c * power
    return sparse.csr_array(root @ total)


def _largest(matrix: Any, entries: int | None, keep_norms: bool = False) -> Any:
    """Return the matrix with only the largest entries of every row; with `keep_norms`, rows keep their norms."""
    counts = np.diff(matrix.indptr)
    if entries is None or counts.max(initial=0) <= entries:
        return matrix
    kept = _positions_of_largest(matrix, counts, entries)
    rows = np.repeat(np.arange(matrix.shape[0]), counts)
    data = matrix.data[kept]
    if keep_norms:
        before = np.bincount(rows, matrix.data**2, minlength=matrix.shape[0])
        after = np.bincount(rows[kept], data**2, minlength=matrix.shape[0])
        data = data * np.sqrt(before / np.where(after > 0, after, 1.0))[rows[kept]]
    return sparse.csr_array((data, (rows[kept], matrix.indices[kept])), shape=matrix.shape)


def _positions_of_largest(matrix: Any, counts: Ints, entries: int) -> Ints:
    """Return the positions in `matrix.data` of the largest entries of every row.

    Absolute values are compared by about nine digits, then by position. If edges have equal weights, many entries
    differ only by rounding errors, which depend on the machine; but the factor must be the same on every machine.
    """
    # The bits of non-negative doubles are ordered like the numbers, so one integer contains both sort criteria.
    sort_keys = np.abs(matrix.data).view(np.int64) & ~_POSITION_MASK
    first = np.repeat(matrix.indptr[:-1], counts)
    sort_keys |= _POSITION_MASK - np.minimum(np.arange(len(sort_keys)) - first, _POSITION_MASK)
    # Short rows keep all of their entries.
    is_large = np.ones(len(sort_keys), dtype=bool)
    long_rows = np.flatnonzero(counts > entries)
    long_rows = long_rows[np.argsort(-counts[long_rows], kind="stable")]  # a batch has rows of about the same length
    start = 0
    while start < len(long_rows):
        width = int(counts[long_rows[start]])
        batch = long_rows[start : start + max(1, _BATCH // width)]
        positions = matrix.indptr[batch][:, None] + np.arange(width)
        inside = np.arange(width) < counts[batch][:, None]
        # Shorter rows of the batch are padded by −1, which is smaller than every key.
        padded = np.where(inside, sort_keys[np.where(inside, positions, 0)], -1)
        order = np.argpartition(padded, width - entries, axis=1)
        dropped = np.take_along_axis(positions, order[:, : width - entries], axis=1)
        is_large[dropped[np.take_along_axis(inside, order[:, : width - entries], axis=1)]] = False
        start += len(batch)
    return np.flatnonzero(is_large)


def _scaled(matrix: Any) -> Factor:
    """Scale all rows by one factor, so that their mean squared norm is 1."""
    matrix.eliminate_zeros()
    matrix.sort_indices()
    square = float((matrix.data**2).sum()) / matrix.shape[0]
    return Factor(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data / np.sqrt(square or 1.0))
