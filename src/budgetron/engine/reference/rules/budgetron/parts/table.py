"""The beliefs of a Budgetron on sparse rows: linear models, one per learning rate, trained by AdaGrad.

All weights are in one hashed table of cells. The shared weights of feature j are in the cell hash(j), its own weights
for task i in the cell hash(j, i). Cells are not checked for collisions: features with the same cell share its weights.

j runs over the non-zero features of a row x of task i. a_j is the typical |x_j|, a running mean in the cell of j that
includes x_j, so that |x_j|/a_j is at most 8 however large x_j is.

    v_j = x_j/a_j  or  sign(x_j)                               fixed per belief (`signs`);     φ = v/‖v‖
    n   = Σ_j φ_j log(M_jc/M_c)                                naive Bayes evidence for class c, with φ of the signs
    f   = b + Σ_j (w_j + o w_ji) φ_j + κ n,                    o = 0.3
    G ← keep·G + (gφ)², w += λ gφ/√G                           AdaGrad for every weight, g the gradient; also b and κ
    M_jc += |φ_j|,  M_c += |φ_j|                               after the other updates, for the true class c

b is the bias, w_j and w_ji are the shared and own weights of feature j, and κ is the learned weight of the evidence.
M_jc is the mass of feature j in class c: the sum of |φ_j| over the examples of that class. M_c is the mass of all
features in class c.

In code: OWN o, `bias` b, `bayes` κ, `mass` M_jc, `total` M_c, `squares` G, `rates` λ, `typical` a.

keep is 1 in AdaGrad, whose weights converge. In a belief with a smaller `keeps`, the steps do not shrink to nothing,
and it follows a stream that drifts. For b and κ it is 1.

Once a quarter of the cells hold a shared feature, a new feature gets a cell only at its second occurrence. Most words
of a text occur only once, and would disturb the cells of others. A Bloom filter (one hash, so one bit per feature)
records which features have occurred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.reference.examples.rows import Array, Integers
from budgetron.engine.reference.rules.budgetron.features.hashing import mix64, mixed
from budgetron.engine.reference.rules.budgetron.parts.adagrad import adagrad
from budgetron.engine.reference.rules.budgetron.parts.part import SHARED, Seen, Terms, source_of
from budgetron.engine.reference.rules.budgetron.parts.steps import gradient

OWN = 0.3  # o, the factor of own weights in f
MASS = 0.1
"""Prior mass of every feature in each class: M_jc before any example."""
TOTAL_MASS = 1000 * MASS
"""Prior mass of every class: M_c before any example."""
TYPICAL_RATE = 1 / 8
"""Step size of the running mean a_j."""
BAYES_RATE = 0.3
"""Step size of κ."""
MIN_ERROR = 1e-5
"""A belief that gives the true class a probability above 99.999 % does not update its weights."""
MAX_SIZE = 1e38
"""Larger |x| count as this. Rows may be float64, but typical sizes are stored in float32 and must stay finite."""


@dataclass
class Entries:
    """The n non-zero features of a row that have a cell."""

    cell: Integers  # the cells of the shared weights
    own: list[tuple[float, Integers]]  # per related task (the task itself too): coefficient, cells of its own weights
    phi: Array  # (2, n): φ from the sizes, φ from the signs
    size: Array  # |x|
    has_cell: NDArray[np.bool_]  # for every non-zero feature of the row


class HashedTable:
    """One belief per rate. `signs[b]` says whether belief b uses only the signs of the features.

    `keeps[b]` is the share of G that belief b keeps at each step of a weight.
    """

    name = "table"
    # This part has no Fourier features and no numbers in the rows of tasks: its own weights are in the table.
    row_width, at, frequencies, max_frequencies, frequency_limit = 0, 0, 0, 0, 0

    def __init__(self, rates: list[float], keeps: list[float], signs: list[bool], outputs: int, cells: int,
                 shared: bool, own: bool) -> None:  # fmt: skip
        self.rates, self.keeps, self.signs = rates, keeps, np.array(signs)
        self.outputs, self.cells = outputs, cells
        self.shared, self.own, self.count = shared, own, len(rates)
        classes = max(2, outputs)
        self.w, self.squares = (np.zeros((cells, self.count, outputs), np.float32) for _ in range(2))
        self.typical, self.mass = np.zeros(cells, np.float32), np.zeros((cells, classes), np.float32)
        self.total = np.full(classes, TOTAL_MASS)
        self.seen, self.used = np.zeros(8 * cells, dtype=bool), 0
        self.bias, self.bias_squares = np.zeros((self.count, outputs)), np.zeros((self.count, outputs))
        self.bayes, self.bayes_squares = np.full(self.count, 0.5), np.ones(self.count)

    def begin_row(self, row: Array, task_id: int) -> None:
        pass

    # ---- finding cells

    def _entries(self, e: Seen) -> Entries:
        """Return the features of a row that have a cell, with their cells and values φ."""
        nonzero = e.x.values != 0
        values, h = e.x.values[nonzero], mix64(np.asarray(e.x.indices)[nonzero])
        has_cell = np.ones(len(h), dtype=bool)
        # While at most a quarter of the table is used, new features get a cell at once.
        if 4 * self.used > self.cells:
            has_cell = self.seen[self._bits(h)]
            values, h = values[has_cell], h[has_cell]
        cell = self._cells(h)
        size = np.minimum(np.abs(values), MAX_SIZE)
        v = np.stack([size / self._next_typical(cell, size), np.ones(len(size))]) * np.sign(values)
        norms = np.sqrt((v**2).sum(axis=1, keepdims=True))
        root = OWN if self.shared else 1.0
        related = e.related if self.own else ()
        # ~: a hash of a pair is symmetric; without it feature 2 of task 5 would have the cell of feature 5 of task 2.
        own = [(root * r, self._cells(mixed(h, mix64(~np.int64(task_id))))) for r, task_id, _ in related]
        return Entries(cell, own, v / np.where(norms > 0, norms, 1.0), size, has_cell)

    def _cells(self, h: Any) -> Integers:
        # The upper 32 bits of the hash, scaled to 0 .. cells − 1: a multiplication instead of a slower modulo.
        return np.asarray((h >> np.uint64(32)) * np.uint64(self.cells) >> np.uint64(32)).astype(np.int64)

    def _bits(self, h: Any) -> Integers:
        """Return the bit of each feature in the Bloom filter, which has eight bits per cell."""
        return self._cells(h) * 8 + np.asarray(h & np.uint64(7)).astype(np.int64)

    def _next_typical(self, cell: Integers, size: Array) -> Array:
        """Return the typical sizes after this example; a cell that has none yet (0) gets the size itself."""
        old = self.typical[cell].astype(np.float64)
        return np.where(old > 0, old + (size - old) * TYPICAL_RATE, size)

    # ---- margins

    def margins(self, e: Seen) -> Array:
        entries = self._entries(e)
        return self._margins(entries, self._evidence(entries))

    def _evidence(self, entries: Entries) -> Array:
        """Return the evidence n, one number per output.

        For two classes it is the log ratio of the second class to the first.
        """
        return entries.phi[1] @ self._evidence_by_entry(entries) if self.shared else np.zeros(self.outputs)

    def _evidence_by_entry(self, entries: Entries) -> Array:
        logs = np.log((self.mass[entries.cell].astype(np.float64) + MASS) / self.total)
        return np.asarray(logs[:, 1:] - logs[:, :1] if self.outputs == 1 else logs - logs.mean(axis=1, keepdims=True))

    def _margins(self, entries: Entries, evidence: Array) -> Array:
        """Return f (beliefs, outputs), given the evidence n."""
        f = self.bias + self.bayes[:, None] * evidence
        phi = entries.phi[self.signs.astype(int)]  # (beliefs, n)
        if self.shared:
            f = f + np.einsum("nbo,bn->bo", self.w[entries.cell].astype(np.float64), phi)
        for r, cell in entries.own:
            f = f + r * np.einsum("nbo,bn->bo", self.w[cell].astype(np.float64), phi)
        return f

    def variances(self, e: Seen) -> Array:
        entries = self._entries(e)
        phi2 = entries.phi[self.signs.astype(int)] ** 2
        rates, v = np.array(self.rates), np.array(self.rates)
        for r, cell in [(1.0, entries.cell)] * self.shared + entries.own:
            # AdaGrad has no posterior. Its step size λ/√G stands in for the variance: it falls with every gradient.
            roots = np.sqrt(1 + self.squares[cell].astype(np.float64).mean(axis=2))  # (n, beliefs)
            v = v + r * r * rates * np.einsum("nb,bn->b", 1 / roots, phi2)
        return v

    # ---- the update

    def learn(self, e: Seen, f: Array, code: int, omega: float) -> bool:
        entries = self._entries(e)
        evidence = self._evidence(entries)
        # The negative gradient of the log loss, per class. Beliefs nearly certain of the true class take no step.
        per_class = omega * np.stack([gradient(row, code) for row in f])  # (beliefs, classes)
        takes_step = per_class[:, code] >= MIN_ERROR
        g = np.where(takes_step[:, None], per_class[:, -self.outputs:], 0.0)  # (beliefs, outputs)
        phi = entries.phi[self.signs.astype(int)]
        cells = [(1.0, entries.cell)] * self.shared + entries.own
        for j in range(len(entries.cell)):  # one after the other, because two features may have the same cell
            for r, cell in cells:
                self._step(cell[j], r * phi[:, j, None] * g)
        rates = np.array(self.rates)[:, None]
        self.bias_squares += g**2
        self.bias += rates * g / np.sqrt(self.bias_squares + 1e-9)
        bayes_gradient = g @ evidence
        self.bayes_squares += bayes_gradient**2
        self.bayes += BAYES_RATE * bayes_gradient / np.sqrt(self.bayes_squares)
        self._remember(e, entries, code)
        return bool(takes_step.any())

    def _step(self, cell: int, g: Array) -> None:
        """Take a step of AdaGrad for the weights of one cell; g (beliefs, outputs) is the negative gradient."""
        for b, rate in enumerate(self.rates):
            # `adagrad` adds a tiny number to G even where the gradient is 0; those weights must not change at all.
            changes = g[b] != 0
            w, squares = self.w[cell, b], self.squares[cell, b]
            new_w, new_squares = w.copy(), squares.copy()
            adagrad(new_w, new_squares, g[b], rate, self.keeps[b])
            w[changes], squares[changes] = new_w[changes], new_squares[changes]

    def _remember(self, e: Seen, entries: Entries, code: int) -> None:
        """Update the typical sizes, the masses, and the Bloom filter of features that have occurred."""
        nonzero = e.x.values != 0
        # Every feature of the row is marked as seen. A feature without a cell then gets one at its next occurrence.
        self.seen[self._bits(mix64(np.asarray(e.x.indices)[nonzero]))] = True
        for cell, size, phi in zip(entries.cell, entries.size, np.abs(entries.phi[1]), strict=True):
            self.used += int(self.typical[cell] == 0)
            self.typical[cell] = self._next_typical(np.array([cell]), np.array([size]))[0]
            self.mass[cell, code] += phi
            self.total[code] += phi

    def useful_frequencies(self, weight: float, seen: int) -> int:
        return 0

    def set_frequencies(self, count: int) -> None:
        pass

    def bytes(self, frequencies: int) -> int:
        return self.nbytes

    def terms(self, e: Seen) -> Terms:
        """Return one term per entry of the row (zero for features without a cell), then one for the constant."""
        entries = self._entries(e)
        terms = Terms.zeros(self.count, self.outputs, len(e.x.values) + 1)
        positions = np.flatnonzero(e.x.values != 0)[entries.has_cell]
        phi = entries.phi[self.signs.astype(int)]
        terms.columns[SHARED, :, :, -1] = self.bias
        if self.shared:
            terms.columns[SHARED][:, :, positions] += self._by_entry(entries.cell, phi)
            n = self._evidence_by_entry(entries) * entries.phi[1][:, None]
            terms.columns[SHARED][:, :, positions] += self.bayes[:, None, None] * n.T
        for (r, cell), (_, _, row) in zip(entries.own, e.related, strict=False):
            terms.columns[source_of(e, row)][:, :, positions] += r * self._by_entry(cell, phi)
        return terms

    def _by_entry(self, cell: Integers, phi: Array) -> Array:
        return np.asarray(self.w[cell].astype(np.float64).transpose(1, 2, 0) * phi[:, None, :])

    # ---- state

    SAVED_VECTORS = ("total", "bias", "bias_squares", "bayes", "bayes_squares")

    def state(self) -> dict[str, Any]:
        arrays = (self.typical, self.mass, self.w, self.squares)
        cells = np.concatenate([array.reshape(self.cells, -1) for array in arrays], axis=1)
        return {f"table_{name}": getattr(self, name) for name in self.SAVED_VECTORS} | {
            "table_cells": cells, "table_used": self.used,
            "table_seen": np.packbits(self.seen, bitorder="little").astype(np.int64),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        for name in self.SAVED_VECTORS:
            old = getattr(self, name)
            setattr(self, name, np.array(state[f"table_{name}"], dtype=np.float64).reshape(old.shape))
        cells = np.array(state["table_cells"], dtype=np.float32).reshape(self.cells, -1)
        ends = np.cumsum([1, self.mass.shape[1], self.w[0].size])
        typical, mass, w, squares = np.split(cells, ends, axis=1)
        self.typical, self.mass = typical.ravel().copy(), mass.copy()
        self.w, self.squares = w.reshape(self.w.shape).copy(), squares.reshape(self.w.shape).copy()
        self.seen = np.unpackbits(np.asarray(state["table_seen"]).astype(np.uint8), bitorder="little").astype(bool)
        self.used = int(state["table_used"])

    @property
    def nbytes(self) -> int:
        # The last summand is the Bloom filter: 8 bits per cell, packed into one byte in the compiled engine.
        return 2 * self.w.nbytes + self.typical.nbytes + self.mass.nbytes + self.cells
