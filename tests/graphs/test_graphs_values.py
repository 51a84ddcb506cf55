"""Graphs are values: equality, copies, pickles, descriptions."""

from __future__ import annotations

import copy
import math
import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone

from budgetron import graphs
from budgetron.errors import InputError

MAKERS = {
    "complete": graphs.complete,
    "complete of 5": lambda: graphs.complete(5, coupling=0.25),
    "pooled": lambda: graphs.complete(coupling=math.inf),
    "disconnected": graphs.disconnected,
    "clusters": lambda: graphs.clusters({"a": 1, "b": 1, 3: "x", ("t", 2): "x"}, coupling=2.0),
    "edges": lambda: graphs.from_edges([("a", "b"), ("b", 3)], [0.5, 2], tasks=["lone"]),
    "far apart": lambda: graphs.from_networkx(nx.path_graph(1000)),
    "pseudoinverse": lambda: graphs.from_laplacian([[1, -1, 0], [-1, 1, 0], [0, 0, 0]], identity=False),
    "similarity": lambda: graphs.from_similarity([[2.0, 0.5], [0.5, 1.0]], tasks=["a", "b"]),
    "sparse": lambda: graphs.from_networkx(nx.path_graph(1500)),
    "sparse pseudoinverse": lambda: graphs.from_laplacian(
        nx.laplacian_matrix(nx.cycle_graph(1200)), identity=False
    ),
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_graphs_are_equal_only_if_made_alike(make):
    graph = make()
    assert graph == make() and hash(graph) == hash(make())
    assert [other for other in MAKERS.values() if other() == graph] == [make]
    assert graph != "graph"


def test_copies_and_pickles_are_equal(make):
    graph = make()
    unpickled = pickle.loads(pickle.dumps(graph))
    assert unpickled == graph and repr(unpickled) == repr(graph)
    assert copy.deepcopy(graph) == graph and copy.copy(graph) == graph


def test_a_description_restores_the_graph_bit_for_bit(make):
    graph = make()
    described = graph.describe()
    restored = graphs.from_description(described)
    assert restored == graph and type(restored) is type(graph)
    description = restored.describe()
    assert description.keys() == described.keys()
    for name, value in described.items():
        assert type(value) in (str, int, float, bool, tuple, np.ndarray, type(None))
        assert np.array_equal(value, description[name]) if isinstance(value, np.ndarray) else value == description[name]
    assert restored.components() == graph.components() and restored.c_g_range == graph.c_g_range


class Holder(BaseEstimator):
    def __init__(self, graph=None):
        self.graph = graph


def test_graphs_survive_sklearn_clone(make):
    assert clone(Holder(make())).graph == make()


def test_graphs_are_immutable(make):
    graph = make()
    with pytest.raises(AttributeError):
        graph.coupling = 3.0
    with pytest.raises(AttributeError):
        graph.tasks = ()
    for value in graph.describe().values():
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[...] = 0


def test_repr_is_short():
    reprs = {name: repr(make()) for name, make in MAKERS.items()}
    assert reprs["complete"] == "complete()" and reprs["disconnected"] == "disconnected()"
    assert reprs["complete of 5"] == "complete(n_tasks=5, coupling=0.25)"
    assert reprs["pooled"] == "complete(coupling=inf)"
    assert reprs["clusters"] == "clusters(<4 tasks in 2 clusters>, coupling=2.0)"
    assert repr(graphs.clusters({"a": 1, "b": 1})) == "clusters(<2 tasks in 1 cluster>, coupling=1.0)"
    assert repr(graphs.clusters({"a": 1})) == "clusters(<1 task in 1 cluster>, coupling=1.0)"
    assert reprs["edges"] == "<graph of 4 tasks in 2 components>"
    assert repr(graphs.from_similarity([[1.0]])) == "<graph of 1 task in 1 component>"


def test_labels_of_clusters_do_not_matter():
    graph = graphs.clusters({"a": 1, "b": 1, "c": 2})
    assert graph == graphs.clusters({"c": "x", "b": "y", "a": "y"})
    assert graph != graphs.clusters({"c": "x", "b": "x", "a": "y"})


def forged(**changes):
    return graphs.from_edges([(0, 1), (2, 3)]).describe() | changes


def forged_sparse(**changes):
    """The description of a path of 1,100 tasks, whose matrix has 1,100 + 2 · 1,099 = 3,298 entries, with changes."""
    return graphs.from_networkx(nx.path_graph(1100)).describe() | changes


laplacian = sp.csr_array(nx.laplacian_matrix(nx.path_graph(1100)).astype(float))


@pytest.mark.parametrize(
    "description",
    [
        "complete",
        {},
        {"kind": "pickle"},
        {"kind": "clique", "coupling": 1.0},
        {"kind": "clique", "coupling": -1.0, "n_tasks": None},
        {"kind": "clique", "coupling": 1.0, "n_tasks": 0},
        {"kind": "clique", "coupling": 1.0, "n_tasks": None, "extra": 1},
        {"kind": "clique", "coupling": 1.0, "n_tasks": None, "tasks": ("a",), "clusters": np.array([0, 1])},
        forged(component=np.array([0, 0, 1])),
        forged(component=np.array([0, 1, 0, 1])),
        forged(component=np.array([0, 0, 2, 2])),
        forged(component=np.array([0.0, 0, 1, 1])),
        forged(tasks=(1, 2, 3)),
        forged(similarity=-np.eye(4)),
        forged(similarity=np.full((4, 4), np.nan)),
        forged_sparse(singular=True),
        forged_sparse(indices=np.full(3298, 10**6)),
        forged_sparse(indptr=np.arange(5)),
        forged_sparse(data=-np.ones(3298)),
        forged_sparse(data=laplacian.data, indices=laplacian.indices, indptr=laplacian.indptr),  # L, not I + L
    ],
)
def test_a_forged_description_is_refused(description):
    with pytest.raises(InputError, match=r"must be .*; got "):
        graphs.from_description(description)


def test_the_number_of_tasks_of_a_forged_graph_of_clusters_is_named():
    described = graphs.clusters({"a": 1, "b": 1}).describe()
    with pytest.raises(InputError, match=r"n_tasks must be None .*; got 2"):
        graphs.from_description(described | {"n_tasks": 2})
