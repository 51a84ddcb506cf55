"""`Introspection`: statistics of a sharded model, and methods that change its workers and divide the budget.

It is a base class of `ShardedModel`, and neither learns nor predicts.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.distributed.input_validation import InputValidator
from budgetron.distributed.split.busy_tasks import BusyTasks
from budgetron.distributed.split.placement import Placement
from budgetron.distributed.split.shares import check_policy, rebalanced_shares, unused_only
from budgetron.distributed.workers.worker import ShardStatistics
from budgetron.distributed.workers.worker_group import WorkerGroup
from budgetron.errors import InputError, input_error, shown
from budgetron.learners.estimators.forgetron import Forgetron


@dataclass(frozen=True)
class Shard(ShardStatistics):
    """Statistics of one shard, and the name of the worker that owns it."""

    worker: str = ""


class Introspection:
    """Statistics, workers and shares. Most properties and methods need running workers.

    The workers start with the first block, or with `ShardedModel.open` or `load`, and end with `close`.
    """

    learner: Any
    shards: int
    shares: str
    _validator: InputValidator
    _busy_tasks: BusyTasks
    _placement: Placement
    _workers: WorkerGroup
    _mistakes: list[int]  # how many each shard had made at the start or the last rebalancing
    _examples_since_maintenance: int  # since the last rebalancing or exchange
    _rebalancing: threading.Lock
    _counting: threading.Lock  # held while the operating point counts examples

    # ---- workers and shares

    def add_worker(self) -> str:
        """Start another worker and return its name. Shards move to it one by one, while the others continue."""
        self._check_fitted()
        return self._workers.add_worker()

    def remove_worker(self, name: str) -> None:
        """Move a worker's shards to the others, and stop it."""
        self._check_fitted()
        self._workers.remove_worker(name)

    def pin(self, task: Hashable, worker: str | None) -> int:
        """Keep the shard of a task on one worker, or unpin it with None. Returns the number of the shard."""
        self._check_fitted()
        shard = int(self._placement.shards_of_tasks([task])[0])
        self._workers.pin(shard, worker)
        return shard

    def busy_tasks(self, n: int = 10) -> list[tuple[Hashable, int, int]]:
        """The n tasks that sent the most examples since the shards started, as (task, examples, shard).

        The counts are approximate if there are more than 20,000 tasks; see `BusyTasks`.
        """
        self._check_fitted()
        top = [(task, count) for task, count in self._busy_tasks.top(n) if task is not None]
        shards = self._placement.shards_of_tasks([task for task, _ in top]).tolist() if top else []
        return [(task, count, shard) for (task, count), shard in zip(top, shards, strict=True)]

    def rebalance(self) -> list[int]:
        """Move shares of the budget to the shards that make mistakes. Needs ``shares="demand"``.

        Returns the new capacities. Shards that lose capacity come first and evict examples. A model with a directory
        writes each change to disk before the next one starts. So the total never exceeds the budget.
        """
        self._check_fitted()
        if check_policy(self.shares, self.learner.budget) != "demand":
            raise input_error(type(self).__name__, "shares", '"demand" to rebalance', shown(self.shares),
                              'Create a ShardedModel with shares="demand".')  # fmt: skip
        with self._rebalancing, self._workers.locked(range(self.shards)):
            statistics = self._statistics()
            mistakes = [shard.n_mistakes for shard in statistics]
            new_mistakes = [now - before for now, before in zip(mistakes, self._mistakes, strict=True)]
            capacities = [int(shard.capacity or 0) for shard in statistics]
            new_capacities = rebalanced_shares(self.learner.budget, capacities, new_mistakes)
            if isinstance(self.learner, Forgetron):
                # A Forgetron evicts examples only when it makes a mistake, so only unused capacity can be moved.
                new_capacities = unused_only(new_capacities, capacities, [shard.n_stored for shard in statistics])
            order = sorted(range(self.shards), key=lambda shard: new_capacities[shard] - capacities[shard])
            for shard in order:
                if new_capacities[shard] != capacities[shard]:
                    self._workers.call_owner(shard, "resize", new_capacities[shard])
            self._mistakes, self._examples_since_maintenance = mistakes, 0
        return new_capacities

    # ---- statistics

    @property
    def shards_(self) -> list[Shard]:
        """The statistics of each shard, and its worker."""
        self._check_fitted()
        return [Shard(**vars(shard), worker=self._workers.owner[shard.shard]) for shard in self._statistics()]

    @property
    def workers_(self) -> list[dict[str, Any]]:
        """The workers: name, process id, host name, shards, and CPU seconds of the process."""
        self._check_fitted()
        return self._workers.call_all("ping")

    @property
    def needs_offset_(self) -> bool:
        """Whether every call must give another model's scores, because the model was trained with them."""
        return bool(self._validator.prototype._has_offset)

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted."""
        self._check_fitted()
        return self._validator.classes.values

    @property
    def kernel_(self) -> Any:
        """The kernel of every shard, with numbers for all parameters. None if the learner uses no kernel."""
        self._check_fitted()
        return self._validator.prototype.kernel_

    @property
    def graph(self) -> Any:
        """The whole task graph."""
        return self.learner.graph

    @property
    def budget(self) -> int | str | None:
        """The total budget of all shards."""
        budget: int | str | None = getattr(self.learner, "budget", None)
        return budget

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        self._require_attribute()
        return int(self._validator.prototype.n_features_in_)

    @property
    def n_seen_(self) -> int:
        return sum(shard.n_seen for shard in self._statistics())

    @property
    def n_mistakes_(self) -> int:
        return sum(shard.n_mistakes for shard in self._statistics())

    @property
    def n_stored_(self) -> int:
        return sum(shard.n_stored for shard in self._statistics())

    @property
    def capacity_(self) -> int | None:
        """How many examples all shards together may store, or None without a limit. 0 if the learner stores none."""
        capacities = [shard.capacity for shard in self._statistics()]
        return None if None in capacities else sum(capacity or 0 for capacity in capacities)

    @property
    def memory_bytes_(self) -> int:
        """Bytes of all shards' models. At most the byte budget, if there is one."""
        return sum(shard.memory_bytes for shard in self._statistics())

    @property
    def budget_share_(self) -> dict[Hashable, float]:
        """Each task's share of the stored examples, largest first. Empty if the learner stores no examples."""
        stored: dict[Hashable, int] = {}
        for shard in self._statistics(by_task=True):
            stored |= shard.stored_by_task
        total = sum(stored.values())
        return {task: count / total for task, count in sorted(stored.items(), key=lambda item: -item[1])}

    @property
    def n_recoveries_(self) -> int:
        """How often a worker was lost and its shards were assigned again."""
        self._check_fitted()
        return self._workers.n_recoveries

    def task_weights(self, task: Hashable = None) -> NDArray[np.float64]:
        """The weights of one task over the stored examples of its shard."""
        self._check_fitted()
        shard = int(self._placement.shards_of(self._validator.locate_task(task))[0])
        weights: NDArray[np.float64] = self._workers.call_owner(shard, "task_weights", task)
        return weights

    def _statistics(self, by_task: bool = False) -> list[ShardStatistics]:
        self._require_attribute()
        statistics = [shard for shards in self._workers.call_all("statistics", by_task) for shard in shards]
        return sorted(statistics, key=lambda shard: shard.shard)

    @property
    def _is_fitted(self) -> bool:
        """Whether the workers are running: the model has learned a block, and is not closed."""
        return hasattr(self, "_workers")

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted

    def _check_fitted(self) -> None:
        if not self._is_fitted:
            raise InputError(self._no_workers_message())

    def _require_attribute(self) -> None:
        """Like `_check_fitted`, but raise AttributeError, so that `hasattr(model, "n_seen_")` is False as elsewhere."""
        if not self._is_fitted:
            raise AttributeError(self._no_workers_message())

    def _no_workers_message(self) -> str:
        kind = type(self).__name__
        return f"{kind}: the model has learned nothing yet, or was closed. Call partial_fit, or use {kind}.open."
