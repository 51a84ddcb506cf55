"""The linear block on dense input: a weight a feature and one for the bias, shared, and in each task's row.

    z_j = clip((x_j − mean_j)/√(m2_j/n), ±3)/√d,   0 where m2_j ≤ 0;   z_d = 1
    after the example (Welford):   x ← clip(x, mean ± 10 √(m2/(n − 1)))  where m2 > 0:  one absurd row must not blind us
                                   n ← n + 1,   e = x − mean,   mean ← mean + e/n,   m2 ← m2 + e (x − mean)

Prior variances: s_ℓ shared, s_ℓ ρ_ℓ own. A task's own covariance is diagonal. The shared one is whole where d is
small (`parameters.whole`): columns that move together are then told apart.

    shared[b]   W and S of belief b, (outputs + 1, d + 1); or W and Σ, (outputs + d + 1, d + 1)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron.engine.reference.budgetron.beliefs import Belief
from budgetron.engine.reference.budgetron.own import Row
from budgetron.engine.reference.budgetron.parts import Diagonal, Part, Whole, blank, blank_whole
from budgetron.engine.reference.rows import Array, Instance
from budgetron.engine.settings import Settings

CLIP = 3.0
FAR = 10.0


class DenseLinear:
    """Moments of the columns, and the shared block of each belief that has one."""

    def __init__(self, settings: Settings, beliefs: list[Belief]) -> None:
        self.n_outputs, self.d = settings.n_outputs, settings.n_features
        self.has_shared = bool(settings.parameters.shared)
        self.count = 0
        self.mean: Array = np.zeros(self.d)
        self.m2: Array = np.zeros(self.d)
        self.is_whole = bool(settings.parameters.whole)
        make = blank_whole if self.is_whole else blank
        self.shared = {b.index: make(self.n_outputs, self.d + 1, b.s_linear) for b in beliefs if self.has_shared}

    def features(self, x: Instance, key: int) -> Array:
        """z."""
        z = np.zeros(self.d)
        varies = self.m2 > 0
        deviation = np.sqrt(self.m2[varies] / self.count)
        z[varies] = np.clip((x.values - self.mean)[varies] / deviation, -CLIP, CLIP) / np.sqrt(self.d)
        return np.append(z, 1.0)

    def parts(self, b: Belief, z: Array, row: Row) -> list[Part]:
        """The shared block and the task's own, with the same features."""
        parts: list[Part] = []
        if b.index in self.shared:
            kind = Whole if self.is_whole else Diagonal
            parts.append(kind(self.shared[b.index], z, floor=b.floor * b.s_linear))
        if b.index in row.linear:
            parts.append(Diagonal(row.linear[b.index], z, floor=b.floor * b.s_linear * b.rho_linear))
        return parts

    def observe(self, x: Instance) -> None:
        """The moments after x."""
        self.count += 1
        far = np.where(self.m2 > 0, FAR * np.sqrt(self.m2 / max(self.count - 2, 1)), np.inf)
        values = np.clip(x.values, self.mean - far, self.mean + far)
        e = values - self.mean
        self.mean = self.mean + e / self.count
        self.m2 = self.m2 + e * (values - self.mean)

    def drop(self, b: Belief) -> None:
        self.shared.pop(b.index, None)

    def state(self) -> dict[str, Any]:
        moments = {"moments_count": self.count, "moments_mean": self.mean.copy(), "moments_m2": self.m2.copy()}
        blocks = np.array(list(self.shared.values())).reshape(self._shape(len(self.shared)))
        if not self.is_whole:
            return moments | {"linear": blocks}
        rows, columns = np.tril_indices(self.d + 1)
        covariances = blocks[:, self.n_outputs :][:, rows, columns]
        return moments | {"linear": blocks[:, : self.n_outputs], "linear_covariance": covariances}

    def restore(self, state: dict[str, Any], beliefs: list[Belief]) -> None:
        self.count = int(state["moments_count"])
        self.mean = np.array(state["moments_mean"], dtype=np.float64)
        self.m2 = np.array(state["moments_m2"], dtype=np.float64)
        held = beliefs if self.has_shared else []
        if self.is_whole:
            blocks = self._whole_blocks(state, len(held))
        else:
            blocks = np.array(state["linear"], dtype=np.float64).reshape(self._shape(len(held)))
        self.shared = {b.index: block for b, block in zip(held, blocks, strict=True)}

    def _whole_blocks(self, state: dict[str, Any], n: int) -> Array:
        blocks = np.zeros(self._shape(n))
        blocks[:, : self.n_outputs] = np.reshape(state["linear"], (n, self.n_outputs, self.d + 1))
        rows, columns = np.tril_indices(self.d + 1)
        packed = np.reshape(state["linear_covariance"], (n, len(rows)))
        covariances = blocks[:, self.n_outputs :]
        covariances[:, rows, columns] = packed
        covariances[:, columns, rows] = packed
        return blocks

    def _shape(self, n: int) -> tuple[int, int, int]:
        return n, self.n_outputs + (self.d + 1 if self.is_whole else 1), self.d + 1

    @property
    def nbytes(self) -> int:
        return self.mean.nbytes + self.m2.nbytes + sum(block.nbytes for block in self.shared.values())
