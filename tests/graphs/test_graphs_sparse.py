"""Graphs too large for a dense inverse: residuals of columns, bounds on c_G, memory, the column cache, and threads.

c_G is the root of the largest diagonal entry of A⁻¹.
"""

from __future__ import annotations

import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from budgetron import graphs
from budgetron.graphs import explicit, extent


def random_edges(k, n_edges, seed):
    """Return the edges of a path through all tasks, and random edges."""
    random = np.random.default_rng(seed).integers(0, k, (n_edges, 2))
    path = np.column_stack([np.arange(k - 1), np.arange(1, k)])
    edges = np.unique(np.sort(np.vstack([random, path]), axis=1), axis=0)
    return edges[edges[:, 0] != edges[:, 1]]


def interaction(edges, weights, k):
    """Return A = I + L, computed without `budgetron.graphs`."""
    w = sp.coo_array((weights, (edges[:, 0], edges[:, 1])), shape=(k, k)).tocsr()
    w = w + w.T
    return sp.csr_array(sp.diags_array(1 + w.sum(axis=1)) - w)


@pytest.fixture(scope="module")
def huge():
    k = 100_000
    edges = random_edges(k, 200_000, seed=1)
    weights = np.random.default_rng(2).uniform(0.1, 3.0, len(edges))
    a = interaction(edges, weights, k)
    tracemalloc.start()
    graph = graphs.from_laplacian(a - sp.eye_array(k))
    for task in range(4):
        graph.similarity(task, k - 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return graph, a, peak


def test_columns_of_100_000_tasks_solve_the_system(huge):
    graph, a, _ = huge
    assert graph.dense is None
    for i in (0, 99_999):
        unit = np.zeros(graph.n_tasks)
        unit[i] = 1.0
        column = graph.column(i)
        assert np.linalg.norm(a @ column - unit) < 1e-12
        assert np.linalg.norm(a @ graph.square_column(i) - column) < 1e-12
        task_ids = np.array([i, 5, 99_998])
        assert np.array_equal(graph.row(i, 0, task_ids, np.zeros(3, dtype=np.int64)), column[task_ids])
    assert graph.similarity(3, 9) == pytest.approx(graph.similarity(9, 3), rel=1e-9)


def test_100_000_tasks_need_no_dense_inverse(huge):
    graph, _, peak = huge
    assert peak < 300e6 < 8 * graph.n_tasks**2 / 100


def test_bounds_of_c_g_of_100_000_tasks_are_equal(huge):
    graph, _, _ = huge
    low, high = graph.c_g_range
    assert high <= low * (1 + 1e-9) and graph.c_g == high
    weakly_connected = np.argsort(graph.matrix.diagonal())[:5]  # their diagonal entries of A⁻¹ are likely to be large
    for i in weakly_connected:
        assert graph.column(i)[i] <= high**2 * (1 + 1e-12)


def shapes():
    torus = nx.convert_node_labels_to_integers(nx.grid_2d_graph(33, 33, periodic=True))
    parts = nx.disjoint_union_all([nx.star_graph(1100), nx.path_graph(40), nx.cycle_graph(5)])
    yield "random", random_edges(1100, 3000, 3), 1100
    yield "torus", np.array(torus.edges), len(torus)
    yield "parts", np.array(parts.edges), len(parts)


@pytest.mark.parametrize(("edges", "k"), [pytest.param(e, k, id=name) for name, e, k in shapes()])
@pytest.mark.parametrize("identity", [True, False])
def test_medium_graphs_equal_the_dense_inverse(edges, k, identity):
    weights = np.random.default_rng(5).uniform(0.5, 2.0, len(edges))
    a = interaction(edges, weights, k)
    laplacian = a - sp.eye_array(k)
    task_graph = graphs.from_laplacian(laplacian, identity=identity)
    assert task_graph.dense is None and task_graph.singular is not identity
    inverse = (
        np.linalg.inv(a.toarray())
        if identity
        else np.linalg.pinv(laplacian.toarray(), hermitian=True, rcond=1e-12)
    )
    scale = abs(inverse).max()
    for i in (0, 7, k - 1):
        assert np.allclose(task_graph.column(i), inverse[i], atol=1e-9 * scale)
        assert np.allclose(task_graph.square_column(i), inverse @ inverse[i], atol=1e-8 * scale**2)
    vector = np.random.default_rng(6).standard_normal(k)
    assert np.allclose(task_graph.apply(vector), inverse @ vector, atol=1e-8 * scale * np.sqrt(k))
    assert task_graph.c_g_range == pytest.approx([np.sqrt(inverse.diagonal().max())] * 2, rel=1e-9)


@pytest.mark.parametrize("identity", [True, False])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", ["random", "tree", "regular", "hub"])
def test_the_bounds_of_huge_graphs_hold_on_small_ones(shape, seed, identity, monkeypatch):
    """With these limits reduced, the bounds of a graph of 200 tasks are computed like the bounds of a huge graph."""
    monkeypatch.setattr(extent, "_DENSE_BLOCK", 0)
    monkeypatch.setattr(extent, "_BALL", 24)
    monkeypatch.setattr(extent, "_MAX_BALLS", 20)
    graph = {
        "random": lambda: nx.connected_watts_strogatz_graph(200, 4, 0.3, seed=seed),
        "tree": lambda: nx.random_labeled_tree(200, seed=seed),
        "regular": lambda: nx.random_regular_graph(3, 200, seed=seed),
        "hub": lambda: nx.barabasi_albert_graph(200, 2, seed=seed),
    }[shape]()
    rng = np.random.default_rng(seed)
    if seed % 2:
        for edge in graph.edges:
            graph.edges[edge]["weight"] = rng.uniform(0.1, 10)
    laplacian = nx.laplacian_matrix(graph).astype(float)
    matrix = sp.csr_array(laplacian + sp.eye_array(200)) if identity else sp.csr_array(laplacian)
    largest = np.linalg.pinv(matrix.toarray(), hermitian=True, rcond=1e-12).diagonal().max()
    low, high = extent.largest_diagonal(matrix, singular=not identity)
    assert low * (1 - 1e-9) <= largest <= high * (1 + 1e-9)
    if identity:
        assert high <= 1.25 * largest
        assert (
            extent._bounds_from_moments(matrix) * (1 + 1e-9) >= np.linalg.inv(matrix.toarray()).diagonal()
        ).all()
    elif shape == "tree":
        monkeypatch.setattr(extent, "_MAX_SOLVES", 1)  # one column bounds every task of a tree exactly
        assert extent.largest_diagonal(matrix, singular=True)[1] == pytest.approx(largest, rel=1e-9)
    assert extent.largest_diagonal(matrix, not identity, floor=2 * high) == (2 * high, 2 * high)


def test_a_torus_has_all_tasks_tied_and_its_bounds_still_hold():
    torus = nx.convert_node_labels_to_integers(nx.grid_2d_graph(50, 50, periodic=True))
    angles = 2 * np.pi * np.arange(50) / 50
    eigenvalues = 1 + (2 - 2 * np.cos(angles))[:, None] + (2 - 2 * np.cos(angles))[None, :]
    # A torus is vertex-transitive, so all diagonal entries of A⁻¹ are equal. Each is the mean eigenvalue of A⁻¹.
    c_g = np.sqrt((1 / eigenvalues).mean())
    low, high = graphs.from_networkx(torus).c_g_range
    assert low <= c_g * (1 + 1e-12) and c_g <= high * (1 + 1e-12) and high <= 1.1 * low


def test_entries_across_components_are_zero_and_cost_no_solve():
    task_graph = graphs.from_networkx(nx.disjoint_union(nx.path_graph(900), nx.path_graph(900)))
    assert task_graph.similarity(3, 1000) == 0.0 and task_graph.cache.nbytes == 0
    assert task_graph.similarity(3, 4) > 0 and task_graph.cache.nbytes == 900 * 8
    assert task_graph.column(3)[900:].max() == 0.0


def test_the_cache_stays_within_its_bytes_and_evicted_columns_are_solved_again():
    task_graph = graphs.from_networkx(nx.path_graph(2000)).with_cache(5 * 2000 * 8)
    solutions = [task_graph.column(i).copy() for i in range(12)]
    assert task_graph.cache.nbytes == 5 * 2000 * 8
    assert all(np.array_equal(task_graph.column(i), solutions[i]) for i in range(12))
    none = task_graph.with_cache(0)
    assert np.array_equal(none.column(3), solutions[3]) and none.cache.nbytes == 0


def test_the_cache_keeps_what_was_used_last(monkeypatch):
    task_graph = graphs.from_networkx(nx.path_graph(1100)).with_cache(2 * 1100 * 8)
    for i in (0, 1, 0, 2):  # 1 is the least recently used when 2 comes
        task_graph.column(i)
    monkeypatch.setattr(explicit, "solve", None)
    task_graph.column(0)
    task_graph.column(2)
    with pytest.raises(TypeError):
        task_graph.column(1)


def test_threads_get_the_same_columns():
    edges = random_edges(3000, 6000, 8)
    task_graph = graphs.from_edges(edges, tasks=range(3000)).with_cache(10 * 3000 * 8)
    one_thread = graphs.from_edges(edges, tasks=range(3000))
    indices = np.random.default_rng(0).integers(0, 40, 200).tolist()
    with ThreadPoolExecutor(8) as pool:
        columns = list(pool.map(task_graph.column, indices))
    assert all(np.array_equal(column, one_thread.column(i)) for i, column in zip(indices, columns, strict=True))
    assert task_graph.cache.nbytes == 10 * 3000 * 8


def test_a_large_graph_is_pickled_without_its_columns():
    task_graph = graphs.from_networkx(nx.path_graph(5000)).with_cache(10**6)
    column = task_graph.column(9)
    unpickled = pickle.loads(pickle.dumps(task_graph))
    assert unpickled == task_graph and unpickled.cache.nbytes == 0 and unpickled.cache.limit == 10**6
    assert np.array_equal(unpickled.column(9), column)


def test_a_large_semidefinite_matrix_that_is_not_a_laplacian():
    rng = np.random.default_rng(0)
    factor = sp.csr_array(np.where(rng.random((1200, 300)) < 0.01, rng.random((1200, 300)), 0.0))
    matrix = sp.csr_array(factor @ factor.T)
    task_graph = graphs.from_laplacian(matrix)
    inverse = np.linalg.inv(np.eye(1200) + matrix.toarray())
    assert np.allclose(task_graph.column(17), inverse[17], atol=1e-12)
    low, high = task_graph.c_g_range
    assert low**2 <= inverse.diagonal().max() * (1 + 1e-12) <= high**2 * (1 + 1e-11)


def test_strong_weights_are_solved_too():
    k = 1500
    edges = random_edges(k, 3000, 9)
    weights = 10 ** np.random.default_rng(1).uniform(-3, 5, len(edges))
    task_graph = graphs.from_edges(edges, weights, tasks=range(k))
    inverse = np.linalg.inv(interaction(edges, weights, k).toarray())
    assert np.allclose(task_graph.column(11), inverse[11], atol=1e-9)
