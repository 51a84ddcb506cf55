"""What a sharded model says of itself, and what may be changed while it works: its workers, and the shares."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.distributed.door import Door
from budgetron.distributed.hot import HotTasks
from budgetron.distributed.placement import WHO, Placement
from budgetron.distributed.shares import checked_policy, following, unused_only
from budgetron.distributed.team import Team
from budgetron.distributed.worker import Facts
from budgetron.errors import refuse, shown


@dataclass(frozen=True)
class Shard(Facts):
    """What a shard says of itself, and whose it is."""

    worker: str = ""


class Inside:
    """Everything here is there from the first block on."""

    learner: Any
    shards: int
    shares: str
    _door: Door
    _hot: HotTasks
    _placement: Placement
    _team: Team
    _mistakes: list[int]
    _since: int
    _rebalancing: threading.Lock

    # ---- workers and shares

    def add_worker(self) -> str:
        """One worker more; shards move to it one by one while the others go on. Its name."""
        self._check_begun()
        return self._team.add_worker()

    def remove_worker(self, name: str) -> None:
        """Move a worker's shards to the others, and stop it."""
        self._check_begun()
        self._team.remove_worker(name)

    def pin(self, task: Hashable, worker: str | None) -> int:
        """Keep the shard of a task on one worker; None lets it go. The number of the shard."""
        self._check_begun()
        shard = int(self._placement.shards_of_tasks([task])[0])
        self._team.pin(shard, worker)
        return shard

    def hot_tasks(self, n: int = 10) -> list[tuple[Hashable, int, int]]:
        """The tasks with the most examples since this model was opened: task, examples, shard."""
        self._check_begun()
        top = [(task, count) for task, count in self._hot.top(n) if task is not None]
        shards = self._placement.shards_of_tasks([task for task, _ in top]).tolist() if top else []
        return [(task, count, shard) for (task, count), shard in zip(top, shards, strict=True)]

    def rebalance(self) -> list[int]:
        """Move shares of the budget to where the mistakes are; the capacities after that. Takes `shares="demand"`.

        Shards that give let go first, and each change is on disk before the next: the total is never exceeded.
        """
        self._check_begun()
        if checked_policy(self.shares, self.learner.budget) != "demand":
            raise refuse(WHO, "shares", '"demand" to rebalance', shown(self.shares))
        with self._rebalancing, self._team.holding(range(self.shards)):
            facts = self._facts()
            mistakes = [fact.n_mistakes for fact in facts]
            fresh = [now - before for now, before in zip(mistakes, self._mistakes, strict=True)]
            capacities = [int(fact.capacity or 0) for fact in facts]
            wanted = following(self.learner.budget, capacities, fresh, self._least())
            if type(self.learner).__name__ == "Forgetron":  # it gives what it does not use, and nothing else
                wanted = unused_only(wanted, capacities, [fact.n_stored for fact in facts])
            order = sorted(range(self.shards), key=lambda shard: wanted[shard] - capacities[shard])
            for shard in order:
                if wanted[shard] != capacities[shard]:
                    self._team.ask_owner(shard, "resize", wanted[shard])
            self._mistakes, self._since = mistakes, 0
        return wanted

    def _least(self) -> int:
        rank = getattr(self.learner, "own_rank", 0)
        return min(int(rank) + 1, max(1, int(self.learner.budget) // self.shards))

    # ---- what it is

    @property
    def shards_(self) -> list[Shard]:
        """What each shard says of itself, and its worker."""
        self._check_begun()
        return [Shard(**vars(fact), worker=self._team.owner[fact.shard]) for fact in self._facts()]

    @property
    def workers_(self) -> list[dict[str, Any]]:
        """The workers: name, process, host, shards, and CPU seconds of the process."""
        self._check_begun()
        return self._team.ask_all("ping")

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted."""
        self._check_begun()
        return self._door.classes.values

    @property
    def kernel_(self) -> Any:
        """The kernel in use in every shard, every parameter a number."""
        self._check_begun()
        return self._door.scout.kernel_

    @property
    def graph(self) -> Any:
        """The task graph, all of it."""
        return self.learner.graph

    @property
    def budget(self) -> int | str | None:
        """The learner's budget: the total, over all shards."""
        budget: int | str | None = getattr(self.learner, "budget", None)
        return budget

    @property
    def n_features_in_(self) -> int:
        """Columns of the rows."""
        if not self._begun:
            raise AttributeError(f"{WHO} has learned nothing yet")
        return int(self._door.scout.n_features_in_)

    @property
    def n_seen_(self) -> int:
        return sum(fact.n_seen for fact in self._facts())

    @property
    def n_mistakes_(self) -> int:
        return sum(fact.n_mistakes for fact in self._facts())

    @property
    def n_stored_(self) -> int:
        return sum(fact.n_stored for fact in self._facts())

    @property
    def capacity_(self) -> int | None:
        """How many examples all shards together may store."""
        capacities = [fact.capacity for fact in self._facts()]
        return None if None in capacities else sum(capacity or 0 for capacity in capacities)

    @property
    def memory_bytes_(self) -> int:
        """Bytes of all shards' models, at most the byte budget where there is one."""
        return sum(fact.memory_bytes for fact in self._facts())

    @property
    def budget_share_(self) -> dict[Hashable, float]:
        """Each task's share of the stored examples, largest first."""
        stored: dict[Hashable, int] = {}
        for fact in self._facts(by_task=True):
            stored |= fact.stored_by_task
        total = sum(stored.values())
        return {task: count / total for task, count in sorted(stored.items(), key=lambda item: -item[1])}

    @property
    def n_recoveries_(self) -> int:
        """How often a lost worker was found and its shards given out again."""
        self._check_begun()
        return self._team.n_recoveries

    def task_weights(self, task: Hashable = None) -> NDArray[np.float64]:
        """The weights of one task over the stored examples of its shard."""
        self._check_begun()
        shard = int(self._placement.shards_of(self._door.one_task(task))[0])
        weights: NDArray[np.float64] = self._team.ask_owner(shard, "task_weights", task)
        return weights

    def _facts(self, by_task: bool = False) -> list[Facts]:
        if not self._begun:
            raise AttributeError(f"{WHO} has learned nothing yet")
        facts = [fact for some in self._team.ask_all("facts", by_task) for fact in some]
        return sorted(facts, key=lambda fact: fact.shard)

    @property
    def _begun(self) -> bool:
        return hasattr(self, "_team")

    def __sklearn_is_fitted__(self) -> bool:
        return self._begun

    def _check_begun(self) -> None:
        if not self._begun:
            raise refuse(WHO, "the model", "one that has learned something", "a new one, or one that was closed")
