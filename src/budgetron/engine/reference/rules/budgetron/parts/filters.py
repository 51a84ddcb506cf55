"""One belief as a Bayesian filter: weights with a covariance, shared by all tasks, and own weights of every task.

    f = θ·φ + Σ_j R_ij (v_j·φ),      V = φᵀPφ + Σ_j R_ij² Σ S_j φ²
    α, h from `steps`;   c = h/(1 + hV)
    θ += α Pφ,   P −= c Pφ(Pφ)ᵀ,     v_j += α R_ij S_j φ,   S_j ← S_j/(1 + h R_ij² S_j φ²)

For an example of task i with features φ, f is the margin and V its variance. θ are the shared weights with covariance
P, and v_j are the own weights of task j with variances S_j. α is the step size and h the curvature of the loss.

R_ij are the coefficients of the related tasks (`Budgetron.related`). On a complete graph, the coefficient of the task
itself is 1, and there are no others. In a graph of clusters, a task and its cluster have a coefficient each. On an
explicit graph with the matrix A, the coefficients are row i of a factor R of A⁻¹. P is a full matrix, or only its
diagonal if there are many columns. With `frequencies`, φ also has random Fourier features, and P and Pφ are computed in
float32; own weights use only the linear features.

In a filter with `cells`, the only own weight of a task is its bias, which takes the fewest bytes. A cell of a hashed
array has the bias for each output, and one variance. Tasks with the same hash share a cell. A filter may have
`short_rows`, which keep the own weights of tasks without a row of weights. A `plain` filter ignores the graph: a task
uses its own weights, but not those of related tasks. So a wrong graph costs little accuracy.

A filter with a rate λ learns by AdaGrad, with the same steps. It has one S per weight, shared or own:

    S ← S/√(1 + (g S φ)²/λ²),     g = 1 − p_y, where p_y is the filter's probability of the true class y

So S is λ/√G, where G is λ² divided by the squared prior of S, plus the sum of squared gradients. After n examples S has
fallen like 1/√n. In a Bayesian filter, S falls like 1/n. That is why the filter with a rate can follow a stream that
drifts.

A filter with a lapse rate ε assumes that this share of the labels is random. The weight of an example is multiplied by
(1 − ε) p_y/(ε/2 + (1 − ε) p_y), the probability that its label is not random. `mixture` uses the probability
ε/2 + (1 − ε) p in place of p. Without ε, a few wrong labels would keep the weights small, because confident mistakes
cost much. A lapse rate is possible with two classes only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rules.budgetron.features.fourier_features import first_frequencies
from budgetron.engine.reference.rules.budgetron.features.hashing import mix64
from budgetron.engine.reference.rules.budgetron.parts.part import SHARED, Seen, Terms, source_of
from budgetron.engine.reference.rules.budgetron.parts.short_rows import ShortRows
from budgetron.engine.reference.rules.budgetron.parts.steps import gradient, not_random, step
from budgetron.engine.saved_state import packed, triangle, unpacked

NEGLIGIBLE = 1e-3
"""A step that would change f by less than this is not taken."""
CONFIDENT = 0.01
"""A filter over Fourier features skips an example (of weight 1) if it gives the true class a probability above 99 %,
because an update costs O(width²)."""
EARLY, MAJORITY_WEIGHT = 512, 0.5
"""Before `EARLY` examples, the heaviest filter over Fourier features grows if all such filters together have at least
`MAJORITY_WEIGHT`, as a share of the weight of parts that are linear or have Fourier features."""
UNDETERMINED = 0.6
"""From `EARLY` examples on, that filter grows if its Fourier weights have less than this fraction of their prior
variance left, on average."""
REGISTER = 16
"""The core pads arrays of float32 to a multiple of this length, the longest register of a processor."""
FOURIER_PRIOR = 0.25
"""Prior variance of the weight of a Fourier feature. A cosine or sine has a mean square of ½."""


def shared_bytes(n: int, outputs: int, full_covariance: bool, single: bool = False) -> int:
    """Return the bytes of n weights per output with their covariance: its triangle and two vectors, or its diagonal.

    With `single`, the covariance is in float32. The core then has three vectors, and pads them and each row of the
    triangle to whole registers.
    """
    weights = 8 * n * outputs
    if not full_covariance:
        return weights + 8 * n
    if not single:
        return weights + 8 * (triangle(n) + 2 * n)
    registers, rest = divmod(n, REGISTER)
    padded_triangle = REGISTER * (registers + 1) * (REGISTER * registers // 2 + rest)
    return weights + 4 * (padded_triangle + 3 * REGISTER * -(-n // REGISTER))


@dataclass(frozen=True)
class FilterBelief:
    """The assumptions of a filter about its weights, as variances."""

    prior: float  # prior variance of a shared linear weight
    own: float  # prior variance of an own weight, as a multiple of `prior`
    floor: float = 0.0  # variances that fall below this share of their prior are raised
    rate: float = 0.0  # step size λ of AdaGrad; 0 for a Bayesian filter
    lapse: float = 0.0  # the share of labels that it assumes to be random; two classes only


class Filter:
    """A filter with the assumptions `belief`, on `columns` linear features (the last is the bias).

    It also sees the Fourier features of up to `frequencies` frequencies of its bank.
    """

    count = 1
    sees_entries = False

    def __init__(self, index: int, belief: FilterBelief, outputs: int, columns: int, frequencies: int,
                 frequency_limit: int, full_covariance: bool, shared: bool, own: bool, cells: int = 0,
                 plain: bool = False, bank: int = 0, short_rows: int = 0) -> None:  # fmt: skip
        self.name = f"filter{index}"
        self.belief, self.outputs, self.columns = belief, outputs, columns
        self.max_frequencies, self.frequency_limit = frequencies, frequency_limit
        self.is_linear = frequencies == 0
        self.frequencies = min(frequencies, first_frequencies(bank))
        self.full_covariance, self.shared, self.own = full_covariance, shared, own
        prior = np.concatenate([np.full(columns, belief.prior), np.full(2 * self.frequencies, FOURIER_PRIOR)])
        self.theta = np.zeros((outputs, len(prior) if shared else 0))
        # The covariance of Fourier features takes most of the bytes and of the time of a model, hence float32.
        self.single = frequencies > 0
        self.P = (np.diag(prior) if full_covariance else prior) if shared else np.zeros(0)
        if self.single:
            self.P = self.P.astype(np.float32)
        self.row_width, self.at = ((outputs + 1) * columns if own and not cells else 0), 0
        self.plain, self.bank = plain, bank
        self.cells = np.zeros((cells if own else 0, outputs + 1), dtype=np.float32)
        self.cells[:, -1] = self.own_prior
        self.short_rows = ShortRows(self.name, short_rows if own else 0, self.row_width)

    def set_frequencies(self, count: int) -> None:
        more, n = 2 * (count - self.frequencies), self.theta.shape[1]
        self.theta, self.P = np.pad(self.theta, ((0, 0), (0, more))), np.pad(self.P, (0, more))
        self.P[range(n, n + more), range(n, n + more)] = FOURIER_PRIOR
        self.frequencies, self.max_frequencies = count, max(self.max_frequencies, count)

    def bytes(self, frequencies: int) -> int:
        width = self.columns + 2 * frequencies if self.shared else 0
        # All parts share the features of bank 0, which are counted elsewhere. The features of another bank are counted
        # for the only filter that sees them.
        features = 4 * 2 * frequencies if self.bank and self.shared else 0
        return shared_bytes(width, self.outputs, self.full_covariance, self.single) + features + self._hashed_bytes

    @property
    def _hashed_bytes(self) -> int:
        return self.cells.nbytes + self.short_rows.nbytes

    def forget(self, task_id: int) -> None:
        self.short_rows.forget(task_id)
        if len(self.cells):
            cell = self.cell_of(task_id)
            cell[:-1], cell[-1] = 0, self.own_prior

    # ---- margins and variances

    def features(self, e: Seen) -> Array:
        return np.concatenate([e.linear, e.banks[self.bank][: 2 * self.frequencies]]) if self.frequencies else e.linear

    @property
    def learns_slowly(self) -> bool:
        return self.frequencies > 0

    def useful_frequencies(self, weight: float, seen: int) -> int:
        # Only the heaviest filter grows (for other filters, `weight` is 0), because the time of an update grows with
        # the square of the frequencies. Early, it grows if filters over Fourier features have much weight: weights that
        # are added later cannot take over what the first ones have already learned. After that, it grows once the
        # stream has determined its weights. While most of their prior variance remains, more weights would not help.
        if seen < EARLY:
            grows = weight >= MAJORITY_WEIGHT
        else:
            grows = weight > 0 and np.diagonal(self.P)[self.columns :].mean() < UNDETERMINED * FOURIER_PRIOR
        return self.frequency_limit if grows else self.frequencies

    @property
    def own_prior(self) -> float:
        return self.belief.prior * (self.belief.own if self.shared else 1.0)

    def related(self, e: Seen) -> list[tuple[float, int, Array]]:
        """Return coefficient, task id and row of each task whose own weights are part of f."""
        if not self.own:
            return []
        return [(1.0, e.task_id, e.own_row)] if self.plain else e.related

    def cell_of(self, task_id: int) -> NDArray[np.float32]:
        """Return a view of the cell of a task: its weight for each output, and their variance."""
        cell: NDArray[np.float32] = self.cells[int(mix64(np.int64(task_id)) % np.uint64(len(self.cells)))]
        return cell

    def own_of(self, row: Array) -> tuple[Array, Array]:
        """Return views of the own weights v (outputs, columns) and their variances S in the row of a task."""
        part = row[self.at : self.at + self.row_width]
        split = self.outputs * self.columns
        return part[:split].reshape(self.outputs, self.columns), part[split:]

    def begin_row(self, row: Array, task_id: int) -> None:
        if not self.row_width:
            return
        known = self.short_rows.read(task_id)
        if known is not None:
            row[self.at : self.at + self.row_width] = known
        else:
            v, s = self.own_of(row)
            v[:], s[:] = 0.0, self.own_prior

    def end_row(self, row: Array, task_id: int) -> None:
        self.short_rows.write(task_id, row[self.at : self.at + self.row_width])

    def margins(self, e: Seen) -> Array:
        f = self.theta @ self.features(e) if self.shared else np.zeros(self.outputs)
        for r, task_id, row in self.related(e):
            f = f + r * (self.cell_of(task_id)[:-1] if len(self.cells) else self.own_of(row)[0] @ e.linear)
        return f[None]

    def variances(self, e: Seen) -> Array:
        return np.array([self._variance(e, self._spread(e))])

    def _spread(self, e: Seen) -> Array:
        """Return Pφ."""
        if not self.shared:
            return np.zeros(0)
        features = self.features(e).astype(self.P.dtype)
        return np.asarray(self.P @ features if self.full_covariance else self.P * features)

    def _variance(self, e: Seen, spread: Array) -> float:
        v = float(self.features(e) @ spread) if self.shared else 0.0
        for r, task_id, row in self.related(e):
            v += r * r * float(self.cell_of(task_id)[-1] if len(self.cells) else self.own_of(row)[1] @ e.linear**2)
        return v

    # ---- the update

    def learn(self, e: Seen, f: Array, code: int, omega: float) -> bool:
        f = f[0]
        miss = float(gradient(f, code)[code])  # 1 − p_y
        if self.belief.lapse:
            omega *= not_random(1 - miss, self.belief.lapse)
        error = omega * miss
        # The two tests come before the O(width²) update, because most examples of an easy stream are skipped.
        if self.frequencies and error < CONFIDENT:
            return False
        spread = self._spread(e)
        v = self._variance(e, spread)
        if error * v < NEGLIGIBLE:
            return False
        alpha, h = step(f, code, omega, v)
        if self.shared:
            self.theta += np.outer(alpha, spread)
            if self.full_covariance:
                # A rank-one update of the covariance, as in a Kalman filter with one observation.
                spread *= np.sqrt(h / (1 + h * v))
                self.P -= np.outer(spread, spread)
            else:
                # The same update for the diagonal alone. The other entries are not stored.
                self.P /= self._shrinkage(spread, self.features(e), code, f, h, omega)
            self._raise_to_floor()
        floor = self.belief.floor * self.own_prior
        for r, task_id, row in self.related(e):
            if len(self.cells):
                cell = self.cell_of(task_id)
                t = r * float(cell[-1])
                cell[:-1] = cell[:-1] + alpha * t
                cell[-1] = max(float(cell[-1]) / (1 + h * r * t), floor)
                continue
            weights, s = self.own_of(row)
            step_of_own = r * s * e.linear
            weights += np.outer(alpha, step_of_own)
            s[:] = np.maximum(s / self._shrinkage(step_of_own, r * e.linear, code, f, h, omega), floor)
        return True

    def _shrinkage(self, spread: Array, features: Array, code: int, f: Array, h: float, omega: float) -> Array:
        """Return the divisors of the variances S of weights with these features; `spread` is Sφ."""
        if not self.belief.rate:
            return 1 + h * spread * features
        # S = λ/√G and G ← G + (gφ)². An example weight above 1 counts as 1, so that one heavy example cannot end the
        # learning of this belief by a huge G.
        g = min(omega, 1.0) * gradient(f, code)[code] / self.belief.rate
        return np.asarray(np.sqrt(1 + (g * spread) ** 2))

    def _raise_to_floor(self) -> None:
        """Raise variances that have fallen too low, so that the belief keeps following a stream that drifts."""
        if self.belief.floor == 0:
            return
        floor = self.belief.floor * self.belief.prior
        if self.full_covariance:
            # A low variance rises by 1 % of the floor at each step. Adding to the diagonal keeps P positive definite.
            low = np.flatnonzero(np.diagonal(self.P) < floor)
            self.P[low, low] += 0.01 * floor
        else:
            self.P = np.maximum(self.P, floor)

    def terms(self, e: Seen) -> Terms:
        terms = Terms.zeros(1, self.outputs, self.columns)
        columns, fourier = terms.columns[:, 0], terms.fourier[:, 0]
        if self.shared:
            columns[SHARED] = self.theta[:, : self.columns] * e.linear
            fourier[SHARED] = self.theta[:, self.columns :] @ e.banks[self.bank][: 2 * self.frequencies]
        for r, task_id, row in self.related(e):
            source = source_of(e, row)
            if len(self.cells):
                columns[source, :, -1] += r * self.cell_of(task_id)[:-1] * e.linear[-1]
            else:
                columns[source] += r * self.own_of(row)[0] * e.linear
        return terms

    # ---- state

    def state(self) -> dict[str, Any]:
        P = packed(self.P) if self.full_covariance and self.shared else self.P
        return {f"{self.name}_weights": self.theta, f"{self.name}_covariance": P, f"{self.name}_cells": self.cells,
                f"{self.name}_frequencies": np.array([self.frequencies, self.max_frequencies]),
                **self.short_rows.state()}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        used, self.max_frequencies = np.asarray(state[f"{self.name}_frequencies"]).tolist()
        if used > self.frequencies:
            self.set_frequencies(used)
        self.theta = np.array(state[f"{self.name}_weights"]).reshape(self.theta.shape)
        self.cells = np.array(state[f"{self.name}_cells"], dtype=np.float32).reshape(self.cells.shape)
        self.short_rows.restore(state)
        P = np.array(state[f"{self.name}_covariance"], dtype=self.P.dtype)
        self.P = unpacked(P) if self.full_covariance and self.shared else P

    @property
    def nbytes(self) -> int:
        return self.theta.nbytes + self.P.nbytes + self._hashed_bytes
