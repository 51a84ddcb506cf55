"""The shared part of a learner, taken out, combined with that of other replicas, and put back.

Every replica has a shared part, and the own parts of its tasks. At an exchange each sends its shared part, a few arrays
over the examples that it stores, and receives that of the others, projected on what it stores itself:

    SharedProjectron   s, the sum of all tasks' rows:   s_g ← the mean of proj_g(s_h) over all h
    Budgetron, kernel  U_g ← the mean of proj_g(U_h);   M stays: a replica is as sure as its own rows make it
    Budgetron, linear  with Λ = Σ⁻¹:                    Λ_g ← Λ_g + Σ_{h≠g} ΔΛ_h,  (ΛW)_g ← (ΛW)_g + Σ_{h≠g} Δ(ΛW)_h
                       with Δ since the last exchange: what each replica saw is counted once. A belief that never stops
                       adapting (floor > 0) has no such sum: there W is the mean of all
    moments            of all rows together, exactly

    proj_g(w) = H_g⁻¹ K'(S_g, S_h) w, the nearest function in the span of S_g

The mean, where a sum might be expected: all replicas find out the same, each from its own rows, and a sum would count
it as often as there are replicas. Beliefs are weighed by each replica for its own tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import sparse

from budgetron.errors import refuse
from budgetron.kernels import Kernel

Array = NDArray[np.float64]
LinearParts = dict[int, tuple[Array, Array]]
JITTER = 1e-10  # of the Gram matrix of stored examples, which are apart by η


@dataclass(frozen=True)
class SharedPart:
    """What all tasks have in common: weights over the stored rows, and the linear part where there is one."""

    rows: Any
    weights: dict[int, Array]  # (outputs, n) by belief, or one under 0
    linear: dict[int, tuple[Array, Array]]  # W (outputs, features), and Σ: (features, features) or its diagonal
    moments: tuple[float, Array, Array] | None  # count, mean, m2
    summed: frozenset[int] = frozenset()  # beliefs whose precisions add up: those that do not go on adapting for ever

    @property
    def nbytes(self) -> int:
        rows = self.rows.data.nbytes + self.rows.indices.nbytes if sparse.issparse(self.rows) else self.rows.nbytes
        linear = [array for pair in self.linear.values() for array in pair]
        arrays = [*self.weights.values(), *linear, *([] if self.moments is None else self.moments[1:])]
        return int(rows + sum(array.nbytes for array in arrays))

    def left_behind(self) -> LinearParts:
        """What the next exchange must know of this one: W and Σ of the beliefs that add up, of Σ the lower triangle."""
        return {index: (W, _triangle(S)) for index, (W, S) in self.linear.items() if index in self.summed}


def left_behind_bytes(settings: Any) -> int:
    """Bytes of `SharedPart.left_behind` of a replica with these settings."""
    if settings.rule != "budgetron":
        return 0
    summed = sum(belief[0] > 0 and belief[4] == 0 for belief in settings.extra["beliefs"])
    width = settings.n_features + 1
    covariance = width * (width + 1) // 2 if settings.extra["whole"] else width
    return int(8 * summed * (settings.n_outputs * width + covariance))


def shared_part(engine: Any) -> SharedPart:
    """The shared part as it is now."""
    settings, state = engine.settings, engine.state()
    rows = engine.active()["rows"]
    n, outputs = rows.shape[0], settings.n_outputs
    if settings.rule == "shared_projectron":
        total = np.asarray(state["sum"]).reshape(len(state["sum_cluster"]), outputs, n)
        return SharedPart(rows, {0: total[0] if len(total) else np.zeros((outputs, n))}, {}, None)
    linear, kernel = _beliefs(settings, state)
    u = np.asarray(state["u"], dtype=np.float64).reshape(len(kernel), outputs, n)
    pairs = _linear_of(state, len(linear), outputs)
    moments = None
    if "moments_mean" in state:
        moments = (float(state["moments_count"]), np.array(state["moments_mean"]), np.array(state["moments_m2"]))
    summed = frozenset(index for index in linear if settings.extra["beliefs"][index][4] == 0)
    return SharedPart(rows, dict(zip(kernel, u, strict=True)), dict(zip(linear, pairs, strict=True)), moments, summed)


def with_shared_part(engine: Any, part: SharedPart) -> Any:
    """An engine like this one with another shared part, over the rows that it stores."""
    settings, state = engine.settings, dict(engine.state())
    if settings.rule == "shared_projectron":
        if len(state["sum"]):
            state["sum"] = part.weights[0][None]
            state.pop("table_squares", None)  # made anew from the rows
        return type(engine).restore(settings, state)
    linear, kernel = _beliefs(settings, state)
    state["u"] = np.array([part.weights[index] for index in kernel]).reshape(np.shape(state["u"]))
    _put_linear(state, [part.linear[index] for index in linear])
    if part.moments is not None:
        state["moments_count"], state["moments_mean"], state["moments_m2"] = part.moments
    return type(engine).restore(settings, state)


def combined(kernel: Kernel | None, now: Sequence[SharedPart], last: Sequence[LinearParts]) -> list[SharedPart]:
    """The part of each replica after an exchange, from what all have now and what the last exchange left them with."""
    return [_received(kernel, g, now, last) for g in range(len(now))]


def _received(kernel: Kernel | None, g: int, now: Sequence[SharedPart], last: Sequence[LinearParts]) -> SharedPart:
    mine = now[g]
    others = [h for h in range(len(now)) if h != g]
    weights = {}
    projected = _Projection(kernel, mine.rows)
    for index, own in mine.weights.items():
        parts = [projected(now[h].rows, now[h].weights[index]) for h in others if index in now[h].weights]
        weights[index] = np.mean([own, *parts], axis=0)
    linear = {}
    for index, pair in mine.linear.items():
        linear[index] = (_summed if index in mine.summed else _averaged)(index, pair, others, now, last)
    return SharedPart(mine.rows, weights, linear, _pooled(g, now), mine.summed)


def _summed(
    index: int, own: tuple[Array, Array], others: list[int], now: Sequence[SharedPart], last: Sequence[LinearParts]
) -> tuple[Array, Array]:
    """Precisions add up, and so do weights times precisions: what each replica saw is counted once."""
    W, S = own
    precision = _inverse(S)
    moment = _times(W, precision)
    for h in others:
        if index not in now[h].linear:
            continue  # that replica has given the belief up
        after, before = now[h].linear[index], last[h][index]
        gained, had = _inverse(after[1]), _inverse(_square(before[1]) if after[1].ndim == 2 else before[1])
        precision = precision + gained - had
        moment = moment + _times(after[0], gained) - _times(before[0], had)
    covariance = _inverse(precision)
    return _times(moment, covariance), covariance


def _averaged(
    index: int, own: tuple[Array, Array], others: list[int], now: Sequence[SharedPart], last: Sequence[LinearParts]
) -> tuple[Array, Array]:
    weights = [own[0], *(now[h].linear[index][0] for h in others if index in now[h].linear)]
    return np.mean(weights, axis=0), own[1]


def _inverse(S: Array) -> Array:
    if S.ndim == 1:
        return 1 / S
    inverse: Array = scipy.linalg.cho_solve(scipy.linalg.cho_factor(S), np.eye(len(S)))
    return (inverse + inverse.T) / 2


def _triangle(S: Array) -> Array:
    """The lower triangle of a symmetric matrix, row by row; a diagonal stays as it is."""
    return S if S.ndim == 1 else S[np.tril_indices(len(S))]


def _square(triangle: Array) -> Array:
    """The symmetric matrix of a lower triangle."""
    n = int(np.sqrt(2 * len(triangle)))  # n(n + 1)/2 numbers
    rows, columns = np.tril_indices(n)
    S = np.zeros((n, n))
    S[rows, columns] = S[columns, rows] = triangle
    return S


def _times(W: Array, S: Array) -> Array:
    return W * S if S.ndim == 1 else W @ S


def _linear_of(state: dict[str, Any], n: int, outputs: int) -> list[tuple[Array, Array]]:
    """W and Σ of each belief: Σ is whole where there are few features, else a diagonal."""
    blocks = np.asarray(state["linear"], dtype=np.float64)
    if "linear_covariance" not in state:
        return [(block[:outputs], block[outputs]) for block in blocks.reshape(n, outputs + 1, -1)]
    W = blocks.reshape(n, outputs, -1)
    triangles = np.reshape(state["linear_covariance"], (n, W.shape[2] * (W.shape[2] + 1) // 2))
    return [(w, _square(triangle)) for w, triangle in zip(W, triangles, strict=True)]


def _put_linear(state: dict[str, Any], pairs: list[tuple[Array, Array]]) -> None:
    if "linear_covariance" not in state:
        blocks = [np.vstack([W, S[None]]) for W, S in pairs]
        state["linear"] = np.array(blocks).reshape(np.shape(state["linear"]))
        return
    state["linear"] = np.array([W for W, _ in pairs]).reshape(np.shape(state["linear"]))
    triangles = [_triangle(S) for _, S in pairs]
    state["linear_covariance"] = np.array(triangles).reshape(np.shape(state["linear_covariance"]))


def _pooled(g: int, now: Sequence[SharedPart]) -> tuple[float, Array, Array] | None:
    """Mean and variance of all rows, under the replica's own count: they are weighed by it at the next exchange."""
    own = now[g].moments
    if own is None:
        return None
    moments = [part.moments for part in now if part.moments is not None]
    count = sum(n for n, _, _ in moments)
    if not count:
        return own
    mean = sum((n * mean for n, mean, _ in moments), start=np.zeros_like(own[1])) / count
    squares = sum((m2 + n * m**2 for n, m, m2 in moments), start=np.zeros_like(own[1])) / count
    return own[0], mean, own[0] * np.maximum(squares - mean**2, 0.0)


