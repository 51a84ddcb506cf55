"""The skeleton of every learner: the door, the clock and the memory; the rule itself is in the engine.

A learner's own file adds its parameters and its settings. Everything a caller may do is here, once.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from budgetron.engine import native
from budgetron.engine.memory import Budget, budget_of, bytes_of, name_bytes, planned
from budgetron.engine.records import Outcome, SparseRow
from budgetron.engine.settings import Settings
from budgetron.errors import refuse, refuse_type, shown
from budgetron.graphs import TaskGraph
from budgetron.kernels import Kernel
from budgetron.learners import inputs
from budgetron.learners.classes import Classes, first_seen, known, seeing
from budgetron.learners.guard import Guard, beginning
from budgetron.learners.names import TaskNames
from budgetron.learners.pictures import Pictures
from budgetron.learners.start import engine_kind, settings_of, usual_nonzeros
from budgetron.learners.tasks import listed, located, located_one, without_column

Margins = NDArray[np.float64]
BLOCK = 4096  # rows that cross to the engine at once; what is held for a call is bounded by this
_LEARNED = (
    "_guard", "_graph", "_names", "_classes", "_engine", "_tasked", "n_features_in_", "feature_names_in_", "_columns",
)  # fmt: skip


class Learner(Pictures, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What all learners share. Not a learner itself."""

    rule: ClassVar[str]
    takes_weights: ClassVar[bool] = False
    _tasked = False  # whether it was ever taught with tasks: then a call without them has forgotten them
    _columns: Any = None  # of the files it learned from (`budgetron.io`); saved with it, and forgotten by `fit`
    exemptions: ClassVar[Mapping[str, str]] = {}  # laws of `budgetron.checks` that do not bind it, and why

    # Tasks travel with X and y through pipelines and model selection, without being asked for.
    __metadata_request__fit: ClassVar[dict[str, bool | None]] = {"tasks": True}
    __metadata_request__partial_fit: ClassVar[dict[str, bool | None]] = {"tasks": True}
    __metadata_request__predict: ClassVar[dict[str, bool | None]] = {"tasks": True, "n_jobs": True}
    __metadata_request__decision_function: ClassVar[dict[str, bool | None]] = {"tasks": True, "n_jobs": True}
    __metadata_request__score: ClassVar[dict[str, bool | None]] = {"tasks": True}

    # ---- learning
    #
    # `weights` is `sample_weight=`, for the rules that take it. It is no parameter of its own: scikit-learn asks of an
    # estimator that names it that weights be the same as repetitions in any order, which no online learner can promise.

    def fit(self, X: Any, y: Any, tasks: Iterable[Any] | None = None, **weights: Any) -> Self:
        """Forget everything, then learn the rows in order, once."""
        return self._fit(X, y, tasks, self._sample_weight(weights, whole=True))

    def partial_fit(
        self, X: Any, y: Any, tasks: Iterable[Any] | None = None, classes: Any = None, **weights: Any
    ) -> Self:
        """Learn the rows in order, going on from what was learned before."""
        self._learn(X, y, tasks, classes, self._sample_weight(weights))
        return self

    def predict_then_learn(
        self, X: Any, y: Any, tasks: Iterable[Any] | None = None, classes: Any = None, **weights: Any
    ) -> Margins:
        """One pass: the decision value of each row as it was just before the row was learned."""
        return self._learn(X, y, tasks, classes, self._sample_weight(weights))

    def learn_one(self, x: Any, y: Any, task: Hashable = None, classes: Any = None, **weights: Any) -> Any:
        """Learn one example, an array row or a dict of features. Returns the decision value before the update."""
        weight = self._sample_weight(weights)
        checked = None if weight is None else inputs.weights(self._who, [weight], 1)
        return self._learn_one(x, y, task, classes, 1.0 if checked is None else float(checked[0]))

    def forget_task(self, task: Hashable) -> None:
        """Remove a task's stored examples and weights; all else stays."""
        self._check_begun()
        key, _ = located_one(self._who, task, self._graph, self._tasked)
        with self._guard:
            self._engine.forget(key)
            self._names.drop_all_but(self._engine.keys)

    def resize(self, budget: int) -> None:
        """Go on with another number of stored examples; what is over leaves by the learner's own rule.

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
            self._names.drop_all_but(self._engine.keys)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, in place of any that is there; `budgetron.load` reads it.

        The file is checked as `load` would before anything is written, and replaced in one step.
        """
        from budgetron.learners.saved import content_of  # what saving needs is not paid for by those who do not save
        from budgetron.persist import replace_file

        self._check_begun()
        with self._guard:
            content = content_of(self)
        replace_file(path, content)

    # ---- predicting

    # `n_jobs` is a keyword of the call, not of the constructor: how many cores are free belongs to the machine and the
    # moment, and a saved model must not bring along the number of cores of the machine it was learned on.

    def decision_function(self, X: Any, tasks: Iterable[Any] | None = None, *, n_jobs: int | None = None) -> Margins:
        """The margins: (n,), positive for ``classes_[1]``; or (n, classes).

        `n_jobs` threads share the rows (None is 1, −1 all cores); the answer does not depend on it.
        """
        self._check_begun()
        threads = inputs.threads(self._who, n_jobs)
        X, tasks = self._split_task_column(X, tasks)
        rows = self._rows(X, reset=False)
        keys, clusters = located(self._who, tasks, rows.shape[0], self._graph, self._tasked)
        self._refuse_bad_rows(rows)
        with nullcontext() if self._engine.side_by_side else self._guard:
            margins: Margins = self._engine.margins(rows, keys, clusters, threads)
        return margins

    def predict(self, X: Any, tasks: Iterable[Any] | None = None, *, n_jobs: int | None = None) -> NDArray[Any]:
        """The labels. A margin of zero is ``classes_[0]``. `n_jobs` is that of `decision_function`."""
        return self._labels_of(self.decision_function(X, tasks, n_jobs=n_jobs))

    def predict_one(self, x: Any, task: Hashable = None) -> Any:
        """The label of one example, an array row or a dict of features."""
        self._check_begun()
        label = self._labels_of(self._margins_of_one(x, task))[0]
        return label.item() if isinstance(label, np.generic) else label

    def score(self, X: Any, y: Any, tasks: Iterable[Any] | None = None, sample_weight: Any = None) -> float:
        """The share of rows whose label is predicted right."""
        right = np.asarray(self.predict(X, tasks)) == np.asarray(y).ravel()
        return float(np.average(right, weights=sample_weight))

    # ---- the promise

    def memory_bound(self, n_features: int, n_classes: int = 2, dtype: str = "float64") -> int | None:
        """Bytes that the model will never exceed on dense rows, names of tasks aside; None where nothing bounds it.

        Known before the first example, from the parameters and the width of the rows.
        """
        rows = np.zeros((1, n_features), dtype=dtype)
        classes = Classes(np.arange(n_classes))
        settings, _ = self._settings(rows, classes, self._checked_graph())
        open_rows = settings.max_task_rows is None and self.rule in ("shared_projectron", "budgetron")
        if settings.capacity is None or open_rows:
            return None
        return bytes_of(settings, self._engine_kind(settings.kernel) is native.Engine)

    # ---- the path of a block

    def _fit(self, X: Any, y: Any, tasks: Iterable[Any] | None, sample_weight: Any) -> Self:
        rows = inputs.matrix(self._who, self._split_task_column(X, tasks)[0])
        labels = inputs.labels(self._who, y, rows.shape[0])
        weights = inputs.weights(self._who, sample_weight, rows.shape[0])
        if weights is not None and not weights.any():
            raise refuse(self._who, "sample_weight", "such that some weight is not zero", "only zero weights")
        classes = np.unique(labels)
        if len(classes) < 2:
            raise refuse(
                self._who,
                "y",
                "labels of at least two classes in fit",
                f"1 class, {shown(classes[0])}",
                "To begin a stream with one class use partial_fit with classes=[...].",
            )
        fresh = type(self)(**self.get_params(deep=False))
        fresh._learn(X, y, tasks, classes, sample_weight)
        learned = {name: vars(fresh)[name] for name in _LEARNED if name in vars(fresh)}
        self.__dict__.update(learned)  # all at once, and only now that nothing was refused
        for name in _LEARNED:
            if name not in learned:
                self.__dict__.pop(name, None)
        return self

    def _learn(self, X: Any, y: Any, tasks: Iterable[Any] | None, classes: Any, sample_weight: Any) -> Margins:
        X, tasks = self._split_task_column(X, tasks)
        first = not self._begun
        rows = self._rows(X, reset=first)
        n = rows.shape[0]
        labels = inputs.labels(self._who, y, n)
        weights = inputs.weights(self._who, sample_weight, n)
        names = None if tasks is None else listed(self._who, tasks, n)
        keys, clusters = located(self._who, names, n, self._checked_graph() if first else self._graph, self._tasked)
        if not self._begin(rows, classes, labels, X) and first:  # another thread was faster: its rows were the first
            rows = self._rows(X, reset=False)
        with self._guard:
            seen = seeing(self._who, self._classes, labels)
            if classes is not None:
                self._refuse_other_classes(classes)
            codes = seen.codes(self._who, labels)
            weights = self._weighted(codes, weights)
            self._refuse_bad_rows(rows)
            self._classes = seen
            self._tasked = self._tasked or names is not None
            margins = np.empty(n if seen.n_outputs == 1 else (n, seen.n_outputs))
            for start in range(0, n, BLOCK):
                part = slice(start, start + BLOCK)
                block_weights = None if weights is None else weights[part]
                margins[part], flags = self._engine.learn(
                    rows if n <= BLOCK else rows[part], codes[part], keys[part], clusters[part], block_weights
                )
                if names is not None:
                    self._keep_names(keys[part], names[part], flags)
        return margins

    def _learn_one(self, x: Any, y: Any, task: Hashable, classes: Any, weight: float) -> Any:
        engine = getattr(self, "_engine", None)
        row = None if engine is None or classes is not None else self._short_row(engine, x)
        if engine is None or row is None:
            if np.ndim(y):
                raise refuse(self._who, "y", "one label", shown(y))
            x, tasks = self._one_row(x, task)
            margins = self._learn(x, [y], tasks, classes, [weight] if weight != 1.0 else None)
            return float(margins[0]) if margins.ndim == 1 else margins[0]
        code = self._classes.code(self._who, y)
        with self._guard:
            key, cluster = located_one(self._who, task, self._graph, self._tasked)
            done = engine.learn_one(row, code, key, cluster, self._weight_of(code, weight))
            if done is None:
                self._refuse_bad_rows(row if isinstance(row, SparseRow) else row.reshape(1, -1))
            margin, flags = done
            if task is not None:
                self._tasked = True
                if flags & 4:  # Outcome.STORED, without the cost of an enum
                    self._names.keep(key, task, lambda: engine.keys, engine.n_stored)
        return margin

    def _short_row(self, engine: Any, x: Any) -> Any:
        """One row as the engine takes it, where the short way is open: nothing is left to settle."""
        settings = engine.settings
        if self.task_column is not None or not self._classes.settled:
            return None
        if isinstance(x, Mapping):
            bare = settings.sparse and isinstance(engine, native.Engine)
            return inputs.hashed_row(self._who, x, settings.n_features, settings.dtype) if bare else None
        return None if settings.sparse else inputs.vector(self._who, x, settings.n_features, settings.dtype)

    def _margins_of_one(self, x: Any, task: Hashable) -> Margins:
        engine = self._engine
        row = self._short_row(engine, x)
        if row is None:
            x, tasks = self._one_row(x, task)
            return self.decision_function(x, tasks)
        rows = row if isinstance(row, SparseRow) else row.reshape(1, -1)
        key, cluster = located_one(self._who, task, self._graph, self._tasked)
        self._refuse_bad_rows(rows)
        with nullcontext() if engine.side_by_side else self._guard:
            margins: Margins = engine.margins(rows, np.array([key]), np.array([cluster]))
        return margins

    def _one_row(self, x: Any, task: Hashable) -> tuple[Any, list[Hashable] | None]:
        if isinstance(x, Mapping):
            width = self._engine.settings.n_features if self._begun else inputs.DICT_FEATURES
            if self._begun and not self._engine.settings.sparse:
                raise refuse_type(
                    self._who,
                    "x",
                    f"a row of {width} numbers, as the first was",
                    "a dict",
                    "A model keeps to one kind of input.",
                )
            row: Any = inputs.hashed_rows(self._who, [x], width)
        elif sparse.issparse(x):
            row = x
        else:
            if self._begun and self._engine.settings.sparse:
                raise refuse_type(self._who, "x", "a dict or a sparse row, as the first was", shown(type(x).__name__))
            row = inputs.vector(
                self._who, x, None, "float32" if getattr(x, "dtype", None) == np.float32 else "float64"
            ).reshape(1, -1)
        return row, None if task is None else [task]

    # ---- the door

    def _rows(self, X: Any, reset: bool) -> Any:
        rows = inputs.matrix(self._who, X)
        if reset:
            return rows
        settings = self._engine.settings
        if sparse.issparse(rows) != settings.sparse:
            rows = sparse.csr_matrix(rows) if settings.sparse else rows.toarray()
        if rows.shape[1] != settings.n_features:
            raise refuse(
                self._who,
                "X",
                f"{settings.n_features} columns, as many as the first",
                f"{rows.shape[1]}: X has {rows.shape[1]} features, but {self._who} is expecting "
                f"{settings.n_features} features as input",
            )
        if not sparse.issparse(X) and (hasattr(self, "feature_names_in_") or not isinstance(X, np.ndarray)):
            try:
                validate_data(self, X, skip_check_array=True, reset=False)  # the names of its columns
            except ValueError as error:
                said = " ".join(str(error).split()).rstrip(".")
                raise refuse(self._who, "X", "of the columns that the model began with", said) from None
        return rows.astype(settings.dtype, copy=False)

    def _begin(self, rows: Any, classes: Any, labels: NDArray[Any], X: Any) -> bool:
        """Make the engine, once, from the first block; whether it was made now."""
        with beginning:
            if self._begun:
                return False
            chosen = first_seen(self._who, labels) if classes is None else known(self._who, classes)
            chosen.codes(self._who, labels)
            graph = self._checked_graph()
            settings, budget = self._settings(rows, chosen, graph)
            try:
                engine = self._engine_kind(settings.kernel)(settings)
            except MemoryError:
                raise refuse(
                    self._who, "budget", "within what this machine has", f"{bytes_of(settings)} bytes for it"
                ) from None
            bad = engine.first_bad_row(rows)
            if bad is not None:
                self._refuse_row(rows, bad, getattr(X, "columns", None))
            if isinstance(X, np.ndarray):  # no names to look for: scikit-learn looks through all installed packages
                self.n_features_in_ = rows.shape[1]
            else:
                validate_data(self, X, skip_check_array=True, reset=True)
            self._guard = Guard()
            self._graph = graph
            self._names = TaskNames(graph, None if budget.bytes is None else name_bytes(budget.bytes))
            self._classes = chosen
            self._engine = engine
            return True

    def _settings(self, rows: Any, classes: Classes, graph: TaskGraph) -> tuple[Settings, Budget]:
        budget = budget_of(self._who, getattr(self, "budget", None))
        settings = settings_of(self.rule, self._checked_kernel(), graph, rows, classes.n_outputs)
        settings = self._with_rule(replace(settings, capacity=budget.examples))
        if budget.bytes is not None:
            nonzeros = usual_nonzeros(rows) if settings.sparse else 0.0
            compiled = self._engine_kind(settings.kernel) is native.Engine
            settings = planned(self._who, settings, budget.bytes, nonzeros, compiled)
        return settings, budget

    def _with_rule(self, settings: Settings) -> Settings:
        """The settings with what the rule itself wants to know. A learner's own file says it."""
        return settings

    def _engine_kind(self, kernel: Kernel | None) -> Any:
        return engine_kind(self._who, self.engine, kernel)

    def _checked_kernel(self) -> Kernel | None:
        if not isinstance(self.kernel, Kernel):
            raise refuse_type(self._who, "kernel", "a kernel from budgetron.kernels", shown(self.kernel))
        return self.kernel

    def _checked_graph(self) -> TaskGraph:
        if not isinstance(self.graph, TaskGraph):
            raise refuse_type(self._who, "graph", "a task graph from budgetron.graphs", shown(self.graph))
        return self.graph

    def _split_task_column(self, X: Any, tasks: Any) -> tuple[Any, Any]:
        """X without its task column, and the tasks in it, where `task_column` names one."""
        column = self.task_column
        if column is None:
            return X, tasks
        if tasks is not None:
            raise refuse(self._who, "tasks", "None where task_column is set", "both", "Give the task once.")
        return without_column(self._who, X, column)

    def _keep_names(self, keys: NDArray[np.int64], names: Any, flags: NDArray[np.uint8]) -> None:
        places = np.flatnonzero((flags & Outcome.STORED).astype(bool) & self._names.wanted(keys))
        if places.size == 0:
            return
        engine = self._engine
        n_stored = engine.n_stored
        firsts = np.sort(np.unique(keys[places], return_index=True)[1])
        for place in places[firsts].tolist():
            self._names.keep(int(keys[place]), names[place], lambda: engine.keys, n_stored)

    # ---- refusing

    def _refuse_bad_rows(self, rows: Any) -> None:
        bad = self._engine.first_bad_row(rows)
        if bad is not None:
            self._refuse_row(rows, bad)

    def _refuse_row(self, rows: Any, bad: int, names: Any = None) -> None:
        row = rows.data if isinstance(rows, SparseRow) else rows[bad].data if sparse.issparse(rows) else rows[bad]
        if np.isfinite(row).all():
            raise refuse(
                self._who,
                "X",
                "of a size that the kernel can be computed for",
                f"row {bad} with values up to {np.abs(row).max():g}",
                "Scale the features.",
            )
        where = "" if sparse.issparse(rows) or isinstance(rows, SparseRow) else self._column_of(row, names)
        raise refuse(
            self._who, "X", "finite", f"row {bad} with NaN or inf (infinity){where}", "Impute or drop such rows."
        )

    def _column_of(self, row: NDArray[Any], names: Any) -> str:
        names = getattr(self, "feature_names_in_", None) if names is None else names
        column = int(np.flatnonzero(~np.isfinite(row))[0])
        return f" in column {column if names is None else shown(names[column])}"

    def _refuse_other_classes(self, classes: Any) -> None:
        if not np.array_equal(np.unique(np.asarray(classes)), self._classes.values):
            raise refuse(
                self._who, "classes", f"those of the first call, {shown(self._classes.values.tolist())}", shown(classes)
            )

    def _sample_weight(self, weights: dict[str, Any], whole: bool = False) -> Any:
        """The `sample_weight` among the keywords, for a rule that takes it; nothing else may be there.

        `whole` says that all examples are at hand, as in `fit`.
        """
        sample_weight = weights.pop("sample_weight", None)
        if sample_weight is not None and not self.takes_weights:
            raise refuse(
                self._who, "sample_weight", "None: this rule has no step to scale", "weights", "Budgetron takes them."
            )
        for name in weights:
            raise refuse_type(self._who, "an argument", "one that the method knows", shown(name))
        return sample_weight

    def _weighted(self, codes: NDArray[np.int32], weights: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """The weight of each example, its class's included. Most rules have no use for it."""
        return weights

    def _weight_of(self, code: int, weight: float) -> float:
        return weight

    # ---- being one

    def _labels_of(self, margins: Margins) -> NDArray[Any]:
        return self._classes.labels((margins > 0).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1))

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
