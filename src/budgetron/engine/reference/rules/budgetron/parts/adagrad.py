"""One belief that learns by AdaGrad on the linear features and the Fourier features of bank 0.

    φ = [linear features, √(1/D) · Fourier features of D frequencies],   f = Σ (w + √ρ w_i) φ
    G += (gφ)²,   w += λ gφ/√G,         and the same for w_i with √ρ φ

w are the shared weights, w_i the own weights of task i, and G the sum of squared gradients of each weight. λ is the
step size, and ρ says how much own weights count; without shared weights, ρ is 1. On a graph, the own weights of all
tasks related to i are used, each with its coefficient. g is the negative gradient of the log loss with respect to an
output: ω([y] − p), for an example of weight ω. p is the probability of the output's class, and [y] is 1 for the true
class and 0 for the others.

The own weights of all tasks are in one array. Those of a task are a run of consecutive cells that begins at the hash of
the task id. Runs of different tasks may overlap. So with few cells, unrelated tasks share weights, which costs less
accuracy than having no own weights. A run has cells for the planned frequencies; frequencies that are added beyond the
plan have no own weights. Weights are float32.

When the part starts to use more frequencies, the shared weights of Fourier features are scaled, so that the shared part
of f does not change. G of a new weight begins with a quarter of the mean G of the Fourier features in use. If G began
with 0, thousands of new weights would all take a step of size λ at once, and f would change too much. Own weights are
not scaled, because a cell may belong to a column for one task and to a Fourier feature for another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rules.budgetron.features.fourier_features import (
    first_frequencies,
    useful_frequencies,
)
from budgetron.engine.reference.rules.budgetron.features.hashing import mix64
from budgetron.engine.reference.rules.budgetron.mixture import NEGLIGIBLE
from budgetron.engine.reference.rules.budgetron.parts.part import SHARED, Seen, Terms, WithoutRows, source_of
from budgetron.engine.reference.rules.budgetron.parts.steps import gradient

MIN_SQUARE = np.float32(1e-30)
"""Added to G with every gradient, so that the division by √G is defined for a gradient of 0."""
FIRST_SQUARES = 0.25
"""G of a new weight, as a fraction of the mean G of the Fourier features in use."""
MIN_ERROR = 1e-3
"""An example with ω(1 − p) below this changes nothing, where p is the probability of the true class. With ω = 1, these
are examples with p above 99.9 %."""


def adagrad(w: NDArray[np.float32], squares: NDArray[np.float32], g: Array, rate: float) -> None:
    """Take one step in place; `g` is the negative gradient of each weight."""
    g = g.astype(np.float32)
    squares += g * g + MIN_SQUARE
    w += np.float32(rate) * g / np.sqrt(squares)


class FourierAdaGrad(WithoutRows):
    """The belief with the step size `rate` (λ) and the own share `own` (ρ).

    `cells` is the number of own weights of all tasks. If that is less than one run, there are no own weights.
    """

    # Own weights are in one array for all tasks, so this part needs no numbers in the rows of tasks.
    count = 1
    is_linear = False
    sees_entries = False

    def __init__(self, index: int, rate: float, own: float, outputs: int, columns: int, frequencies: int,
                 frequency_limit: int, shared: bool, cells: int) -> None:  # fmt: skip
        self.name = f"adagrad{index}"
        self.rate, self.outputs, self.columns, self.shared = rate, outputs, columns, shared
        self.root = float(np.sqrt(own)) if shared else 1.0  # √ρ
        self.frequencies, self.frequency_limit = 0, frequency_limit
        self.max_frequencies = self.planned = frequencies
        self.w, self.squares = (np.zeros((outputs, columns * shared), np.float32) for _ in range(2))
        longest = columns + 2 * frequencies
        self.starts = cells - longest + 1 if cells >= longest else 0  # the number of cells at which a run may begin
        cells = cells if self.starts else 0
        self.own_w, self.own_squares = (np.zeros((outputs, cells), np.float32) for _ in range(2))
        self.set_frequencies(min(frequencies, first_frequencies(0)))

    def set_frequencies(self, count: int) -> None:
        if self.shared:
            # Fourier features are divided by √D. When √D grows, their weights grow by the same factor, so that f stays
            # the same. Gradients shrink by that factor, and the sums of their squares by its square.
            scale = np.full(self.w.shape[1], np.sqrt(count / max(self.frequencies, 1)))
            scale[: self.columns] = 1.0
            shape_of_new = (self.outputs, 2 * (count - self.frequencies))
            squares = (self.squares / scale**2).astype(np.float32)
            new_squares = np.zeros(shape_of_new, np.float32)
            if self.frequencies:
                new_squares += FIRST_SQUARES * squares[:, self.columns :].mean(axis=1, keepdims=True, dtype=np.float64)
            self.w = np.hstack([(self.w * scale).astype(np.float32), np.zeros(shape_of_new, np.float32)])
            self.squares = np.hstack([squares, new_squares])
        self.frequencies, self.max_frequencies = count, max(self.max_frequencies, count)

    @property
    def learns_slowly(self) -> bool:
        return self.frequencies > 0

    def useful_frequencies(self, weight: float, seen: int) -> int:
        # With more frequencies, AdaGrad needs more examples before it predicts better than the filters. So it may grow
        # to the limit as soon as the weight of its kind is not negligible. Waiting for a large weight takes too long.
        if weight >= NEGLIGIBLE:
            return self.frequency_limit
        return min(self.frequency_limit, useful_frequencies(self.columns - 1))

    def bytes(self, frequencies: int) -> int:
        width = (self.columns + 2 * frequencies) * self.shared + self.own_w.shape[1]
        return 8 * self.outputs * width

    def forget(self, task_id: int) -> None:
        if self.starts:
            start = self._start(task_id)
            run = slice(start, start + self.columns + 2 * self.planned)
            self.own_w[:, run] = self.own_squares[:, run] = 0

    def _start(self, task_id: int) -> int:
        """Return where the run of a task begins: at a hash of its id, so that no table of tasks has to be stored."""
        return int(mix64(np.int64(task_id)) % np.uint64(self.starts))

    def features(self, e: Seen, frequencies: int) -> Array:
        """Return the linear features, and the Fourier features of this many frequencies."""
        return np.concatenate([e.linear, e.banks[0][: 2 * frequencies] / np.sqrt(max(frequencies, 1))])

    def own_runs(self, e: Seen) -> tuple[Array, list[tuple[float, slice]]]:
        """Return the features of own weights, and for each related task its coefficient and where its weights are."""
        phi = self.features(e, min(self.frequencies, self.planned))
        if not self.starts:
            return phi, []
        runs = []
        for r, task_id, _ in e.related:
            start = self._start(task_id)
            runs.append((self.root * r, slice(start, start + len(phi))))
        return phi, runs

    def margins(self, e: Seen) -> Array:
        f = np.zeros(self.outputs)
        if self.shared:
            f += self.w.astype(np.float64) @ self.features(e, self.frequencies)
        phi, runs = self.own_runs(e)
        for r, run in runs:
            f += r * (self.own_w[:, run].astype(np.float64) @ phi)
        return f[None]

    def variances(self, e: Seen) -> Array:
        """Return about how far a step with g = 1 would move f. This decreases as squared gradients add up.

        AdaGrad has no posterior, so this is used instead of a variance.
        """
        v = 0.0
        if self.shared:
            roots = np.sqrt(1 + self.squares.mean(axis=0, dtype=np.float64))
            v += (self.features(e, self.frequencies) ** 2 / roots).sum()
        phi, runs = self.own_runs(e)
        for r, run in runs:
            roots = np.sqrt(1 + self.own_squares[:, run].mean(axis=0, dtype=np.float64))
            v += r**2 * (phi**2 / roots).sum()
        return np.array([self.rate * v])

    def learn(self, e: Seen, f: Array, code: int, omega: float) -> bool:
        per_class = omega * gradient(f[0], code)
        if per_class[code] < MIN_ERROR:
            return False
        phi, (own_phi, runs) = self.features(e, self.frequencies), self.own_runs(e)
        for o, g in enumerate(per_class[-self.outputs:]):
            if self.shared:
                adagrad(self.w[o], self.squares[o], g * phi, self.rate)
            for r, run in runs:
                adagrad(self.own_w[o, run], self.own_squares[o, run], g * r * own_phi, self.rate)
        return True

    def terms(self, e: Seen) -> Terms:
        terms = Terms.zeros(self.count, self.outputs, self.columns)
        if self.shared:
            self._add_terms(terms, SHARED, self.w.astype(np.float64), self.features(e, self.frequencies))
        phi, runs = self.own_runs(e)
        for (r, run), (_, _, row) in zip(runs, e.related, strict=False):  # `runs` is empty if there are no own weights
            weights = r * self.own_w[:, run].astype(np.float64)
            self._add_terms(terms, source_of(e, row), weights, phi)
        return terms

    def _add_terms(self, terms: Terms, source: int, weights: Array, phi: Array) -> None:
        terms.columns[source] += weights[:, : self.columns] * phi[: self.columns]
        terms.fourier[source] += weights[:, self.columns :] @ phi[self.columns :]

    def state(self) -> dict[str, Any]:
        return {f"{self.name}_frequencies": np.array([self.frequencies, self.max_frequencies]),
                f"{self.name}_weights": self.w, f"{self.name}_squares": self.squares,
                f"{self.name}_own_weights": self.own_w, f"{self.name}_own_squares": self.own_squares}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        used, self.max_frequencies = np.asarray(state[f"{self.name}_frequencies"]).tolist()
        self.set_frequencies(used)
        for name in ("weights", "squares", "own_weights", "own_squares"):
            attribute = {"weights": "w", "own_weights": "own_w"}.get(name, name)
            shape = getattr(self, attribute).shape
            setattr(self, attribute, np.array(state[f"{self.name}_{name}"], dtype=np.float32).reshape(shape))

    @property
    def nbytes(self) -> int:
        return 2 * (self.w.nbytes + self.own_w.nbytes)
