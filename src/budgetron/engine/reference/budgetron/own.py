"""What belongs to one task alone: a row with its own block for each belief, for each task that ever updated.

    linear (dense input)   W_i (outputs × (d + 1)), S_i (d + 1), prior s_ℓ ρ_ℓ
    kernel                 w_i (outputs × r),       N_i (r),     relative to its prior: starts at 1

The kernel part is over the whitened anchors (`span`). A task without a row is at the prior. At most
`max_task_rows` rows: past it the one updated longest ago is dropped, and its task restarts from the shared part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.reference.budgetron.beliefs import Belief
from budgetron.engine.reference.budgetron.parts import blank
from budgetron.engine.settings import Settings


@dataclass
class Row:
    """Blocks by the index of their belief, weights then variances; and the arrival of the last update."""

    linear: dict[int, NDArray[Any]]
    kernel: dict[int, NDArray[Any]]
    stamp: int = -1


class Rows:
    """The rows by task key."""

    def __init__(self, settings: Settings) -> None:
        own = bool(settings.parameters.own)
        self.d = settings.n_features + 1 if own and not settings.sparse else 0
        self.r = int(settings.parameters.own_rank) if own else 0
        self.n_outputs, self.max_rows = settings.n_outputs, settings.parameters.max_task_rows
        self.held: dict[int, Row] = {}

    def holds(self, b: Belief) -> bool:
        """Whether rows have a block of this belief."""
        return (b.has_linear and self.d > 0) or (b.has_kernel and self.r > 0)

    def find(self, key: int, beliefs: list[Belief]) -> Row:
        """The task's row, or what it would be."""
        return self.held[key] if key in self.held else self.prior(beliefs)

    def prior(self, beliefs: list[Belief]) -> Row:
        """A row with all blocks at their prior."""
        linear = {b.index: blank(self.n_outputs, self.d, b.s_linear * b.rho_linear, "float64")
                  for b in beliefs if b.has_linear and self.d}
        kernel = {b.index: blank(self.n_outputs, self.r, 1.0, "float64") for b in beliefs if b.has_kernel and self.r}
        return Row(linear, kernel)

    def keep(self, key: int, row: Row, stamp: int) -> None:
        """The row is updated now; where it is new and there is no room, the stalest other one goes."""
        row.stamp = stamp
        self.held[key] = row
        if self.max_rows is not None and len(self.held) > max(self.max_rows, 1):
            del self.held[min(self.held, key=lambda key: self.held[key].stamp)]

    def forget(self, key: int) -> None:
        self.held.pop(key, None)

    def drop(self, b: Belief) -> None:
        """A belief is gone; and a row with nothing left in it too."""
        for key, row in list(self.held.items()):
            row.linear.pop(b.index, None)
            row.kernel.pop(b.index, None)
            if not row.linear and not row.kernel:
                del self.held[key]

    def restart_kernel(self) -> None:
        """All kernel parts back to their prior: the anchors changed."""
        for row in self.held.values():
            row.kernel = {index: blank(self.n_outputs, self.r, 1.0, "float64") for index in row.kernel}

    def state(self, beliefs: list[Belief]) -> dict[str, Any]:
        rows = list(self.held.values())
        linear = [list(row.linear.values()) for row in rows]
        kernel = [list(row.kernel.values()) for row in rows]
        linear_shape, kernel_shape = self._shapes(len(rows), beliefs)
        return {"table_key": np.array(list(self.held), dtype=np.int64),
                "table_stamp": np.array([row.stamp for row in rows], dtype=np.int64),
                "own_linear": np.array(linear, dtype="float64").reshape(linear_shape),
                "own_kernel": np.array(kernel, dtype="float64").reshape(kernel_shape)}

    def restore(self, state: dict[str, Any], beliefs: list[Belief]) -> None:
        linear_shape, kernel_shape = self._shapes(len(state["table_key"]), beliefs)
        linear = np.array(state["own_linear"], dtype="float64").reshape(linear_shape)
        kernel = np.array(state["own_kernel"], dtype="float64").reshape(kernel_shape)
        for i, (key, stamp) in enumerate(zip(state["table_key"], state["table_stamp"], strict=True)):
            row = self.find(int(key), beliefs)
            for blocks, values in ((row.linear, linear[i]), (row.kernel, kernel[i])):
                blocks.update(zip(list(blocks), values, strict=True))
            row.stamp = int(stamp)
            self.held[int(key)] = row

    def _shapes(self, n: int, beliefs: list[Belief]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of the linear and of the kernel blocks of n rows: (n, beliefs with such a block, outputs + 1, width)."""
        prior = self.prior(beliefs)
        return ((n, len(prior.linear), self.n_outputs + 1, self.d), (n, len(prior.kernel), self.n_outputs + 1, self.r))

    @property
    def nbytes(self) -> int:
        blocks = (block for row in self.held.values() for held in (row.linear, row.kernel) for block in held.values())
        return sum(block.nbytes for block in blocks) + 16 * len(self.held)  # and key, stamp