class _Projection:
    """proj_g: functions over other rows, on the span of these."""

    def __init__(self, kernel: Kernel | None, rows: Any) -> None:
        self._kernel, self._rows = kernel, rows
        self._factor = None
        if kernel is not None and rows.shape[0]:
            H = gram(kernel, rows, rows)
            self._factor = scipy.linalg.cho_factor(H + JITTER * H.diagonal().max() * np.eye(len(H)))

    def __call__(self, rows: Any, weights: Array) -> Array:
        if self._factor is None or not rows.shape[0]:
            return np.zeros((len(weights), self._rows.shape[0]))
        assert self._kernel is not None
        projected: Array = scipy.linalg.cho_solve(self._factor, gram(self._kernel, self._rows, rows) @ weights.T).T
        return projected


def gram(kernel: Kernel, a: Any, b: Any) -> Array:
    """K' of the rows of one matrix against those of another, dense or sparse."""
    if not sparse.issparse(a):
        return kernel(a, b)
    dot = np.asarray((a @ b.T).todense(), dtype=np.float64)
    sq_a, sq_b = (np.asarray(x.multiply(x).sum(axis=1), dtype=np.float64).ravel() for x in (a, b))
    return kernel.row(dot, *np.broadcast_arrays(sq_a[:, None], sq_b[None, :]))


def _beliefs(settings: Any, state: dict[str, Any]) -> tuple[list[int], list[int]]:
    """The live beliefs with a shared linear and with a shared kernel part."""
    rows, live = settings.extra["beliefs"], [int(index) for index in state["belief_index"]]
    if not settings.extra["shared"]:
        raise refuse("ReplicatedModel", "graph", "one that relates tasks", "a disconnected one", "Take ShardedModel.")
    return [i for i in live if rows[i][0] > 0], [i for i in live if rows[i][2] > 0]
