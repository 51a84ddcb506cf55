"""`Learner`, the base class of all learners: public methods, locking and the life cycle of the engine.

One call takes one path: `validate` converts the input and checks it against the model, `learn_block` gives it to the
engine. Models on disk and in shards call the same steps (`validation.convert`, `check`, `learn_block`) in the places
where they need them, so that nothing is converted or checked twice. The learning rule itself is in the
engine; the file of a learner adds its parameters and turns them into engine settings.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from budgetron.engine import native
from budgetron.engine.memory import bytes_of
from budgetron.engine.records import Outcome, SparseRow
from budgetron.engine.registry import rule_class
from budgetron.errors import refuse, refuse_type, shown
from budgetron.learners import rejections, validation
from budgetron.learners.classes import Classes, first_seen, known, seeing
from budgetron.learners.guard import beginning
from budgetron.learners.hashing import DICT_FEATURES, hashed_row, hashed_rows
from budgetron.learners.start import Start
from budgetron.learners.validation import NOT_GIVEN, Examples

Margins = NDArray[np.float64]
Ints = NDArray[np.int64]
PIECE = 64  # rows predicted per lock acquisition, as in the compiled engine
# The attributes that learning sets; `fit` replaces all of them.
_LEARNED = (
    "_guard", "_graph", "_names", "_classes", "_engine", "_tasked", "n_features_in_", "feature_names_in_", "_columns",
)  # fmt: skip


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
    classes: Classes | None = None  # what the classes are once this block is learned

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def take(self, rows: Any) -> Block:
        """The block with some of its rows only: a slice, or the numbers of the rows."""
        parts = {name: _taken(getattr(self, name), rows) for name in _PER_ROW}
        return replace(self, **parts)

    def after(self, n: int) -> Block:
        return self.take(slice(n, None))


_PER_ROW = ("rows", "task_ids", "clusters", "tasks", "labels", "codes", "weights")


def _taken(values: Any, rows: Any) -> Any:
    if isinstance(values, list | tuple):
        return list(values[rows]) if isinstance(rows, slice) else [values[row] for row in rows.tolist()]
    return None if values is None else values[rows]


class Learner(Start, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The methods that all learners share."""

    paper_name: ClassVar[str | None] = None  # the command line accepts it in place of the class name
    takes_weights: ClassVar[bool] = False
    _tasked = False  # whether tasks were ever named; from then on every call must name them
    _columns: Any = None  # the columns of the files it learned from (`budgetron.io`); saved with it, dropped by `fit`
    exemptions: ClassVar[Mapping[str, str]] = {}  # laws of `budgetron.checks` that do not hold for it, and why
    # For scikit-learn's `check_estimator(..., expected_failed_checks=...)`: check → why it cannot hold.
    expected_failed_checks: ClassVar[Mapping[str, str]] = {
        name: "the rule has no step size to scale, so sample_weight is rejected"
        for name in (
            "check_sample_weights_pandas_series",
            "check_sample_weights_not_an_array",
            "check_sample_weights_list",
            "check_sample_weights_shape",
            "check_sample_weights_not_overwritten",
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
            "check_classifiers_one_label_sample_weights",
        )
    }

    # `tasks` is routed by default through scikit-learn's pipelines and model selection.
    __metadata_request__fit: ClassVar[dict[str, bool | None]] = {"tasks": True}
    __metadata_request__partial_fit: ClassVar[dict[str, bool | None]] = {"tasks": True}
    __metadata_request__predict: ClassVar[dict[str, bool | None]] = {"tasks": True, "n_jobs": True}
    __metadata_request__decision_function: ClassVar[dict[str, bool | None]] = {"tasks": True, "n_jobs": True}
    __metadata_request__score: ClassVar[dict[str, bool | None]] = {"tasks": True}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._who = cls.__name__  # how errors name the learner

    # ---- learning

    def fit(self, X: Any, y: Any, *, tasks: Iterable[Any] | None = None, sample_weight: Any = None) -> Self:
        """Forget everything, then learn the rows in order, once."""
        X, tasks = self._split_task_column(X, tasks)
        examples = validation.convert(self._who, X, y, tasks, sample_weight)
        fresh = type(self)(**self.get_params(deep=False))
        fresh.learn_block(fresh.check(examples, self._classes_to_fit(examples)))
        learned = {name: vars(fresh)[name] for name in _LEARNED if name in vars(fresh)}
        # Only now, after nothing was rejected: a failed `fit` must leave the old model as it was.
        self.__dict__.update(learned)
        for name in _LEARNED:
            if name not in learned:
                self.__dict__.pop(name, None)
        return self

    def partial_fit(
        self, X: Any, y: Any, *, tasks: Iterable[Any] | None = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn the rows in order, in addition to what was learned before."""
        self.predict_then_learn(X, y, tasks=tasks, classes=classes, sample_weight=sample_weight)
        return self

    def predict_then_learn(
        self, X: Any, y: Any, *, tasks: Iterable[Any] | None = None, classes: Any = None, sample_weight: Any = None
    ) -> Margins:
        """Learn the rows in order, and return the decision value of each row just before it was learned."""
        self.check_streaming()
        return self.learn_block(self.validate(X, y, tasks=tasks, classes=classes, sample_weight=sample_weight))

    def learn_one(
        self, x: Any, y: Any, *, task: Hashable = None, classes: Any = None, sample_weight: float | None = None
    ) -> Any:
        """Learn one example, an array row or a dict of features. Returns the decision value before the update."""
        self.check_streaming()
        weight = 1.0
        if sample_weight is not None:
            self._check_takes_weights(sample_weight)
            checked = validation.weights(self._who, [sample_weight], 1)
            assert checked is not None
            weight = float(checked[0])
        # Fast path: a fitted model and a plain row skip the block machinery, which costs more than a small update.
        engine = self._engine
        row = None if engine is None or classes is not None else self._short_row(engine, x)
        if engine is None or row is None:
            if np.ndim(y):
                raise refuse(self._who, "y", "one label", shown(y))
            x, tasks = self._one_row(x, task)
            weights = None if sample_weight is None else [weight]
            margins = self.learn_block(self.validate(x, [y], tasks=tasks, classes=classes, sample_weight=weights))
            return float(margins[0]) if margins.ndim == 1 else margins[0]
        code = self._classes.code(self._who, y)
        with self._guard:
            task_id, cluster = validation.located_one(self._who, task, self._graph, self._tasked)
            done = engine.learn_one(row, code, task_id, cluster, self._weight_of(code, weight))
            if done is None:  # the engine rejects rows with NaN, infinity or too large values, unchanged itself
                self._check_rows(row if isinstance(row, SparseRow) else row.reshape(1, -1))
            margin, flags = done
            if task is not None:
                self._tasked = True
                if flags & 4:  # Outcome.STORED; comparing with the enum costs as much as a small update
                    self._names.keep(task_id, task, lambda: engine.task_ids, engine.n_stored)
        return margin

    def forget_task(self, task: Hashable) -> None:
        """Remove a task's stored examples and weights; everything else stays."""
        self._check_begun()
        task_id, _ = validation.located_one(self._who, task, self._graph, self._tasked)
        with self._guard:
            self._engine.forget(task_id)
            self._names.drop_all_but(self._engine.task_ids)

    def resize(self, budget: int) -> None:
        """Change the number of stored examples of a model in use; surplus examples are evicted by the learner's rule.

        >>> import numpy as np
        >>> from budgetron import BudgetProjectron
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> model = BudgetProjectron(budget=40).partial_fit(X, X[:, 0] * X[:, 1] > 0)
        >>> before = model.n_stored_
        >>> model.resize(25)
        >>> before, model.n_stored_, model.capacity_
        (40, 25, 25)
        """
        from budgetron.learners.resize import resized

        self._check_begun()
        with self._guard:
            self._engine = resized(self._who, self._engine, budget)
            self.set_params(budget=int(budget))
            self._names.drop_all_but(self._engine.task_ids)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, replacing any that is there; `budgetron.load` reads it.

        The content is checked as `load` would before anything is written, and the file is replaced in one step.
        """
        from budgetron.learners.saved import content_of  # imported here because most processes never save
        from budgetron.persist import replace_file

        self._check_begun()
        with self._guard:
            content = content_of(self)
        replace_file(path, content)

    # ---- predicting
    #
    # `n_jobs` is an argument of the call and not of the constructor: it belongs to the machine, and a saved model must
    # not carry the core count of the machine it was trained on.

    def decision_function(self, X: Any, *, tasks: Iterable[Any] | None = None, n_jobs: int | None = None) -> Margins:
        """Return the margins: shape (n,), positive for ``classes_[1]``; with three or more classes (n, n_classes).

        `n_jobs` threads share the rows (None is 1, −1 all cores); the result does not depend on it.
        """
        self._check_begun()
        threads = validation.threads(self._who, n_jobs)
        return self.block_margins(self.validate(X, tasks=tasks), threads)

    def predict(self, X: Any, *, tasks: Iterable[Any] | None = None, n_jobs: int | None = None) -> NDArray[Any]:
        """Predict the label of each row. A margin of zero is ``classes_[0]``. For `n_jobs` see `decision_function`."""
        margins = self.decision_function(X, tasks=tasks, n_jobs=n_jobs)
        return self._classes.of_margins(margins)

    def predict_one(self, x: Any, *, task: Hashable = None) -> Any:
        """Predict the label of one example, an array row or a dict of features."""
        self._check_begun()
        label = self._classes.of_margins(self._margins_of_one(x, task))[0]
        return label.item() if isinstance(label, np.generic) else label

    def score(self, X: Any, y: Any, *, tasks: Iterable[Any] | None = None, sample_weight: Any = None) -> float:
        """Return the accuracy: the share of rows whose label is predicted correctly."""
        correct = np.asarray(self.predict(X, tasks=tasks)) == np.asarray(y).ravel()
        return float(np.average(correct, weights=sample_weight))

    # ---- memory

    def memory_bound(self, n_features: int, n_classes: int = 2, dtype: str = "float64") -> int | None:
        """Return an upper bound of the model's memory on dense rows, without task names; None if there is no bound.

        The bound follows from the parameters and the number of features, before the first example.
        """
        rows = np.zeros((1, n_features), dtype=dtype)
        classes = Classes(np.arange(n_classes))
        settings, _ = self._settings(rows, classes, self._checked_graph())
        if not rule_class(self.rule).is_bounded(settings):
            return None
        return bytes_of(settings, self._engine_kind(settings.kernel) is native.Engine)

    # ---- the two steps of every call

    def validate(
        self, X: Any, y: Any = NOT_GIVEN, *, tasks: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Block:
        """Check and encode a block of examples. The first block to learn also makes the engine.

        With `y` the block is to be learned, without it predicted. An `InputError` leaves the model as it was.
        """
        X, tasks = self._split_task_column(X, tasks)
        return self.check(validation.convert(self._who, X, y, tasks, sample_weight), classes)

    def check(self, examples: Examples, classes: Any = None) -> Block:
        """Check converted examples against this model. The second half of `validate`, for models that log in between.

        Examples without labels are to be predicted. An `InputError` leaves the model as it was.
        """
        self._check_takes_weights(examples.weights)
        if examples.labels is not None and self._engine is None:
            first = self._check_first(examples, classes)
            if first is not None:
                return first
        rows, tasks = self._fitting_rows(examples), examples.tasks
        task_ids, clusters = validation.located(self._who, tasks, len(examples), self._graph, self._tasked)
        if examples.labels is None:
            self._check_rows(rows)
            return Block(rows, task_ids, clusters, tasks)
        seen = seeing(self._who, self._classes, examples.labels)
        if classes is not None:
            rejections.check_same_classes(self._who, classes, self._classes.values)
        codes = seen.codes(self._who, examples.labels)
        self._check_rows(rows)
        weights = self._weighted(codes, examples.weights)
        return Block(rows, task_ids, clusters, tasks, examples.labels, codes, weights, seen)

    def _check_first(self, examples: Examples, classes: Any) -> Block | None:
        """Check the first block to be learned, and create the engine. None if another thread has created it."""
        who, rows, tasks, labels = self._who, examples.rows, examples.tasks, examples.labels
        assert labels is not None
        with beginning:
            if self._engine is not None:
                return None
            chosen = first_seen(who, labels) if classes is None else known(who, classes)
            codes = chosen.codes(who, labels)
            graph = self._checked_graph()
            task_ids, clusters = validation.located(who, tasks, len(examples), graph, self._tasked)
            self._has_tasks = tasks is not None
            try:
                self._begin(rows, chosen, graph, examples.source)
            finally:
                del self._has_tasks  # only sizes are planned by it, and a refused call leaves nothing behind
        weights = self._weighted(codes, examples.weights)
        return Block(rows, task_ids, clusters, tasks, labels, codes, weights, chosen)

    def _check_rows(self, rows: Any) -> None:
        validation.check_rows(self._who, self._engine, rows, getattr(self, "feature_names_in_", None))

    def learn_block(self, block: Block) -> Margins:
        """Learn a validated block, and return the margin of each row just before it was learned."""
        assert block.codes is not None and block.classes is not None
        n, outputs = len(block), block.classes.n_outputs
        margins = np.empty(n if outputs == 1 else (n, outputs))
        with self._guard:
            margins[...], flags = self._engine.learn(
                block.rows, block.codes, block.task_ids, block.clusters, block.weights
            )
            # Only now: where memory runs out the engine has learned nothing, and nothing else may have changed either.
            if not self._classes.settled:
                self._classes = block.classes
            self._tasked = self._tasked or block.tasks is not None
            if block.tasks is not None:
                self._keep_names(block.task_ids, block.tasks, flags)
        return margins

    def block_margins(self, block: Block, threads: int = 1) -> Margins:
        """Return the margins of a validated block without learning from it."""
        return self._margins(self._engine, block.rows, block.task_ids, block.clusters, threads)

    def _classes_to_fit(self, examples: Examples) -> NDArray[Any]:
        """Return the classes among the labels; reject fewer than two of them, and weights that are all zero."""
        if examples.weights is not None and not examples.weights.any():
            raise refuse(self._who, "sample_weight", "above zero for at least one row", "only zero weights")
        assert examples.labels is not None
        classes: NDArray[Any] = np.unique(examples.labels)
        if len(classes) < 2:
            raise refuse(
                self._who,
                "y",
                "labels of at least two classes in fit",
                f"1 class, {shown(classes[0])}",
                "To begin a stream with one class use partial_fit with classes=[...].",
            )
        return classes

    def _short_row(self, engine: Any, x: Any) -> Any:
        """Encode one row for the engine; None if it needs the full path through `validate`.

        The full path is needed while classes are still assumed, with a task column, and for conversions between
        sparse and dense input.
        """
        settings = engine.settings
        if self.task_column is not None or not self._classes.settled:
            return None
        if isinstance(x, Mapping):
            bare = settings.sparse and isinstance(engine, native.Engine)
            return hashed_row(self._who, x, settings.n_features, settings.dtype) if bare else None
        return None if settings.sparse else validation.vector(self._who, x, settings.n_features, settings.dtype)

    def _margins_of_one(self, x: Any, task: Hashable) -> Margins:
        engine = self._engine
        row = self._short_row(engine, x)
        if row is None:
            x, tasks = self._one_row(x, task)
            return self.decision_function(x, tasks=tasks)
        rows = row if isinstance(row, SparseRow) else row.reshape(1, -1)
        task_id, cluster = validation.located_one(self._who, task, self._graph, self._tasked)
        self._check_rows(rows)
        return self._margins(engine, rows, np.array([task_id]), np.array([cluster]))

    def _margins(self, engine: Any, rows: Any, task_ids: Any, clusters: Any, threads: int = 1) -> Margins:
        """Return the margins of a block. The lock is held for `PIECE` rows at a time, so that learning does not wait
        for a whole block. The compiled engine locks in this way itself; for the NumPy engine it is done here."""
        if engine.side_by_side:
            margins: Margins = engine.margins(rows, task_ids, clusters, threads)
            return margins
        n, pieces = len(task_ids), []
        for start in range(0, n, PIECE):
            part = slice(start, start + PIECE)
            with self._guard:
                pieces.append(engine.margins(rows if n <= PIECE else rows[part], task_ids[part], clusters[part]))
        return np.concatenate(pieces)

    def _one_row(self, x: Any, task: Hashable) -> tuple[Any, list[Hashable] | None]:
        if isinstance(x, Mapping):
            width = self._engine.settings.n_features if self._begun else DICT_FEATURES
            if self._begun and not self._engine.settings.sparse:
                raise refuse_type(
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
            if self._begun and self._engine.settings.sparse:
                raise refuse_type(self._who, "x", "a dict or a sparse row, like the first example", type(x).__name__)
            row = validation.vector(
                self._who, x, None, "float32" if getattr(x, "dtype", None) == np.float32 else "float64"
            ).reshape(1, -1)
        return row, None if task is None else [task]

    def _fitting_rows(self, examples: Examples) -> Any:
        """The rows of examples in the kind and precision of the engine, if they have its columns."""
        rows, X = examples.rows, examples.source
        settings = self._engine.settings
        if sparse.issparse(rows) != settings.sparse:
            rows = sparse.csr_matrix(rows) if settings.sparse else rows.toarray()
        if rows.shape[1] != settings.n_features:
            raise refuse(
                self._who,
                "X",
                f"of {settings.n_features} columns, as in the first call",
                f"{rows.shape[1]}: X has {rows.shape[1]} features, but {self._who} is expecting "
                f"{settings.n_features} features as input",
            )
        if not sparse.issparse(X) and (hasattr(self, "feature_names_in_") or not isinstance(X, np.ndarray)):
            try:
                validate_data(self, X, skip_check_array=True, reset=False)  # compares the column names
            except ValueError as error:
                said = " ".join(str(error).split()).rstrip(".")
                raise refuse(self._who, "X", "of the same columns as in the first call", said) from None
        return rows.astype(settings.dtype, copy=False)

    def _split_task_column(self, X: Any, tasks: Any) -> tuple[Any, Any]:
        """Split X into features and tasks where `task_column` names a column; otherwise return both unchanged."""
        column = self.task_column
        if column is None:
            return X, tasks
        if tasks is not None:
            raise refuse(self._who, "tasks", "None if task_column is set", "both", "Name the tasks in one place only.")
        return validation.without_column(self._who, X, column)

    def _keep_names(self, task_ids: NDArray[np.int64], names: Any, flags: NDArray[np.uint8]) -> None:
        """Remember the names of tasks whose examples were stored, so that they can be shown."""
        places = np.flatnonzero((flags & Outcome.STORED).astype(bool) & self._names.wanted(task_ids))
        if places.size == 0:
            return
        engine = self._engine
        places = places[np.isin(task_ids[places], engine.task_ids)]  # some may have been evicted in the same block
        n_stored = engine.n_stored
        firsts = np.sort(np.unique(task_ids[places], return_index=True)[1])  # one name per task, in stream order
        for place in places[firsts].tolist():
            self._names.keep(int(task_ids[place]), names[place], lambda: engine.task_ids, n_stored)

    # ---- what learners with further parameters override

    def check_streaming(self) -> None:
        """Reject parameters that need all examples at once, as in `fit`. Learners with such parameters override it."""

    def _check_takes_weights(self, sample_weight: Any) -> None:
        if sample_weight is not None and not self.takes_weights:
            raise refuse(
                self._who,
                "sample_weight",
                "None, because this rule has no step size to scale",
                "weights",
                "Budgetron takes weights.",
            )

    def _weighted(self, codes: NDArray[np.int32], weights: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """Combine sample weights with class weights. Learners with a `class_weight` override it."""
        return weights

    def _weight_of(self, code: int, weight: float) -> float:
        return weight

    # ---- saving, pickling and scikit-learn

    @classmethod
    def _check_file(cls, parameters: Mapping[str, Any]) -> None:
        """Reject a model file by its constructor parameters, if this version cannot read it; with a remedy."""


    def __getstate__(self) -> dict[str, Any]:
        if not self._begun:
            return dict(vars(self))
        with self._guard:
            return dict(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
