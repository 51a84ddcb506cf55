"""Short rows: the own weights of tasks that have no row.

Only one linear filter has short rows, namely one that expects tasks to differ.
"""

from __future__ import annotations

import numpy as np
import pytest
from small_budgetrons import learn_rows, small_settings

from budgetron import Budgetron, graphs
from budgetron.engine import native, reference
from budgetron.engine.reference.rules.budgetron.parts.short_rows import FREE, MAX_COUNT, ShortRows, slots_of
from budgetron.engine.reference.rules.budgetron.verification import verify
from budgetron.errors import BudgetronError

ENGINES = [
    pytest.param(native.Engine, marks=pytest.mark.skipif(not native.available, reason="built without a compiler")),
    reference.Engine,
]
D = 4
PART = "filter1"  # the filter with short rows; its prior variance of own weights is 3 · 10
PRIOR = 30.0
FLOOR = 3.0  # its variances never fall below a tenth of the prior


def only_filters(graph="complete", **more):
    """Settings with filters only. With two classes, the numbers of filter k in a task's row begin at 2 (D + 1) k."""
    return small_settings(graph, d=D, frequencies=0, latent=0, bins=0, **more)


def short_row_of(state, task_id, n_slots):
    """The own weights of a task and their variances in its short row, or None if it has no short row."""
    slot = int(slots_of(np.int64(task_id), n_slots))
    if np.asarray(state[f"{PART}_short_owner"])[slot] != task_id:
        return None
    return np.split(np.asarray(state[f"{PART}_short"]).reshape(n_slots, -1)[slot], 2)


def row_of(state, task_id):
    """The own weights that the filter with short rows has in a task's row, and their variances."""
    at = np.asarray(state["row_id"]).tolist().index(task_id)
    row = np.asarray(state["row_values"]).reshape(len(state["row_id"]), -1)[at]
    first = 2 * (D + 1)
    return row[first : first + D + 1], row[first + D + 1 : first + 2 * (D + 1)]


