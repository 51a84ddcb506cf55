"""`ReplicatedModel`: one component of the task graph, split by groups of tasks into replicas. An approximation.

Each replica learns the rows of its own tasks. Every `exchange_every` examples the replicas exchange the part of the
model that all tasks share (`exchange`). Between two exchanges a replica does not know the examples of the others, so
the model is less accurate than one learner. docs/distributed.md has measurements.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from budgetron.distributed.directory.record import DirectoryRecord
from budgetron.distributed.input_validation import InputValidator
from budgetron.distributed.replicas.exchange import (
    EXCHANGES,
    Baseline,
    SharedPart,
    baseline_bytes,
    combine,
    common_settings,
    new_replica,
)
from budgetron.distributed.sharded import ShardedModel
from budgetron.distributed.split.placement import GroupPlacement
from budgetron.distributed.split.shares import Plan, first_shares, least_bytes, too_few_bytes_error
from budgetron.engine.memory import budget_of
from budgetron.engine.settings import Settings
from budgetron.errors import TooFewBytes, input_error, is_integer, shown

WHO = "ReplicatedModel"


class ReplicatedModel(ShardedModel):
    """One model in replicas for a graph with one component. Each replica has some of the tasks.

    For `Budgetron` and `SharedProjectron` on ``graphs.complete()``. If the graph has several components, use
    `ShardedModel`, which is exact.

    Parameters
    ----------
    learner : Budgetron or SharedProjectron
        The learner of every replica. Its `budget` is the total, which is divided among the replicas: stored examples,
        or bytes of all replicas' models and of the baseline of the last exchange in the coordinator. If a number of
        examples cannot be divided evenly, the first replicas get one more; with a Budgetron, the remainder is unused.
    replicas : int, default=2
        The number of replicas, fixed for the life of the model.
    exchange_every : int, default=4096
        Examples, at least, between two exchanges of the shared parts. They are counted over all replicas, and an
        exchange takes place only between two blocks of `block` rows.
    workers, backend, directory, block, in_flight, snapshot_every, patience, ray_options
        As for `ShardedModel`.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import Budgetron
    >>> from budgetron.distributed import ReplicatedModel
    >>> rng = np.random.default_rng(0)
    >>> X, users = rng.normal(size=(600, 3)), rng.integers(0, 100, size=600)
    >>> y = X @ [1.0, -1.0, 0.5] + 0.1 * rng.normal(size=600) > 0
    >>> with ReplicatedModel(Budgetron(budget=64), replicas=3, exchange_every=128, block=128) as model:
    ...     margins = model.predict_then_learn(X, y, tasks=users)
    ...     print(model.n_seen_, model.n_exchanges_, bool(np.mean((margins > 0) == y) > 0.9))
    600 4 True
    """

    # Parameters of `ShardedModel` that are not offered here.
    shares = "fixed"
    pins = None
    rebalance_every = 1
    n_exchanges_: int
    _baseline: Baseline  # of the last exchange

    def __init__(
        self,
        learner: Any,
        replicas: int = 2,
        exchange_every: int = 4096,
        workers: int = 1,
        backend: str = "local",
        directory: Any = None,
        block: int = 1024,
        in_flight: int = 4,
        snapshot_every: int = 50_000,
        patience: float = 60.0,
        ray_options: dict[str, Any] | None = None,
    ) -> None:
        self.learner = learner
        self.replicas = replicas
        self.exchange_every = exchange_every
        self.workers = workers
        self.backend = backend
        self.directory = directory
        self.block = block
        self.in_flight = in_flight
        self.snapshot_every = snapshot_every
        self.patience = patience
        self.ray_options = ray_options

    def exchange(self) -> int:
        """Exchange the shared parts now. Returns the number of bytes sent."""
        self._check_fitted()
        with self._rebalancing, self._workers.locked(range(self.shards)):
            now = self._parts() if self.replicas > 1 else []  # a single replica has nothing to exchange
            combined = combine(self._validator.prototype._engine.settings.kernel, now, self._baseline)
            for replica, part in enumerate(combined):
                self._workers.call_owner(replica, "receive", part)
            self._baseline = Baseline.of(combined)
            self._examples_since_maintenance = 0
            self.n_exchanges_ += 1
        return sum(part.nbytes for part in now) + sum(part.nbytes for part in combined)

    @property
    def memory_bytes_(self) -> int:
        """Bytes of all replicas' models and of the baseline of the last exchange. At most the byte budget, if any."""
        return super().memory_bytes_ + self._baseline.nbytes

    @property
    def shards(self) -> int:  # type: ignore[override]
        return self.replicas

    def _parts(self) -> list[SharedPart]:
        return [self._workers.call_owner(replica, "shared_part") for replica in range(self.shards)]

    def _interval(self) -> int | None:
        return self.exchange_every

    def _maintain(self) -> None:
        self.exchange()

    def _start(self, models: list[Any] | None) -> None:
        super()._start(models)
        # The baseline is not on disk. After a restart, what filters have learned since the last exchange is therefore
        # never exchanged. Of tables and bins, the smallest sums of all replicas are the baseline, so only what all
        # replicas have learned about a key is left out (`keyed_weights.baseline`).
        self._baseline = Baseline.of(self._parts() if self.replicas > 1 else [])
        self.n_exchanges_ = 0

    def _new_models(self) -> list[Any]:
        models = super()._new_models()
        if self.replicas > 1:  # a single replica begins like a learner
            for model in models:
                model._engine = new_replica(model._engine, self._validator.first_rows)
        return models

    def _new_placement(self) -> GroupPlacement:
        return GroupPlacement(self.learner.graph, self.replicas)

    def _first_budgets(self, validator: InputValidator | None = None) -> list[int | str | None]:
        """The budget of each replica. Shares of bytes leave room for the baseline of the last exchange."""
        shares = first_shares(self.learner.budget, self.replicas, WHO, "replica")
        total = budget_of(WHO, self.learner.budget).bytes
        if EXCHANGES[self.learner.rule].equal_shares and total is None and self.learner.budget is not None:
            shares = [shares[-1]] * self.replicas  # the smallest share
        if validator is None or total is None or self.replicas == 1:
            return shares
        plan: Plan = partial(validator.shard_settings, graph=self.learner.graph)
        compiled = validator.prototype._engine._is_compiled()

        def bytes_each(share: int, settings: Settings) -> int:
            """The bytes of a model with this share of the budget, and of its part of the baseline, rounded up."""
            common = common_settings(settings, validator.first_rows, compiled)
            return share - -baseline_bytes(common, self.replicas) // self.replicas

        largest, settings = least_bytes(plan)
        needed = bytes_each(largest, settings)
        if needed > total // self.replicas:
            raise too_few_bytes_error(WHO, "replica", total, self.replicas, needed)

        def fits(share: int) -> bool:
            try:
                return bytes_each(share, plan(f"{share} B")) <= total // self.replicas
            except TooFewBytes:  # the smallest model may grow with the budget, which sets the size of some tables
                return False

        # Both the model and the baseline grow with the share, so the largest share that fits is found by bisection.
        too_large = total // self.replicas + 1
        while too_large - largest > 1:
            share = (largest + too_large) // 2
            if fits(share):
                largest = share
            else:
                too_large = share
        return [f"{largest} B"] * self.replicas

    def _check_parameters(self) -> None:
        if self.learner.rule not in EXCHANGES:
            raise input_error(
                WHO, "learner", "Budgetron or SharedProjectron, which have a shared part", shown(self.learner)
            )
        for name in ("replicas", "exchange_every"):
            value = getattr(self, name)
            if not is_integer(value) or value < 1:
                raise input_error(WHO, name, "an integer >= 1", shown(value))
        super()._check_parameters()

    @staticmethod
    def _parameters_of(saved: DirectoryRecord) -> dict[str, Any]:
        return {"replicas": saved.shards, "exchange_every": saved.exchange_every or 4096}
