"""Beliefs that learn many features by AdaGrad, each with its rate λ and own share ρ: linear features and all waves.

    φ = [linear, √(1/waves) · waves],   f = Σ (w + √ρ w_i) φ,   λ and ρ by belief
    G += (gφ)²,   w += λ gφ/√G,         and the same for own weights with √ρ φ

Own weights of all tasks lie in one array, those of a task as one run of cells that begins at the hash of the task id.
Runs of different tasks may overlap; with few cells tasks learn from each other at random, which costs less than having
no own weights. Weights are float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.reference.budgetron.hashing import mix64
from budgetron.engine.reference.budgetron.parts import Seen
from budgetron.engine.reference.budgetron.steps import gradient
from budgetron.engine.reference.rows import Array

LEAST = np.float32(1e-30)
LEAST_PULL = 1e-3
"""An example whose class has at least 99.9 % changes nothing."""


def adagrad(w: NDArray[np.float32], squares: NDArray[np.float32], pull: Array, rate: float) -> None:
    """Take one step: `pull` is the gradient per weight."""
    pull = pull.astype(np.float32)
    squares += pull * pull + LEAST
    w += np.float32(rate) * pull / np.sqrt(squares)


class WaveAdaGrad:
    """Beliefs with the given rates and own shares. `cells`: own weights of all tasks, at least one run or 0."""

    name = "adagrad"
    row_width, at, curved = 0, 0, False

    def __init__(self, rates: list[float], owns: list[float], outputs: int, columns: int, waves: int, shared: bool,
                 cells: int) -> None:  # fmt: skip
        self.rates, self.outputs, self.columns, self.shared = rates, outputs, columns, shared
        self.count = len(rates)
        self.roots = np.sqrt(owns) if shared else np.ones(len(rates))
        self.width = columns + 2 * waves
        self.amplitude = 1 / np.sqrt(max(waves, 1))
        shape = (self.count, outputs, self.width)
        self.w, self.squares = (np.zeros(shape if shared else (self.count, outputs, 0), np.float32) for _ in range(2))
        self.starts = cells - self.width + 1 if cells >= self.width else 0  # where a run may begin
        cells = cells if self.starts else 0
        self.own_w, self.own_squares = (np.zeros((self.count, outputs, cells), np.float32) for _ in range(2))

    def begin_row(self, row: Array, task_id: int) -> None:
        pass

    def features(self, e: Seen) -> Array:
        return np.concatenate([e.linear, self.amplitude * e.waves])

    def run_of(self, task_id: int) -> slice:
        start = int(mix64(np.int64(task_id)) % np.uint64(self.starts))
        return slice(start, start + self.width)

    def own_runs(self, e: Seen) -> list[tuple[float, slice]]:
        return [(r, self.run_of(task_id)) for r, task_id, _ in e.related] if self.starts else []

    def margins(self, e: Seen) -> Array:
        phi = self.features(e)
        f = self.w.astype(np.float64) @ phi if self.shared else np.zeros((self.count, self.outputs))
        for r, run in self.own_runs(e):
            f = f + r * self.roots[:, None] * (self.own_w[:, :, run].astype(np.float64) @ phi)
        return f

    def variances(self, e: Seen) -> Array:
        """Return what a step at the present rates would change, which falls as AdaGrad becomes sure."""
        phi2 = self.features(e) ** 2
        rates = np.array(self.rates)
        v = np.zeros(self.count)
        if self.shared:
            v += (rates[:, None] * phi2 / np.sqrt(1 + self.squares.mean(axis=1, dtype=np.float64))).sum(axis=1)
        for r, run in self.own_runs(e):
            squares = self.own_squares[:, :, run].mean(axis=1, dtype=np.float64)
            v += rates * (r * self.roots) ** 2 * (phi2 / np.sqrt(1 + squares)).sum(axis=1)
        return v

    def learn(self, e: Seen, f: Array, code: int, omega: float) -> bool:
        phi = self.features(e)
        runs = self.own_runs(e)
        changed = False
        for b, rate in enumerate(self.rates):
            g = omega * gradient(f[b], code)
            if g[code] < LEAST_PULL:
                continue
            changed = True
            for o, pull in enumerate(g[-self.outputs:]):
                if self.shared:
                    adagrad(self.w[b, o], self.squares[b, o], pull * phi, rate)
                for r, run in runs:
                    adagrad(self.own_w[b, o, run], self.own_squares[b, o, run], pull * r * self.roots[b] * phi, rate)
        return changed

    def use_all_waves(self) -> None:
        pass

    def linear_weights(self, e: Seen) -> Array:
        w = np.zeros((self.count, self.outputs, self.columns))
        if self.shared:
            w += self.w[:, :, : self.columns]
        for r, run in self.own_runs(e):
            w += r * self.roots[:, None, None] * self.own_w[:, :, run][:, :, : self.columns]
        return w

    def state(self) -> dict[str, Any]:
        return {"adagrad_weights": self.w, "adagrad_squares": self.squares,
                "adagrad_own_weights": self.own_w, "adagrad_own_squares": self.own_squares}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        for name in ("weights", "squares", "own_weights", "own_squares"):
            attribute = {"weights": "w", "own_weights": "own_w"}.get(name, name)
            shape = getattr(self, attribute).shape
            setattr(self, attribute, np.array(state[f"adagrad_{name}"], dtype=np.float32).reshape(shape))

    @property
    def nbytes(self) -> int:
        return 2 * (self.w.nbytes + self.own_w.nbytes)
