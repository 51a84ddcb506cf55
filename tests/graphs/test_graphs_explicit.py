"""Explicit graphs with a dense inverse, compared with linear algebra in NumPy and with networkx."""

from __future__ import annotations

import datetime

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetron import graphs

few = settings(max_examples=40, deadline=None)


@st.composite
def weighted_graphs(draw):
    k = draw(st.integers(1, 14))
    pairs = [(i, j) for i in range(k) for j in range(i)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    weights = draw(st.lists(st.floats(0.01, 100), min_size=len(chosen), max_size=len(chosen)))
    graph = nx.Graph()
    graph.add_nodes_from(range(k))
    graph.add_weighted_edges_from((i, j, w) for (i, j), w in zip(chosen, weights, strict=True))
    return graph


def laplacian_of(graph):
    return nx.laplacian_matrix(graph).toarray().astype(float)


@few
@given(weighted_graphs())
def test_every_constructor_gives_the_inverse(graph):
    laplacian = laplacian_of(graph)
    expected = np.linalg.inv(np.eye(len(graph)) + laplacian)
    edges = list(graph.edges)
    weights = [graph.edges[edge]["weight"] for edge in edges]
    for task_graph in (
        graphs.from_edges(edges, weights, tasks=range(len(graph))),
        graphs.from_networkx(graph),
        graphs.from_laplacian(laplacian),
        graphs.from_laplacian(sp.csc_matrix(laplacian)),
        graphs.from_similarity(expected),
    ):
        assert np.allclose(graphs.similarity_matrix(task_graph), expected, rtol=1e-9, atol=1e-13)
        assert task_graph.tasks == tuple(range(len(graph)))
        assert task_graph.c_g == pytest.approx(np.sqrt(expected.diagonal().max()), rel=1e-12)


@few
@given(weighted_graphs())
def test_components_are_those_of_networkx_and_have_similarity_0(graph):
    task_graph = graphs.from_networkx(graph)
    assert {frozenset(c) for c in task_graph.components()} == {frozenset(c) for c in nx.connected_components(graph)}
    together = task_graph.component[:, None] == task_graph.component[None, :]
    similarity = graphs.similarity_matrix(task_graph)
    assert (similarity[~together] == 0).all()
    assert (similarity[together] > 0).all()


@few
@given(weighted_graphs())
def test_a_task_is_nearest_to_itself_and_c_g_is_at_most_one(graph):
    task_graph = graphs.from_networkx(graph)
    similarity = graphs.similarity_matrix(task_graph)
    to_others = similarity - np.diag(np.full(len(graph), np.inf))
    assert (similarity.diagonal() > to_others.max(axis=1)).all()
    assert task_graph.c_g <= 1 + 1e-12
    isolated = min(dict(graph.degree).values()) == 0
    assert (task_graph.c_g > 1 - 1e-12) == isolated


@few
@given(weighted_graphs())
def test_the_pseudoinverse_variant_equals_that_of_numpy(graph):
    laplacian = laplacian_of(graph)
    expected = np.linalg.pinv(laplacian, rcond=1e-12, hermitian=True)
    task_graph = graphs.from_laplacian(laplacian, identity=False)
    assert np.allclose(task_graph.dense, expected, atol=1e-9 * max(1.0, abs(expected).max()))
    assert np.allclose(
        laplacian @ task_graph.dense @ laplacian, laplacian, atol=1e-9 * max(1.0, abs(laplacian).max())
    )


@few
@given(st.integers(1, 10), st.integers(1, 10), st.integers(0, 2**32 - 1))
def test_any_semidefinite_matrix_is_accepted(k, rank, seed):
    factor = np.random.default_rng(seed).standard_normal((k, rank))
    matrix = factor @ factor.T
    assert np.allclose(graphs.from_laplacian(matrix).dense, np.linalg.inv(np.eye(k) + matrix), atol=1e-10)
    assert np.allclose(graphs.from_similarity(matrix).dense, matrix, atol=1e-14)


@pytest.mark.parametrize(("n", "w"), [(2, 1.0), (5, 0.3), (9, 40.0)])
def test_a_clique_has_its_closed_form(n, w):
    edges = [(i, j) for i in range(n) for j in range(i)]
    task_graph = graphs.from_edges(edges, [w] * len(edges), tasks=range(n))
    assert np.allclose(task_graph.dense, (np.eye(n) + w * np.ones((n, n))) / (1 + w * n), rtol=1e-12)
    closed = graphs.complete(n_tasks=n, coupling=w)
    assert np.allclose(task_graph.dense, graphs.similarity_matrix(closed), rtol=1e-12)


def test_opposed_tasks_have_negative_similarity():
    task_graph = graphs.from_similarity([[1, -0.5], [-0.5, 1]])
    assert task_graph.similarity(0, 1) == -0.5


@few
@given(weighted_graphs(), st.integers(0, 2**32 - 1))
def test_columns_and_their_squares_equal_those_of_the_inverse(graph, seed):
    task_graph = graphs.from_networkx(graph)
    inverse = np.linalg.inv(np.eye(len(graph)) + laplacian_of(graph))
    vector = np.random.default_rng(seed).standard_normal(len(graph))
    i = seed % len(graph)
    assert np.allclose(task_graph.column(i), inverse[:, i], atol=1e-12)
    assert np.allclose(task_graph.square_column(i), (inverse @ inverse)[:, i], atol=1e-12)
    assert np.allclose(task_graph.apply(vector), inverse @ vector, atol=1e-12)


@few
@given(weighted_graphs(), st.randoms(use_true_random=False))
def test_relabelling_and_reordering_change_nothing(graph, random):
    edges = [(f"t{a}", f"t{b}", data["weight"]) for a, b, data in graph.edges(data=True)]
    random.shuffle(edges)
    reversed_edges = [(b, a) if random.random() < 0.5 else (a, b) for a, b, _ in edges]
    names = [f"t{node}" for node in graph]
    random.shuffle(names)
    task_graph = graphs.from_edges(reversed_edges, [w for *_, w in edges], tasks=names)
    plain = graphs.from_networkx(graph)
    for a in graph:
        for b in graph:
            assert task_graph.similarity(f"t{a}", f"t{b}") == pytest.approx(plain.similarity(a, b), abs=1e-12)


def test_tasks_keep_the_order_in_which_they_were_given():
    task_graph = graphs.from_edges([("c", "a"), ("a", "b")], tasks=["z", "a"])
    assert task_graph.tasks == ("z", "a", "c", "b") and task_graph.n_tasks == 4 and not task_graph.is_open
    assert task_graph.components() == [["z"], ["a", "c", "b"]]
    assert task_graph.components(["b", "z", "b"]) == [["z"], ["b"]]
    assert graphs.from_edges([], tasks=["x", "y"]).c_g == 1.0


def test_tasks_are_found_under_every_equal_name():
    task_graph = graphs.from_edges(np.array([[1, 2], [2, 5]]))
    expected = [0, 1, 2, 0]
    for asked in (
        [1, 2, 5, 1],
        [1.0, 2.0, 5.0, True],
        np.array([1, 2, 5, 1], dtype=np.uint8),
        np.array([1.0, 2, 5, 1]),
    ):
        task_ids, components = task_graph.locate(asked)
        assert task_ids.tolist() == expected and components.tolist() == [0] * 4
    day = datetime.date(2026, 1, 2)
    dated = graphs.from_edges([(day, "x"), ("x", ("a", 1))])
    assert dated.locate([np.datetime64("2026-01-02"), np.str_("x"), ("a", np.int64(1))])[0].tolist() == [
        0,
        1,
        2,
    ]


def test_inputs_are_neither_changed_nor_kept():
    given_matrix = np.array([[2.0, -1.0], [-1.0, 2.0]])
    sparse = sp.csr_matrix(given_matrix)
    task_graph = graphs.from_similarity(given_matrix), graphs.from_laplacian(sparse)
    before = [graph.similarity(0, 1) for graph in task_graph]
    given_matrix[:] = 7.0
    sparse.data[:] = 7.0
    assert [graph.similarity(0, 1) for graph in task_graph] == before
    assert given_matrix.flags.writeable and sparse.data.flags.writeable


def test_networkx_edges_without_weights_count_as_1():
    graph = nx.Graph([(0, 1), (1, 2)])
    graph.edges[0, 1]["weight"] = 2.5
    expected = np.linalg.inv(np.array([[3.5, -2.5, 0], [-2.5, 4.5, -1], [0, -1, 2]]))
    assert np.allclose(graphs.from_networkx(graph).dense, expected)


def test_c_g_ranges_from_complete_to_isolated():
    k = 7
    complete = graphs.from_networkx(nx.complete_graph(k))
    assert complete.c_g == pytest.approx(np.sqrt(2 / (k + 1)))
    graph = nx.complete_graph(k)
    graph.add_node("alone")
    assert graphs.from_networkx(graph).c_g == 1.0
    path = graphs.from_networkx(nx.path_graph(k))
    assert complete.c_g < path.c_g < 1.0
