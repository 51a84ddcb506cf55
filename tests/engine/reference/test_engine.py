"""Properties of the paper's four rules and of the Perceptron, their baseline.

The tests are about stores, classes, budgets, states, forgetting, and unusual instances.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from budgetron import graphs, kernels
from budgetron.engine.reference import Engine
from budgetron.engine.reference.examples.rows import SparseRows

RULES = ["perceptron", "random_budget_perceptron", "forgetron", "budget_projectron", "shared_projectron"]
PATH = graphs.from_edges([(0, 1), (1, 2), (2, 3)])


def settings_of(rule, **more):
    capacity = None if rule == "perceptron" else 9
    eta = {"eta": 0.2} if rule.endswith("projectron") else {}
    return {"capacity": capacity, "kernel": kernels.Gaussian(0.5)} | eta | more


@pytest.mark.parametrize("rule", RULES)
def test_two_outputs_equal_the_binary_rule(run, stream, rule):
    X, codes, tasks = stream(250, 5, n_tasks=4)
    binary = run(rule, 5, **settings_of(rule, graph=PATH))
    two_outputs = run(rule, 5, **settings_of(rule, graph=PATH, n_outputs=2))
    margins, flags = binary.learn(X, codes, tasks)
    two_margins, two_flags = two_outputs.learn(X, codes, tasks)
    assert np.array_equal(flags, two_flags)
    assert two_margins == pytest.approx(np.column_stack([-margins, margins]), abs=1e-10)
    assert two_outputs.arrivals == binary.arrivals
    assert two_outputs.coef == pytest.approx(np.concatenate([-binary.coef, binary.coef]), abs=1e-10)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("rule", RULES)
def test_sparse_rows_are_learned_as_dense_rows(run, stream, rule, n_outputs):
    X, codes, tasks = stream(200, 6, n_tasks=3, n_classes=max(n_outputs, 2))
    X[::17] = 0.0  # rows without a non-zero
    dense = run(rule, 6, **settings_of(rule, n_outputs=n_outputs))
    sparse = run(rule, 6, **settings_of(rule, n_outputs=n_outputs, sparse=True))
    margins, flags = dense.learn(X, codes, tasks)
    sparse_margins, sparse_flags = sparse.learn(X, codes, tasks)
    assert np.array_equal(flags, sparse_flags)
    assert sparse_margins == pytest.approx(margins, abs=1e-11)
    assert np.array_equal(sparse.engine.active()["rows"].toarray(), dense.engine.active()["rows"])
    assert sparse.margins(X, tasks) == pytest.approx(dense.margins(X, tasks), abs=1e-11)


def test_removing_a_sparse_row_moves_the_last_row_into_its_slot():
    # Rows with two, no, one and no non-zeros. Each is removed once; a list shows the expected result.
    for order in ([0, 1, 2, 3], [1, 3, 0, 2]):
        rows = np.array([(1, 2, 0), (0, 0, 0), (0, 0, 3), (0, 0, 0.0)])[order]
        for r in range(4):
            stored = SparseRows(3, "float64")
            for x in SparseRows.instances(scipy.sparse.csr_matrix(rows), "float64"):
                stored.append(x)
            stored.remove(r)
            expected = list(rows)
            expected[r] = expected[3]
            assert np.array_equal(stored.all().toarray(), np.array(expected[:3]))


@pytest.mark.parametrize("rule", RULES)
def test_float32_rows_are_rounded_and_nothing_else_is(run, stream, rule):
    X, codes, tasks = stream(150, 5, n_tasks=3)
    single = run(rule, 5, **settings_of(rule, dtype="float32"))
    double = run(rule, 5, **settings_of(rule))
    margins, _ = single.learn(X, codes, tasks)
    rounded, _ = double.learn(X.astype(np.float32), codes, tasks)
    assert np.array_equal(margins, rounded)
    assert single.engine.active()["rows"].dtype == np.float32
    assert margins.dtype == single.coef.dtype == np.float64
    n_rows = double.engine.n_stored + 2  # of five numbers each: the stored rows, the reference point and its candidate
    assert single.engine.memory_bytes() == double.engine.memory_bytes() - 4 * 5 * n_rows


@pytest.mark.parametrize("kernel", [kernels.Gaussian(0.5), kernels.Polynomial(2, 1.0, normalize=True)])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("graph", [graphs.complete(), PATH], ids=["complete", "path"])
@pytest.mark.parametrize("rule", RULES)
def test_a_restored_engine_continues_as_if_it_had_not_stopped(run, stream, rule, graph, sparse, kernel):
    X, codes, tasks = stream(200, 6, n_tasks=4)
    few_rows = {"max_task_rows": 4} if rule == "shared_projectron" else {}
    settings = settings_of(rule, graph=graph, sparse=sparse, kernel=kernel, **few_rows)
    whole, parts = run(rule, 6, **settings), run(rule, 6, **settings)
    margins, flags = whole.learn(X, codes, tasks)
    parts.learn(X[:110], codes[:110], tasks[:110])
    state = parts.engine.state()
    frozen = {name: np.copy(value) for name, value in state.items()}
    parts.engine = Engine.restore(parts.settings, state)
    rest, rest_flags = parts.learn(X[110:], codes[110:], tasks[110:])
    assert np.array_equal(rest, margins[110:]) and np.array_equal(rest_flags, flags[110:])
    assert all(np.array_equal(state[name], frozen[name]) for name in frozen)  # restoring has not changed the state
    states = whole.engine.state(), parts.engine.state()
    assert states[0].keys() == states[1].keys()
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("rule", ["budget_projectron", "shared_projectron"])
def test_the_inverse_is_that_of_the_gram_matrix(run, stream, rule):
    X, codes, tasks = stream(100, 5, n_tasks=3)
    model = run(rule, 5, **settings_of(rule))
    model.learn(X, codes, tasks)
    state = model.engine.state()
    H = kernels.Gaussian(0.5)(state["rows"], state["rows"])
    if rule == "budget_projectron":
        H *= np.where(state["key"][:, None] == state["key"], 1.0, 0.5)
    assert model.engine.rule.gram.inverse() == pytest.approx(np.linalg.inv(H), rel=1e-8)


@pytest.mark.parametrize("rule", RULES[1:])
def test_budget_and_pool_are_never_exceeded(run, stream, rule):
    X, codes, tasks = stream(300, 6, n_tasks=3)
    model = run(rule, 6, **settings_of(rule, sparse=True, pool=25))
    n_below_capacity = 0
    for t in range(300):
        _, flags = model.learn(X[t:t + 1], codes[t:t + 1], tasks[t:t + 1])
        active = model.engine.active()
        assert len(active["key"]) <= 9 and active["rows"].nnz <= 25
        assert not flags[0] & 4 or t in active["arrival"]
        n_below_capacity += t > 100 and len(active["key"]) < 9
    assert n_below_capacity  # at times the pool was full before the slots were
    if rule.endswith("projectron"):  # and the Gram matrix matches the stored rows
        rows, key = active["rows"].toarray(), active["key"]
        related = np.where((key[:, None] == key) | (rule == "shared_projectron"), 1.0, 0.5)
        gram = model.engine.rule.gram.H
        assert gram == pytest.approx(kernels.Gaussian(0.5)(rows, rows) * related)


@pytest.mark.parametrize("rule", RULES)
def test_a_zero_vector_is_a_mistake_that_changes_nothing(run, rule):
    model = run(rule, 2, **settings_of(rule, kernel=kernels.Linear()))
    model.learn([(1, 0)], [1])
    before = model.engine.state()
    margins, flags = model.learn([(0, 0)], [1])
    after = model.engine.state()
    assert margins.tolist() == [0] and flags.tolist() == [1]
    assert (after.pop("n_seen"), after.pop("n_mistakes")) == (2, 2)
    assert all(np.array_equal(before[name], after[name]) for name in after)


@pytest.mark.parametrize("rule", RULES)
def test_the_same_row_with_changing_labels(run, rule):
    # f is the number of + minus the number of − among the mistakes before.
    model = run(rule, 2, **settings_of(rule))
    margins, flags = model.learn([(0.3, 0.4)] * 5, [1, 0, 0, 1, 1])
    projects = rule.endswith("projectron")
    assert margins == pytest.approx([0, 1, 0, -1, 0], abs=1e-12)
    assert flags.tolist() == ([7, 3, 3, 3, 3] if projects else [7] * 5)
    assert model.margins([(0.3, 0.4)]) == pytest.approx([1])
    assert model.engine.n_stored == (1 if projects else 5)


@pytest.mark.parametrize("rule", RULES[:-1])
def test_forget_drops_a_task_lowest_slot_first(run, rule):
    # Orthonormal rows, all stored with +1. Tasks by slot: 1 0 1 0 1. Slot 0 is removed, and the last example (of task
    # 1) moves there and is removed too. Then example 3 moves there: 3 1 2. The last slot, 2, is removed: 3 1.
    model = run(rule, 5, **settings_of(rule, kernel=kernels.Linear()))
    model.learn(np.eye(5), [1] * 5, [1, 0, 1, 0, 1])
    model.engine.forget(1)
    assert model.arrivals == [3, 1]
    assert model.coef.tolist() == [[1, 1]]
    assert model.margins(np.eye(5), [0] * 5).tolist() == [0, 1, 0, 1, 0]
    model.engine.forget(99)
    assert model.arrivals == [3, 1]
    model.learn(-np.eye(5)[1:2], [1], [0])  # learning continues: f = −1, so −e1 is stored, or β of e1 becomes 0
    assert model.margins(np.eye(5)[1:2], [0]) == pytest.approx([0])


@pytest.mark.parametrize("rule", RULES)
def test_predictions_and_correct_examples_do_not_change_the_state(run, stream, rule):
    X, codes, tasks = stream(120, 5, n_tasks=3)
    model = run(rule, 5, **settings_of(rule))
    n_correct = 0
    for t in range(120):
        before = model.engine.state()
        predicted = model.margins(X[t:t + 1], tasks[t:t + 1])
        margins, flags = model.learn(X[t:t + 1], codes[t:t + 1], tasks[t:t + 1])
        assert predicted == margins
        assert bool(flags[0] & 1) == ((2 * codes[t] - 1) * margins[0] <= 0)
        if not flags[0]:
            after = model.engine.state()
            assert after.pop("n_seen") == before["n_seen"] + 1
            assert all(np.array_equal(before[name], after[name]) for name in after)
            n_correct += 1
    assert n_correct > 20
