"""The compiled engine, with the same interface as the NumPy engine in `budgetron.engine.reference`.

Learners call it with validated blocks: only contiguous arrays and plain settings are passed to C++, one block per call
and with the GIL released. A single example may also be passed as the user wrote it (`learn_example`).

`available` is False if the package was built without a compiler; then learners use the NumPy engine. Each engine
restores the other's states: the same arrays have the same names. Some arrays are in the core's states only; if they are
missing, the core computes them.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgetron.engine.first_rows import BeginsTwice, FirstRows
from budgetron.engine.interface import Integers, Reals, State
from budgetron.engine.records import Rows, SparseRow
from budgetron.engine.registry import rule_class
from budgetron.engine.saved_state import Field
from budgetron.engine.settings import Settings
from budgetron.errors import input_error, shown
from budgetron.graphs import Clique, Explicit, TaskGraph, factor_of
from budgetron.graphs.hashed_names import feature_columns
from budgetron.graphs.task_ids import STRING_IDS
from budgetron.kernels import BUILT_IN, Gaussian, Kernel

LEVELS = ("baseline", "v3", "v4")
"""The x86-64 instruction set levels that the core is compiled for; other processors have only the first."""

_max_level = os.environ.get("BUDGETRON_LEVEL", "")
if _max_level and _max_level not in LEVELS:  # checked before `_core.level()` below, where the core reads it
    raise input_error(
        "budgetron", "the environment variable BUDGETRON_LEVEL", "baseline, v3 or v4", shown(_max_level),
        "Unset it to use the best level of this CPU.",
    )  # fmt: skip

if TYPE_CHECKING:
    import budgetron._core as _core  # described by _core.pyi, which `make stubs` writes
else:
    try:
        _core = import_module("budgetron._core")
    except ModuleNotFoundError:  # built without a compiler; a core that exists but fails to load is an error
        _core = None

available: bool = _core is not None
level = _core.level() if available else None
"""The level in use: the best of this CPU, limited by BUDGETRON_LEVEL. None without the core."""
# Functions of the core for other packages; all are None without the core.
scan = _core.scan if available else None  # for `budgetron.io`: reads delimited text
sparse_lines = _core.sparse_lines if available else None  # for `budgetron.io`: reads svmlight and Vowpal Wabbit text
json_lines = _core.json_lines if available else None  # for `budgetron.io`: reads JSON objects
hashed_words = _core.hashed_words if available else None  # this and the next two are for `budgetron.io.encoding`
parse_dates = _core.parse_dates if available else None
joined_rows = _core.joined_rows if available else None
hashed_rows = _core.hashed_rows if available else None  # for `budgetron.learners.input.hashing`: dicts of features


def supports(rule: str, kernel: Kernel | None) -> bool:
    """Whether the core implements the rule and the kernel. A subclass of a built-in kernel needs the NumPy engine."""
    return rule in _core.rules() and (kernel is None or type(kernel) in BUILT_IN)


class Engine(BeginsTwice):
    """An engine that calls the C++ core. The methods are documented in `interface.Engine`.

    There are two methods to learn a single example. `learn_one` takes a converted row, the code of its class, and the
    id and cluster of its task. `learn_example` takes the example as the user passed it, which saves the conversion in
    Python; `codes` is a dict from labels to class codes. `margin_one` and `margin_example` differ in the same way.
    """

    concurrent_predictions = True  # the core has its own read-write lock

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._similarity = _similarity_for(settings)
        self._learner = _core.make(_core_settings(settings, self._similarity))
        self._names = _names_for(settings)

    @classmethod
    def restore(cls, settings: Settings, state: State) -> Self:
        engine = cls(settings)
        reals: dict[str, Reals] = {}
        integers: dict[str, Integers] = {}
        rule = rule_class(settings.rule)
        arrays = {name: np.asarray(values) for name, values in state.items()}
        # The declared dtype decides whether an array is real, because a real number may be saved as the integer 0.
        for name, field in rule.layout(settings, arrays).items():
            if name in arrays:
                arrays[name] = arrays[name].astype(field.dtype, copy=False)
        for name, values in rule.to_core(arrays).items():
            if name in ("rows", "indptr", "indices", "data") or name.startswith("first_"):
                continue
            flat = np.ascontiguousarray(values).ravel()
            if flat.dtype.kind == "f":
                reals[name] = flat.astype(np.float64, copy=False)
            else:
                integers[name] = flat.astype(np.int64, copy=False)
        engine._learner.load(reals, integers, engine._block(_rows_of(state, settings)))
        if engine.first_rows is not None:
            engine.first_rows = FirstRows.of_state(state)
        return engine

    def first_bad_row(self, X: Rows) -> int | None:
        """Return the number of the first row that is not finite or would overflow the kernel; None if there is none."""
        return self._learner.first_bad_row(self._block(X))

    def learn(
        self, X: Rows, codes: NDArray[np.int32], task_ids: Integers, clusters: Integers, weights: Reals | None = None,
        offsets: Reals | None = None,
    ) -> tuple[Reals, NDArray[np.uint8]]:  # fmt: skip
        learn = self._learn if self.first_rows is None else self.learn_first
        return learn(X, codes, task_ids, clusters, weights, offsets)

    def _learn(
        self, X: Rows, codes: NDArray[np.int32], task_ids: Integers, clusters: Integers, weights: Reals | None,
        offsets: Reals | None,
    ) -> tuple[Reals, NDArray[np.uint8]]:  # fmt: skip
        margins, flags = self._learner.learn(self._block(X, offsets), codes, task_ids, clusters, weights)
        return self._per_row(margins), flags

    def learn_one(
        self, x: NDArray[Any] | SparseRow, code: int, task_id: int, cluster: int, weight: float
    ) -> tuple[float | Reals, int] | None:
        if self.first_rows is not None:
            return self._learn_first(x, code, task_id, cluster, weight)
        return self._learner.learn_one(self._names, x, code, task_id, cluster, weight)  # type: ignore[no-any-return]

    def _learn_first(
        self, x: NDArray[Any] | SparseRow, code: int, task_id: int, cluster: int, weight: float
    ) -> tuple[float | Reals, int] | None:
        """Learn one row of a model that keeps its first rows."""
        X = x[None] if isinstance(x, np.ndarray) else x
        if self.first_bad_row(X) is not None:
            return None
        margins, flags = self.learn(
            X, np.array([code], dtype=np.int32), np.array([task_id]), np.array([cluster]), np.array([weight])
        )
        return (float(margins[0]) if margins.ndim == 1 else margins[0]), int(flags[0])

    def margin_one(self, x: NDArray[Any] | SparseRow, task_id: int, cluster: int) -> float | Reals | None:
        return self._learner.margin_one(self._names, x, task_id, cluster)  # type: ignore[no-any-return]

    def learn_example(self, x: Any, y: Any, task: Any, codes: dict[Any, int]) -> Any:
        if self.first_rows is not None:
            return NotImplemented
        return self._learner.learn_example(self._names, x, y, task, codes)

    def margin_example(self, x: Any, task: Any) -> Any:
        return self._learner.margin_example(self._names, x, task)

    def margins(
        self, X: Rows, task_ids: Integers, clusters: Integers, threads: int = 1, offsets: Reals | None = None
    ) -> Reals:
        return self._per_row(self._learner.margins(self._block(X, offsets), task_ids, clusters, threads))

    def query(
        self, name: str, X: Rows | None = None, task_ids: ArrayLike = (), clusters: ArrayLike = (),
        offsets: Reals | None = None,
    ) -> State:  # fmt: skip
        """Run a query that the rule defines, such as "explain", on some rows or on the model alone."""
        answer = self._learner.query(
            name,
            None if X is None else self._block(X, offsets),
            np.asarray(task_ids, dtype=np.int64),
            np.asarray(clusters, dtype=np.int64),
        )
        return dict(answer)

    def _forget(self, task_id: int) -> None:
        self._learner.forget(task_id)

    def _set_counts(self, n_seen: int, n_mistakes: int) -> None:
        self._learner.set_counts(n_seen, n_mistakes)

    def _become(self, new: Engine) -> None:
        # Another thread may predict between these two lines. `_learner` is replaced last, so that the thread never uses
        # the new learner with the old settings.
        self.settings, self._similarity, self.first_rows = new.settings, new._similarity, new.first_rows
        self._learner = new._learner

    def _is_compiled(self) -> bool:
        return True

    def state(self) -> State:
        """Return everything learned, with the names and shapes of the NumPy engine's state."""
        settings, rule = self.settings, rule_class(self.settings.rule)
        saved: State = dict(self._learner.save())
        if settings.sparse:
            saved["data"] = saved.pop("rows")
            if not len(saved["indptr"]):  # without a kernel the core has no sparse store
                saved["indptr"] = np.zeros(1, dtype=np.int64)
        else:
            del saved["indptr"], saved["indices"]
        state = rule.from_core(saved) | ({} if self.first_rows is None else self.first_rows.state())
        fields = rule.layout(settings, state)
        return {name: _as_field(field, state[name]) for name, field in fields.items()}

    def active(self) -> State:
        """Return the stored examples, in slot order: key (the task id), cluster, arrival, coef and rows."""
        state = self.state()
        coef = self._learner.coefficients().reshape(self.settings.n_outputs, -1)
        names = ("key", "cluster", "arrival")  # "key" is the task id; saved models contain this name
        rows = _rows_of(state, self.settings)
        if state.get("reference_moves"):  # stored rows have the reference point subtracted
            rows = (rows.astype(np.float64) + state["reference"]).astype(rows.dtype)
        return {**{name: state[name] for name in names}, "coef": coef, "rows": rows}

    def task_weights(self, task_id: int, cluster: int) -> Reals:
        return self._learner.task_weights(task_id, cluster).reshape(self.settings.n_outputs, -1)

    @property
    def kernel(self) -> Kernel | None:
        """The kernel in use, with γ a number."""
        kernel = self.settings.kernel
        return replace(kernel, gamma=self._learner.gamma) if isinstance(kernel, Gaussian) else kernel

    @property
    def task_ids(self) -> Integers:
        """The task id of each stored example, in slot order."""
        return self._learner.task_ids

    @property
    def n_stored(self) -> int:
        return self._learner.n_stored

    @property
    def n_seen(self) -> int:
        return self._learner.n_seen

    @property
    def n_mistakes(self) -> int:
        return self._learner.n_mistakes

    def __reduce__(self) -> tuple[Any, tuple[Settings, State]]:
        return Engine.restore, (self.settings, self.state())

    def memory_bytes(self) -> int:
        first_rows = 0 if self.first_rows is None else self.first_rows.nbytes
        return self._learner.memory_bytes + self._similarity.bytes() + first_rows

    def _block(self, X: Rows, offsets: Reals | None = None) -> _core.RowBlock:
        """Return rows, and offsets if there are any, as the core takes them."""
        if isinstance(X, np.ndarray):
            block = _core.rows(X)
        else:
            block = _core.csr(X.indptr.astype(np.int64, copy=False), X.indices.astype(np.int32, copy=False), X.data)
        if offsets is not None:  # another model's scores, n_outputs per row
            block.set_offsets(np.ascontiguousarray(offsets).ravel(), self.settings.n_outputs)
        return block

    def _per_row(self, margins: Reals) -> Reals:
        """Return one number per row if there is one output, otherwise one row of numbers."""
        return margins if self.settings.n_outputs == 1 else margins.reshape(-1, self.settings.n_outputs)


