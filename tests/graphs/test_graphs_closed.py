"""Graphs in closed form: similarities compared with dense inverses, clusters and components."""

from __future__ import annotations

import datetime
import enum
import math
from decimal import Decimal
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetron import Forgetron, graphs
from budgetron.graphs.task_ids import NOT_A_TASK, task_id_of, task_ids_of

few = settings(max_examples=40, deadline=None)
couplings = st.floats(min_value=1e-6, max_value=1e6)


def inverse_of_clique(n: int, w: float) -> np.ndarray:
    laplacian = nx.laplacian_matrix(nx.complete_graph(n)).toarray().astype(float)
    return np.linalg.inv(np.eye(n) + w * laplacian)


@few
@given(k=st.integers(1, 12), w=couplings)
def test_complete_of_known_size_is_the_inverse(k, w):
    expected = inverse_of_clique(k, w)
    assert np.allclose(
        graphs.similarity_matrix(graphs.complete(n_tasks=k, coupling=w)), expected, rtol=1e-8, atol=1e-10
    )


@few
@given(k=st.integers(2, 12), w=couplings)
def test_open_ended_complete_is_the_inverse_up_to_scale(k, w):
    expected = inverse_of_clique(k, w)
    expected /= expected[0, 0]
    assert np.allclose(
        graphs.similarity_matrix(graphs.complete(coupling=w), range(k)), expected, rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("k", [1, 2, 5, 1000])
def test_c_g_of_the_complete_graph_has_its_closed_form(k):
    assert graphs.complete(n_tasks=k).c_g == pytest.approx(math.sqrt(2 / (k + 1)), rel=1e-14)


def test_the_similarities_printed_in_the_paper():
    graph = graphs.complete(n_tasks=3)
    assert (graph.diagonal, graph.off_diagonal) == (2 / 4, 1 / 4)


@pytest.mark.parametrize(("n_tasks", "entry"), [(None, 1.0), (4, 1 / 4)])
def test_infinite_coupling_is_pooling(n_tasks, entry):
    graph = graphs.complete(n_tasks, coupling=math.inf)
    assert (graph.diagonal, graph.off_diagonal) == (entry, entry)
    nearly_infinite = graphs.complete(n_tasks, coupling=1e300)
    assert nearly_infinite.diagonal == pytest.approx(entry) and nearly_infinite.off_diagonal == pytest.approx(entry)


def test_disconnected_is_the_identity():
    graph = graphs.disconnected()
    assert np.array_equal(graphs.similarity_matrix(graph, ["a", "b", 3]), np.eye(3))
    assert graph.c_g == 1.0
    task_ids, clusters = graph.locate(["a", "b", 3])
    assert np.array_equal(task_ids, clusters) and task_ids[2] == 3
    assert graph == graphs.complete(coupling=0)
    assert np.array_equal(graphs.similarity_matrix(graphs.complete(3, coupling=0)), np.eye(3))


def test_clusters_are_cliques_and_unmapped_tasks_are_alone():
    w = 3.0
    graph = graphs.clusters({"a": 1, "b": 1, "c": "x", 7: "x", "d": None}, coupling=w)
    similarity = w / (1 + w)
    tasks = ["a", "b", "c", 7, "d", "new", "newer"]
    expected = np.eye(7)
    expected[0, 1] = expected[1, 0] = expected[2, 3] = expected[3, 2] = similarity
    assert np.allclose(graphs.similarity_matrix(graph, tasks), expected, rtol=1e-15)
    task_ids, clusters = graph.locate(tasks)
    assert (clusters[:5] >= NOT_A_TASK).all() and np.array_equal(clusters[5:], task_ids[5:])
    assert len(set(clusters.tolist())) == 5
    components = {frozenset(group) for group in graph.components()}
    assert components == {frozenset("ab"), frozenset(["c", 7]), frozenset("d")}
    assert graph.components(["new", "b", "a", "new"]) == [["new"], ["b", "a"]]


def test_an_infinite_coupling_pools_within_clusters_only():
    graph = graphs.clusters({1: "x", 2: "x", 3: "y"}, coupling=math.inf)
    assert np.array_equal(graphs.similarity_matrix(graph, [1, 2, 3]), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])


