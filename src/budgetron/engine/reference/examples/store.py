"""The stored examples: for each slot a row, its task id, its cluster and its arrival number.

A new example is appended. When an example is removed, the last one moves into its slot. So if a new example is appended
to a full store, and an older one is then evicted, the new one ends up in the slot of the evicted one. The compiled core
does the same, so that slots agree.

Dense rows under the Gaussian kernel are stored minus a reference point c (`reference_point`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from budgetron.engine.reference.examples.bandwidth import Bandwidth
from budgetron.engine.reference.examples.reference_point import ReferencePoint
from budgetron.engine.reference.examples.rows import Array, DenseRows, Instance, Integers, SparseRows, without
from budgetron.engine.settings import Settings


class Store:
    """The set S of stored examples."""

    def __init__(self, settings: Settings) -> None:
        kind = SparseRows if settings.sparse else DenseRows
        self.settings = settings
        self.rows: DenseRows | SparseRows = kind(settings.n_features, settings.dtype)
        self.bandwidth = Bandwidth(settings)
        self.point = ReferencePoint(settings, self.bandwidth.kernel)
        self.squares: Array = np.empty(0)
        self.task_id: Integers = np.empty(0, dtype=np.int64)
        self.cluster: Integers = np.empty(0, dtype=np.int64)
        self.arrival: Integers = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.task_id)

    def exceeds_capacity(self) -> bool:
        """Whether more examples are stored than the capacity B allows."""
        return self.settings.capacity is not None and len(self) > self.settings.capacity

    def fits(self, x: Instance) -> bool:
        """Whether the pool of non-zeros has space for x beside the stored rows."""
        return self.settings.pool is None or int(self.rows.sizes.sum()) + len(x.values) <= self.settings.pool

    def fits_alone(self, x: Instance) -> bool:
        """Whether x fits into an empty pool; a longer row is never stored."""
        return self.settings.pool is None or len(x.values) <= self.settings.pool

    def surplus(self) -> list[int]:
        """Return the arrival numbers of the oldest examples: as few as must be evicted to satisfy B and the pool."""
        order = np.argsort(self.arrival)
        B = len(self) if self.settings.capacity is None else self.settings.capacity
        sizes = self.rows.sizes[order]
        pool = int(sizes.sum()) if self.settings.pool is None else self.settings.pool
        m = max(len(self) - B, 0)
        # The oldest are evicted first, whatever their length.
        while int(sizes[m:].sum()) > pool:
            m += 1
        return [int(arrival) for arrival in self.arrival[order[:m]]]

    def slot(self, arrival: int) -> int:
        """Return the slot of the example with this arrival number."""
        return int(np.flatnonzero(self.arrival == arrival)[0])

    def kernel_row(self, x: Instance) -> tuple[Array, float]:
        """Return K'(x_j, x) for every slot j, and K'(x, x). K' is the kernel of rows, without tasks."""
        kernel = self.bandwidth.kernel
        assert kernel is not None
        x = self.centred(x)
        # Kernels are functions of inner products and squared norms, so one pass over the stored rows is enough.
        row = kernel.row(self.rows.products(x), np.full_like(self.squares, x.square), self.squares)
        return row, float(kernel.of_self(np.array([x.square]))[0])

    def centred(self, x: Instance) -> Instance:
        """Return x − c, rounded to the dtype of the store."""
        if x.is_centred or not self.point.moves:
            return x
        assert isinstance(self.rows, DenseRows)
        return self.rows.minus(x, self.point.c)

    def rescale(self, n_seen: int) -> bool:
        """Estimate γ of the kernel, if this is due after `n_seen` rows. Returns whether γ changed."""
        changed = self.bandwidth.update(n_seen)
        if changed:
            self.point.set_gamma(self.bandwidth.gamma)
        return changed

    def update_reference(self, x: Instance) -> bool:
        """Update the reference point c before x is learned. Returns whether c moved."""
        shift = self.point.update(x.values, self.centred(x).square) if self.point.is_used else None
        if shift is None:
            return False
        assert isinstance(self.rows, DenseRows)
        self.squares = self.rows.shift(shift)
        return True

    def original_rows(self) -> Any:
        """Return the rows in slot order as the caller gave them, up to rounding if c has moved."""
        rows = self.rows.all()
        return (rows + self.point.c).astype(rows.dtype) if self.point.moves else rows

    def append(self, x: Instance, task_id: int, cluster: int, arrival: int) -> None:
        x = self.centred(x)
        self.rows.append(x)
        self.squares = np.append(self.squares, x.square)
        self.task_id = np.append(self.task_id, task_id)
        self.cluster = np.append(self.cluster, cluster)
        self.arrival = np.append(self.arrival, arrival)

    def replace(self, r: int, x: Instance) -> None:
        """Put another row into slot r; its task and its arrival stay."""
        x = self.centred(x)
        self.rows.replace(r, x)
        self.squares[r] = x.square

    def remove(self, r: int) -> None:
        self.rows.remove(r)
        self.squares = without(self.squares, r)
        self.task_id, self.cluster = without(self.task_id, r), without(self.cluster, r)
        self.arrival = without(self.arrival, r)

    def state(self) -> dict[str, Any]:
        # In model files the task ids are called "key".
        slots = {"key": self.task_id.copy(), "cluster": self.cluster.copy(), "arrival": self.arrival.copy()}
        return self.rows.state() | slots | self.point.state() | self.bandwidth.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Fill an empty store."""
        self.bandwidth.restore(state)
        if self.bandwidth.is_used:
            self.point.set_gamma(self.bandwidth.gamma)
        block = self.rows.block(state, self.settings.n_features)
        slots = zip(state["key"], state["cluster"], state["arrival"], strict=True)
        for x, (task_id, cluster, arrival) in zip(self.instances(block), slots, strict=True):
            self.append(x, int(task_id), int(cluster), int(arrival))
        self.point.restore(state)  # after the rows, which are saved minus c and must not be centred again

    def instances(self, X: Any) -> Iterator[Instance]:
        """The rows of a block, one by one, rounded to the dtype of the store."""
        return self.rows.instances(X, self.settings.dtype)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.squares.nbytes + 3 * self.task_id.nbytes + self.point.nbytes