def _as_field(field: Field, values: NDArray[Any]) -> Any:
    values = values.astype(field.dtype, copy=False).reshape(field.shape)
    return values if field.shape else values.item()


def _rows_of(state: State, settings: Settings) -> Any:
    """Return the stored rows of a state as an array or a CSR matrix."""
    if not settings.sparse:
        return np.ascontiguousarray(state["rows"], dtype=settings.dtype)
    from scipy.sparse import csr_matrix

    n = len(state["key"])
    data = np.ascontiguousarray(state["data"], dtype=settings.dtype)
    return csr_matrix((data, state["indices"], state["indptr"]), shape=(n, settings.n_features))


def _core_settings(settings: Settings, similarity: _core.Similarity) -> dict[str, object]:
    """Return the settings as the core's `make` reads them."""
    kernel = settings.kernel
    follows_scale = getattr(kernel, "gamma", None) == "scale"
    return {
        "rule": settings.rule,
        "kernel": "none" if kernel is None else type(kernel).__name__.lower(),
        "gamma": 1.0 / settings.n_features if follows_scale else float(getattr(kernel, "gamma", 1.0)),
        "follow_scale": follows_scale,
        "bias": float(getattr(kernel, "bias", 0.0)),
        "degree": int(getattr(kernel, "degree", 1)),
        "normalize": bool(getattr(kernel, "normalize", False)),
        "similarity": similarity,
        "d": settings.n_features,
        "n_outputs": settings.n_outputs,
        "sparse": settings.sparse,
        "single": settings.dtype == "float32",
        "capacity": settings.capacity or 0,
        "pool": settings.pool or 0,
        # Random, so that task ids that collide cannot be crafted. It is not saved, because no result depends on it.
        "hash_seed": secrets.randbits(64),
        "n_tasks": settings.graph.n_tasks or 0,
        "parameters": {
            name: np.asarray(value, dtype=np.float64).ravel() if isinstance(value, list | tuple) else value
            for name, value in msgspec.structs.asdict(settings.parameters).items()
            if value is not None
        },
    }