def test_components_of_complete_and_disconnected():
    assert graphs.complete().components() == [] == graphs.disconnected().components()
    assert graphs.complete().components(["a", "b"]) == [["a", "b"]]
    assert graphs.disconnected().components(["a", "b"]) == [["a"], ["b"]]
    assert graphs.complete(2, coupling=0).components(["a", "b"]) == [["a"], ["b"]]


def test_graphs_in_closed_form_are_open():
    for graph in (graphs.complete(), graphs.disconnected(), graphs.clusters({1: 2})):
        assert graph.is_open and graph.tasks is None and graph.n_tasks is None
    assert graphs.complete(8).n_tasks == 8


def test_a_row_over_a_million_tasks_has_the_closed_form():
    graph = graphs.complete(coupling=4.0)
    task_ids, clusters = graph.locate(np.arange(1_000_000))
    row = graph.row(5, 0, task_ids, clusters)
    assert row[5] == 1.0 and (np.delete(row, 5) == 0.8).all()


@pytest.mark.parametrize("names", [
    range(5000), range(-700, 0), [n << 40 for n in range(3000)], [n * 2**20 - 5 for n in range(-99, 99)],
    [f"user {n}" for n in range(2000)], [7], [("a", n) for n in range(300)] + list(range(300)),
], ids=["ints", "negative", "far apart", "even steps", "strings", "one", "mixed"])  # fmt: skip
def test_clusters_are_found_for_all_kinds_of_names(names):
    names = list(names)
    mapping = {name: position % 11 for position, name in enumerate(names)}
    unmapped = [f"unmapped {n}" for n in range(50)] + [10**15 + n for n in range(50)]
    tasks = [names[i] for i in np.random.default_rng(0).integers(0, len(names), 500)] + unmapped
    task_ids, clusters = graphs.clusters(mapping).locate(tasks)
    cluster_of_label = {}
    for name, cluster in zip(tasks[:500], clusters[:500].tolist(), strict=True):
        assert cluster_of_label.setdefault(mapping[name], cluster) == cluster
    assert len(set(cluster_of_label.values())) == len(cluster_of_label)
    # A task outside the mapping is its own cluster, and no cluster number is a task id.
    assert (clusters[500:] == task_ids[500:]).all()
    assert not set(cluster_of_label.values()) & set(task_ids.tolist())


class Colour(enum.StrEnum):
    RED = "red"


UTC, PARIS = datetime.UTC, datetime.timezone(datetime.timedelta(hours=1))
EQUAL_BUT_DIFFERENT = {
    "decimals": (Decimal("1.0"), Decimal("1.00")),
    "a decimal and an integer": (1, Decimal("1.0")),
    "a fraction and a float": (0.5, Fraction(1, 2)),
    "an enum and its string": (Colour.RED, "red"),
    "times": (datetime.datetime(2020, 1, 1, 11, tzinfo=UTC), datetime.datetime(2020, 1, 1, 12, tzinfo=PARIS)),
    "folds": (datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, fold=1)),
    "zeros": (complex(0, 0.0), complex(0, -0.0)),
}


@pytest.mark.parametrize("wrapped", [lambda name: name, lambda name: ("x", name), lambda name: ("x", (name,))],
                         ids=["plain", "in a tuple", "in a nested tuple"])  # fmt: skip
@pytest.mark.parametrize("pair", EQUAL_BUT_DIFFERENT.values(), ids=EQUAL_BUT_DIFFERENT)
def test_a_task_has_the_same_id_in_every_block(pair, wrapped):
    first, second = map(wrapped, pair)
    assert first == second
    alone = [task_id_of(first), task_id_of(second)]
    assert alone[0] != alone[1]
    assert task_ids_of([first, second]).tolist() == alone
    assert task_ids_of([second, first]).tolist() == alone[::-1]


def test_clusters_that_name_none_of_the_tasks_are_logged(caplog) -> None:
    X, y = np.random.default_rng(0).normal(size=(200, 2)), np.arange(200) % 2
    graph = graphs.clusters({"7": "a", "8": "a"})
    Forgetron(budget=5, graph=graph).partial_fit(X, y, tasks=[7, 8] * 100)
    assert "none of the tasks of the first 200 rows is in its clusters" in caplog.text
    caplog.clear()
    Forgetron(budget=5, graph=graph).partial_fit(X, y, tasks=["7", "9"] * 100)
    assert "clusters" not in caplog.text
