"""The skeleton of every learner: the door, the clock and the memory; the rule itself is in the engine.

A learner's own file adds its parameters and its settings. Everything a caller may do is here, once.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from budgetron import core, reference
from budgetron.errors import refuse, refuse_type, shown
from budgetron.graphs import TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel, resolved
from budgetron.learners import inputs
from budgetron.learners.classes import Classes, first_seen, known, seeing
from budgetron.learners.guard import Guard, beginning
from budgetron.learners.names import TaskNames
from budgetron.memory import Budget, budget_of, name_bytes, planned
from budgetron.records import ActiveSet, Outcome
from budgetron.settings import Settings

Margins = NDArray[np.float64]
BLOCK = 4096  # rows that cross to the engine at once; what is held for a call is bounded by this

ONE_TASK = 0  # the key of `tasks=None`
_LEARNED = ("_guard", "_graph", "_names", "_classes", "_engine", "n_features_in_", "feature_names_in_")


class Learner(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What all learners share. Not a learner itself."""

    rule: ClassVar[str]
    exemptions: ClassVar[Mapping[str, str]] = {}  # laws of `budgetron.checks` that do not bind it, and why

    # Tasks travel with X and y through pipelines and model selection, without being asked for.
    __metadata_request__fit: ClassVar = {"tasks": True}
    __metadata_request__partial_fit: ClassVar = {"tasks": True}
    __metadata_request__predict: ClassVar = {"tasks": True}
    __metadata_request__decision_function: ClassVar = {"tasks": True}
    __metadata_request__score: ClassVar = {"tasks": True}

    # ---- learning

    def fit(self, X: Any, y: Any, tasks: Iterable[Any] | None = None, **refused: Any) -> Self:
        """Forget everything, then learn the rows in order, once."""
        self._refuse_weights(refused)
        return self._fit(X, y, tasks, None)

    def partial_fit(self, X: Any, y: Any, tasks: Iterable[Any] | None = None, classes: Any = None, **refused: Any) -> Self:
        """Learn the rows in order, going on from what was learned before."""
        self._refuse_weights(refused)
        self._learn(X, y, tasks, classes, None)
        return self

    def predict_then_learn(
        self, X: Any, y: Any, tasks: Iterable[Any] | None = None, classes: Any = None, **refused: Any
    ) -> Margins:
        """One pass: the decision value of each row as it was just before the row was learned."""
        self._refuse_weights(refused)
        return self._learn(X, y, tasks, classes, None)

    def learn_one(self, x: Any, y: Any, task: Hashable = None, classes: Any = None, **refused: Any) -> Any:
        """Learn one example, an array row or a dict of features. Returns the decision value before the update."""
        self._refuse_weights(refused)
        return self._learn_one(x, y, task, classes, 1.0)

    def forget_task(self, task: Hashable) -> None:
        """Remove a task's stored examples and weights; all else stays."""
        self._check_begun()
        key, _ = self._graph.locate_one(task)
        with self._guard:
            self._engine.forget(key)
            self._names.drop_all_but(self._engine.keys)

    # ---- predicting

    def decision_function(self, X: Any, tasks: Iterable[Any] | None = None) -> Margins:
        """The margins: (n,), positive for ``classes_[1]``; or (n, classes)."""
        self._check_begun()
        X, tasks = self._split_task_column(X, tasks)
        rows = self._rows(X, reset=False)
        keys, clusters = self._located(tasks, rows.shape[0], self._graph)
        self._refuse_bad_rows(rows)
        return self._engine.margins(rows, keys, clusters)

    def predict(self, X: Any, tasks: Iterable[Any] | None = None) -> NDArray[Any]:
        """The labels. A margin of zero is ``classes_[0]``."""
        return self._labels_of(self.decision_function(X, tasks))

    def predict_one(self, x: Any, task: Hashable = None) -> Any:
        """The label of one example, an array row or a dict of features."""
        self._check_begun()
        label = self._labels_of(self._margins_of_one(x, task))[0]
        return label.item() if isinstance(label, np.generic) else label

    def score(self, X: Any, y: Any, tasks: Iterable[Any] | None = None, sample_weight: Any = None) -> float:
        """The share of rows whose label is predicted right."""
        right = np.asarray(self.predict(X, tasks)) == np.asarray(y).ravel()
        return float(np.average(right, weights=sample_weight))

    # ---- looking inside

    @property
    def active_set_(self) -> ActiveSet:
        """What is stored, in slot order."""
        self._check_begun()
        with self._guard:
            active = self._engine.active()
            names = self._names.of(active["key"])
        coef = active["coef"][0] if len(active["coef"]) == 1 else active["coef"].T
        return ActiveSet(task=names, arrival=active["arrival"], rows=active["rows"], coef=coef)

    def task_weights(self, task: Hashable = None) -> NDArray[np.float64]:
        """The weights w of one task over the stored examples: f_task(x) = Σ_j w_j K'(x_j, x)."""
        self._check_begun()
        weights = self._engine.task_weights(*self._located_one(task))
        return weights[0] if len(weights) == 1 else weights.T

    @property
    def n_stored_(self) -> int:
        """How many examples are stored."""
        return self._begun_engine().n_stored

    @property
    def n_mistakes_(self) -> int:
        """How many examples were predicted wrong before they were learned."""
        return self._begun_engine().n_mistakes

    @property
    def n_seen_(self) -> int:
        """How many examples were learned from."""
        return self._begun_engine().n_seen

    @property
    def budget_share_(self) -> dict[Hashable, float]:
        """Each task's share of the stored examples, largest first."""
        self._check_begun()
        with self._guard:
            keys = self._engine.keys
            counts = Counter(keys.tolist()).most_common()
            names = self._names.of(np.array([key for key, _ in counts], dtype=np.int64))
        return {name: count / len(keys) for name, (_, count) in zip(names, counts, strict=True)}

    @property
    def memory_bytes_(self) -> int:
        """Bytes that are allocated for the model right now, all of them."""
        return self._begun_engine().memory_bytes() + self._names.bytes

    @property
    def capacity_(self) -> int | None:
        """How many examples may be stored at most; None where there is no limit."""
        self._check_begun()
        capacity: int | None = self._engine.settings.capacity
        return capacity

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted."""
        self._check_begun()
        return self._classes.values

    @property
    def kernel_(self) -> Kernel | None:
        """The kernel in use, every parameter a number."""
        self._check_begun()
        kernel: Kernel | None = self._engine.settings.kernel
        return kernel

    # ---- the path of a block

    def _fit(self, X: Any, y: Any, tasks: Iterable[Any] | None, sample_weight: Any) -> Self:
        rows = inputs.matrix(self._who, self._split_task_column(X, tasks)[0])
        labels = inputs.labels(self._who, y, rows.shape[0])
        classes = np.unique(labels)
        if len(classes) < 2:
            raise refuse(self._who, "y", "labels of at least two classes in fit", f"1 class, {shown(classes[0])}",
                         "To begin a stream with one class use partial_fit with classes=[...].")
        fresh = type(self)(**self.get_params(deep=False))
        fresh._learn(X, y, tasks, classes, sample_weight)
        learned = {name: vars(fresh)[name] for name in _LEARNED if name in vars(fresh)}
        vars(self).update(learned)  # all at once, and only now that nothing was refused
        for name in _LEARNED:
            if name not in learned:
                vars(self).pop(name, None)
        return self

    def _learn(self, X: Any, y: Any, tasks: Iterable[Any] | None, classes: Any, sample_weight: Any) -> Margins:
        X, tasks = self._split_task_column(X, tasks)
        first = not self._begun
        rows = self._rows(X, reset=first)
        n = rows.shape[0]
        labels = inputs.labels(self._who, y, n)
        weights = inputs.weights(self._who, sample_weight, n)
        names = None if tasks is None else _listed(self._who, tasks, n)
        keys, clusters = self._located(names, n, self._checked_graph() if first else self._graph)
        if not self._begin(rows, classes, labels, X) and first:  # another thread was faster: its rows were the first
            rows = self._rows(X, reset=False)
        with self._guard:
            seen = seeing(self._who, self._classes, labels)
            if classes is not None:
                self._refuse_other_classes(classes)
            codes = seen.codes(self._who, labels)
            weights = self._weighted(codes, weights)
            self._refuse_bad_rows(rows)
            self._refuse_long_rows(rows, self._engine.settings)
            self._classes = seen
            margins = np.empty(n if seen.n_outputs == 1 else (n, seen.n_outputs))
            for start in range(0, n, BLOCK):
                part = slice(start, start + BLOCK)
                block_weights = None if weights is None else weights[part]
                margins[part], flags = self._engine.learn(rows[part], codes[part], keys[part], clusters[part], block_weights)
                if names is not None:
                    self._keep_names(keys[part], names[part], flags)
        return margins

    def _learn_one(self, x: Any, y: Any, task: Hashable, classes: Any, weight: float) -> Any:
        engine = getattr(self, "_engine", None)
        if engine is None or classes is not None or not self._takes_rows_one_by_one(engine, x):
            if np.ndim(y):
                raise refuse(self._who, "y", "one label", shown(y))
            x, tasks = self._one_row(x, task)
            margins = self._learn(x, [y], tasks, classes, [weight] if weight != 1.0 else None)
            return float(margins[0]) if margins.ndim == 1 else margins[0]
        who = self._who
        row = inputs.vector(who, x, engine.settings.n_features, engine.settings.dtype)
        code = self._classes.code(who, y)
        with self._guard:
            key, cluster = self._located_one(task)
            done = engine.learn_one(row, code, key, cluster, self._weight_of(code, weight))
            if done is None:
                self._refuse_bad_rows(row.reshape(1, -1))
            margin, flags = done
            if flags & 4 and task is not None:  # Outcome.STORED, without the cost of an enum
                self._names.keep(key, task, lambda: engine.keys, engine.n_stored)
        return margin

    def _takes_rows_one_by_one(self, engine: Any, x: Any) -> bool:
        """Whether the short way is open: a dense row, and nothing left to settle."""
        return not (engine.settings.sparse or isinstance(x, Mapping)) and self.task_column is None and self._classes.settled

    def _margins_of_one(self, x: Any, task: Hashable) -> Margins:
        x, tasks = self._one_row(x, task)
        return self.decision_function(x, tasks)

    def _one_row(self, x: Any, task: Hashable) -> tuple[Any, list[Hashable] | None]:
        if isinstance(x, Mapping):
            width = self._engine.settings.n_features if self._begun else inputs.DICT_FEATURES
            if self._begun and not self._engine.settings.sparse:
                raise refuse_type(self._who, "x", f"a row of {width} numbers, as the first was", "a dict",
                                  "A model keeps to one kind of input.")
            row: Any = inputs.hashed(self._who, x, width)
        elif sparse.issparse(x):
            row = x
        else:
            if self._begun and self._engine.settings.sparse:
                raise refuse_type(self._who, "x", "a dict or a sparse row, as the first was", shown(type(x).__name__))
            row = inputs.vector(self._who, x, None, "float32" if getattr(x, "dtype", None) == np.float32 else "float64").reshape(1, -1)
        return row, None if task is None else [task]

    # ---- the door

    def _rows(self, X: Any, reset: bool) -> Any:
        rows = inputs.matrix(self._who, X)
        if reset:
            return rows
        settings = self._engine.settings
        if sparse.issparse(rows) != settings.sparse:
            if settings.sparse:
                rows = sparse.csr_matrix(rows)
            else:
                rows = rows.toarray()
        if rows.shape[1] != settings.n_features:
            raise refuse(self._who, "X", f"{settings.n_features} columns, as many as the first",
                         f"{rows.shape[1]}: X has {rows.shape[1]} features, but {self._who} is expecting "
                         f"{settings.n_features} features as input")
        if not sparse.issparse(X):
            validate_data(self, X, skip_check_array=True, reset=False)  # the names of its columns
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
            self._refuse_long_rows(rows, settings)
            engine = self._engine_for(settings)
            bad = engine.first_bad_row(rows)
            if bad is not None:
                self._refuse_row(rows, bad)
            validate_data(self, X, skip_check_array=True, reset=True)
            self._guard = Guard()
            self._graph = graph
            self._names = TaskNames(graph, None if budget.bytes is None else name_bytes(budget.bytes))
            self._classes = chosen
            self._engine = engine
            return True

    def _settings(self, rows: Any, classes: Classes, graph: TaskGraph) -> tuple[Settings, Budget]:
        n, d = rows.shape
        is_sparse = sparse.issparse(rows)
        kernel = self._checked_kernel()
        if isinstance(kernel, Gaussian):
            kernel = resolved(kernel, n, d, _variance(rows))
        budget = budget_of(self._who, getattr(self, "budget", None))
        settings = self._with_rule(Settings(
            rule=self.rule, kernel=kernel, graph=graph, n_features=d, n_outputs=classes.n_outputs, sparse=is_sparse,
            dtype=str(rows.dtype), capacity=budget.examples,
        ))  # fmt: skip
        if budget.bytes is not None:
            nonzeros = rows.nnz / n if is_sparse else 0.0
            settings = planned(self._who, settings, budget.bytes - name_bytes(budget.bytes), nonzeros)
        return settings, budget

    def _with_rule(self, settings: Settings) -> Settings:
        """The settings with what the rule itself wants to know. A learner's own file says it."""
        return settings

    def _engine_for(self, settings: Settings) -> Any:
        if self.engine not in ("auto", "core", "numpy"):
            raise refuse(self._who, "engine", '"auto", "core" or "numpy"', shown(self.engine))
        if self.engine != "numpy" and core.available and core.supports(settings.kernel):
            return core.Engine(settings)
        if self.engine == "core":
            why = "this kernel, which only the NumPy engine runs" if core.available else "a package built without a compiler"
            raise refuse(self._who, "engine", '"auto" or "numpy" here', f'"core" with {why}')
        if self.engine == "auto" and not core.available:
            _say_once()
        return reference.Engine(settings)

    def _checked_graph(self) -> TaskGraph:
        if self.graph is None:
            return complete()
        if not isinstance(self.graph, TaskGraph):
            raise refuse_type(self._who, "graph", "a task graph from budgetron.graphs, or None", shown(self.graph))
        return self.graph

    def _checked_kernel(self) -> Kernel | None:
        if self.kernel is None:
            return Gaussian()
        if not isinstance(self.kernel, Kernel):
            raise refuse_type(self._who, "kernel", "a kernel from budgetron.kernels, or None", shown(self.kernel))
        return self.kernel

    def _split_task_column(self, X: Any, tasks: Any) -> tuple[Any, Any]:
        """X without its task column, and the tasks in it, where `task_column` names one."""
        column = self.task_column
        if column is None:
            return X, tasks
        if tasks is not None:
            raise refuse(self._who, "tasks", "None where task_column is set", "both", "Give the task once.")
        return _without_column(self._who, X, column)

    def _located(self, tasks: Any, n: int, graph: TaskGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if tasks is None:
            if graph.tasks is not None:
                raise refuse(self._who, "tasks", "a task of the graph for each row", "None")
            return np.full(n, ONE_TASK, dtype=np.int64), np.full(n, ONE_TASK, dtype=np.int64)
        keys, clusters = graph.locate(_listed(self._who, tasks, n))
        return keys, np.ascontiguousarray(clusters)

    def _located_one(self, task: Hashable) -> tuple[int, int]:
        if task is not None:
            return self._graph.locate_one(task)
        if self._graph.tasks is not None:
            raise refuse(self._who, "task", "a task of the graph", "None")
        return ONE_TASK, ONE_TASK

    def _keep_names(self, keys: NDArray[np.int64], names: Any, flags: NDArray[np.uint8]) -> None:
        for place in np.flatnonzero(flags & Outcome.STORED).tolist():
            self._names.keep(int(keys[place]), names[place], lambda: self._engine.keys, self._engine.n_stored)

    # ---- refusing

    def _refuse_bad_rows(self, rows: Any) -> None:
        bad = self._engine.first_bad_row(rows)
        if bad is not None:
            self._refuse_row(rows, bad)

    def _refuse_row(self, rows: Any, bad: int) -> None:
        row = rows[bad].data if sparse.issparse(rows) else rows[bad]
        if np.isfinite(row).all():
            raise refuse(self._who, "X", "of a size that the kernel can be computed for", f"row {bad} with values up to "
                         f"{np.abs(row).max():g}", "Scale the features.")
        raise refuse(self._who, "X", "finite", f"row {bad} with NaN or inf (infinity)", "Impute or drop such rows.")

    def _refuse_long_rows(self, rows: Any, settings: Settings) -> None:
        """A sparse row that would not fit into its byte budget even alone."""
        if settings.pool is None:
            return
        lengths = np.diff(rows.indptr)
        if lengths.max() > settings.pool:
            raise refuse(self._who, "X", f"rows of at most {settings.pool} non-zeros, which this budget has room for",
                         f"row {lengths.argmax()} with {lengths.max()}", "Raise the budget, or begin with rows of usual length.")

    def _refuse_other_classes(self, classes: Any) -> None:
        if not np.array_equal(np.unique(np.asarray(classes)), self._classes.values):
            raise refuse(self._who, "classes", f"those of the first call, {shown(self._classes.values.tolist())}", shown(classes))

    def _refuse_weights(self, refused: dict[str, Any]) -> None:
        if refused.pop("sample_weight", None) is not None:
            raise refuse(self._who, "sample_weight", "None: this rule has no step to scale", "weights", "Budgetron takes them.")
        for name in refused:
            raise refuse_type(self._who, "an argument", "one that the method knows", shown(name))

    def _weighted(self, codes: NDArray[np.int32], weights: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        """The weight of each example, its class's included. Most rules have no use for it."""
        return weights

    def _weight_of(self, code: int, weight: float) -> float:
        return weight

    # ---- being one

    @property
    def _who(self) -> str:
        return type(self).__name__

    @property
    def _begun(self) -> bool:
        return hasattr(self, "_engine")

    def __sklearn_is_fitted__(self) -> bool:
        return self._begun

    def _check_begun(self) -> None:
        if not self._begun:
            raise NotFittedError(f"{self._who}: the model must have learned something first; got a call on a new one. "
                                 "This instance is not fitted yet. Call fit, partial_fit or learn_one.")

    def _begun_engine(self) -> Any:
        if not self._begun:  # an AttributeError, so that hasattr tells the truth
            raise AttributeError(f"{self._who} has learned nothing yet")
        return self._engine

    def _labels_of(self, margins: Margins) -> NDArray[Any]:
        return self._classes.labels((margins > 0).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1))

    def __getstate__(self) -> dict[str, Any]:
        if not self._begun:
            return dict(vars(self))
        with self._guard:
            return dict(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _variance(rows: Any) -> float:
    with np.errstate(all="ignore"):
        if sparse.issparse(rows):
            n = rows.shape[0] * rows.shape[1]
            data = rows.data.astype(np.float64)
            return float((data**2).sum() / n - (data.sum() / n) ** 2)
        return float(rows.var(dtype=np.float64))


def _listed(who: str, tasks: Any, n: int) -> Any:
    """The tasks as an array or list of length n."""
    if isinstance(tasks, (str, bytes)) or not isinstance(tasks, Iterable):
        raise refuse_type(who, "tasks", "one task for each row, in an array or list", shown(tasks))
    if hasattr(tasks, "to_numpy"):
        tasks = tasks.to_numpy()
    if not isinstance(tasks, (np.ndarray, list, tuple)):
        tasks = list(tasks)
    if isinstance(tasks, np.ndarray) and tasks.ndim != 1:
        raise refuse(who, "tasks", "one-dimensional", f"shape {tasks.shape}")
    if len(tasks) != n:
        raise refuse(who, "tasks", f"as long as X, {n} tasks", f"{len(tasks)}")
    return tasks


def _without_column(who: str, X: Any, column: Any) -> tuple[Any, Any]:
    if hasattr(X, "columns") and isinstance(column, str):
        if column not in X.columns:
            raise refuse(who, "task_column", f"a column of X, {shown(list(X.columns))}", shown(column))
        rest = X.drop(columns=column) if hasattr(X, "loc") else X.drop(column)
        return rest, X[column].to_numpy()
    if isinstance(column, bool) or not isinstance(column, (int, np.integer)):
        raise refuse_type(who, "task_column", "a column's number, or its name where X is a data frame", shown(column))
    array = X.tocsc() if sparse.issparse(X) else X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
    if array.ndim != 2 or not -array.shape[1] <= column < array.shape[1]:
        raise refuse(who, "task_column", "a column of X", f"{column} for X of shape {array.shape}")
    keep = [place for place in range(array.shape[1]) if place != column % array.shape[1]]
    taken = array[:, [column % array.shape[1]]]
    return array[:, keep], (taken.toarray() if sparse.issparse(taken) else taken).ravel()


_said = False


def _say_once() -> None:
    global _said
    if not _said:
        _said = True
        warnings.warn("budgetron was built without a compiler: the NumPy engine serves, exact and slow. "
                      "Install a C++ compiler and reinstall for the fast one.", RuntimeWarning, stacklevel=6)
