"""Settings and state of an engine as JSON records and arrays, and back.

Called by `budgetron.learners.saved`. Each engine reads what the other wrote. Values that an engine can recompute from
the others are not written. `check_size` must run before an engine is created from settings of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.memory import bytes_of
from budgetron.engine.settings import Settings
from budgetron.graphs import Clique, Explicit, TaskGraph
from budgetron.persist import schema
from budgetron.persist.file_errors import invalid, reported_as_file_error, require
from budgetron.persist.layout import INVERSE, SCALARS, Counts, counted, layout
from budgetron.persist.parts import check_arrays, kernel_of, kernel_record
from budgetron.persist.verify import clusters_of, verify

Array = NDArray[Any]
_WORD = 2**64 - 1


def settings_record(who: str, settings: Settings) -> schema.Settings:
    """Return the settings as a JSON record, without the graph, which has a record of its own."""
    extra = settings.extra
    flagship = None
    if settings.rule == "budgetron":
        beliefs: Any = [tuple(map(float, belief)) for belief in extra["beliefs"]]
        flagship = schema.Flagship(beliefs, bool(extra["shared"]), bool(extra["own"]), int(extra["own_rank"]),
                                   int(extra["slots"]), int(extra["patience"]), bool(extra["whole"]),
                                   float(extra["sure"]))  # fmt: skip
    dtype: Any = settings.dtype
    return schema.Settings(
        kernel=kernel_record(who, settings.kernel), n_features=settings.n_features, n_outputs=settings.n_outputs,
        sparse=settings.sparse, dtype=dtype, capacity=settings.capacity, pool=settings.pool,
        eta=float(settings.eta), seed=int(settings.seed), max_task_rows=settings.max_task_rows,
        column_cache=settings.column_cache, flagship=flagship,
    )  # fmt: skip


def settings_of(rule: str, record: schema.Settings, graph: TaskGraph) -> Settings:
    """Restore settings from their record, and check that they agree with each other."""
    kernel, flagship = kernel_of(record.kernel), record.flagship
    require(record.n_outputs != 2, "n_outputs", "1 for two classes, else the number of classes", "2")
    require(record.seed <= _WORD, "seed", "below 2⁶⁴", "more")
    has_pool = record.sparse and record.capacity is not None
    require(record.pool is None or has_pool, "pool", "null without sparse rows and a capacity", "a number")
    require(not isinstance(getattr(kernel, "gamma", 0.0), str), "gamma of the settings", "a number", '"scale"')
    require((rule == "budgetron") == (flagship is not None), "flagship", "present for Budgetron only")
    require(rule != "perceptron" or record.capacity is None, "capacity", "null for Perceptron", "a number")
    extra: dict[str, Any] = {}
    if flagship is None:
        require(kernel is not None, "kernel", "a kernel", "null")
    else:
        _check_flagship(record, flagship, graph)
        extra = {"beliefs": list(flagship.beliefs), "shared": flagship.shared, "own": flagship.own,
                 "own_rank": flagship.own_rank, "slots": flagship.slots, "patience": flagship.patience,
                 "whole": flagship.whole, "sure": flagship.sure}  # fmt: skip
    return Settings(
        rule=rule, kernel=kernel, graph=graph, n_features=record.n_features, n_outputs=record.n_outputs,
        sparse=record.sparse, dtype=record.dtype, capacity=record.capacity, pool=record.pool, eta=record.eta,
        seed=record.seed, max_task_rows=record.max_task_rows, column_cache=record.column_cache, extra=extra,
    )  # fmt: skip


def _check_flagship(record: schema.Settings, flagship: schema.Flagship, graph: TaskGraph) -> None:
    require(isinstance(graph, Clique) and graph.mapped is None, "graph", "complete or disconnected for Budgetron")
    assert isinstance(graph, Clique)
    parts = (graph.coupling != 0, graph.coupling != float("inf"))
    require(parts == (flagship.shared, flagship.own), "shared and own", "as the graph implies")
    for linear, _, kernel, *_ in flagship.beliefs:
        require(linear > 0 or kernel > 0, "beliefs", "with a linear or a kernel part each")
    has_kernel = any(belief[2] > 0 for belief in flagship.beliefs)
    require(has_kernel == (record.kernel is not None), "kernel", "present if and only if a belief uses it")
    hashed = flagship.slots > 0
    require(hashed == record.sparse, "slots", "above 0 if and only if rows are sparse", str(flagship.slots))
    has_whole = flagship.shared and not record.sparse and any(belief[0] > 0 for belief in flagship.beliefs)
    require(has_whole or not flagship.whole, "whole", "false where there is no shared linear part on dense rows")
    most = 0 if record.kernel is None or not flagship.own else record.capacity
    require(most is None or flagship.own_rank <= most, "own_rank", f"at most {most}", str(flagship.own_rank))


def state_arrays(settings: Settings, state: Mapping[str, Any]) -> dict[str, Array]:
    """Convert the state of an engine to the arrays of the file format."""
    plain = {name: np.atleast_1d(np.asarray(values)) for name, values in state.items() if name != "rng"}
    if "rng" in state:
        plain["rng"] = np.array([int(state["rng"]) & _WORD], dtype=np.uint64)
    if settings.rule in ("perceptron", "random", "projectron"):
        plain.setdefault("scale", np.ones(1))
    if settings.rule == "shared_projectron":
        plain.pop("coef", None)  # recomputed as the sum of the table's rows
    if settings.rule == "budgetron":
        plain.pop("table_cluster", None)  # the graph says it
    if "inverse" in plain and INVERSE[1] not in plain:
        del plain["inverse"]  # the NumPy engine's; recomputed from the rows
    wanted = layout(settings, counted(settings, plain), plain)
    assert wanted.keys() == plain.keys(), f"the format does not know {sorted(wanted.keys() ^ plain.keys())}"
    return {name: plain[name].astype(dtype, copy=False).reshape(shape) for name, (dtype, shape) in wanted.items()}


def checked_state(settings: Settings, arrays: Mapping[str, Array]) -> Counts:
    """Reject arrays that are not a state of an engine with these settings; return their counts."""
    with reported_as_file_error("the state", "consistent with the settings"):
        counts = counted(settings, arrays)
        check_arrays("state", arrays, layout(settings, counts, arrays))
        verify(settings, counts, arrays)
    return counts


def state_of(settings: Settings, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Convert the arrays of a file to the state that an engine restores."""
    state: dict[str, Any] = {name: array[0].item() if name in SCALARS else array for name, array in arrays.items()}
    if settings.rule == "budgetron":
        assert isinstance(settings.graph, Clique)
        state["table_cluster"] = clusters_of(settings.graph, arrays["table_key"])
    return state


def check_size(settings: Settings, counts: Counts, limit: int, compiled: bool) -> None:
    """Reject settings whose engine would allocate more than `limit` bytes. It runs before the engine is created."""
    # Without a capacity the compiled engine doubles its arrays as it grows, starting from 32 slots.
    slots = settings.capacity or max(32, 1 << (counts.stored - 1).bit_length() if counts.stored else 0)
    pool = settings.pool or max(16, 2 * counts.nonzeros)
    rows = counts.rows + counts.sums
    needed = bytes_of(replace(settings, capacity=slots, pool=pool, max_task_rows=rows), compiled)
    if isinstance(settings.graph, Explicit):
        held = settings.graph.dense if settings.graph.dense is not None else settings.graph.matrix.data
        needed += 4 * held.nbytes  # for copies that are made while the graph is validated
    if needed > limit:
        raise invalid("the settings", f"of a model that needs at most {limit} bytes", f"one that needs {needed}",
                  "If you trust the file and have the memory, raise max_bytes.")


def restored(kind: Any, settings: Settings, state: dict[str, Any]) -> Any:
    """Create an engine of class `kind` that continues from the state."""
    with reported_as_file_error("the state", "one that an engine can continue from"):
        return kind.restore(settings, state)
