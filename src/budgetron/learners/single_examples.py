"""`SingleExamples`: learn and predict one example at a time. Base class of `Learner`.

On a fitted model, `learn_one` and `predict_one` usually pass the row, its label and its task to the core in one call.
The core returns `NotImplemented` for values that it cannot read directly; they are converted here, or rejected with a
message. `explain`, `decide_one` and sharded models convert their examples here too.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetron.engine.records import Outcome, SparseRow
from budgetron.errors import InputError, input_error, input_type_error, shown
from budgetron.learners.block_learner import BlockLearner
from budgetron.learners.input import rejections, validation
from budgetron.learners.input.hashing import DICT_FEATURES, hashed_row, hashed_rows

_STORED = int(Outcome.STORED)  # as an integer, because operations on an enum are slow


class SingleExamples(BlockLearner):
    """The methods of a learner for single examples."""

    def learn_one(
        self,
        x: Any,
        y: Any,
        *,
        task: Hashable = None,
        classes: Any = None,
        sample_weight: float | None = None,
        offset: Any = None,
    ) -> Any:
        """Learn one example: a row of numbers or a dict of features. Returns the decision value before the update.

        `offset` is another model's score of the example, see `predict_then_learn`.
        """
        self.check_streaming()
        # The steps for blocks would cost more than a small update, so a fitted model passes a single row directly. Only
        # the steps for blocks check classes and offsets, and count examples in the operating point.
        needs_block = classes is not None or offset is not None or self._point is not None
        if self._engine is None or needs_block or not self._takes_single_rows():
            return self._learn_block_of_one(x, y, task, classes, sample_weight, offset)
        # `_learn_converted` handles weights, and reports a missing task.
        if sample_weight is not None or self.class_weight is not None or (task is None and self._tasked):
            return self._learn_converted(x, y, task, sample_weight)
        guard = self._guard
        if guard.waiting or not guard.held.acquire(False):  # this thread has to queue
            return self._learn_converted(x, y, task, sample_weight)
        try:
            learned = self._engine.learn_example(x, y, task, self._classes.by_label)
            if learned is not None and learned is not NotImplemented:
                margin, flags = learned
                # Only stored examples, and the first example with a task, change anything besides the engine.
                if task is not None and (flags & _STORED or not self._tasked):
                    self._learned_task(task, flags)
                return margin
        finally:
            guard.leave()
        # The core cannot read this example. Convert it in Python, or raise an error that names the problem.
        return self._learn_converted(x, y, task, sample_weight)

    def predict_one(self, x: Any, *, task: Hashable = None, offset: Any = None) -> Any:
        """Predict the label of one example: a row of numbers or a dict of features."""
        margin = self._margin_of_one(x, task, offset)  # raises NotFittedError before the first example
        return self._classes.of_margin(margin)

    def _learn_converted(self, x: Any, y: Any, task: Hashable, sample_weight: Any) -> Any:
        """Learn one row that has to be converted, or that has a weight."""
        weight = 1.0
        if sample_weight is not None:
            self._check_takes_weights(sample_weight)
            checked = validation.weights(self._who, [sample_weight], 1)
            assert checked is not None
            weight = float(checked[0])
        row = self._converted_row(x)
        if row is None:
            return self._learn_block_of_one(x, y, task, None, sample_weight, None)
        code = self._classes.code(self._who, y)
        with self._guard:
            task_id, cluster = validation.located_one(self._who, task, self._graph, self._tasked)
            # None means that the engine rejected the values of the row (NaN, infinity or overflow).
            learned = self._engine.learn_one(row, code, task_id, cluster, self._weight_of(code, weight))
            if learned is None:
                raise self._bad_values(x)
            margin, flags = learned
            if task is not None:
                self._learned_task(task, flags)
        return margin

    def _learned_task(self, task: Hashable, flags: int) -> None:
        """Record that the model has tasks, and remember the name of a task whose example was stored."""
        self._tasked = True
        if flags & _STORED and type(task) is not int:  # an integer is its own task id and needs no name
            engine = self._engine
            self._names.keep(self._graph.locate_one(task)[0], task, lambda: engine.task_ids, engine.n_stored)

    def _learn_block_of_one(self, x: Any, y: Any, task: Hashable, classes: Any, sample_weight: Any, offset: Any) -> Any:
        """Learn one example as a block of one row, with all checks of a block."""
        if np.ndim(y):
            raise input_error(self._who, "y", "one label", shown(y))
        x, tasks = self._one_row(x, task)
        weights, offsets = (None if value is None else [value] for value in (sample_weight, offset))
        block = self.validate(x, [y], tasks=tasks, classes=classes, sample_weight=weights, offset=offsets)
        margins = self.learn_block(block)
        return float(margins[0]) if margins.ndim == 1 else margins[0]

    def _takes_single_rows(self) -> bool:
        """Return whether single rows may go directly to the engine: no task column, no offsets, all classes known."""
        return self.task_column is None and self._has_offset is False and self._classes.settled

    def _margin_of_one(self, x: Any, task: Hashable, offset: Any) -> Any:
        """Return the margin of one example, or an array with one margin per class."""
        engine = self._fitted_engine()
        margin = NotImplemented
        if offset is None and self._takes_single_rows():
            if task is not None or not self._tasked:
                margin = engine.margin_example(x, task)
            if margin is NotImplemented:
                margin = self._margin_of_converted(engine, x, task)
        if margin is None:
            raise self._bad_values(x)
        if margin is NotImplemented:
            x, tasks = self._one_row(x, task)
            margin = self.decision_function(x, tasks=tasks, offset=None if offset is None else [offset])[0]
        return margin

    def _margin_of_converted(self, engine: Any, x: Any, task: Hashable) -> Any:
        """Return the margin of an example that was converted in Python; NotImplemented if it cannot be converted."""
        row = self._converted_row(x)
        if row is None:
            return NotImplemented
        task_id, cluster = validation.located_one(self._who, task, self._graph, self._tasked)
        # The compiled engine has a lock of its own; for the NumPy engine the model's lock is needed.
        if engine.concurrent_predictions:
            return engine.margin_one(row, task_id, cluster)
        with self._guard:
            return engine.margin_one(row, task_id, cluster)

    def _converted_row(self, x: Any) -> Any:
        """Convert a dict for a model of sparse rows, or numbers for a model of dense rows; return None otherwise."""
        engine = self._engine
        settings = engine.settings
        if isinstance(x, Mapping):
            return hashed_row(self._who, x, settings.n_features, settings.dtype) if settings.sparse else None
        if settings.sparse or sparse.issparse(x):
            return None
        return validation.vector(self._who, x, settings.n_features, settings.dtype)

    def _one_example(self, x: Any, task: Hashable, offset: Any) -> tuple[Any, NDArray[Any], NDArray[Any], Any]:
        """Check one example to predict. Return the arguments of the engine: rows, task ids, clusters, offsets."""
        if self.task_column is None and self._classes.settled and (row := self._converted_row(x)) is not None:
            scores = None if offset is None else validation.offsets(self._who, [offset], 1)
            rows = row if isinstance(row, SparseRow) else row.reshape(1, -1)
            task_id, cluster = validation.located_one(self._who, task, self._graph, self._tasked)
            self._check_rows(rows)
            scores = self._checked_offsets(scores, self._engine.settings.n_outputs)
            return rows, np.array([task_id]), np.array([cluster]), scores
        x, tasks = self._one_row(x, task)
        block = self.validate(x, tasks=tasks, offset=None if offset is None else [offset])
        return block.rows, block.task_ids, block.clusters, block.offsets

    def _bad_values(self, x: Any) -> InputError:
        """Return the error for a row with values that the engine rejected."""
        row = self._converted_row(x)
        names = getattr(self, "feature_names_in_", None)
        return rejections.bad_row(self._who, row if isinstance(row, SparseRow) else row.reshape(1, -1), 0, names)

    def _one_row(self, x: Any, task: Hashable) -> tuple[Any, list[Hashable] | None]:
        """Convert an example to a block of one row, in the form of the first example."""
        if isinstance(x, Mapping):
            # The first example decides the width; later dicts must be hashed to the same width.
            width = self._engine.settings.n_features if self._is_fitted else DICT_FEATURES
            if self._is_fitted and not self._engine.settings.sparse:
                raise input_type_error(
                    self._who,
                    "x",
                    f"a row of {width} numbers, like the first example",
                    "a dict",
                    "A model takes either dicts or rows of numbers, not both.",
                )
            row: Any = hashed_rows(self._who, [x], width)
        elif sparse.issparse(x):
            row = x
        else:
            if self._is_fitted and self._engine.settings.sparse:
                raise input_type_error(
                    self._who, "x", "a dict or a sparse row, like the first example", type(x).__name__
                )
            row = validation.vector(
                self._who, x, None, "float32" if getattr(x, "dtype", None) == np.float32 else "float64"
            ).reshape(1, -1)
        return row, None if task is None else [task]

    def _weight_of(self, code: int, weight: float) -> float:
        return weight
