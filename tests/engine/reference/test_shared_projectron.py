"""SharedProjectron compared with the full k × B table of its definition; eviction of task rows; forgetting tasks."""

from __future__ import annotations

import numpy as np
import pytest

from budgetron import graphs

PATH = np.linalg.inv(np.eye(4) + np.array([[1, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 1.0]]))
BLOCKS = np.array([[1, 0.5, 0, 0], [0.5, 1, 0, 0], [0, 0, 1, 0.5], [0, 0, 0.5, 1]])
GRAPHS = {  # the graph, A⁻¹ over its tasks, and whether all tasks count in the norm (otherwise only those with a row)
    "complete, seven of which four appear": (graphs.complete(n_tasks=7), (np.eye(7) + 1) / 8, True),
    "complete, open": (graphs.complete(), (np.eye(4) + 1) / 2, False),
    "weakly coupled": (graphs.complete(coupling=0.25), 0.8 * np.eye(4) + 0.2, False),
    "pooled": (graphs.complete(coupling=np.inf), np.ones((4, 4)), False),
    "disconnected": (graphs.disconnected(), np.eye(4), False),
    "clusters": (graphs.clusters({0: "a", 1: "a", 2: "b", 3: "b"}), BLOCKS, False),
    "path": (graphs.from_similarity(PATH), PATH, True),
}


def least_squares(basis, target):
    if not len(basis):
        return np.zeros(0), target
    alpha = np.linalg.lstsq(basis.T, target, rcond=None)[0]
    return alpha, target - alpha @ basis


def run_definition(X, codes, tasks, S, all_count, B, eta, n_outputs):
    """Run the rule with the full table (β_l)_j. K' is linear, so the features are x itself.

    Return the margins, the stored examples and the table.
    """
    k = len(S)
    stored: list[int] = []
    beta = np.zeros((k, n_outputs, 0))
    updated = np.full(k, all_count)
    margins = []
    for t, (x, code, i) in enumerate(zip(X, codes, tasks, strict=True)):
        f = beta[i] @ X[stored] @ x
        margins.append(f)
        y = np.zeros(n_outputs)
        if n_outputs == 1:
            y[0] = 2 * code - 1
            if y[0] * f[0] > 0:
                continue
        else:
            rivals = f.copy()
            rivals[code] = -np.inf
            if f[code] > rivals.max():
                continue
            y[code], y[int(np.argmax(rivals))] = 1, -1
        if x @ x <= eta**2:
            continue
        updated[i] = True
        alpha, residual = least_squares(X[stored], x)
        if np.linalg.norm(residual) <= eta:
            beta = beta + np.einsum("l,c,j->lcj", S[:, i], y, alpha)
            continue
        beta = np.concatenate([beta, np.einsum("l,c->lc", S[:, i], y)[:, :, None]], axis=2)
        stored = [*stored, t]
        if len(stored) > B:
            losses, shares = [], []
            for j in range(B):
                others = [p for p in range(B + 1) if p != j]
                share, residual = least_squares(X[[stored[p] for p in others]], X[stored[j]])
                losses.append(np.linalg.norm(beta[updated, :, j]) * np.linalg.norm(residual))
                shares.append((others, share))
            r = int(np.argmin(losses))
            others, share = shares[r]
            beta[:, :, others] += np.einsum("lc,j->lcj", beta[:, :, r], share)
            stored[r] = stored.pop()
            beta[:, :, r] = beta[:, :, -1]
            beta = beta[:, :, :-1]
    return np.array(margins), stored, beta


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_shared_projectron_equals_the_full_table(run, stream, name, n_outputs):
    graph, S, all_count = GRAPHS[name]
    X, codes, tasks = stream(160, 14, n_tasks=4, n_classes=max(n_outputs, 2), seed=5)
    tasks = np.where(np.arange(160) < 50, tasks % 3, tasks)  # one task appears late
    X[[0, 30]] = 0.0
    model = run("shared_projectron", 14, graph=graph, capacity=8, eta=0.3, n_outputs=n_outputs)
    margins, flags = model.learn(X, codes, tasks)
    expected, stored, beta = run_definition(X, codes, tasks, S, all_count, 8, 0.3, n_outputs)
    assert margins.reshape(160, n_outputs) == pytest.approx(expected, abs=1e-9)
    assert model.arrivals == stored
    for task in range(4):
        assert model.weights_of(task) == pytest.approx(beta[task], abs=1e-9)
    assert np.count_nonzero(flags & 4) > 20  # more than the capacity, so there were evictions
    assert flags[0] == 1  # the zero vector was not stored


