"""The exchange between replicas: extract the shared part of each, combine them, and put the results back.

`ReplicatedModel.exchange` calls this. Every replica g has a part that its tasks share, and a part per task. At an
exchange the shared part of g is combined with the shared parts of the other replicas h. Here θ are the weights of a
filter (one of the Bayesian models that a Budgetron mixes), P is their covariance, and Λ = P⁻¹ is the precision:

    SharedProjectron    s_g, the weights over its stored examples S_g, summed over all tasks:
                        s_g ← the mean of proj_g(s_h) over all h,
                        proj_g(s_h) = H_g⁻¹ K'(S_g, S_h) s_h, the projection on the span of S_g
    Budgetron, filters  Λ_g ← Λ_g + Σ_{h≠g} ΔΛ_h,  (Λθ)_g ← (Λθ)_g + Σ_{h≠g} Δ(Λθ)_h
                        where Δ is the change since the last exchange, so that each row is counted once
    Budgetron, others   the mean over all replicas: of the weights of filters that keep adapting (floor > 0) or learn by
                        AdaGrad, of the weights of the other AdaGrad models, and of the learned dimensions
                        (`parts.latent`). Step sizes and variances are not exchanged
    Budgetron, table    the hashed table of sparse rows, and binned columns: sums add up, and weights become the mean,
    and bins            weighted by how much each replica has learned about a feature (`keyed_weights`)
    Budgetron, columns  the estimates of every column (centre, spread, mean, variance): pooled, weighted by rows

The mean is taken instead of the sum, because all replicas estimate the same function, each from its own rows. A sum
would count this function once per replica. The weights with which a Budgetron mixes its models, and everything that
belongs to a task, are not exchanged.

In code: s is `sum`, θ and P are the pair in `filters`. K'(A, B) is the matrix of kernel values between two sets of rows
(`gram`), and H_g = K'(S_g, S_g). `EXCHANGES` names the rules that can be replicated, and how the shared part of each is
read from a state and written to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import sparse

from budgetron.distributed.replicas import keyed_weights, table_and_bins
from budgetron.distributed.replicas.keyed_weights import KeyedWeights
from budgetron.engine.reference.rules.budgetron.parts.filters import FOURIER_PRIOR
from budgetron.engine.reference.rules.budgetron.parts.table import MAX_COUNT
from budgetron.engine.reference.rules.budgetron.sizes import shapes
from budgetron.engine.reference.shared_table import with_log_applied
from budgetron.engine.saved_state import packed, unpacked
from budgetron.errors import input_error
from budgetron.kernels import Kernel

Array = NDArray[np.float64]
FilterParts = dict[str, tuple[Array, Array]]
# Added to the diagonal of H, relative to its largest value. A tiny number is enough, because mistakes near the span of
# the stored examples are not stored, so H is usually far from singular.
JITTER = 1e-10
# The arrays of a Budgetron that replicas average, and its estimates of columns.
MEANS = ("latent_weights", "latent_dimensions")
COLUMNS = ("centre", "spread", "mean", "variance")
MIN_ROWS = 3  # rows that a replica must have seen for its estimates of columns to be used


@dataclass(frozen=True)
class SharedPart:
    """The part of a model that all tasks share."""

    rows: Any = None  # the stored examples of a SharedProjectron
    weights: Array | None = None  # its weights over them, (outputs, n)
    filters: FilterParts = field(default_factory=dict)  # θ (outputs, features), and P or its diagonal
    means: dict[str, Array] = field(default_factory=dict)  # arrays that replicas average
    columns: tuple[int, Array] | None = None  # rows seen, and the estimates in the order of COLUMNS
    keyed: dict[str, KeyedWeights] = field(default_factory=dict)  # of the hashed table and the binned columns

    @property
    def nbytes(self) -> int:
        rows = self.rows
        if rows is not None:
            rows = rows.data.nbytes + rows.indices.nbytes if sparse.issparse(rows) else rows.nbytes
        arrays = [array for pair in self.filters.values() for array in pair] + list(self.means.values())
        arrays += [] if self.weights is None else [self.weights]
        arrays += [] if self.columns is None else [self.columns[1]]
        keyed = sum(part.nbytes for part in self.keyed.values())
        return int((rows or 0) + sum(array.nbytes for array in arrays) + keyed)


@dataclass(frozen=True)
class Baseline:
    """The state right after the last exchange. The next exchange computes the changes since then."""

    filters: list[FilterParts]  # θ and P (its lower triangle) of the filters of each replica
    keyed: dict[str, KeyedWeights]  # the same for all replicas

    @classmethod
    def of(cls, parts: Sequence[SharedPart]) -> Baseline:
        """The baseline of replicas with these shared parts."""
        filters = [
            {name: (theta, P if P.ndim == 1 else packed(P)) for name, (theta, P) in part.filters.items()}
            for part in parts
        ]
        names = dict.fromkeys(name for part in parts for name in part.keyed)
        return cls(filters, {name: keyed_weights.baseline(_with(name, parts)) for name in names})

    @property
    def nbytes(self) -> int:
        filters = sum(array.nbytes for parts in self.filters for pair in parts.values() for array in pair)
        return filters + sum(part.nbytes for part in self.keyed.values())


def baseline_bytes(settings: Any, replicas: int) -> int:
    """An upper bound of the bytes of a `Baseline` for this number of replicas with these settings."""
    return EXCHANGES[settings.rule].baseline_bytes(settings, replicas)


def common_settings(settings: Any, rows: Any, compiled: bool) -> Any:
    """Return the settings that all replicas share.

    `settings` are the settings of a single model that starts with these rows of the first block. `compiled` says
    whether the engine is the compiled one.
    """
    return EXCHANGES[settings.rule].common_settings(settings, rows, compiled)


def new_replica(engine: Any, rows: Any) -> Any:
    """The engine of a replica, from a new engine and rows of the first block."""
    return EXCHANGES[engine.settings.rule].new_replica(engine, rows)


def shared_part(engine: Any) -> SharedPart:
    """Extract the shared part of an engine."""
    return EXCHANGES[engine.settings.rule].extract(engine)


def with_shared_part(engine: Any, part: SharedPart) -> Any:
    """A copy of an engine with another shared part, over the same stored rows."""
    state = dict(engine.state())
    EXCHANGES[engine.settings.rule].insert(engine.settings, state, part)
    return type(engine).restore(engine.settings, state)


def _extract_weights(engine: Any) -> SharedPart:
    """The shared part of a SharedProjectron: its stored rows, and the weights over them summed over tasks."""
    settings, state = engine.settings, with_log_applied(engine.state())
    rows = engine.active()["rows"]
    total = np.asarray(state["sum"]).reshape(len(state["sum_cluster"]), settings.n_outputs, rows.shape[0])
    return SharedPart(rows, total[0] if len(total) else np.zeros((settings.n_outputs, rows.shape[0])))


def _insert_weights(settings: Any, state: dict[str, Any], part: SharedPart) -> None:
    if len(state["sum"]):
        assert part.weights is not None
        up_to_date = with_log_applied(state)
        state.clear()
        state.update(up_to_date, sum=part.weights[None])
        for derived in ("table_squares", "table_gram"):  # `restore` computes them from the rows
            state.pop(derived, None)


def _budgetron_bytes(settings: Any, replicas: int) -> int:
    full_covariance, total = settings.parameters.full_covariance, 0
    for k in _stationary_filters(settings):
        width = shapes.dense_columns(settings) + 1 + 2 * shapes.filter_frequencies(settings, k)
        total += settings.n_outputs * width + (width * (width + 1) // 2 if full_covariance else width)
    return 8 * replicas * int(total) + table_and_bins.baseline_bytes(settings)


def _stationary_filters(settings: Any) -> list[int]:
    """The filters that are Bayesian and forget nothing (floor = 0). Only the precisions of these can be summed."""
    return [
        k
        for k, (_, _, floor) in enumerate(settings.parameters.filters)
        if floor == 0 and shapes.filter_rate(settings.parameters, k) == 0
    ]


def _extract_budgetron(engine: Any) -> SharedPart:
    """The shared part of a Budgetron: filters, arrays to average, estimates of columns, table and bins."""
    settings, state = engine.settings, engine.state()
    if not settings.parameters.shared:
        raise input_error(
            "ReplicatedModel", "graph", "connected", "a disconnected graph", "Use ShardedModel."
        )
    stationary = {f"filter{k}" for k in _stationary_filters(settings)}
    filters, means = {}, {}
    for k in range(len(settings.parameters.filters)):
        name = f"filter{k}"
        if f"{name}_weights" not in state:
            continue  # the replica has dropped this filter
        theta = np.array(state[f"{name}_weights"], dtype=np.float64).reshape(settings.n_outputs, -1)
        if name in stationary:
            P = np.array(state[f"{name}_covariance"], dtype=np.float64)
            filters[name] = (theta, unpacked(P) if settings.parameters.full_covariance else P)
        else:
            means[f"{name}_weights"] = theta
    averaged = [*MEANS, *(f"adagrad{k}_weights" for k in range(len(settings.parameters.rates)))]
    means |= {name: np.array(state[name], dtype=np.float64) for name in averaged if name in state}
    columns = None
    if "scaler_count" in state:  # a model on sparse rows may have a table only
        estimates = np.array([state[f"scaler_{name}"] for name in COLUMNS], dtype=np.float64)
        columns = int(state["scaler_count"]), estimates
    return SharedPart(
        filters=filters, means=means, columns=columns, keyed=table_and_bins.extract(settings, state)
    )


def _insert_budgetron(settings: Any, state: dict[str, Any], part: SharedPart) -> None:
    new: dict[str, Array] = dict(part.means)
    for name, (theta, P) in part.filters.items():
        new |= {f"{name}_weights": theta, f"{name}_covariance": P if P.ndim == 1 else packed(P)}
    if part.columns is not None:
        new |= {f"scaler_{name}": row for name, row in zip(COLUMNS, part.columns[1], strict=True)}
    for name, array in new.items():
        state[name] = np.ascontiguousarray(array, dtype=state[name].dtype).reshape(np.shape(state[name]))
    table_and_bins.insert(settings, state, part.keyed)


@dataclass(frozen=True)
class Exchange:
    """How one rule takes part in exchanges."""

    extract: Callable[[Any], SharedPart]
    insert: Callable[[Any, dict[str, Any], SharedPart], None]
    baseline_bytes: Callable[[Any, int], int] = lambda settings, replicas: 0
    common_settings: Callable[[Any, Any, bool], Any] = lambda settings, rows, compiled: settings
    new_replica: Callable[[Any, Any], Any] = lambda engine, rows: engine
    equal_shares: bool = False  # whether replicas need equal budgets, because their arrays must have equal sizes


EXCHANGES = {
    "shared_projectron": Exchange(_extract_weights, _insert_weights),
    "budgetron": Exchange(
        _extract_budgetron, _insert_budgetron, _budgetron_bytes, table_and_bins.common_settings,
        table_and_bins.new_replica, equal_shares=True,
    ),
}  # fmt: skip


def combine(kernel: Kernel | None, now: Sequence[SharedPart], last: Baseline) -> list[SharedPart]:
    """The new shared part of each replica, from all parts `now` and the baseline of the last exchange."""
    names = dict.fromkeys(name for part in now for name in part.keyed)
    keyed = {name: _combine_keyed(name, now, last) for name in names}
    return [_combine_for(kernel, g, now, last.filters, keyed) for g in range(len(now))]


def _with(name: str, parts: Sequence[SharedPart]) -> list[KeyedWeights]:
    """The keyed weights of this name, of all replicas that have them."""
    return [part.keyed[name] for part in parts if name in part.keyed]


def _combine_keyed(name: str, now: Sequence[SharedPart], last: Baseline) -> KeyedWeights:
    parts = _with(name, now)
    # Bins that were not exchanged before have no baseline: all that they have learned is new.
    before = last.keyed.get(name, parts[0].rows(np.zeros(0, dtype=np.int64)))
    combined = keyed_weights.combined(parts, before, MAX_COUNT)
    return table_and_bins.most_per_bucket(combined) if name == table_and_bins.TABLE else combined


def _combine_for(
    kernel: Kernel | None, g: int, now: Sequence[SharedPart], last: Sequence[FilterParts],
    keyed: dict[str, KeyedWeights],
) -> SharedPart:  # fmt: skip
    """The new shared part of replica g."""
    own_part, others = now[g], [h for h in range(len(now)) if h != g]
    weights = None
    if own_part.weights is not None:
        projected = _Projection(kernel, own_part.rows)
        parts = [projected(part.rows, part.weights) for part in (now[h] for h in others) if part.weights is not None]
        weights = np.mean([own_part.weights, *parts], axis=0)
    filters = {name: _add_changes(name, pair, others, now, last) for name, pair in own_part.filters.items()}
    means = {name: _mean(name, own, now) for name, own in own_part.means.items()}
    columns = _pool_columns(g, now)
    return SharedPart(own_part.rows, weights, filters, means, columns, {name: keyed[name] for name in own_part.keyed})


def _mean(name: str, own: Array, now: Sequence[SharedPart]) -> Array:
    """The mean over the replicas that have this array in the same size.

    Sizes can differ, because replicas do not begin to use more frequencies at the same time.
    """
    same_size = [part.means[name] for part in now if name in part.means and part.means[name].shape == own.shape]
    return np.asarray(np.mean(same_size, axis=0))


def _add_changes(
    name: str, own: tuple[Array, Array], others: list[int], now: Sequence[SharedPart], last: Sequence[FilterParts]
) -> tuple[Array, Array]:
    """Add the changes of Λ and Λθ in the other replicas since the last exchange. Returns the new θ and P."""
    with_filter = [h for h in others if name in now[h].filters]  # some replicas may have dropped this filter
    width = max(theta.shape[1] for theta, _ in [own, *(now[h].filters[name] for h in with_filter)])
    theta, P = _widen(own, width)
    precision = _inverse(P)
    moment = _times(theta, precision)
    for h in with_filter:
        theta_before, P_before = last[h][name]
        baseline = (theta_before, unpacked(P_before) if P.ndim == 2 else P_before)
        theta_now, P_now = _widen(now[h].filters[name], width)
        theta_before, P_before = _widen(baseline, width)
        precision_now, precision_before = _inverse(P_now), _inverse(P_before)
        precision = precision + precision_now - precision_before
        moment = moment + _times(theta_now, precision_now) - _times(theta_before, precision_before)
    covariance = _inverse(precision)
    n = own[0].shape[1]
    return _times(moment, covariance)[:, :n], covariance[:n, :n] if P.ndim == 2 else covariance[:n]


def _widen(pair: tuple[Array, Array], width: int) -> tuple[Array, Array]:
    """Add frequencies with their prior to θ and P, because another replica may use more of them."""
    theta, P = pair
    more = width - theta.shape[1]
    if not more:
        return pair
    theta = np.hstack([theta, np.zeros((len(theta), more))])
    prior = np.full(more, FOURIER_PRIOR)
    return theta, scipy.linalg.block_diag(P, np.diag(prior)) if P.ndim == 2 else np.concatenate([P, prior])


def _inverse(P: Array) -> Array:
    if P.ndim == 1:
        return 1 / P
    inverse: Array = scipy.linalg.cho_solve(scipy.linalg.cho_factor(P), np.eye(len(P)))
    return (inverse + inverse.T) / 2


def _times(theta: Array, P: Array) -> Array:
    return theta * P if P.ndim == 1 else theta @ P


def _pool_columns(g: int, now: Sequence[SharedPart]) -> tuple[int, Array] | None:
    """The estimates of the columns, weighted by rows over all replicas.

    The returned count is still the replica's own number of rows, its weight at the next exchange.
    """
    own = now[g].columns
    if own is None or own[0] < MIN_ROWS:
        return own
    counted = [part.columns for part in now if part.columns is not None and part.columns[0] >= MIN_ROWS]
    share = np.array([count for count, _ in counted], dtype=np.float64)
    share /= share.sum()
    all_estimates = np.array([estimates for _, estimates in counted])
    pooled: Array = np.tensordot(share, all_estimates, 1)
    mean, variance = COLUMNS.index("mean"), COLUMNS.index("variance")
    pooled[variance] += share @ (all_estimates[:, mean] - pooled[mean]) ** 2  # the variance between the replicas' means
    return own[0], pooled


class _Projection:
    """proj_g: projects a function, given by weights over other rows, on the span of the rows of replica g."""

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
