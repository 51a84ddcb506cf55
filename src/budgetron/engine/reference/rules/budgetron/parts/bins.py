"""The beliefs of a Budgetron on binned columns.

A sum of steps describes thresholds and jumps, which linear and Fourier features describe badly. The first E rows that
have a positive weight are stored. The values of a column in these rows, sorted, are the edges of its bins, so that bins
contain about equally many rows. Column j of a row has a fine bin, the number of edges below x_j, and a coarse bin,
which counts only every (E/8)-th edge. Until there are E rows, only the biases learn.

    f₀ = b + b_i + φ Σ_j (w_j + v_j) + κ n     b_i: bias of task i; w_j, v_j: weights of the fine and the coarse bin
    f₁ = f₀ + φ Σ_j u_ij                       u_ij: own weight of task i for the coarse bin of column j
    f₂ = f₀ + ψ Σ_{j,l} w_jl                   w_jl: weight of the coarse bins of two columns together

φ is 1/√(2d) for d columns, and ψ is 1/√(number of pairs). n is the evidence of naive Bayes over the 2d bins of the
row, and κ its learned weight. b is the bias that all tasks share. The weights learn by AdaGrad (`adagrad_and_bayes`,
with c = 2 for weights that all tasks share, and 4 for own weights and for pairs). The weights of f₀ follow the gradient
of f₀. The weights that f₁ adds to f₀ follow the gradient of f₁, and the weights that f₂ adds follow the gradient of f₂.
On a graph, b_i and u_ij are sums over the tasks related to i, as in the other parts.

Coarse bins learn faster, because each sees more examples; fine bins learn the details. Pairs and own weights have
coarse bins only, because there are many of them.

The own weights of all tasks are in one array, at the hash of task and bin, so two of them may share a place. The own
biases matter most. They are in the first eighth of the array, where fewer weights share a place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.reference.examples.rows import Array, Integers
from budgetron.engine.reference.rules.budgetron.features.hashing import mix64, mixed
from budgetron.engine.reference.rules.budgetron.parts.adagrad_and_bayes import (
    SHARED_PRIOR,
    TOTAL_MASS,
    evidence,
    first_mean_squares,
    gradients,
    step_bayes,
    step_bias,
    step_weights,
)
from budgetron.engine.reference.rules.budgetron.parts.part import (
    SHARED,
    Seen,
    Terms,
    WithoutFrequencies,
    WithoutRows,
    source_of,
)

COARSE_EDGES = 8
"""Edges of the coarse bins of each column."""
COARSE = COARSE_EDGES + 1
"""Coarse bins per column."""
RATE, PAIR_RATE = 0.4, 1.0
"""Step size λ of the weights: of pairs `PAIR_RATE`, of all others `RATE`."""
OWN_PRIOR, PAIR_PRIOR = 4.0, 4.0
"""c of own weights and of pairs."""
CELLS_PER_BIAS = 8
"""One in this many places for own weights is for a bias."""


def n_pairs(columns: int) -> int:
    """Return the number of pairs of columns."""
    return columns * (columns - 1) // 2


class BinnedColumns(WithoutFrequencies, WithoutRows):
    """The beliefs on binned columns.

    `edges` (E) is a multiple of 8. `cells` is the number of places for own weights of all tasks; 0 if tasks have none.

    In code: `slots` has a row per bin, with the mass of each class, the weights and their G; `own` and `pairs` have
    rows of weights and their G. `rows` counts the stored rows.
    """

    name = "bins"
    is_linear = False
    sees_entries = False

    def __init__(self, columns: int, outputs: int, edges: int, pairs: bool, cells: int) -> None:
        classes = max(2, outputs)
        self.columns, self.outputs, self.classes, self.has_pairs, self.cells = columns, outputs, classes, pairs, cells
        self.count = 1 + (cells > 0) + pairs
        self.phi, self.psi = 1 / np.sqrt(2 * columns), 1 / np.sqrt(max(1, n_pairs(columns)))
        self.rows, self.edges = 0, np.zeros((columns, edges))
        self.slots = np.zeros((columns * (edges + 1 + COARSE), classes + 2 * outputs), np.float32)
        self.own = np.zeros((cells, 2 * outputs), np.float32)
        self.pairs = np.zeros((n_pairs(columns) * COARSE**2 * pairs, 2 * outputs), np.float32)
        self.total, self.bias, self.bias_squares = np.full(classes, TOTAL_MASS), np.zeros(outputs), np.zeros(outputs)
        self.bayes = np.array([0.5, 1.0])  # κ, and its sum of squared gradients
        self.mean_squares = first_mean_squares(self.count, outputs)

    @property
    def is_ready(self) -> bool:
        return self.rows == self.edges.shape[1]

    def forget(self, task_id: int) -> None:
        if self.cells:
            self.own[self._bias_cell(task_id)] = 0
            self.own[self._own_cells(task_id, np.arange(self.columns * COARSE))] = 0

    # ---- where the weights are

    def _bins(self, e: Seen) -> tuple[Integers, Integers]:
        """Return the fine and the coarse bin of every column."""
        fine = (self.edges < e.row[:, None]).sum(axis=1)
        return fine, fine // (self.edges.shape[1] // COARSE_EDGES)

    def _slots(self, e: Seen) -> Integers:
        """Return the rows of `slots` of the fine and the coarse bin of every column."""
        fine, coarse = self._bins(e)
        edges = self.edges.shape[1]
        first = np.arange(self.columns) * (edges + 1 + COARSE)
        return np.stack([first + fine, first + edges + 1 + coarse], axis=1).ravel()

    def _own_biases(self, e: Seen) -> list[tuple[float, int]]:
        """Return the coefficient of every related task, and where its bias is."""
        return [(r, self._bias_cell(task_id)) for r, task_id, _ in e.related if self.cells]

    def _own(self, e: Seen) -> list[tuple[float, Integers]]:
        """Return the coefficient of every related task, and where its weights are: one place per column."""
        bins = np.arange(self.columns) * COARSE + self._bins(e)[1]
        return [(r, self._own_cells(task_id, bins)) for r, task_id, _ in e.related if self.cells]

    def _bias_cell(self, task_id: int) -> int:
        return int(mix64(~np.int64(task_id)) % np.uint64(self.cells // CELLS_PER_BIAS))

    def _own_cells(self, task_id: int, bins: Integers) -> Integers:
        """Return where the own weights of a task are. `bins` are coarse bins, numbered over all columns."""
        biases = self.cells // CELLS_PER_BIAS
        h = mixed(mix64(bins), mix64(~np.int64(task_id)))
        return biases + (h % np.uint64(self.cells - biases)).astype(np.int64)

    def _pairs(self, e: Seen) -> tuple[Integers, Integers, Integers]:
        """Return where the weight of each pair is, and the two columns of each pair."""
        second, first = np.tril_indices(self.columns * self.has_pairs, -1)
        coarse = self._bins(e)[1]
        place = (np.arange(len(first)) * COARSE + coarse[second]) * COARSE + coarse[first]
        return place, second, first

    # ---- margins

    def margins(self, e: Seen) -> Array:
        f = self.bias.copy()
        for r, cell in self._own_biases(e):
            f += r * self._weights(self.own[cell])
        if not self.is_ready:
            return np.tile(f, (self.count, 1))
        slots = self.slots[self._slots(e)]
        f += self.phi * self._weights(slots[:, self.classes :]).sum(axis=0)
        f += self.bayes[0] * self._evidence(slots).sum(axis=0)
        beliefs = [f]
        if self.cells:
            beliefs.append(f.copy())
            for r, cells in self._own(e):
                beliefs[1] += r * self.phi * self._weights(self.own[cells]).sum(axis=0)
        if self.has_pairs:
            beliefs.append(f + self.psi * self._weights(self.pairs[self._pairs(e)[0]]).sum(axis=0))
        return np.stack(beliefs)

    def _weights(self, rows: NDArray[np.float32]) -> Array:
        """Return the weights from rows that have weights and their G."""
        return rows[..., : self.outputs].astype(np.float64)

    def _evidence(self, slots: NDArray[np.float32]) -> Array:
        """Return the evidence of each bin, (bins, outputs)."""
        return np.asarray(self.phi * evidence(slots[:, : self.classes].astype(np.float64), self.total, self.outputs))

    def variances(self, e: Seen) -> Array:
        """Return how far a step of the current size would move f, in place of a variance (see `FourierAdaGrad`)."""
        v = RATE + sum(RATE * r * r * self._step_sizes(self.own[cell]) for r, cell in self._own_biases(e))
        if not self.is_ready:
            return np.full(self.count, v)
        v += RATE * self.phi**2 * self._step_sizes(self.slots[self._slots(e), self.classes :]).sum()
        beliefs = [v]
        if self.cells:
            own = sum(r * r * self._step_sizes(self.own[cells]).sum() for r, cells in self._own(e))
            beliefs.append(v + RATE * self.phi**2 * own)
        if self.has_pairs:
            beliefs.append(v + PAIR_RATE * self.psi**2 * self._step_sizes(self.pairs[self._pairs(e)[0]]).sum())
        return np.array(beliefs)

    def _step_sizes(self, rows: NDArray[np.float32]) -> Any:
        """Return 1/√(1 + G) for rows of weights and their G, with G averaged over the outputs."""
        return 1 / np.sqrt(1 + rows[..., self.outputs :].mean(axis=-1, dtype=np.float64))

    # ---- the update

    def learn(self, e: Seen, f: Array, code: int, omega: float) -> bool:
        g, takes_step = gradients(f, code, omega, self.mean_squares)
        step_bias(self.bias, self.bias_squares, g[0], RATE)
        for r, cell in self._own_biases(e):
            self._step(self.own[cell], r, g, 0, RATE, OWN_PRIOR)
        if self.is_ready:
            self._learn_bins(e, g, code)
        else:
            self._store_row(e)
        return bool(takes_step.any())

    def _learn_bins(self, e: Seen, g: Array, code: int) -> None:
        slots = self._slots(e)
        step_bayes(self.bayes[:1], self.bayes[1:], g[0] @ self._evidence(self.slots[slots]).sum(axis=0))
        rows = self.slots[slots]
        self._step(rows[:, self.classes :], self.phi, g, 0, RATE, SHARED_PRIOR)
        rows[:, code] += np.float32(self.phi)
        self.slots[slots] = rows
        self.total[code] += len(slots) * self.phi
        for r, cells in self._own(e):
            for cell in cells:  # one after the other, because two bins may share a place
                self._step(self.own[cell], r * self.phi, g, 1, RATE, OWN_PRIOR)
        if self.has_pairs:
            place = self._pairs(e)[0]
            rows = self.pairs[place]
            self._step(rows, self.psi, g, self.count - 1, PAIR_RATE, PAIR_PRIOR)
            self.pairs[place] = rows

    def _step(self, rows: NDArray[np.float32], phi: float, g: Array, belief: int, rate: float, prior: float) -> None:
        """Take a step of weights and their G in place, along the gradient of one belief."""
        w, squares = rows[..., : self.outputs], rows[..., self.outputs :]
        step_weights(w, squares, phi, g[belief], rate, 1.0, prior * self.mean_squares[belief])

    def _store_row(self, e: Seen) -> None:
        """Store one of the first rows. After the last of them, the sorted values of a column are its edges."""
        self.edges[:, self.rows] = e.row
        self.rows += 1
        if self.is_ready:
            self.edges.sort(axis=1)

    def bytes(self, frequencies: int) -> int:
        return self.nbytes

    # ---- explanations

    def terms(self, e: Seen) -> Terms:
        """Return one term per column, and one for the constant. If only linear terms are asked for, they are 0."""
        terms = Terms.zeros(self.count, self.outputs, self.columns + 1)
        if e.only_linear:
            return terms
        first, ready = terms.columns[:, 0], self.is_ready
        first[SHARED, :, -1] = self.bias
        for (r, cell), (_, _, row) in zip(self._own_biases(e), e.related, strict=False):
            first[source_of(e, row), :, -1] += r * self._weights(self.own[cell])
        if ready:
            slots = self.slots[self._slots(e)]
            of_bins = self.phi * self._weights(slots[:, self.classes :]) + self.bayes[0] * self._evidence(slots)
            first[SHARED, :, :-1] += of_bins.reshape(self.columns, 2, self.outputs).sum(axis=1).T
        terms.columns[:, 1:] = terms.columns[:, :1]
        if ready:
            for (r, cells), (_, _, row) in zip(self._own(e), e.related, strict=False):
                terms.columns[source_of(e, row), 1, :, :-1] += r * self.phi * self._weights(self.own[cells]).T
        if ready and self.has_pairs:
            place, *columns = self._pairs(e)
            halves = 0.5 * self.psi * self._weights(self.pairs[place])  # half of a pair for each of its columns
            for column in columns:
                np.add.at(terms.columns[SHARED, -1].T, column, halves)
        return terms

    # ---- state

    SAVED = ("edges", "total", "bias", "bias_squares", "bayes", "mean_squares", "slots", "own", "pairs")

    def state(self) -> dict[str, Any]:
        return {"bins_rows": self.rows} | {f"bins_{name}": getattr(self, name) for name in self.SAVED}

    def restore(self, state: dict[str, Any]) -> None:
        self.rows = int(np.ravel(state["bins_rows"])[0])
        for name in self.SAVED:
            old = getattr(self, name)
            setattr(self, name, np.array(state[f"bins_{name}"], dtype=old.dtype).reshape(old.shape))

    @property
    def nbytes(self) -> int:
        return self.edges.nbytes + self.slots.nbytes + self.own.nbytes + self.pairs.nbytes
