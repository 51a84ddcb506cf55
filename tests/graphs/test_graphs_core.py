"""The core's own solver for graphs too large for a dense inverse: compared with NumPy, and within the planned bytes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from budgetron import RandomBudgetPerceptron, graphs, kernels
from budgetron.engine import native

pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")
K = 1300  # above the limit of dense inverses


def path(rng):
    return [(i, i + 1) for i in range(K - 1)]


def star(rng):
    return [(0, i) for i in range(1, K)]


def grid(rng):
    side = 36
    tasks = np.arange(side * side).reshape(side, side)
    first = np.concatenate([tasks[:, :-1].ravel(), tasks[:-1].ravel()])  # left ends, then upper ends
    second = np.concatenate([tasks[:, 1:].ravel(), tasks[1:].ravel()])
    return list(zip(first.tolist(), second.tolist(), strict=True))


def random_edges(rng):
    edges = rng.integers(0, K, (3 * K, 2))
    return [(int(a), int(b)) for a, b in np.unique(np.sort(edges, axis=1), axis=0) if a != b]


def many_components(rng):
    """Many components, some with a single task."""
    return [(a, b) for a, b in random_edges(rng) if a % 40 == b % 40]


def hubs(rng):
    """A few tasks have very many neighbours."""
    ends = np.minimum((K * rng.random((3 * K, 2)) ** 3).astype(int), K - 1)
    return [(int(a), int(b)) for a, b in np.unique(np.sort(ends, axis=1), axis=0) if a != b]


def cliques(rng):
    """The solver eliminates tasks with few neighbours. Here, every task has too many."""
    inside = [(b + i, b + j) for b in range(0, K - 19, 20) for i in range(20) for j in range(i)]
    return inside + [(i, i + 20) for i in range(0, K - 20, 7)]


def column_of(graph, task, tasks):
    """Return (A⁻¹)_{i, task} for each i in `tasks`, as the compiled engine computes it."""
    model = RandomBudgetPerceptron(budget=2, kernel=kernels.Linear(), graph=graph, engine="core")
    model.learn_one(np.ones(1), 1, task=task)
    return model.decision_function(np.ones((len(tasks), 1)), tasks=tasks)


@pytest.mark.parametrize("spread", [1.0, 1e4], ids=["plain", "uneven"])
@pytest.mark.parametrize("make_edges", [path, star, grid, random_edges, many_components, hubs, cliques])
def test_columns_are_those_of_numpy(make_edges, spread):
    rng = np.random.default_rng(3)
    edges = make_edges(rng)
    weights = spread ** rng.random(len(edges))
    graph = graphs.from_edges(edges, weights=weights, tasks=range(K))
    for task in (0, K - 1):
        expected = graph.column(task)[:K:9]
        column = column_of(graph, task, list(range(0, K, 9)))
        assert np.abs(column - expected).max() <= 1e-12  # ‖A⁻¹‖ ≤ 1


@pytest.mark.parametrize("make_edges", [grid, random_edges, many_components])
def test_pseudoinverses_are_those_of_numpy(make_edges):
    rng = np.random.default_rng(4)
    a, b = np.array(make_edges(rng)).T
    k = max(K, int(max(a.max(), b.max())) + 1)
    weights = 10.0 ** rng.integers(-1, 2, len(a))  # uneven, so that rounding errors of the row sums would show
    weight_matrix = sparse.coo_array((weights, (a, b)), shape=(k, k))
    weight_matrix = weight_matrix + weight_matrix.T
    graph = graphs.from_laplacian(sparse.diags_array(weight_matrix.sum(axis=0)) - weight_matrix, identity=False)
    # An isolated task has only zeros in its column, even for itself; all graphs have a task with neighbours.
    most_connected = int(np.bincount(np.concatenate([a, b]), minlength=k).argmax())
    for task in (0, 7, most_connected, k - 1):
        expected = graph.column(task)
        column = column_of(graph, task, list(range(0, k, 9)))
        assert np.abs(column - expected[::9]).max() <= 1e-9 * np.abs(expected).max()
    assert graph.column(most_connected)[most_connected] > 0


def test_the_pseudoinverse_of_a_long_uneven_path():
    """Compare with a closed form: the potentials of an electrical network.

    A current enters at the task and leaves in equal parts at all tasks. The potential drops by current / weight on each
    edge.
    """
    weights = 10.0 ** np.random.default_rng(4).integers(-1, 2, K - 1)
    weight_matrix = sparse.diags_array([weights, weights], offsets=[-1, 1])
    graph = graphs.from_laplacian(sparse.diags_array(weight_matrix.sum(axis=0)) - weight_matrix, identity=False)
    current = np.full(K, -1.0 / K)
    current[7] += 1.0
    expected = np.concatenate([[0.0], -np.cumsum(np.cumsum(current)[:-1] / weights)])
    expected -= expected.mean()
    column = column_of(graph, 7, list(range(0, K, 9)))
    assert np.abs(column - expected[::9]).max() <= 1e-11 * np.abs(expected).max()


@pytest.mark.parametrize("spread", [1.0, 1e4, 1e12], ids=["plain", "uneven", "extreme"])
@pytest.mark.parametrize("make_edges", [random_edges, cliques])
def test_a_column_is_bit_identical_alone_and_in_a_block(make_edges, spread):
    rng = np.random.default_rng(5)
    edges = make_edges(rng)
    graph = graphs.from_edges(edges, weights=spread ** (rng.random(len(edges)) - 0.5), tasks=range(K))
    tasks = list(range(0, 90, 7))
    for column in (11, K - 1):
        together = column_of(graph, column, tasks)
        alone = np.concatenate([column_of(graph, column, [task]) for task in tasks[::3]])
        assert together[::3].tobytes() == alone.tobytes()


def test_columns_are_exact_for_weights_from_a_millionth_to_a_million():
    """A badly conditioned matrix takes many iterations, and rounding errors must not end them early."""
    rng = np.random.default_rng(8)
    edges = np.array(random_edges(rng))
    weights = 10.0 ** rng.uniform(-6, 6, len(edges))
    weight_matrix = sparse.coo_array((weights, (edges[:, 0], edges[:, 1])), shape=(K, K)).tocsr()
    weight_matrix = weight_matrix + weight_matrix.T
    inverse = np.linalg.inv((sparse.diags_array(1 + weight_matrix.sum(axis=0)) - weight_matrix).toarray())
    graph = graphs.from_edges(edges, weights=weights, tasks=range(K))
    for task in (0, 7, K - 1):
        column = column_of(graph, task, list(range(0, K, 9)))
        assert np.abs(column - inverse[::9, task]).max() <= 1e-9 * np.abs(inverse[:, task]).max()


@pytest.mark.parametrize("make_edges", [path, star, grid, random_edges, many_components, hubs, cliques])
def test_the_factor_stays_within_the_planned_bytes(make_edges):
    graph = graphs.from_edges(make_edges(np.random.default_rng(6)), tasks=range(K))
    model = RandomBudgetPerceptron(budget="2 MiB", kernel=kernels.Linear(), graph=graph)
    rng = np.random.default_rng(7)
    model.partial_fit(rng.normal(size=(2000, 3)), rng.integers(0, 2, 2000), tasks=rng.integers(0, K, 2000))
    assert model.memory_bytes_ <= 2 * 2**20


def test_the_factor_of_a_graph_with_much_fill_in_stays_within_its_bytes():
    """One task has thousands of neighbours. Each of these has too many other neighbours to be eliminated."""
    rng = np.random.default_rng(8)
    k, hub = 3000, np.arange(1, 3000)
    ring = [np.stack([hub, 1 + (hub + step) % (k - 1)], axis=1) for step in (1, 7, 31)]
    edges = np.concatenate([np.stack([np.zeros(k - 1, dtype=int), hub], axis=1), *ring])
    graph = graphs.from_edges(edges, tasks=range(k))
    assert graph.dense is None
    model = RandomBudgetPerceptron(budget="1200 KiB", kernel=kernels.Linear(), graph=graph)
    model.partial_fit(rng.normal(size=(2000, 3)), rng.integers(0, 2, 2000), tasks=rng.integers(0, k, 2000))
    assert model.memory_bytes_ <= 1200 * 2**10
