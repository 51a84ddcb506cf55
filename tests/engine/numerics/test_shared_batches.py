"""SharedProjectron in the core, if its settings allow at least 4 B task rows, where B is the number of slots.

With enough task rows, the core keeps the Gram matrix of the weights instead of their squared norms. In a clique, it
also logs evictions before it applies them to the rows. The results must agree with the NumPy definition, which has
neither the matrix nor the log. A model that is saved and loaded must continue with the same bits, whatever the log
contains.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from budgetron import graphs, kernels
from budgetron.engine import memory, native, reference
from budgetron.engine.reference.rules.shared_projectron import SharedProjectron
from budgetron.engine.reference.shared_table import with_log_applied
from budgetron.engine.settings import make_settings

pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")

TASKS, D, B, N = 50, 14, 10, 360
GRAPHS = {
    "open": graphs.complete(),
    "known tasks": graphs.complete(n_tasks=TASKS),
    "pooled": graphs.complete(coupling=np.inf),
    "disconnected": graphs.disconnected(),
    "clusters": graphs.clusters({task: task % 7 for task in range(TASKS)}),
    "path": graphs.from_edges([(task, task + 1) for task in range(TASKS - 1)], tasks=range(TASKS)),
}
# The stream reaches the limit `evicting`, so that the least recently updated row is evicted. The limit `few` is below
# 4 B, where the core keeps neither the log of evictions nor the Gram matrix.
LIMITS = {"unlimited": None, "evicting": 4 * B, "few": 2 * B}


class Case:
    """A random stream and settings."""

    def __init__(self, graph, limit, n_outputs=1, is_sparse=False, seed=0, eta=0.3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(N, D)) / np.sqrt(D)
        X[rng.random(X.shape) < 0.3] = 0.0
        X[N // 2 : N // 2 + 20] = X[:20]
        self.X = sparse.csr_matrix(X) if is_sparse else X
        self.codes = rng.integers(max(2, n_outputs), size=N).astype(np.int32)
        self.task_ids, self.clusters = GRAPHS[graph].locate(rng.integers(TASKS, size=N))
        pool = int(B * D * 0.5) if is_sparse else None  # so small that the pool is sometimes full before the slots are
        self.settings = make_settings(
            rule="shared_projectron", kernel=kernels.Linear(), graph=GRAPHS[graph], n_features=D, sparse=is_sparse,
            capacity=B, pool=pool, n_outputs=n_outputs, eta=eta, max_task_rows=LIMITS[limit],
        )  # fmt: skip

    def learn(self, engine, start, stop):
        part = slice(start, stop)
        return engine.learn(self.X[part], self.codes[part], self.task_ids[part], self.clusters[part])


def cases():
    for index, graph in enumerate(GRAPHS):
        for n_outputs, limit in zip((1, 3, 1) if index % 2 else (3, 1, 3), LIMITS, strict=True):
            yield pytest.param(graph, limit, n_outputs, False, id=f"{graph}-{limit}-{n_outputs}")
    yield pytest.param("open", "evicting", 1, True, id="sparse")
    yield pytest.param("clusters", "evicting", 3, True, id="sparse-3")


@pytest.mark.parametrize(("graph", "limit", "n_outputs", "is_sparse"), list(cases()))
def test_batches_agree_with_the_definition(graph, limit, n_outputs, is_sparse):
    case = Case(graph, limit, n_outputs, is_sparse)
    core, definition = native.Engine(case.settings), reference.Engine(case.settings)
    forgotten = int(case.task_ids[0])
    for start, stop in ((0, 250), (250, N)):
        margins, flags = case.learn(core, start, stop)
        expected, expected_flags = case.learn(definition, start, stop)
        assert margins == pytest.approx(expected, abs=1e-8)
        assert np.array_equal(flags, expected_flags)
        for engine in (core, definition):
            engine.forget(forgotten)
    core_state, reference_state = with_log_applied(core.state()), definition.state()
    assert ("table_gram" in core_state) == (limit != "few")
    assert core_state["arrival"].tolist() == reference_state["arrival"].tolist()
    assert set(core_state["table_key"]) == set(reference_state["table_key"])
    rows = dict(zip(reference_state["table_key"].tolist(), reference_state["table"], strict=True))
    for task_id, row in zip(core_state["table_key"].tolist(), core_state["table"], strict=True):
        assert row == pytest.approx(rows[task_id], abs=1e-8)
    assert core.active()["coef"] == pytest.approx(definition.active()["coef"], abs=1e-8)
    assert core.margins(case.X, case.task_ids, case.clusters) == pytest.approx(
        definition.margins(case.X, case.task_ids, case.clusters), abs=1e-8
    )


def same_bits(first, other):
    return first.keys() == other.keys() and all(
        np.asarray(first[name]).tobytes() == np.asarray(other[name]).tobytes() for name in first
    )


@pytest.mark.parametrize(("graph", "limit", "n_outputs", "is_sparse"), list(cases()))
def test_saving_at_any_step_changes_no_bit(graph, limit, n_outputs, is_sparse):
    case = Case(graph, limit, n_outputs, is_sparse, seed=1)
    whole = native.Engine(case.settings)
    margins, _ = case.learn(whole, 0, N)
    cut, at, logs = native.Engine(case.settings), 0, set()
    rng = np.random.default_rng(2)
    while at < N:
        stop = min(N, at + int(rng.integers(1, 25)))
        margins_again, _ = case.learn(cut, at, stop)
        assert margins_again.tobytes() == margins[at:stop].tobytes(), f"after example {at}"
        state, at = cut.state(), stop
        if "table_log_slot" in state:
            logs.add((len(state["table_log_slot"]), int(state["table_current"].sum())))
        if rng.random() < 0.6:
            cut = native.Engine.restore(case.settings, state)
        elif rng.random() < 0.5:  # reading changes nothing either
            cut.margins(case.X[:20], case.task_ids[:20], case.clusters[:20])
            cut.active()
    assert same_bits(cut.state(), whole.state())
    # Some cuts were between evictions of one log. With sparse rows there are no such cuts: the pool is full before the
    # slots are, and then the removal of a slot empties the log.
    assert len(logs) > 3 or limit == "few" or graph == "path" or is_sparse


@pytest.mark.parametrize("graph", ["open", "clusters", "path"])
def test_a_state_without_the_matrix_continues(graph):
    """Earlier versions, the NumPy engine, and replicas after an exchange of sums have states without the matrix."""
    case = Case(graph, "evicting", seed=5)
    first = native.Engine(case.settings)
    case.learn(first, 0, 300)
    expected, _ = case.learn(first, 300, N)
    before = native.Engine(case.settings)
    case.learn(before, 0, 300)
    saved = before.state()
    assert len(saved.get("table_log_slot", ())) > 0 or graph == "path"
    up_to_date = with_log_applied(saved)
    core_only = {"table_gram", "table_place", "sum_place"}
    without_matrix = {name: saved[name] for name in saved if name != "table_gram"}
    others = [{name: up_to_date[name] for name in up_to_date if name not in dropped}
              for dropped in (core_only, core_only | {"inverse", "inverse_diagonal"})]  # fmt: skip
    # Versions without the log saved a count of evictions.
    with_count = up_to_date if graph == "path" else up_to_date | {"table_evictions": 7}
    for state in (without_matrix, *others, with_count):
        older = native.Engine.restore(case.settings, state)
        assert case.learn(older, 300, N)[0] == pytest.approx(expected, abs=1e-8)
        assert "table_gram" in older.state()
    numpy = reference.Engine.restore(case.settings, {name: saved[name] for name in saved if name not in core_only})
    assert case.learn(numpy, 300, N)[0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("graph", ["open", "clusters"])
def test_a_log_is_applied_if_the_loaded_model_keeps_none(graph):
    """A resized model may have too few task rows for its capacity to keep a log."""
    case = Case(graph, "evicting", seed=5)
    engine = native.Engine(case.settings)
    case.learn(engine, 0, 300)
    state = engine.state()
    assert len(state["table_log_slot"]) > 0
    assert 0 < state["table_current"].sum() < len(state["table_current"])
    larger = native.Engine.restore(case.settings.with_parameters(max_task_rows=8 * B), state)
    eager = native.Engine.restore(dataclasses.replace(case.settings, capacity=2 * B), state)
    assert "table_log_slot" in larger.state()
    assert "table_log_slot" not in eager.state()
    expected = engine.margins(case.X, case.task_ids, case.clusters)
    for other in (larger, eager):
        assert other.margins(case.X, case.task_ids, case.clusters) == pytest.approx(expected, abs=1e-10)


def test_a_damaged_log_is_rejected():
    case = Case("open", "evicting", seed=5)
    engine = native.Engine(case.settings)
    case.learn(engine, 0, 300)
    state = {name: np.atleast_1d(values) for name, values in engine.state().items()}
    SharedProjectron.verify(case.settings, state)
    slots = state["table_log_slot"]
    assert len(slots) > 1
    damaged = {
        "a slot outside": {"table_log_slot": np.where(np.arange(len(slots)) == 0, B, slots)},
        "a slot twice": {"table_log_slot": np.where(np.arange(len(slots)) == 0, slots[1], slots)},
        "too many slots": {"table_log_slot": np.arange(48), "table_log": np.zeros((48, B))},
        "too many current rows": {"table_current": np.ones(200, dtype=np.int64)},
    }
    for name, arrays in damaged.items():
        with pytest.raises(ValueError, match=r"state\.table_"):
            SharedProjectron.verify(case.settings, state | arrays)
        if name != "too many current rows":  # `restore` passes one flag per row, so the core does not get the others
            with pytest.raises(ValueError, match="saved model"):
                native.Engine.restore(case.settings, state | arrays)


def test_many_rows_stay_within_the_planned_bytes():
    for graph in ("open", "path"):
        for n_outputs in (1, 3):
            case = Case(graph, "evicting", n_outputs)
            engine = native.Engine(case.settings)
            case.learn(engine, 0, N)
            bound = memory.bytes_of(case.settings)
            assert engine.memory_bytes() <= bound <= 1.6 * engine.memory_bytes() + 24 * 1024


# A row is `current` if it already includes the logged evictions. The log is applied when enough rows are current, or
# when the log has 48 slots. The first happens with few rows, the second with many.
@pytest.mark.parametrize(("capacity", "max_rows", "n", "largest_log"), [(20, 80, 6000, 3), (120, 4800, 11_000, 47)])
def test_the_weights_of_a_long_stream_do_not_drift(capacity, max_rows, n, largest_log):
    """The Gram matrix is never recomputed. After thousands of evictions it must still agree with the rows."""
    rng = np.random.default_rng(4)
    d = 6
    settings = make_settings(
        rule="shared_projectron", kernel=kernels.Gaussian(0.2), graph=graphs.complete(), n_features=d,
        capacity=capacity, eta=0.01, max_task_rows=max_rows,
    )  # fmt: skip
    engine = native.Engine(settings)
    X, codes = rng.normal(size=(n, d)), rng.integers(2, size=n).astype(np.int32)
    task_ids = rng.integers(5 * max_rows // 2, size=n)
    largest, starts = 0, [0, *range(n - 300, n, 2)]  # the last rows in small blocks, to see the log grow
    for start, stop in zip(starts, [*starts[1:], n], strict=True):
        part = slice(start, stop)
        engine.learn(X[part], codes[part], task_ids[part], np.zeros_like(task_ids[part]))
        largest = max(largest, len(engine.state()["table_log_slot"]))
    assert largest >= largest_log
    state = with_log_applied(engine.state())
    table, total = state["table"][:, 0], state["sum"][0, 0]
    d_o, o = 0.5, 0.5  # A⁻¹ of the open complete graph: o off the diagonal, and d_o more on it
    weight = 2 * d_o * o + len(table) * o**2
    expected = d_o**2 * table.T @ table + weight * np.outer(total, total)
    table_gram = state["table_gram"]
    lower = np.tril_indices(capacity)
    assert table_gram == pytest.approx(expected[lower], rel=1e-9, abs=1e-10 * np.abs(expected).max())