def one_task(task, n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, (X[:, 0] > 0).astype(np.int32), [task] * n


@pytest.mark.parametrize("kind", ENGINES)
def test_an_evicted_row_is_kept_in_a_short_row_and_comes_back(kind):
    n_slots = 1000
    engine = kind(only_filters(max_task_rows=2, short_rows=n_slots))
    learn_rows(engine, *one_task(7, 5, seed=0))
    weights, variances = row_of(engine.state(), 7)
    assert np.abs(weights).max() > 0.1 and variances.min() < PRIOR
    assert short_row_of(engine.state(), 7, n_slots) is None  # as long as a task has a row, it needs no short row
    for task in (8, 9) * 20:  # task 8 gets the second row; task 9 lowers the count of row 7 to 0, and takes its place
        learn_rows(engine, *one_task(task, 1, seed=task))
    state = engine.state()
    assert 7 not in state["row_id"]
    kept = short_row_of(state, 7, n_slots)
    np.testing.assert_array_equal(kept[0], weights.astype(np.float32))
    np.testing.assert_array_equal(kept[1], variances.astype(np.float32))
    learn_rows(engine, *one_task(7, 40, seed=1))
    assert 7 in engine.state()["row_id"]
    # Variances only fall, here to the floor. The task has its row again for the last ten examples. If this row had
    # begun at the prior, most variances would still be above the floor.
    np.testing.assert_allclose(row_of(engine.state(), 7)[1], FLOOR)


@pytest.mark.parametrize("kind", ENGINES)
def test_a_task_without_a_row_learns_in_its_short_row(kind):
    """Two tasks have all rows, so a third task learns in its short row.

    There it learns the same weights as in a model with three rows, where it has a row of its own.
    """
    n_slots = 1000
    small, large = (kind(only_filters(max_task_rows=rows, short_rows=n_slots)) for rows in (2, 3))
    margins = []
    for engine in (small, large):
        for task in (8, 9):
            learn_rows(engine, *one_task(task, 15, seed=task))
        margins.append(learn_rows(engine, *one_task(7, 4, seed=0))[0])
    assert 7 not in small.state()["row_id"] and 7 in large.state()["row_id"]
    weights, variances = short_row_of(small.state(), 7, n_slots)
    # The other filters have no short rows, so their weights for the task differ, and so do the margins of the models.
    # The steps of a filter depend only on its own margins.
    np.testing.assert_allclose(weights, row_of(large.state(), 7)[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(variances, row_of(large.state(), 7)[1], rtol=1e-4)
    assert not np.array_equal(*margins)


@pytest.mark.parametrize("kind", ENGINES)
def test_forgetting_a_task_frees_its_short_row(kind):
    n_slots = 1000
    engine = kind(only_filters(max_task_rows=2, short_rows=n_slots))
    for task in (8, 9):
        learn_rows(engine, *one_task(task, 15, seed=task))
    learn_rows(engine, *one_task(7, 1, seed=0))  # the rows of the other tasks were updated more often
    assert 7 not in engine.state()["row_id"] and short_row_of(engine.state(), 7, n_slots) is not None
    engine.forget(7)
    state = engine.state()
    assert (np.asarray(state[f"{PART}_short_owner"]) == FREE).all()
    assert not np.any(state[f"{PART}_short"]) and not np.any(state[f"{PART}_short_count"])


def test_a_slot_belongs_to_the_task_that_uses_it_most():
    rows = ShortRows("filter0", 1, 2)
    assert rows.read(5) is None
    for _ in range(20):
        rows.write(5, np.array([1.0, 2.0]))
    assert rows.counts.tolist() == [MAX_COUNT]
    for _ in range(MAX_COUNT):
        rows.write(6, np.array([3.0, 4.0]))
        assert rows.read(6) is None and rows.read(5).tolist() == [1.0, 2.0]
    rows.write(6, np.array([3.0, 4.0]))
    assert rows.read(5) is None and rows.read(6).tolist() == [3.0, 4.0]


@pytest.mark.skipif(not native.available, reason="built without a compiler")
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("graph", ["complete", "clusters", "ring"])
def test_the_engines_agree_where_most_tasks_have_no_row(graph, n_outputs):
    n_tasks = 24
    if graph == "ring":
        graph = graphs.from_edges([(k, (k + 1) % n_tasks) for k in range(n_tasks)])
    elif graph == "clusters":
        graph = graphs.clusters({task: task % 3 for task in range(n_tasks)})
    settings = only_filters(graph, n_outputs=n_outputs, max_task_rows=10, short_rows=8)
    rng = np.random.default_rng(1)
    X, tasks = rng.normal(size=(400, D)), rng.integers(n_tasks, size=400).tolist()
    codes = rng.integers(max(2, n_outputs), size=400).astype(np.int32)
    engines = native.Engine(settings), reference.Engine(settings)
    core, definition = (learn_rows(engine, X, codes, tasks)[0] for engine in engines)
    # Weights in short rows are float32. Their rounding errors add up to less than 1e-5 in a margin.
    np.testing.assert_allclose(core, definition, rtol=1e-5, atol=1e-5)
    states = [engine.state() for engine in engines]
    for name in ("row_id", f"{PART}_short_owner", f"{PART}_short_count"):
        assert np.array_equal(*(state[name] for state in states)), name
    np.testing.assert_allclose(*(np.ravel(state[f"{PART}_short"]) for state in states), rtol=1e-5, atol=1e-5)
    assert (np.asarray(states[0][f"{PART}_short_owner"]) != FREE).sum() > 4


def different_tasks(n_tasks, d, n, seed):
    """Rows, labels and tasks. The tasks have nothing in common."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(n, d)), rng.integers(n_tasks, size=n)
    return X, (X * rng.normal(size=(n_tasks, d))[tasks]).sum(axis=1) > 0, tasks


def errors_at_the_end(model, X, y, tasks):
    margins = model.predict_then_learn(X, y, tasks=tasks)
    half = len(y) // 2
    return np.mean((margins[half:] > 0) != y[half:])


@pytest.mark.parametrize(("n_tasks", "d"), [(5, 8), (30, 6)])
def test_a_few_tasks_have_own_weights_in_32_kib(n_tasks, d):
    """Without own weights, about half of the predictions would be wrong, because the tasks have nothing in common."""
    assert errors_at_the_end(Budgetron(budget="32 KiB"), *different_tasks(n_tasks, d, 6000, seed=n_tasks)) < 0.15


def test_more_tasks_than_rows_learn_their_own_weights():
    """In 160 KiB, about 140 of the 300 tasks have a row. Without short rows, 39 % of the predictions would be wrong."""
    model, stream = Budgetron(budget="160 KiB"), different_tasks(300, 6, 24_000, seed=2)
    assert errors_at_the_end(model, *stream) < 0.3
    assert len(model._engine.state()["row_id"]) < 200
    assert model.memory_bytes_ <= 160 * 2**10


def test_resizing_moves_rows_to_short_rows():
    """Rows that no longer fit become short rows, so most tasks keep what they have learned."""
    X, y, tasks = different_tasks(150, 6, 36_000, seed=2)
    model, half = Budgetron(budget="128 KiB"), 18_000
    model.partial_fit(X[:half], y[:half], tasks=tasks[:half])
    before = np.mean(model.predict(X[half:], tasks=tasks[half:]) != y[half:])
    model.resize("36 KiB")
    state = model._engine.state()
    owners = [value for name, value in state.items() if name.endswith("_short_owner")]
    with_rows = set(np.ravel(state["row_id"]))
    assert len(with_rows) < 140 and len({*np.ravel(owners)} - with_rows - {FREE}) >= 10
    after = np.mean(model.predict(X[half:], tasks=tasks[half:]) != y[half:])
    assert before < 0.1 and after < 0.25
    assert model.memory_bytes_ <= 36 * 2**10


def test_resizing_uses_the_bytes_of_dropped_parts_for_rows():
    """Few beliefs are left, so all 300 rows fit into the smaller budget, although its plan has fewer than 200 rows."""
    X, y, tasks = different_tasks(300, 6, 24_000, seed=2)
    model = Budgetron(budget="512 KiB").partial_fit(X, y, tasks=tasks)
    assert len(model.beliefs_) <= 2
    before = model.decision_function(X[:500], tasks=tasks[:500])
    model.resize("400 KiB")
    assert model._engine.settings.parameters.max_task_rows < 200
    np.testing.assert_array_equal(model.decision_function(X[:500], tasks=tasks[:500]), before)
    assert model.memory_bytes_ <= 400 * 2**10


def test_damaged_short_rows_are_rejected():
    settings = only_filters(max_task_rows=2, short_rows=8)
    engine = reference.Engine(settings)
    rng = np.random.default_rng(0)
    learn_rows(engine, rng.normal(size=(60, D)), rng.integers(2, size=60), rng.integers(9, size=60).tolist())
    state = {name: np.atleast_1d(value) for name, value in engine.state().items()}
    owners = state[f"{PART}_short_owner"]
    owned = int(np.flatnonzero(owners != FREE)[0])
    verify(settings, state)
    stranger = next(task for task in range(100, 200) if slots_of(np.int64(task), 8) != owned)
    for name, value in (("_short_count", MAX_COUNT + 1), ("_short_count", -1), ("_short_owner", stranger)):
        damaged = state | {PART + name: state[PART + name].copy()}
        damaged[PART + name][owned] = value
        with pytest.raises(BudgetronError, match=PART + name):
            verify(settings, damaged)
    values = state[f"{PART}_short"].copy()
    values[owned, -1] = -1.0
    with pytest.raises(BudgetronError, match="variances"):
        verify(settings, state | {f"{PART}_short": values})
