"""`ReplicatedModel`: one component that is too much for one machine, split by groups of tasks. An approximation.

Each replica learns the rows of its own tasks with the whole of the learner; every so often the replicas exchange what
all tasks have in common (`exchange`). In between they do not know of each other: that is the difference to one learner.
What it costs is measured in docs/distributed.md.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from budgetron.distributed.door import Door
from budgetron.distributed.exchange import LinearParts, SharedPart, combined, left_behind_bytes
from budgetron.distributed.placement import GroupPlacement
from budgetron.distributed.record import Record
from budgetron.distributed.sharded import ShardedModel
from budgetron.distributed.shares import Plan, first_shares, least_bytes, refuse_bytes
from budgetron.engine.memory import budget_of
from budgetron.errors import is_whole, refuse, shown

WHO = "ReplicatedModel"
RULES = ("shared_projectron", "budgetron")


class ReplicatedModel(ShardedModel):
    """One component in replicas: each has the tasks that are hashed to it, and shares with the others what is common.

    For `Budgetron` and `SharedProjectron` on ``graphs.complete()``. Where the graph has components `ShardedModel` is
    exact.

    Parameters
    ----------
    learner : Budgetron or SharedProjectron
        What every replica is. Its `budget` is the total, which the replicas divide: stored examples; or bytes, of all
        replicas' models and what the coordinator keeps of the last exchange.
    replicas : int, default=2
        How many there are, for the life of the model.
    exchange_every : int, default=4096
        Examples, over all replicas, after which the shared parts are exchanged.
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

    shares = "fixed"
    pins = None
    rebalance_every = 1
    n_exchanges_: int
    _last: list[LinearParts]  # what the last exchange left each replica with, as far as the next one must know it

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
        """Exchange the shared parts now; the bytes that were sent."""
        self._check_begun()
        with self._rebalancing, self._team.holding(range(self.shards)):
            now = self._parts()
            after = combined(self._door.scout._engine.settings.kernel, now, self._last)
            for replica, part in enumerate(after):
                self._team.ask_owner(replica, "receive", part)
            self._last = [part.left_behind() for part in after]
            self._since = 0
            self.n_exchanges_ += 1
        return sum(part.nbytes for part in now) + sum(part.nbytes for part in after)

    @property
    def memory_bytes_(self) -> int:
        """Bytes of all replicas' models and of what is kept of the last exchange: at most the byte budget, if any."""
        kept = sum(array.nbytes for parts in self._last for pair in parts.values() for array in pair)
        return super().memory_bytes_ + kept

    @property
    def shards(self) -> int:  # type: ignore[override]
        return self.replicas

    def _parts(self) -> list[SharedPart]:
        return [self._team.ask_owner(replica, "shared_part") for replica in range(self.shards)]

    def _interval(self) -> int | None:
        return self.exchange_every

    def _care(self) -> None:
        self.exchange()

    def _start(self, models: list[Any] | None) -> None:
        super()._start(models)
        # After a restart from disk: what was learned since the last exchange is not told to the others any more.
        self._last = [part.left_behind() for part in self._parts()]
        self.n_exchanges_ = 0

    def _new_placement(self) -> GroupPlacement:
        return GroupPlacement(self.learner.graph, self.replicas)

    def _first_budgets(self, door: Door | None = None) -> list[int | str | None]:
        shares = first_shares(self.learner.budget, self.replicas, WHO, "replica")
        total = budget_of(WHO, self.learner.budget).bytes
        if door is not None and self.learner.rule == "budgetron" and door.is_sparse:
            raise refuse(WHO, "X", "dense where the learner is a Budgetron", "sparse rows",
                         "A hashed table cannot be exchanged: take a SharedProjectron, or one Budgetron.")  # fmt: skip
        if door is None or total is None:
            return shares
        plan: Plan = partial(door.settings_of, graph=self.learner.graph)
        each = total // self.replicas  # for a replica, and for what the coordinator keeps of its last exchange
        least, settings = least_bytes(plan)
        if least + left_behind_bytes(settings) > each:
            raise refuse_bytes(WHO, "replica", total, self.replicas, least + left_behind_bytes(settings))
        high = each + 1
        while high - least > 1:
            share = (least + high) // 2
            if share + left_behind_bytes(plan(f"{share} B")) <= each:
                least = share
            else:
                high = share
        return [f"{least} B"] * self.replicas

    def _check_parameters(self) -> None:
        if self.learner.rule not in RULES:
            raise refuse(WHO, "learner", "Budgetron or SharedProjectron, which have a shared part", shown(self.learner))
        for name in ("replicas", "exchange_every"):
            value = getattr(self, name)
            if not is_whole(value) or value < 1:
                raise refuse(WHO, name, "an integer >= 1", shown(value))
        super()._check_parameters()

    @staticmethod
    def _parameters_of(written: Record) -> dict[str, Any]:
        return {"replicas": written.shards, "exchange_every": written.exchange_every or 4096}