def test_at_the_limit_the_least_recently_updated_row_is_evicted(run):
    # Open complete graph, d = 1, o = ½. Tasks 0 and 1 store e0 and e1: with the sum that makes three rows.
    # Task 2 stores e2: row 0 is evicted. Task 0 falls back to o·s = ½ everywhere, task 1 keeps 1 on e1.
    model = run("shared_projectron", 4, capacity=4, eta=0.1, max_task_rows=3)
    model.learn(np.eye(4)[:3], [1, 1, 1], [0, 1, 2])
    assert model.weights_of(0).tolist() == [[0.5, 0.5, 0.5]]
    assert model.weights_of(1).tolist() == [[0.5, 1, 0.5]]
    assert model.weights_of(2).tolist() == [[0.5, 0.5, 1]]
    assert model.engine.state()["table_key"].tolist() == [1, 2]


def test_of_rows_updated_in_one_step_the_task_row_is_evicted_before_the_sum(run):
    # Cluster a: task 0; cluster b: tasks 1, 2, 3. Rows 0, sum a, 1, sum b fill the cap of four.
    # Coupling 3: d = 1, o = ¾.
    graph = graphs.clusters({0: "a", 1: "b", 2: "b", 3: "b"}, coupling=3)
    model = run("shared_projectron", 4, graph=graph, capacity=4, eta=0.1, max_task_rows=4)
    model.learn(np.eye(4)[:2], [1, 1], [0, 1])
    assert model.weights_of(0).tolist() == [[1, 0]]
    model.learn(np.eye(4)[2:3], [1], [2])  # row 0 and sum a were updated in the same step; row 0 is evicted first
    assert model.weights_of(0).tolist() == [[0.75, 0, 0]]
    model.learn(np.eye(4)[3:4], [1], [3])  # then sum a is evicted
    assert model.weights_of(0).tolist() == [[0, 0, 0, 0]]
    assert model.weights_of(1).tolist() == [[0, 1, 0.75, 0.75]]


def test_forgetting_a_task_projects_its_examples_on_the_others(run, stream):
    X, codes, tasks = stream(120, 10, n_tasks=3, seed=2)
    model = run("shared_projectron", 10, capacity=7, eta=0.2)
    model.learn(X, codes, tasks)
    rows, state = model.engine.active()["rows"], model.engine.state()
    C = dict(zip(state["table_key"].tolist(), state["table"][:, 0], strict=True))
    a = int(state["key"][0])
    b, c = {0, 1, 2} - {a}
    forgotten = state["key"] == a
    assert 0 < forgotten.sum() < 7
    model.engine.forget(a)
    # Without C_a: β_b = C_b + ½C_c, β_c = C_c + ½C_b, β_a = ½(C_b + C_c). The vector Σ_j β_j x_j of each task is
    # projected on the remaining rows.
    expected = {b: C[b] + C[c] / 2, c: C[c] + C[b] / 2, a: (C[b] + C[c]) / 2}
    remaining = model.engine.active()["rows"]
    assert sorted(map(tuple, remaining)) == sorted(map(tuple, rows[~forgotten]))
    for task, beta in expected.items():
        projection = least_squares(rows[~forgotten], beta @ rows)[0] @ rows[~forgotten]
        assert model.weights_of(task)[0] @ remaining == pytest.approx(projection, abs=1e-9)
