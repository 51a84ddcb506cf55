"""The rows of stored examples, dense or sparse: append, remove, and inner products with all of them.

A slot is the place of one row. When a row is removed, the last one moves into its slot. Rows are stored in the dtype of
the settings. Products are computed in float64, and ⟨x, x'⟩ is the same to the last bit whichever of the two is stored,
because the Gram matrix must be exactly symmetric.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True)
class Instance:
    """One row x in float64, rounded to the dtype of the store: all features, or those at `indices`.

    `square` is ‖x‖². A dense store may subtract a reference point from a row, unless `is_centred` says that the row is
    a stored one.
    """

    values: Array
    indices: NDArray[np.int32] | None
    square: float
    is_centred: bool = False
    offset: Array | None = None  # the score of another model, one number per output; `Budgetron` adds it to f


TINY = 1e-300  # smaller weights count as 0, in the core too


def flushed(values: Array) -> Array:
    """Return the values with tiny ones set to 0. Weights that decay would become subnormal numbers, which are slow."""
    return np.where(np.abs(values) < TINY, 0.0, values)


def without(array: NDArray[Scalar], r: int, axis: int = -1) -> NDArray[Scalar]:
    """Return the array without slot r; the last slot takes its place."""
    last = array.shape[axis] - 1
    order = np.arange(last)
    order[r:r + 1] = last  # an empty slice if r is the last slot
    return array.take(order, axis=axis)


class DenseRows:
    """Dense rows, one per slot."""

    def __init__(self, n_features: int, dtype: str) -> None:
        self.rows: NDArray[Any] = np.empty((0, n_features), dtype=dtype)

    @staticmethod
    def instances(X: NDArray[Any], dtype: str) -> Iterator[Instance]:
        """The rows of a block, one by one."""
        for row in X:
            x = row.astype(dtype).astype(np.float64)
            yield Instance(x, None, _square(x))

    def minus(self, x: Instance, point: NDArray[Any]) -> Instance:
        """Return x − point, rounded to the dtype of the store."""
        z = (x.values - point).astype(self.rows.dtype).astype(np.float64)
        return Instance(z, None, _square(z), is_centred=True)

    def shift(self, by: Array) -> Array:
        """Add a vector to every row; return the new ‖x_j‖²."""
        self.rows = (self.rows + by).astype(self.rows.dtype)
        return np.array([self.instance(r).square for r in range(len(self.rows))])

    def append(self, x: Instance) -> None:
        self.rows = np.concatenate([self.rows, x.values[None].astype(self.rows.dtype)])

    def replace(self, r: int, x: Instance) -> None:
        self.rows[r] = x.values

    def remove(self, r: int) -> None:
        self.rows = without(self.rows, r, axis=0)

    def between(self, m: int, n: int, h: float) -> Instance:
        """Return h x_m + (1 − h) x_n, rounded to the dtype of the store."""
        z = h * self.instance(m).values + (1 - h) * self.instance(n).values
        z = z.astype(self.rows.dtype).astype(np.float64)
        return Instance(z, None, _square(z), is_centred=True)

    def products(self, x: Instance) -> Array:
        """⟨x_j, x⟩ for every slot j."""
        return _products(self.rows.astype(np.float64, copy=False), x.values)

    @property
    def sizes(self) -> Integers:
        """Zeros, because `Settings.pool` does not limit dense rows; see `SparseRows.sizes`."""
        return np.zeros(len(self.rows), dtype=np.int64)

    def instance(self, r: int) -> Instance:
        """Return x_r as it is stored."""
        x = self.rows[r].astype(np.float64)
        return Instance(x, None, _square(x), is_centred=True)

    def all(self) -> NDArray[Any]:
        """The rows in slot order."""
        return self.rows.copy()

    def state(self) -> dict[str, Any]:
        return {"rows": self.all()}

    @staticmethod
    def block(state: dict[str, Any], n_features: int) -> Any:
        """The rows in a state, as a block of examples."""
        return state["rows"]

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes


class SparseRows:
    """Sparse rows, one after the other: slot j is indices and data from indptr[j] to indptr[j+1]."""

    def __init__(self, n_features: int, dtype: str) -> None:
        self.n_features = n_features
        self.indptr: Integers = np.zeros(1, dtype=np.int64)
        self.indices: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self.data: NDArray[Any] = np.empty(0, dtype=dtype)

    @staticmethod
    def instances(X: Any, dtype: str) -> Iterator[Instance]:
        """The rows of a CSR block, one by one."""
        for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            x = X.data[start:end].astype(dtype).astype(np.float64)
            yield Instance(x, X.indices[start:end].astype(np.int32), float(_sums(x * x, [len(x)])[0]))

    def append(self, x: Instance) -> None:
        assert x.indices is not None
        self.indptr = np.append(self.indptr, self.indptr[-1] + len(x.values))
        self.indices = np.concatenate([self.indices, x.indices])
        self.data = np.concatenate([self.data, x.values.astype(self.data.dtype)])

    def replace(self, r: int, x: Instance) -> None:
        assert x.indices is not None
        start, end = self.indptr[r], self.indptr[r + 1]
        self.indices = np.concatenate([self.indices[:start], x.indices, self.indices[end:]])
        self.data = np.concatenate([self.data[:start], x.values.astype(self.data.dtype), self.data[end:]])
        self.indptr = self.indptr.copy()
        self.indptr[r + 1 :] += len(x.values) - (end - start)

    def between(self, m: int, n: int, h: float) -> Instance:
        """Return h x_m + (1 − h) x_n over the features of both rows, rounded to the dtype of the store."""
        a, b = self.instance(m), self.instance(n)
        assert a.indices is not None and b.indices is not None
        indices = np.union1d(a.indices, b.indices)
        z = np.zeros(len(indices))
        z[np.searchsorted(indices, a.indices)] += h * a.values
        z[np.searchsorted(indices, b.indices)] += (1 - h) * b.values
        z = z.astype(self.data.dtype).astype(np.float64)
        z, indices = z[z != 0], indices[z != 0]
        return Instance(z, indices.astype(np.int32), float(_sums(z * z, [len(z)])[0]))

    def remove(self, r: int) -> None:
        start, end, last = self.indptr[r], self.indptr[r + 1], self.indptr[-2]
        order = np.arange(self.indptr[-1])
        # The last row moves into slot r; the rows between stay in order, so that slots agree with the core.
        moved = [order[last:], order[end:last]] if r < len(self.sizes) - 1 else []
        order = np.concatenate([order[:start], *moved])
        lengths = without(self.sizes, r)
        self.indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.indices, self.data = self.indices[order], self.data[order]

    def products(self, x: Instance) -> Array:
        """⟨x_j, x⟩ for every slot j: each stored non-zero is looked up in x."""
        lengths = self.sizes
        if x.indices is None or len(x.indices) == 0:
            return np.zeros(len(lengths))
        # The indices of x are sorted, so the value of x for every stored non-zero is found by bisection.
        position = np.searchsorted(x.indices, self.indices).clip(max=len(x.indices) - 1)
        factor = np.where(x.indices[position] == self.indices, x.values[position], 0.0)
        return _sums(self.data.astype(np.float64, copy=False) * factor, lengths)

    @property
    def sizes(self) -> Integers:
        """The number of non-zeros of each slot. `Settings.pool` limits their sum."""
        return np.diff(self.indptr)

    def instance(self, r: int) -> Instance:
        """Return x_r as it is stored."""
        return next(self.instances(self.all()[r], self.data.dtype.name))

    def all(self) -> Any:
        """The rows in slot order, as CSR."""
        return self.block(self.state(), self.n_features)

    def state(self) -> dict[str, Any]:
        return {"indptr": self.indptr.copy(), "indices": self.indices.copy(), "data": self.data.copy()}

    @staticmethod
    def block(state: dict[str, Any], n_features: int) -> Any:
        """The rows in a state, as a block of examples."""
        shape = (len(state["indptr"]) - 1, n_features)
        return scipy.sparse.csr_matrix((state["data"], state["indices"], state["indptr"]), shape=shape)

    @property
    def nbytes(self) -> int:
        return self.indptr.nbytes + self.indices.nbytes + self.data.nbytes


def _square(x: Array) -> float:
    return float(_products(x[None], x)[0])


def _products(rows: Array, x: Array) -> Array:
    """Return ⟨row, x⟩ for each row. BLAS is not used, because its rounding of one row depends on the number of rows."""
    products: Array = (rows * x).sum(axis=1)
    return products


def _sums(values: Array, lengths: Any) -> Array:
    """Return the sums of consecutive segments of these lengths, each added from left to right."""
    slots = np.repeat(np.arange(len(lengths)), lengths)
    return np.bincount(slots, weights=values, minlength=len(lengths)).astype(np.float64, copy=False)
