"""The beliefs of a Budgetron on sparse rows: linear models, one per learning rate, trained by AdaGrad.

All weights are in one hashed table of cells. Feature j has one cell for its shared weights, and per task one cell for
its own weights. A hash selects a *bucket* of eight cells. Within the bucket, a cell is found by its tag, 12 more bits
of the hash. So two features share a cell only if both their buckets and their tags agree.

A table is smaller than the vocabulary of most texts, and it should keep the frequent features. So a cell also has a
count, from 0 to 15. Each occurrence of its feature adds 1. A new feature that finds no cell subtracts 1 from the lowest
count of its bucket, or takes that cell if the count is 0. Task i has own weights of feature j only while the count of
the shared cell is at least 3, because most words are too rare for own weights. (Without shared weights, all features
have own weights.)

j runs over the non-zero features of a row x of task i. a_j is the typical |x_j|, a running mean in the cell of j that
includes x_j, so that |x_j|/a_j is at most 8 however large x_j is. A feature without a cell has a_j = |x_j|.

    v_j = x_j/a_j  or  sign(x_j)                               fixed per belief (`signs`);     φ = v/‖v‖
    n   = Σ_j φ_j log(M_jc/M_c)                                naive Bayes evidence for class c, φ of the signs
    f   = b + Σ_j (w_j + w_ji) φ_j + κ n                       a feature without a cell adds nothing
    G ← keep·G + (gφ)²,  w += λ gφ/√(G + c S φ²)               AdaGrad for every weight, g the gradient
    b += λ g/√(Σ g²),  S += (g² − S)/256                       κ as in `adagrad_and_bayes`
    M_jc += |φ_j|,  M_c += |φ_j|                               after the other updates, for the true class c and each
                                                               feature with a cell, φ of the signs

b is the bias, w_j and w_ji are the shared and own weights of feature j, and κ is the learned weight of the evidence.
M_jc is the mass of feature j in class c: its prior, plus the sum of |φ_j| over the examples of that class. M_c is the
mass of all features in class c. S is the running mean of g². The constant is one more feature, with own weights only:
it gives tasks a bias of their own. Its φ is 1/√(1 + number of non-zeros), so this bias counts less in a long row.

The factor c of S is a number, not a class. A weight learns as if it had seen its feature c times before, with squared
gradients of the usual size S. c is 2 for shared and 16 for own weights, so the shared weights learn what tasks have in
common before the own weights do. (Without shared weights, c is 2 for own weights.) With c = 0, the first step of a
weight would have the size λ, however small its gradient is. On a stream with rare positives, nearly all gradients are
small and negative. Then the own weights of every task would become negative, the shared weights too large, and the
probabilities for new tasks too high.

If there are pairs of features (`pairs`), the last belief adds their weights to f of the belief before it. The update is
the same, with c = 4. A pair has a cell of its own. Its weights and their G are in the places where the cell of a
feature has the weights and G of the first belief.

In code: `bias` b, `bayes` κ, `mass` M_jc without its prior, `total` M_c, `squares` G, `mean_squares` S, `rates` λ,
`typical` a.

In AdaGrad keep is 1, and the weights converge. With a smaller keep (`keeps`), steps do not shrink to 0, so the belief
follows a stream that drifts. For b, κ and pairs, keep is always 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from budgetron.engine.reference.examples.rows import Array, Integers
from budgetron.engine.reference.rules.budgetron.features.hashing import Hashes, mix64, mixed
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
from budgetron.engine.reference.rules.budgetron.parts.pairs import PairEntries, pairs_of
from budgetron.engine.reference.rules.budgetron.parts.part import (
    SHARED,
    Seen,
    Terms,
    WithoutFrequencies,
    WithoutRows,
    source_of,
)

OWN_PRIOR, PAIR_PRIOR = 16.0, 4.0
"""c of own weights and of pairs."""
PAIR_RATE = 0.5
"""Step size λ of pairs."""
CONSTANT = mix64(np.array([-1]))
"""The hash of the constant, as column −1. No column of a row has this number, because columns are not negative."""
WAYS = 8
"""Cells per bucket."""
TAGS, MAX_COUNT = 2**12, 15
"""The number of different tags, and the largest count of a cell: together they fit into two bytes."""
OWN_COUNT = 3
"""A feature has own weights while the count of its shared cell is at least this."""
TYPICAL_RATE = 1 / 8
"""Step size of the running mean a_j."""
MAX_SIZE = 1e38
"""Larger |x| count as this. Rows may be float64, but typical sizes are stored in float32 and must stay finite."""


@dataclass
class Entries:
    """The non-zero features of a row, and the constant as the last of n entries.

    Cells are numbers; −1 says that a feature has no cell. The constant never has a shared cell.
    """

    h: Hashes
    cell: Integers  # the cells of the shared weights
    own: list[tuple[float, Integers]]  # per related task (the task itself too): coefficient, cells of its own weights
    phi: Array  # (2, n): φ from the sizes, φ from the signs
    size: Array  # |x|; 1 for the constant


class HashedTable(WithoutFrequencies, WithoutRows):
    """One belief per rate, and one on pairs. `signs[b]` says whether belief b uses only the signs of the features.

    `keeps[b]` is the share of G that belief b keeps at each step of a weight. Rows with more than `pairs` features have
    no pairs; if `pairs` is 0, there is no belief on pairs.
    """

    name = "table"
    is_linear = True
    sees_entries = True

    def __init__(self, rates: list[float], keeps: list[float], signs: list[bool], outputs: int, cells: int,
                 pairs: int, shared: bool, own: bool) -> None:  # fmt: skip
        self.rates, self.keeps, self.signs = rates, keeps, np.array(signs)
        self.outputs, self.cells, self.pairs = outputs, cells, pairs
        self.shared, self.own, self.count = shared, own, len(rates) + (pairs > 0)
        beliefs, classes = len(rates), max(2, outputs)
        self.w, self.squares = (np.zeros((cells, beliefs, outputs), np.float32) for _ in range(2))
        self.typical, self.mass = np.zeros(cells, np.float32), np.zeros((cells, classes), np.float32)
        self.total = np.full(classes, TOTAL_MASS)
        self.tag, self.counts = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
        self.bias, self.bias_squares = np.zeros((beliefs, outputs)), np.zeros((beliefs, outputs))
        self.bayes, self.bayes_squares = np.full(beliefs, 0.5), np.ones(beliefs)
        self.mean_squares = first_mean_squares(self.count, outputs)

    def forget(self, task_id: int) -> None:
        """Clear nothing: a cell has no record of its feature and its task, so the cells of the task are not known."""

    # ---- finding cells

    def _entries(self, e: Seen) -> Entries:
        """Return the non-zero features of a row and the constant, with their cells and values φ."""
        nonzero = e.x.values != 0
        values, h = e.x.values[nonzero], mix64(np.asarray(e.x.indices)[nonzero])
        cell = self._find(h)
        size = np.minimum(np.abs(values), MAX_SIZE)
        v = np.stack([size / self._next_typical(cell, size), np.ones(len(size))]) * np.sign(values)
        norms = np.sqrt((v**2).sum(axis=1, keepdims=True))
        constant = np.full((2, 1), 1 / np.sqrt(1 + len(values)))
        phi = np.concatenate([v / np.where(norms > 0, norms, 1.0), constant], axis=1)
        h, cell = np.concatenate([h, CONSTANT]), np.append(cell, -1)
        return Entries(h, cell, self._find_own(e, h, cell), phi, np.append(size, 1.0))

    def _first_cells(self, h: Any) -> Integers:
        """Return the first cell of the bucket of each hash."""
        # The upper 32 bits of the hash, scaled to the number of buckets: a multiplication, which is faster than modulo.
        buckets = np.uint64(self.cells // WAYS)
        return np.asarray((h >> np.uint64(32)) * buckets >> np.uint64(32)).astype(np.int64) * WAYS

    def _find(self, h: Hashes) -> Integers:
        """Return the cell of each hash: the first one of its bucket with the same tag, or −1."""
        bucket = self._first_cells(h)[:, None] + np.arange(WAYS)
        found = self.tag[bucket] == tags(h)[:, None]
        return np.where(found.any(axis=1), bucket[:, 0] + found.argmax(axis=1), -1)

    def _find_own(self, e: Seen, h: Hashes, cell: Integers) -> list[tuple[float, Integers]]:
        has_own = self._has_own(h, cell)
        return [
            (r, np.where(has_own, self._find(own_hash(h, task_id)), -1)) for r, task_id, _ in e.related if self.own
        ]

    def _pairs(self, entries: Entries) -> PairEntries:
        """Return the pairs of a row."""
        cell = entries.cell[:-1]
        frequent = (cell >= 0) & (self.counts[cell] == MAX_COUNT)
        pairs = pairs_of(entries.h[:-1], entries.phi[1, :-1] > 0, frequent, self.pairs)
        pairs.cell = self._find(pairs.h)
        return pairs

    def _has_own(self, h: Any, cell: Any) -> Any:
        """Whether features with these shared cells have own weights.

        The constant always has own weights. Without shared weights, all features have.
        """
        frequent = (cell >= 0) & (self.counts[cell] >= OWN_COUNT)
        return frequent | (h == CONSTANT[0]) | (not self.shared)

    def _count(self, h: Any) -> int:
        """Count an occurrence of a hash and return its cell, which may be new; −1 if the hash gets no cell."""
        cell = int(self._find(h[None])[0])
        if cell >= 0:
            self.counts[cell] = min(self.counts[cell] + 1, MAX_COUNT)
            return cell
        first = int(self._first_cells(h))
        lowest = first + int(self.counts[first : first + WAYS].argmin())
        if self.counts[lowest] > 0:
            self.counts[lowest] -= 1
            return -1
        self.tag[lowest], self.counts[lowest] = tags(h), 1
        for array in (self.typical, self.mass, self.w, self.squares):
            array[lowest] = 0
        return lowest

    def _next_typical(self, cell: Integers, size: Array) -> Array:
        """Return the typical sizes after this example. Without a typical size yet (0), it is the size itself."""
        old = at(self.typical, cell)
        return np.where(old > 0, old + (size - old) * TYPICAL_RATE, size)

    # ---- margins

    def margins(self, e: Seen) -> Array:
        entries = self._entries(e)
        f = self._margins(entries, self._evidence(entries))
        if not self.pairs:
            return f
        pairs = self._pairs(entries)
        return np.concatenate([f, f[-1:] + pairs.phi.astype(np.float64) @ at(self.w[:, 0], pairs.cell)])

    def _evidence(self, entries: Entries) -> Array:
        """Return the evidence n, one number per output."""
        return entries.phi[1] @ self._evidence_by_entry(entries) if self.shared else np.zeros(self.outputs)

    def _evidence_by_entry(self, entries: Entries) -> Array:
        n = evidence(at(self.mass, entries.cell), self.total, self.outputs)
        return np.where(entries.cell[:, None] >= 0, n, 0.0)

    def _margins(self, entries: Entries, n: Array) -> Array:
        """Return f (beliefs, outputs), given the evidence n."""
        f = self.bias + self.bayes[:, None] * n
        phi = entries.phi[self.signs.astype(int)]  # (beliefs, n)
        if self.shared:
            f = f + np.einsum("nbo,bn->bo", at(self.w, entries.cell), phi)
        for r, cell in entries.own:
            f = f + r * np.einsum("nbo,bn->bo", at(self.w, cell), phi)
        return f

    def variances(self, e: Seen) -> Array:
        entries = self._entries(e)
        phi2 = entries.phi[self.signs.astype(int)] ** 2
        rates, v = np.array(self.rates), np.array(self.rates)
        features = phi2.copy()
        features[:, -1] = 0  # the constant has no shared weights
        for r, cell, squared in [(1.0, entries.cell, features)] * self.shared + [
            (r, cell, phi2) for r, cell in entries.own
        ]:
            # AdaGrad has no posterior, so the step size λ/√(1 + G) replaces the variance. It falls with every gradient.
            roots = np.sqrt(1 + at(self.squares, cell).mean(axis=2))  # (n, beliefs)
            v = v + r * r * rates * np.einsum("nb,bn->b", 1 / roots, squared)
        if not self.pairs:
            return v
        pairs = self._pairs(entries)
        roots = np.sqrt(1 + at(self.squares[:, 0], pairs.cell).mean(axis=1))
        return np.append(v, v[-1] + PAIR_RATE * (pairs.phi.astype(np.float64) ** 2 / roots).sum())

    # ---- the update

    def learn(self, e: Seen, f: Array, code: int, omega: float) -> bool:
        entries = self._entries(e)
        pairs = self._pairs(entries)
        n = self._evidence(entries)
        g, takes_step = gradients(f, code, omega, self.mean_squares)
        beliefs = len(self.rates)
        keep = np.where(takes_step[:beliefs], self.keeps, 1.0)
        expected, pair_gradient, g = self.mean_squares[:beliefs], g[beliefs:], g[:beliefs]
        rates = np.array(self.rates)[:, None]
        self._count_features(e, entries)
        phi = entries.phi[self.signs.astype(int)]
        own_prior = OWN_PRIOR if self.shared else SHARED_PRIOR
        cells = [(1.0, SHARED_PRIOR, entries.cell)] * self.shared + [(r, own_prior, cell) for r, cell in entries.own]
        for j in range(len(entries.cell)):  # one after the other, because two features may have the same cell
            for r, prior, cell in cells:
                if cell[j] >= 0:
                    w, squares = self.w[cell[j]], self.squares[cell[j]]
                    step_weights(w, squares, r * phi[:, j, None], g, rates, keep[:, None], prior * expected)
        if self.pairs:
            self._learn_pairs(pairs, pair_gradient[0])
        step_bias(self.bias, self.bias_squares, g, rates)
        step_bayes(self.bayes, self.bayes_squares, g @ n)
        self._remember(entries, code)
        return bool(takes_step.any())

    def _learn_pairs(self, pairs: PairEntries, g: Array) -> None:
        for h in pairs.h:
            self._count(h)
        expected = PAIR_PRIOR * self.mean_squares[-1]
        for cell, phi in zip(self._find(pairs.h), pairs.phi, strict=True):
            if cell >= 0:
                step_weights(self.w[cell, 0], self.squares[cell, 0], phi, g, PAIR_RATE, 1.0, expected)

    def _count_features(self, e: Seen, entries: Entries) -> None:
        """Count the features of a row, and update the cells of its entries."""
        for h in entries.h:
            cell = -1 if h == CONSTANT[0] else self._count(h)
            if self.own and self._has_own(h, cell):
                for _, task_id, _ in e.related:
                    self._count(own_hash(h, task_id))
        # A feature may have lost its cell to a later feature of the same row, so all cells are looked up again.
        entries.cell = np.append(self._find(entries.h[:-1]), -1)
        entries.own = self._find_own(e, entries.h, entries.cell)

    def _remember(self, entries: Entries, code: int) -> None:
        """Update the typical sizes and the masses."""
        for cell, size, phi in zip(entries.cell, entries.size, np.abs(entries.phi[1]), strict=True):
            if cell >= 0:
                self.typical[cell] = self._next_typical(np.array([cell]), np.array([size]))[0]
                self.mass[cell, code] += phi
                self.total[code] += phi

    def bytes(self, frequencies: int) -> int:
        return self.nbytes

    def terms(self, e: Seen) -> Terms:
        """Return one term per entry of the row (zero for features without a cell), then one for the constant."""
        entries = self._entries(e)
        terms = Terms.zeros(self.count, self.outputs, len(e.x.values) + 1)
        positions = np.append(np.flatnonzero(e.x.values != 0), len(e.x.values))  # the constant is the last
        phi = entries.phi[self.signs.astype(int)]
        beliefs = terms.columns[:, : len(self.rates)]
        beliefs[SHARED, :, :, -1] = self.bias
        if self.shared:
            beliefs[SHARED][:, :, positions] += self._by_entry(entries.cell, phi)
            n = self._evidence_by_entry(entries) * entries.phi[1][:, None]
            beliefs[SHARED][:, :, positions] += self.bayes[:, None, None] * n.T
        for (r, cell), (_, _, row) in zip(entries.own, e.related, strict=False):
            beliefs[source_of(e, row)][:, :, positions] += r * self._by_entry(cell, phi)
        if self.pairs:
            # Each of the two features of a pair gets half of its term.
            pairs = self._pairs(entries)
            halves = 0.5 * at(self.w[:, 0], pairs.cell) * pairs.phi[:, None].astype(np.float64)
            last = terms.columns[:, -1]
            last[:] = terms.columns[:, -2]
            for ends in (pairs.first, pairs.second):
                np.add.at(last[SHARED].T, positions[ends], halves)
        return terms

    def _by_entry(self, cell: Integers, phi: Array) -> Array:
        return np.asarray(at(self.w, cell).transpose(1, 2, 0) * phi[:, None, :])

    # ---- state

    SAVED_VECTORS = ("total", "bias", "bias_squares", "bayes", "bayes_squares", "mean_squares")

    def state(self) -> dict[str, Any]:
        arrays = (self.typical, self.mass, self.w, self.squares)
        cells = np.concatenate([array.reshape(self.cells, -1) for array in arrays], axis=1)
        return {f"table_{name}": getattr(self, name) for name in self.SAVED_VECTORS} | {
            "table_cells": cells, "table_tags": self.tag * (MAX_COUNT + 1) + self.counts,
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
        self.tag, self.counts = np.divmod(np.array(state["table_tags"], dtype=np.int64), MAX_COUNT + 1)

    @property
    def nbytes(self) -> int:
        # The last summand is the tag and the count of each cell, which take two bytes in the compiled engine.
        return 2 * self.w.nbytes + self.typical.nbytes + self.mass.nbytes + 2 * self.cells


def tags(h: Any) -> Any:
    """Return the tag of each hash: its lowest bits, which do not determine the bucket.

    It is at least 1, since cells that were never used have tag 0.
    """
    return np.maximum((h & np.uint64(TAGS - 1)).astype(np.int64), 1)


def own_hash(h: Any, task_id: int) -> Any:
    """Return the hashes of the own weights of a task, from the hashes of the features."""
    # `mixed` is symmetric: without the ~, feature 2 of task 5 would share a cell with feature 5 of task 2.
    return mixed(h, mix64(~np.int64(task_id)))


def at(array: Any, cell: Integers) -> Array:
    """Return the numbers of these cells in float64, and zeros where there is no cell."""
    has_cell = (cell >= 0).reshape(-1, *[1] * (array.ndim - 1))
    return np.where(has_cell, array[cell].astype(np.float64), 0.0)
