"""What comes in, looked at once and before any shard hears of it.

The door is a learner that has begun and never learns. What the first block settles (classes, kernel, width, kind and
precision of the rows) it settles for all shards; and it refuses what a local model would refuse, in the same words, so
that no block is ever learned by one shard and refused by another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from budgetron.engine.settings import Settings
from budgetron.errors import refuse_type, shown
from budgetron.graphs import TaskGraph
from budgetron.learners import validation
from budgetron.learners.classes import Classes
from budgetron.learners.learner import Learner
from budgetron.learners.validation import located_one

WHO = "ShardedModel"
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Admitted:
    """A block that every shard will take: rows, tasks as they were named and as components, labels and weights."""

    rows: Any
    tasks: Any
    keys: Ints
    components: Ints
    labels: Any = None
    weights: NDArray[np.float64] | None = None

    @property
    def n(self) -> int:
        return int(self.rows.shape[0])


class Door:
    """Admits blocks; makes the model that a shard begins with."""

    def __init__(self, learner: Any, check_shares: Callable[[Door], object] = lambda door: None) -> None:
        if not isinstance(learner, Learner):
            raise refuse_type(WHO, "learner", "a learner of budgetron", shown(learner), "For example Budgetron().")
        self.learner = learner
        self.scout: Learner
        self._first: Any  # rows of the first block: a byte budget on sparse rows is planned by them
        self._check_shares = check_shares
        self._renew()

    @property
    def begun(self) -> bool:
        return self.scout._begun

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse, once the first block has come."""
        return bool(self.scout._engine.settings.sparse)

    @property
    def classes(self) -> Classes:
        return self.scout._classes

    @property
    def settled(self) -> tuple[bool, bool]:
        """What a block may still settle after the first: the classes, and that there are tasks."""
        return self.begun and self.classes.settled, self.scout._tasked

    def admit(self, X: Any, y: Any, tasks: Any, classes: Any, sample_weight: Any) -> Admitted:
        """A block to be learned, or a refusal with nothing changed."""
        scout = self.scout
        who = scout._who
        first = not scout._begun
        block = scout.validate(X, y, tasks=tasks, classes=classes, sample_weight=sample_weight)
        assert block.classes is not None
        if first:
            self._begin(block.rows)
        scout._classes = block.classes
        scout._tasked = scout._tasked or block.tasks is not None
        weights = validation.weights(who, sample_weight, len(block))  # without those of the classes
        return Admitted(block.rows, block.tasks, block.task_ids, block.clusters, block.labels, weights)

    def look(self, X: Any, tasks: Any) -> Admitted:
        """A block to be predicted."""
        scout = self.scout
        scout._check_begun()
        block = scout.validate(X, tasks=tasks)
        return Admitted(block.rows, block.tasks, block.task_ids, block.clusters)

    def release_first_rows(self) -> None:
        """The shards have begun: the rows that they were planned by are not needed any more."""
        self._first = None

    def one_task(self, task: Hashable) -> Admitted:
        """No rows, but where those of one task would go."""
        scout = self.scout
        key, component = located_one(scout._who, task, scout._graph, scout._tasked)
        return Admitted(None, None, np.array([key]), np.array([component]))

    def one_row(self, x: Any, task: Hashable) -> tuple[Any, list[Hashable] | None]:
        return self.scout._one_row(x, task)

    def settings_of(self, budget: int | str | None, graph: TaskGraph) -> Settings:
        """The settings that a shard would begin with; `TooFewBytes` where the budget does not reach."""
        return self._shard(budget, graph)._settings(self._first, self.classes, graph)[0]

    def _shard(self, budget: int | str | None, graph: TaskGraph) -> Learner:
        model: Learner = clone(self.learner)
        model.set_params(graph=graph, kernel=self.scout.kernel_ if self.learner.kernel is not None else None)
        if "budget" in self.learner.get_params(deep=False):
            model.set_params(budget=budget)
        model.task_column = None  # it was split off already
        return model

    def first_model(self, budget: int | str | None, graph: TaskGraph) -> Learner:
        """What a shard begins with: all settled, nothing learned."""
        model = self._shard(budget, graph)
        values = self.classes.values
        model._begin(self._first, values, values, self._first)
        model._classes = Classes(values, self.classes.settled)
        return model

    def _begin(self, rows: Any) -> None:
        """Refuse a budget whose shares are too small to begin with; then nothing is settled."""
        self._first = rows[:64]
        try:
            self._check_shares(self)
        except BaseException:
            self._renew()
            raise

    def _renew(self) -> None:
        self.scout = clone(self.learner)
        if "budget" in self.learner.get_params(deep=False):
            self.scout.set_params(budget=1)  # nothing is ever stored in it
        self._first = None
