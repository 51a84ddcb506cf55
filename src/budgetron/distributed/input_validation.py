"""Validate input in the coordinator (the process of the `ShardedModel`), before anything is sent to a shard.

`InputValidator` has a prototype: a learner that never learns. It has the parameters of the model, but a budget of 1.
The prototype validates every block, with the same code and the same messages as in a local model. The first
block determines, for all shards, the kernel, the number of features, and whether rows are sparse and in which
precision. It also determines the classes, unless it has a single label: then a later block does. The shards learn the
validated block and do not validate again, so a block can never be learned by one shard and rejected by another.

`ShardedModel` and `ReplicatedModel` hold a lock while they validate a block to be learned. Nothing here may send
messages or change a shard.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from budgetron.engine.reference.examples.bandwidth import kernel_after
from budgetron.engine.settings import Settings
from budgetron.errors import input_error, input_type_error, shown
from budgetron.graphs import TaskGraph
from budgetron.learners.block_learner import Block
from budgetron.learners.input import validation
from budgetron.learners.input.classes import Classes
from budgetron.learners.input.validation import Examples, located_one
from budgetron.learners.learner import Learner

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ValidatedBlock:
    """A valid block, and the sample weights of the call. The weights in `block` include class weights."""

    block: Block
    sample_weight: NDArray[np.float64] | None = None

    @property
    def n(self) -> int:
        return len(self.block)

    @property
    def task_ids(self) -> Ints:
        return self.block.task_ids

    @property
    def components(self) -> Ints:
        return self.block.clusters


class InputValidator:
    """Validates blocks with a prototype, and creates the models that shards start with."""

    def __init__(
        self,
        learner: Any,
        who: str,  # the class of the model, for messages
        check_shares: Callable[[InputValidator], object] = lambda validator: None,
    ) -> None:
        if not isinstance(learner, Learner):
            raise input_type_error(who, "learner", "a learner of budgetron", shown(learner), "For example Budgetron().")
        if "graph" not in learner.get_params(deep=False):
            accepted = "a learner with a parameter graph, whose components can be learned separately"
            raise input_error(who, "learner", accepted, shown(learner), "Use it without shards.")
        self.learner = learner
        self.prototype: Learner
        self.first_rows: Any  # up to 64 rows of the first block, from which the shards are planned and started
        self._check_shares = check_shares
        self._reset()

    @property
    def is_fitted(self) -> bool:
        """Whether the first block has been validated."""
        return self.prototype._is_fitted

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse. Known after the first block."""
        return bool(self.prototype._engine.settings.sparse)

    @property
    def classes(self) -> Classes:
        return self.prototype._classes

    @property
    def known_facts(self) -> tuple[Any, ...]:
        """Whether all classes are known, whether tasks are used, and whether offsets are used.

        If a block changes one of them, the record of the model's directory has to be written again.
        """
        return self.is_fitted and self.classes.settled, self.prototype._tasked, self.prototype._has_offset

    def validate_examples(self, examples: Examples, classes: Any) -> ValidatedBlock:
        """Check examples to be learned. If they are rejected, nothing changes."""
        prototype = self.prototype
        first = not prototype._is_fitted
        block = prototype.check(examples, classes)
        assert block.classes is not None
        if first:
            self._begin(block.rows)
        # Change the prototype only now: everything that can reject the block has run.
        prototype._classes = block.classes
        prototype._tasked = prototype._tasked or block.tasks is not None
        prototype._has_offset = block.offsets is not None
        return ValidatedBlock(block, examples.weights)

    def convert(self, X: Any, y: Any, tasks: Any, sample_weight: Any, offset: Any = None) -> Examples:
        """Convert the arguments of a call. If the learner has a task column, it becomes `tasks`."""
        prototype = self.prototype
        X, tasks = prototype._split_task_column(X, tasks)
        return validation.convert(prototype._who, X, y, tasks, sample_weight, offset)

    def validate_rows(self, X: Any, tasks: Any, offset: Any = None) -> ValidatedBlock:
        """Validate a block to be predicted."""
        self.prototype._check_fitted()
        return ValidatedBlock(self.prototype.validate(X, tasks=tasks, offset=offset))

    def release_first_rows(self) -> None:
        """Release the rows of the first block, which are not needed once the shards have started."""
        self.first_rows = None

    def locate_task(self, task: Hashable) -> ValidatedBlock:
        """The task id and component of one task, as a block with one row without features."""
        prototype = self.prototype
        task_id, component = located_one(prototype._who, task, prototype._graph, prototype._tasked)
        return ValidatedBlock(Block(np.empty((1, 0)), np.array([task_id]), np.array([component])))

    def one_row(self, x: Any, task: Hashable) -> tuple[Any, list[Hashable] | None]:
        """One example, an array row or a dict of features, as a block of one row."""
        return self.prototype._one_row(x, task)

    def shard_settings(self, budget: int | str | None, graph: TaskGraph) -> Settings:
        """The settings that a shard would start with. Raises `TooFewBytes` if the budget is too small."""
        return self._shard(budget, graph)._settings(self.first_rows, self.classes, graph)[0]

    def _shard(self, budget: int | str | None, graph: TaskGraph) -> Learner:
        """A new learner for a shard, with its own budget and graph and the kernel of all shards."""
        model: Learner = clone(self.learner)
        parameters = self.learner.get_params(deep=False)
        model.set_params(graph=graph)
        if "kernel" in parameters:
            # All shards get the kernel that the first block determined. The engine of a Budgetron evaluates no kernel
            # (`kernel_` is None), so its shards get the parameter `kernel`.
            model.set_params(kernel=self.prototype.kernel_ or self.learner.kernel)
        if "budget" in parameters:
            model.set_params(budget=budget)
        model.task_column = None  # the coordinator has already removed that column
        return model

    def new_shard_model(self, budget: int | str | None, graph: TaskGraph) -> Learner:
        """The model that a shard starts with: classes and kernel are set, and nothing is learned."""
        model = self._shard(budget, graph)
        # Every shard starts with the classes and rows of the first block, even if none of these rows are for this
        # shard. Otherwise shards would have different classes and be planned for different rows.
        model._begin(self.first_rows, self.classes, graph, self.first_rows)
        return model

    def _begin(self, rows: Any) -> None:
        """Check that every shard can start with its share of the budget. If not, reset the prototype."""
        self.first_rows = rows[:64]  # γ is estimated from 64 rows; they also suffice to plan a byte budget
        self._fix_kernel()
        try:
            self._check_shares(self)
        except BaseException:
            self._reset()
            raise

    def _fix_kernel(self) -> None:
        """Replace ``gamma="scale"`` by its value after the first rows, because all shards must use the same kernel."""
        engine = self.prototype._engine
        if engine.settings.kernel is not None:
            kernel = kernel_after(engine.settings, self.first_rows)
            self.prototype._engine = type(engine)(replace(engine.settings, kernel=kernel))

    def _reset(self) -> None:
        # The operating point (how scores become decisions) is not a parameter, so `clone` does not copy it.
        if hasattr(self, "prototype"):
            point = self.prototype._point
        else:
            point = None if self.learner._point is None else self.learner._point.fresh()
        self.prototype = clone(self.learner)
        self.prototype._point = point
        if "budget" in self.learner.get_params(deep=False):
            self.prototype.set_params(budget=1)  # the prototype never stores an example
        self.first_rows = None