def _names_for(settings: Settings) -> Any:
    """Return the tables by which the core turns names of features and tasks into numbers.

    The core finds the cluster of a task only in the graphs of `complete` and `disconnected`, by the rule of
    `Clique.locate_one`. For other graphs it gets no table of tasks, and single examples are converted in Python.
    """
    graph = settings.graph
    columns = feature_columns(settings.n_features) if settings.sparse else None
    if isinstance(graph, Clique) and graph.mapped is None:
        return _core.Names(columns, STRING_IDS, graph.coupling == 0)
    return _core.Names(columns, None, False)


def graph_bytes(graph: Explicit) -> int:
    """Return the bytes of the core's copy of a graph and of the working memory of a solve, without cached columns."""
    return _core.graph_bytes(_similarity_of(graph, 0))


# For each graph in use: its factor in the core's form. All models with the same graph share it.
_FACTORED: WeakKeyDictionary[Explicit, _core.Similarity] = WeakKeyDictionary()


def _similarity_for(settings: Settings) -> _core.Similarity:
    """Return the core's form of the graph: the factor of A⁻¹ if the rule uses it, otherwise `_similarity_of`."""
    graph = settings.graph
    if not isinstance(graph, Explicit) or not rule_class(settings.rule).follows_factor:
        return _similarity_of(graph, settings.column_cache)
    if graph not in _FACTORED:
        factor = factor_of(graph)
        _FACTORED[graph] = _core.factored_graph(factor.starts, factor.tasks.astype(np.int32), factor.values)
    return _FACTORED[graph]


def _similarity_of(graph: TaskGraph, column_cache: int) -> _core.Similarity:
    """Return the core's form of a graph: two numbers for a clique, A⁻¹ for a small explicit graph, otherwise A."""
    c_g2 = graph.c_g**2  # c_G², the largest (A⁻¹)_ii
    if isinstance(graph, Clique):
        return _core.clique(graph.diagonal, graph.off_diagonal)
    assert isinstance(graph, Explicit)
    if graph.dense is not None:
        return _core.dense_graph(np.ascontiguousarray(graph.dense, dtype=np.float64), c_g2)
    a = graph.matrix
    return _core.sparse_graph(
        a.indptr.astype(np.int64), a.indices.astype(np.int32), a.data.astype(np.float64),
        np.ascontiguousarray(graph.component, dtype=np.int64), graph.singular, c_g2, column_cache,
    )  # fmt: skip
