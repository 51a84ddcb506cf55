"""The exchange between replicas: extract the shared part of a model, combine it with those of others, put it back.

`ReplicatedModel.exchange` calls this. Every replica g has a shared part, and a part of its own for each task. At an
exchange it sends its shared part, a few arrays over its stored examples S_g, and receives those of the others,
projected on its own stored examples:

    SharedProjectron   s, the sum of all tasks' rows:   s_g ← the mean of proj_g(s_h) over all h
    Budgetron, kernel  U_g ← the mean of proj_g(U_h);   M does not change: it measures the rows of this replica
    Budgetron, linear  with Λ = Σ⁻¹:                    Λ_g ← Λ_g + Σ_{h≠g} ΔΛ_h,  (ΛW)_g ← (ΛW)_g + Σ_{h≠g} Δ(ΛW)_h
                       where Δ is the change since the last exchange, so that each row is counted once. If a belief
                       keeps adapting (floor > 0), there is no such sum, and W becomes the mean over all replicas
    moments            mean and variance of all rows together, exactly

    proj_g(w) = H_g⁻¹ K'(S_g, S_h) w, the projection on the span of S_g

Why the mean and not the sum: all replicas estimate the same function, each from its own rows, so a sum would count it
once per replica. The weights of beliefs are not exchanged.

In code: s is `sum`, U is `u`, W and Σ are the pair in `linear`, H_g is the Gram matrix of the stored examples.
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
JITTER = 1e-10  # added to the diagonal of the Gram matrix, relative; stored examples are at least η apart, so tiny


@dataclass(frozen=True)
class SharedPart:
    """The part of a model that all tasks share: weights over the stored rows, and the linear part if there is one."""

    rows: Any
    weights: dict[int, Array]  # (outputs, n) per belief; SharedProjectron has one, under 0
    linear: dict[int, tuple[Array, Array]]  # W: (outputs, features), Σ: (features, features) or its diagonal
    moments: tuple[float, Array, Array] | None  # count, mean, m2
    summed: frozenset[int] = frozenset()  # beliefs whose precisions are summed: those with floor 0

    @property
    def nbytes(self) -> int:
        rows = self.rows.data.nbytes + self.rows.indices.nbytes if sparse.issparse(self.rows) else self.rows.nbytes
        linear = [array for pair in self.linear.values() for array in pair]
        arrays = [*self.weights.values(), *linear, *([] if self.moments is None else self.moments[1:])]
        return int(rows + sum(array.nbytes for array in arrays))

    def exchange_baseline(self) -> LinearParts:
        """What the next exchange must know of this one: W and Σ (its lower triangle) of the summed beliefs."""
        return {index: (W, _triangle(S)) for index, (W, S) in self.linear.items() if index in self.summed}


def exchange_baseline_bytes(settings: Any) -> int:
    """Bytes of `SharedPart.exchange_baseline` for a replica with these settings."""
    if settings.rule != "budgetron":
        return 0
    summed = sum(belief[0] > 0 and belief[4] == 0 for belief in settings.parameters.beliefs)
    width = settings.n_features + 1
    covariance = width * (width + 1) // 2 if settings.parameters.whole else width
    return int(8 * summed * (settings.n_outputs * width + covariance))


def shared_part(engine: Any) -> SharedPart:
    """Extract the shared part of an engine."""
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
    summed = frozenset(index for index in linear if settings.parameters.beliefs[index][4] == 0)
    return SharedPart(rows, dict(zip(kernel, u, strict=True)), dict(zip(linear, pairs, strict=True)), moments, summed)


def with_shared_part(engine: Any, part: SharedPart) -> Any:
    """A copy of an engine with another shared part, over the same stored rows."""
    settings, state = engine.settings, dict(engine.state())
    if settings.rule == "shared_projectron":
        if len(state["sum"]):
            state["sum"] = part.weights[0][None]
            state.pop("table_squares", None)  # restore computes it from the rows
        return type(engine).restore(settings, state)
    linear, kernel = _beliefs(settings, state)
    state["u"] = np.array([part.weights[index] for index in kernel]).reshape(np.shape(state["u"]))
    _put_linear(state, [part.linear[index] for index in linear])
    if part.moments is not None:
        state["moments_count"], state["moments_mean"], state["moments_m2"] = part.moments
    return type(engine).restore(settings, state)


def combined(kernel: Kernel | None, now: Sequence[SharedPart], last: Sequence[LinearParts]) -> list[SharedPart]:
    """Combine the shared parts of all replicas; `last` are their baselines of the previous exchange."""
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
    """Add up precisions, and weights times precisions, so that what each replica saw is counted once."""
    W, S = own
    precision = _inverse(S)
    moment = _times(W, precision)
    for h in others:
        if index not in now[h].linear:
            continue  # that replica has dropped the belief
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
    """The lower triangle of a symmetric matrix, row by row. A diagonal is returned unchanged."""
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
    """W and Σ of each belief. Σ is a full matrix if there are few features, otherwise a diagonal."""
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
    """Mean and variance of all rows, with the replica's own count, which is its weight at the next exchange."""
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
    """proj_g: projects functions over other rows on the span of these rows."""

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
    """The Gram matrix K' between the rows of two matrices, dense or sparse."""
    if not sparse.issparse(a):
        return kernel(a, b)
    dot = np.asarray((a @ b.T).todense(), dtype=np.float64)
    sq_a, sq_b = (np.asarray(x.multiply(x).sum(axis=1), dtype=np.float64).ravel() for x in (a, b))
    return kernel.row(dot, *np.broadcast_arrays(sq_a[:, None], sq_b[None, :]))


def _beliefs(settings: Any, state: dict[str, Any]) -> tuple[list[int], list[int]]:
    """The indices of live beliefs with a shared linear part, and of those with a shared kernel part."""
    rows, live = settings.parameters.beliefs, [int(index) for index in state["belief_index"]]
    if not settings.parameters.shared:
        raise refuse("ReplicatedModel", "graph", "one that relates tasks", "a disconnected one", "Use ShardedModel.")
    return [i for i in live if rows[i][0] > 0], [i for i in live if rows[i][2] > 0]
