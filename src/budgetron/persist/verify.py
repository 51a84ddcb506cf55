"""Validation of the numbers in a saved state, after `layout` has checked the arrays' names and shapes.

A file with a correct digest may still be hostile. Weights may have any finite value, since a stream could have led to
it. But indices must stay within the stored examples, nothing may be listed twice, and counts, variances and scales must
be ones that learning can produce: the compiled engine uses them without further checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.settings import Settings
from budgetron.graphs import Clique, Explicit
from budgetron.graphs.task_ids import HASHED, NOT_A_TASK
from budgetron.persist.file_errors import require
from budgetron.persist.layout import Counts, blocks, has_sums
from budgetron.persist.parts import check_csr

Arrays = Mapping[str, NDArray[Any]]
Ints = NDArray[np.int64]
_LAST = 2**62  # the largest count of examples; counting on from it does not overflow int64
_INTEGERS = 2**61  # integer tasks are their own task ids within ± this limit (`graphs.task_ids`)


def verify(settings: Settings, counts: Counts, state: Arrays) -> None:
    """Reject a state, of correct shapes, that no engine with these settings can be in."""
    _verify_examples(settings, counts, state)
    if settings.rule == "budgetron":
        _verify_flagship(settings, counts, state)
    elif settings.rule == "shared_projectron":
        _verify_shared(settings, counts, state)
    else:
        _verify_coefficients(settings, state)
    _verify_gram(counts.stored, state)


def _verify_examples(settings: Settings, counts: Counts, state: Arrays) -> None:
    n, seen, mistakes = counts.stored, int(state["n_seen"][0]), int(state["n_mistakes"][0])
    require(0 <= seen <= _LAST, "state.n_seen", "a count", str(seen))
    require(0 <= mistakes <= seen, "state.n_mistakes", "a count of at most n_seen", str(mistakes))
    most = settings.capacity
    require(most is None or n <= most, "state.key", f"at most {most} examples", str(n))
    require(settings.kernel is not None or n == 0, "state.key", "empty without a kernel", str(n))
    require(_are_stamps(state["arrival"], seen), "state.arrival", "different positions before n_seen")
    _verify_tasks(settings, "state.key", state["key"], state["cluster"])
    if settings.sparse:
        check_csr("state", state["indptr"], state["indices"], settings.n_features)
        require(settings.pool is None or counts.nonzeros <= settings.pool, "state.data",
                f"at most {settings.pool} non-zeros", str(counts.nonzeros))  # fmt: skip
        slots = np.repeat(np.arange(n), np.diff(state["indptr"]))
        squares: NDArray[Any] = np.bincount(slots, weights=state["data"].astype(np.float64) ** 2, minlength=n)
    else:
        squares = (state["rows"].astype(np.float64) ** 2).sum(axis=1)
    # The same limits as for rows to learn, see `Engine.first_bad_row`.
    largest = 1e37 if settings.dtype == "float32" and not settings.sparse else 1e150
    if "reference" in state:
        points = [float((state[name].astype(np.float64) ** 2).sum()) for name in ("reference", "reference_candidate")]
        require(max(points) <= largest * 1.001, "state.reference", "of the size of a row", "a larger one")
        streak, moves = int(state["reference_streak"][0]), int(state["reference_moves"][0])
        require(0 <= streak <= seen and 0 <= moves <= seen, "state.reference_streak", "counts of at most n_seen")
        require(moves > 0 or not state["reference"].any(), "state.reference", "0 before the first move")
        largest *= 4  # rows are stored minus the point, and ‖x − c‖² ≤ (‖x‖ + ‖c‖)²
    own = squares if settings.kernel is None else settings.kernel.of_products(squares, squares, squares)
    # The factor 1.001 is for rounding: the engine that accepted the rows may sum in another order.
    fine = (squares <= largest * 1.001).all() and (own <= 1e150 * 1.001).all()
    require(fine, "stored rows", "small enough for the kernel to be computed without overflow", "larger ones")


def _verify_tasks(settings: Settings, name: str, keys: Ints, clusters: Ints) -> None:
    graph = settings.graph
    if isinstance(graph, Explicit):
        k = graph.n_tasks
        require(((keys >= 0) & (keys < k)).all(), name, f"numbers of the graph's {k} tasks")
        require(np.array_equal(clusters, graph.component[keys]), f"clusters of {name}", "those of the graph")
        return
    assert isinstance(graph, Clique)
    is_task = ((keys > -_INTEGERS) & (keys < _INTEGERS)) | ((keys >= HASHED) & (keys < NOT_A_TASK))
    require(is_task.all(), name, "valid task ids")
    expected = clusters_of(graph, keys)
    alone = (keys == 0) & (clusters == 0)  # `tasks=None` is task 0 in cluster 0, even if the graph maps a task named 0
    require(((clusters == expected) | alone).all(), f"clusters of {name}", "those of the graph")


def clusters_of(graph: Clique, keys: Ints) -> Ints:
    """Return the cluster of each task id."""
    if graph.coupling == 0:
        return keys
    return np.zeros_like(keys) if graph.mapped is None else graph.mapped.clusters_of(keys)


def _verify_coefficients(settings: Settings, state: Arrays) -> None:
    scale = float(state["scale"][0])
    if settings.rule != "forgetron":
        require(scale == 1.0, "state.scale", "1", str(scale))
        return
    require(0 < scale <= 1, "state.scale", "above 0 and at most 1", str(scale))
    # The Forgetron's invariant: the shrinking so far, Q, is paid for by the mistakes so far, M.
    c2 = settings.graph.c_g**2 * (1 if settings.n_outputs == 1 else 2)
    most = 15 / 32 * c2 * int(state["n_mistakes"][0])
    require(float(state["q"][0]) <= most * (1 + 1e-6), "state.q", "at most (15/32) c² M", str(state["q"][0]))


def _verify_gram(n: int, state: Arrays) -> None:
    diagonal = np.cumsum(np.arange(1, n + 1)) - 1  # positions of the diagonal in a packed lower triangle
    for name in ("inverse", "factor"):
        if name in state:
            require((state[name][diagonal] > 0).all(), f"state.{name}", "with a positive diagonal")
            require((state["inverse_diagonal"] > 0).all(), "state.inverse_diagonal", "positive")
    if "factor_order" in state:
        every = np.array_equal(np.sort(state["factor_order"]), np.arange(n))
        require(every, "state.factor_order", f"0 … {n - 1}, each once")
        age = int(state["factor_age"][0])
        require(0 <= age <= max(n, 16) * 4, "state.factor_age", "a count of steps since the last refresh", str(age))
    if "gram_rebuilds" in state:
        require((state["gram_rebuilds"] >= 0).all(), "state.gram_rebuilds", "counts")


def _verify_rows(settings: Settings, n_rows: int, state: Arrays, clusters: Ints) -> None:
    limit = settings.max_task_rows
    require(limit is None or n_rows <= limit, "state.table_key", f"at most {limit} rows", str(n_rows))
    keys = state["table_key"]
    require(len(np.unique(keys)) == len(keys), "state.table_key", "tasks, none of them twice")
    _verify_tasks(settings, "state.table_key", keys, clusters)
    seen = int(state["n_seen"][0])
    require(_are_stamps(state["table_stamp"], seen), "state.table_stamp", "different steps before n_seen")


def _verify_shared(settings: Settings, counts: Counts, state: Arrays) -> None:
    _verify_rows(settings, counts.rows + counts.sums, state, state["table_cluster"])
    require(counts.sums == 0 or has_sums(settings), "state.sum", "empty for a graph without closed-form clusters")
    sums = state["sum_cluster"]
    require(len(np.unique(sums)) == len(sums), "state.sum_cluster", "clusters, none of them twice")
    seen = int(state["n_seen"][0])
    require(_are_stamps(state["sum_stamp"], seen), "state.sum_stamp", "different steps before n_seen")
    if isinstance(settings.graph, Clique) and settings.graph.mapped is None and settings.graph.coupling != 0:
        require((sums == 0).all(), "state.sum_cluster", "0, the only cluster")
    if "table_place" in state:
        both = np.concatenate([state["table_place"], state["sum_place"]])
        in_order = all((np.diff(state[name]) > 0).all() for name in ("table_place", "sum_place"))
        every = np.array_equal(np.sort(both), np.arange(len(both)))
        require(every and in_order, "state.table_place", "the places of all rows, each once, in order")


def _verify_flagship(settings: Settings, counts: Counts, state: Arrays) -> None:
    n, seen = counts.stored, int(state["n_seen"][0])
    assert isinstance(settings.graph, Clique)
    _verify_rows(settings, counts.rows, state, clusters_of(settings.graph, state["table_key"]))
    linear, kernel = blocks(settings, counts)
    has_rows = settings.extra["own"] and ((linear and not settings.sparse) or (kernel and settings.extra["own_rank"]))
    require(has_rows or counts.rows == 0, "state.table_key", "empty if tasks have no weights of their own")
    require(kernel or n == 0, "state.key", "empty if no belief has a kernel part")
    weights = state["belief_weight"]
    fine = (weights > 0).all() and abs(weights.sum() - 1) < 1e-6
    require(fine, "state.belief_weight", "positive weights that add up to 1")
    idle = state["belief_idle"]
    require(((idle >= 0) & (idle <= seen)).all(), "state.belief_idle", "counts of at most n_seen")
    unit = float(state["unit"][0])
    require(0 < unit <= 1e150, "state.unit", "above 0", str(unit))
    if "unit_set" in state:
        require(int(state["unit_set"][0]) in (0, 1), "state.unit_set", "0 or 1")
    anchors = state["anchors"]
    fine = len(anchors) <= settings.extra["own_rank"] and len(np.unique(anchors)) == len(anchors)
    require(fine and ((anchors >= 0) & (anchors < n)).all(), "state.anchors", "different slots of stored examples")
    if "lambda" in state:
        diagonal = np.cumsum(np.arange(1, counts.anchors + 1)) - 1
        require((state["lambda"][diagonal] > 0).all(), "state.lambda", "with a positive diagonal")
    variances = [state["own_linear"][..., -1, :], state["own_kernel"][..., -1, :]]
    if settings.sparse:
        variances += [state["table"][..., -1], state["slot_scale"]]
    else:
        variances += [_diagonals(settings, state) if settings.extra["whole"] else state["linear"][..., -1, :]]
        require(0 <= state["moments_count"][0] <= seen, "state.moments_count", "a count of at most n_seen")
    require(all((variance >= 0).all() for variance in variances), "variances", "not negative")


def _diagonals(settings: Settings, state: Arrays) -> NDArray[Any]:
    corners = np.cumsum(np.arange(1, settings.n_features + 2)) - 1
    diagonals: NDArray[Any] = state["linear_covariance"][:, corners]
    return diagonals


def _are_stamps(steps: Ints, seen: int) -> bool:
    return bool(((steps >= 0) & (steps < seen)).all()) and len(np.unique(steps)) == len(steps)
