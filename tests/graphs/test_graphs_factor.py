"""The factor R of a graph, with RRᵀ ≈ A⁻¹ up to a constant factor.

If no entries of R are dropped, RRᵀ is exactly A⁻¹ up to this factor. RRᵀ is always a covariance, and R stays small.
"""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sparse

from budgetron import Budgetron, graphs
from budgetron.graphs import factor_of
from budgetron.graphs.factor import ENTRIES, _series


def product(factor, k):
    R = sparse.csr_array((factor.values, factor.tasks, factor.starts), shape=(k, k)).toarray()
    return R @ R.T


def inverse(edges, weights, k):
    """(I + L)⁻¹ by NumPy, from the edges alone."""
    A = np.eye(k)
    for (i, j), w in zip(edges, weights, strict=True):
        A[[i, j], [i, j]] += w
        A[i, j] -= w
        A[j, i] -= w
    return np.linalg.inv(A)


def grid_edges(side):
    across = [(r * side + c, r * side + c + 1) for r in range(side) for c in range(side - 1)]
    return across + [(r * side + c, (r + 1) * side + c) for r in range(side - 1) for c in range(side)]


def random_edges(k, rng, n):
    return sorted({tuple(sorted(pair)) for pair in rng.integers(k, size=(n, 2)).tolist() if pair[0] != pair[1]})


RNG = np.random.default_rng(8)
SMALL = {
    "random, weighted": (40, random_edges(40, RNG, 90)),
    "grid": (36, grid_edges(6)),
    "parts": (30, [*((i, i + 1) for i in range(9)), *((i, i + 1) for i in range(12, 20))]),
    "isolated nodes": (12, [(0, 1), (3, 4)]),
    "one": (1, []),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_factor_with_all_entries_gives_the_inverse(name):
    k, edges = SMALL[name]
    weights = np.random.default_rng(1).uniform(0.1, 5.0, size=len(edges))
    graph = graphs.from_edges(edges, weights=weights, tasks=range(k))
    expected = inverse(edges, weights, k)
    scale = k / np.trace(expected)  # the diagonal is scaled to mean 1
    np.testing.assert_allclose(product(factor_of(graph, entries=None, hops=60), k), scale * expected, atol=1e-9)


def test_the_factor_of_a_matrix_with_negative_similarities():
    factor = np.random.default_rng(2).normal(size=(7, 7))
    similarity = factor @ factor.T
    assert similarity.min() < 0
    graph = graphs.from_similarity(similarity, tasks=range(7))
    expected = similarity * 7 / np.trace(similarity)
    np.testing.assert_allclose(product(factor_of(graph, entries=None), 7), expected, atol=1e-9)


@pytest.mark.parametrize(("weight", "hops"), [(0.3, 60), (1.0, 150)])
def test_the_series_for_large_graphs_gives_the_inverse(weight, hops):
    """The series is for graphs that are too large for a dense inverse.

    On a grid with edges of weight w, its terms shrink like (4w/(1 + 4w))ⁿ, so enough terms give all digits.
    """
    edges = grid_edges(7)
    A = sparse.csr_array(np.linalg.inv(inverse(edges, [weight] * len(edges), 49)).round(12))
    R = _series(A, None, hops).toarray()
    np.testing.assert_allclose(R @ R.T, np.linalg.inv(A.toarray()), atol=1e-9)


@pytest.mark.parametrize("name", SMALL)
def test_a_factor_with_dropped_entries_gives_a_covariance(name):
    k, edges = SMALL[name]
    graph = graphs.from_edges(edges, tasks=range(k))
    factor = factor_of(graph)
    covariance = product(factor, k)
    without_dropping = product(factor_of(graph, entries=None, hops=60), k)
    assert np.diff(factor.starts).max() <= ENTRIES and (np.diff(factor.starts) >= 1).all()
    assert np.linalg.eigvalsh(covariance).min() > -1e-9
    np.testing.assert_allclose(np.diag(covariance), np.diag(without_dropping), rtol=1e-9)  # rows keep their norm
    assert np.trace(covariance) == pytest.approx(k)
    for i in range(k):
        tasks, _ = factor.row(i)
        assert (graph.component[tasks] == graph.component[i]).all() and (np.diff(tasks) > 0).all()


def ring(k):
    return [(i, (i + 1) % k) for i in range(k)]


LARGE = {
    "grid": lambda: grid_edges(316),
    "ring": lambda: ring(100_000),
    "random": lambda: random_edges(100_000, np.random.default_rng(3), 300_000),
    "communities": lambda: [
        *(pair for first in range(0, 100_000, 20) for pair in itertools.combinations(range(first, first + 20), 2)),
        *((first, first + 20) for first in range(0, 99_980, 20)),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["grid", *(pytest.param(name, marks=pytest.mark.long) for name in LARGE if name != "grid")]
)
def test_the_factor_of_a_hundred_thousand_tasks_takes_little_memory(name):
    """Measure memory: a dense k × k matrix would take 80 GB, and all entries of the series several GB."""
    edges = LARGE[name]()
    graph = graphs.from_edges(edges)
    k = graph.n_tasks
    assert k > 90_000
    tracemalloc.start()
    try:
        factor = factor_of(graph)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * 2**30
    assert len(factor.starts) == k + 1 and np.diff(factor.starts).max() <= ENTRIES
    assert float((factor.values**2).sum()) == pytest.approx(k)
    rng = np.random.default_rng(4)
    X, tasks = rng.normal(size=(300, 4)), [graph.tasks[i] for i in rng.integers(k, size=300)]
    model = Budgetron(budget="1 MiB", graph=graph).partial_fit(X, X[:, 0] > 0, tasks=tasks)
    assert model.memory_bytes_ <= 2**20
