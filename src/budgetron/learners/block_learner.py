"""`BlockLearner`: learns and predicts blocks of examples. Base class of `Learner`.

Every call has two steps. `validate` converts the input and checks it against the model; `learn_block` or
`block_margins` passes it to the engine. Durable and sharded models call the parts of these steps one by one
(`validation.convert`, `check`, `learn_block`), because they log or distribute the examples in between. So nothing is
converted or checked twice. A rejected block leaves the model unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import validate_data

from budgetron.engine.interface import Engine
from budgetron.engine.records import Outcome
from budgetron.errors import input_error
from budgetron.learners.deciding import Deciding
from budgetron.learners.input import rejections, validation
from budgetron.learners.input.classes import Classes, classes_of_first_block, given_classes, updated_classes
from budgetron.learners.input.validation import NOT_GIVEN, Examples
from budgetron.learners.lifecycle.guard import engine_creation
from budgetron.learners.lifecycle.start import Start

Margins = NDArray[np.float64]
Ints = NDArray[np.int64]
_ROWS_FOR_WARNING = 100  # a smaller first block may lack the tasks of the graph by chance
PIECE = 64  # rows predicted per lock acquisition, as in the compiled engine


@dataclass(frozen=True)
class Block:
    """Examples that passed validation, encoded as an engine takes them."""

    rows: Any  # a C-contiguous array or a canonical CSR matrix, in the precision of the model
    task_ids: Ints
    clusters: Ints
    tasks: Any = None  # as the caller named them; None: the model has a single task
    labels: Any = None  # as the caller gave them; None in a block to predict
    codes: NDArray[np.int32] | None = None  # the position of each label in the sorted classes
    weights: NDArray[np.float64] | None = None
    classes: Classes | None = None  # the model's classes after this block: a label may show which class is negative
    offsets: NDArray[np.float64] | None = None  # another model's scores, one per row and output

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def take(self, rows: Any) -> Block:
        """Return a block of some of the rows, given as a slice or as an array of row numbers."""
        parts = {name: _selected(getattr(self, name), rows) for name in _PER_ROW}
        return replace(self, **parts)

    def after(self, n: int) -> Block:
        """Return the block without its first n rows."""
        return self.take(slice(n, None))


_PER_ROW = ("rows", "task_ids", "clusters", "tasks", "labels", "codes", "weights", "offsets")


def _selected(values: Any, rows: Any) -> Any:
    """Return these rows of a list or an array; None stays None."""
    if isinstance(values, list | tuple):
        return list(values[rows]) if isinstance(rows, slice) else [values[row] for row in rows.tolist()]
    return None if values is None else values[rows]


def _warn_of_unknown_tasks(who: str, graph: Any, task_ids: Ints, clusters: Ints) -> None:
    """Log a warning if the graph maps tasks to clusters, but none of the tasks of a large first block is in the map."""
    mapped = getattr(graph, "mapped", None)
    # A task outside the map is a cluster of its own: its cluster id is its task id.
    if mapped is not None and len(task_ids) >= _ROWS_FOR_WARNING and (task_ids == clusters).all():
        logging.getLogger("budgetron.learners").warning(
            "%s: the graph is %r, but none of the tasks of the first %d rows is in its clusters. Name the tasks in "
            "both places by the same values: 7 and '7' are two tasks.", who, graph, len(task_ids),
        )  # fmt: skip


class BlockLearner(Deciding, Start):
    """The methods for blocks of examples, and their two steps: check the examples, then pass them to the engine."""

    takes_weights: ClassVar[bool] = False
    takes_offset: ClassVar[bool] = False
    _tasked = False  # whether the model was trained with tasks; if so, every call must name them
    _has_offset: bool | None = None  # whether it was trained with another model's scores; None before the first block

    @validation.with_named_arguments
    def partial_fit(
        self,
        X: Any,
        y: Any,
        *,
        tasks: Iterable[Any] | None = None,
        classes: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
    ) -> Self:
        """Learn the rows in order, in addition to those of earlier calls."""
        self.predict_then_learn(X, y, tasks=tasks, classes=classes, sample_weight=sample_weight, offset=offset)
        return self

    @validation.with_named_arguments
    def predict_then_learn(
        self,
        X: Any,
        y: Any,
        *,
        tasks: Iterable[Any] | None = None,
        classes: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
    ) -> Margins:
        """Learn the rows in order, and return the decision value of each row just before it was learned.

        `offset` is another model's score of each row, in log odds; with more than two classes, one score per class. A
        `Budgetron` learns to correct that model's scores.
        """
        if self.class_weight is not None:
            self.check_streaming()
        return self.learn_block(
            self.validate(X, y, tasks=tasks, classes=classes, sample_weight=sample_weight, offset=offset)
        )

    # `n_jobs` is an argument of the call and not of the constructor, because it describes the machine: a saved model
    # must not carry the core count of the machine it was trained on.

    @validation.with_named_arguments
    def decision_function(
        self, X: Any, *, tasks: Iterable[Any] | None = None, offset: Any = None, n_jobs: int | None = None
    ) -> Margins:
        """Return the margins: shape (n,), positive for ``classes_[1]``; with three or more classes (n, n_classes).

        `n_jobs` threads share the rows (None is 1, −1 all cores); the result does not depend on it.
        """
        self._check_fitted()
        threads = validation.threads(self._who, n_jobs)
        return self.block_margins(self.validate(X, tasks=tasks, offset=offset), threads)

    @validation.with_named_arguments
    def predict(
        self, X: Any, *, tasks: Iterable[Any] | None = None, offset: Any = None, n_jobs: int | None = None
    ) -> NDArray[Any]:
        """Predict the label of each row. A margin of zero is ``classes_[0]``. For `n_jobs` see `decision_function`."""
        margins = self.decision_function(X, tasks=tasks, offset=offset, n_jobs=n_jobs)
        return self._classes.of_margins(margins)

    # ---- the two steps of every call

    def validate(
        self,
        X: Any,
        y: Any = NOT_GIVEN,
        *,
        tasks: Any = None,
        classes: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
    ) -> Block:
        """Check and encode a block of examples: to learn if `y` is given, otherwise to predict.

        The first block to learn also creates the engine. An `InputError` leaves the model as it was.
        """
        X, tasks = self._split_task_column(X, tasks)
        return self.check(validation.convert(self._who, X, y, tasks, sample_weight, offset), classes)

    def check(self, examples: Examples, classes: Any = None) -> Block:
        """Check converted examples against this model. This is the second half of `validate`.

        Durable models call it alone, because they log the converted examples first. Examples without labels are to be
        predicted. An `InputError` leaves the model as it was.
        """
        self._check_takes_weights(examples.weights)
        if examples.labels is not None and self._engine is None:
            first = self._check_first(examples, classes)
            if first is not None:
                return first
            # Another thread created the engine in the meantime: check the block like any later one.
        # All checks come before the engine learns anything, so that a rejected block changes nothing.
        rows, tasks = self._rows_for_engine(examples), examples.tasks
        offsets = self._checked_offsets(examples.offsets, self._engine.settings.n_outputs)
        task_ids, clusters = validation.located(self._who, tasks, len(examples), self._graph, self._tasked)
        if examples.labels is None:
            self._check_rows(rows)
            return Block(rows, task_ids, clusters, tasks, offsets=offsets)
        # `seen` becomes the model's classes only when the block has been learned (`learn_block`).
        seen = updated_classes(self._classes, examples.labels)
        if classes is not None:
            rejections.check_same_classes(self._who, classes, self._classes.values)
        if self._point is not None and seen is not self._classes:
            self._check_point(self._point, seen)
        codes = seen.codes(self._who, examples.labels)
        self._check_rows(rows)
        weights = examples.weights if self.class_weight is None else self._weighted(codes, examples.weights, seen)
        return Block(rows, task_ids, clusters, tasks, examples.labels, codes, weights, seen, offsets)

    def _check_first(self, examples: Examples, classes: Any) -> Block | None:
        """Check the first block to be learned, and create the engine. Return None if another thread has created it."""
        who, rows, tasks, labels = self._who, examples.rows, examples.tasks, examples.labels
        assert labels is not None
        # Two threads may bring a first block at the same time; only one of them may create the engine.
        with engine_creation:
            if self._engine is not None:
                return None
            # The classes fix the number of outputs, so they must be known before the engine is created.
            chosen = classes_of_first_block(who, labels) if classes is None else given_classes(who, classes)
            codes = chosen.codes(who, labels)
            if self._point is not None:
                self._check_point(self._point, chosen)
            offsets = self._checked_offsets(examples.offsets, chosen.n_outputs)
            graph = self._checked_graph()
            task_ids, clusters = validation.located(who, tasks, len(examples), graph, self._tasked)
            _warn_of_unknown_tasks(who, graph, task_ids, clusters)
            weights = examples.weights if self.class_weight is None else self._weighted(codes, examples.weights, chosen)
            self._begin(rows, chosen, graph, examples.source, has_tasks=tasks is not None)
        return Block(rows, task_ids, clusters, tasks, labels, codes, weights, chosen, offsets)

    def _check_rows(self, rows: Any) -> None:
        validation.check_rows(self._who, self._engine, rows, getattr(self, "feature_names_in_", None))

    def learn_block(self, block: Block) -> Margins:
        """Learn a validated block, and return the margin of each row just before it was learned."""
        assert block.codes is not None and block.classes is not None
        n, outputs = len(block), block.classes.n_outputs
        # Allocated before learning: if memory runs out here, the engine has not learned anything yet.
        margins = np.empty(n if outputs == 1 else (n, outputs))
        with self._guard:
            margins[...], flags = self._engine.learn(
                block.rows, block.codes, block.task_ids, block.clusters, block.weights, block.offsets
            )
            # Everything else changes after the engine has learned: if the engine runs out of memory, it has learned
            # nothing, and the model must be as it was.
            if not self._classes.settled:
                self._classes = block.classes
            self._tasked = self._tasked or block.tasks is not None
            self._has_offset = block.offsets is not None
            if block.tasks is not None:
                self._keep_names(block.task_ids, block.tasks, flags)
            if self._point is not None:
                self._count_decisions(margins, block.codes)
        return margins

    def block_margins(self, block: Block, threads: int = 1) -> Margins:
        """Return the margins of a validated block without learning from it."""
        return self._margins(self._engine, block.rows, block.task_ids, block.clusters, block.offsets, threads)

    def _margins(
        self, engine: Engine, rows: Any, task_ids: Any, clusters: Any, offsets: Any = None, threads: int = 1
    ) -> Margins:
        """Return the margins of a block.

        The lock is held for `PIECE` rows at a time, so that a thread that learns does not wait for a whole block. The
        compiled engine does this itself; for the NumPy engine it is done here.
        """
        if engine.concurrent_predictions:
            return engine.margins(rows, task_ids, clusters, threads, offsets)
        n, pieces = len(task_ids), []
        for start in range(0, n, PIECE):
            part = slice(start, start + PIECE)
            with self._guard:
                piece_offsets = None if offsets is None else offsets[part]
                piece_rows = rows if n <= PIECE else rows[part]
                pieces.append(engine.margins(piece_rows, task_ids[part], clusters[part], offsets=piece_offsets))
        return np.concatenate(pieces)

    def _rows_for_engine(self, examples: Examples) -> Any:
        """Return the rows in the engine's format and precision. Reject columns that differ from the first block's."""
        rows, X = examples.rows, examples.source
        settings = self._engine.settings
        # A model of sparse rows also accepts dense blocks, and vice versa.
        if sparse.issparse(rows) != settings.sparse:
            rows = sparse.csr_matrix(rows) if settings.sparse else rows.toarray()
        if rows.shape[1] != settings.n_features:
            raise input_error(
                self._who,
                "X",
                f"an array with {settings.n_features} columns, as in the first call",
                f"{rows.shape[1]}: X has {rows.shape[1]} features, but {self._who} is expecting "
                f"{settings.n_features} features as input",
            )
        if not sparse.issparse(X) and (hasattr(self, "feature_names_in_") or not isinstance(X, np.ndarray)):
            try:
                validate_data(self, X, skip_check_array=True, reset=False)  # compares the column names
            except ValueError as error:
                # scikit-learn's message has several lines; join them to one sentence.
                message = " ".join(str(error).split()).rstrip(".")
                raise input_error(self._who, "X", "an array with the columns of the first call", message) from None
        return rows.astype(settings.dtype, copy=False)

    def _checked_offsets(self, offsets: Any, n_outputs: int) -> NDArray[np.float64] | None:
        """Return the checked offsets. A model takes offsets in every call or in none; its first block decides."""
        who = self._who
        if offsets is None:
            if self._has_offset:
                accepted = "given for each row, because the model was trained with another model's scores"
                raise input_error(who, "offset", accepted, "None", "Pass offset= in every call.")
            return None
        if not self.takes_offset:
            raise input_error(
                who, "offset", "None: this rule cannot use another model's score", "scores", "Budgetron can."
            )
        if self._has_offset is False:
            raise input_error(who, "offset", "None, because the model was trained without offsets", "scores",
                              "Train a new model with offset= from its first example on.")  # fmt: skip
        width = 1 if offsets.ndim == 1 else offsets.shape[1]
        if width != n_outputs:
            accepted = "one score per row" if n_outputs == 1 else f"{n_outputs} scores per row, one per class"
            raise input_error(who, "offset", accepted, f"shape {offsets.shape}")
        return np.asarray(offsets)

    def _split_task_column(self, X: Any, tasks: Any) -> tuple[Any, Any]:
        """Split the task column off X if `task_column` is set; otherwise return X and the tasks unchanged."""
        column = self.task_column
        if column is None:
            return X, tasks
        if tasks is not None:
            raise input_error(
                self._who, "tasks", "None if task_column is set", "both", "Name the tasks in one place only."
            )
        return validation.without_column(self._who, X, column)

    def _keep_names(self, task_ids: NDArray[np.int64], names: Any, flags: NDArray[np.uint8]) -> None:
        """Remember the names of tasks whose examples were stored. No attribute of a model shows other names."""
        stored = np.flatnonzero((flags & Outcome.STORED).astype(bool) & self._names.wanted(task_ids))
        if stored.size == 0:
            return
        engine = self._engine
        stored = stored[np.isin(task_ids[stored], engine.task_ids)]  # some may have been evicted in the same block
        n_stored = engine.n_stored
        firsts = np.sort(np.unique(task_ids[stored], return_index=True)[1])  # one name per task, in stream order
        for i in stored[firsts].tolist():
            self._names.keep(int(task_ids[i]), names[i], lambda: engine.task_ids, n_stored)

    # ---- methods that learners with further parameters override

    def check_streaming(self) -> None:
        """Reject parameters that work only in `fit`. Learners with such parameters override this method."""

    def _check_takes_weights(self, sample_weight: Any) -> None:
        """Reject weights for a rule that cannot scale its steps by them."""
        if sample_weight is not None and not self.takes_weights:
            raise input_error(
                self._who,
                "sample_weight",
                "None, because this rule has no step size to scale",
                "weights",
                "Budgetron takes weights.",
            )

    def _weighted(
        self, codes: NDArray[np.int32], weights: NDArray[np.float64] | None, classes: Classes
    ) -> NDArray[np.float64] | None:
        """Combine sample weights with class weights."""
        return weights
