"""Every bad input is rejected with an error in three parts: the function and parameter, what is accepted, what came."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from budgetron import graphs
from budgetron.errors import InputError, InputTypeError, UnknownTask

nan, inf = math.nan, math.inf
indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
big_psd = sp.csr_array(sp.eye_array(1100) + sp.csr_array(([1.0, 1.0], ([0, 1], [1, 0])), shape=(1100, 1100)))
big_indefinite = sp.csr_array(([3.0, 3.0], ([0, 1], [1, 0])), shape=(1100, 1100)) + sp.eye_array(1100)
sparse_lopsided = sp.csr_matrix([[1.0, 3.0], [0.0, 1.0]])
doubled = graphs.from_similarity([[2.0]])
parallel = nx.MultiGraph([(0, 1), (0, 1)])
looped = nx.Graph([(0, 1), (1, 1)])
negative = nx.Graph()
negative.add_edge("a", "b", weight=-2.0)
edges = [("a", "b"), ("b", "c")]

# Name → call, exception, and words of the message: function and parameter, what is accepted, what came, the remedy.
CASES = {
    "complete, no task": (lambda: graphs.complete(0), InputError,
        "graphs.complete: n_tasks", "an integer >= 1", "0", "open"),
    "complete, negative": (lambda: graphs.complete(-3), InputError,
        "graphs.complete: n_tasks", "an integer >= 1", "-3", "open"),
    "complete, half a task": (lambda: graphs.complete(2.5), InputError,
        "graphs.complete: n_tasks", "an integer >= 1", "2.5", "open"),
    "complete, true": (lambda: graphs.complete(True), InputError,
        "graphs.complete: n_tasks", "an integer >= 1", "True", "open"),
    "coupling negative": (lambda: graphs.complete(coupling=-1.0), InputError,
        "graphs.complete: coupling", "a number >= 0", "-1.0", "independent"),
    "coupling nan": (lambda: graphs.clusters({1: 2}, coupling=nan), InputError,
        "graphs.clusters: coupling", "a number >= 0", "nan", "independent"),
    "coupling a string": (lambda: graphs.complete(coupling="strong"), InputError,
        "graphs.complete: coupling", "a number >= 0", "'strong'", "independent"),
    "clusters, a list": (lambda: graphs.clusters([("a", 1)]), InputTypeError,
        "graphs.clusters: mapping", "a mapping", "[('a', 1)]", "dict(zip"),
    "clusters, empty": (lambda: graphs.clusters({}), InputError,
        "graphs.clusters: mapping", "at least one task", "an empty one", "disconnected()"),
    "clusters, bad label": (lambda: graphs.clusters({"a": [1]}), InputTypeError,
        "graphs.clusters: a cluster", "a hashable", "[1] for task 'a'", "name the clusters"),
    "clusters, nan label": (lambda: graphs.clusters({"a": nan}), InputTypeError,
        "graphs.clusters: a cluster", "other than NaN", "nan", "name the clusters"),
    "edges, none": (lambda: graphs.from_edges([]), InputError,
        "graphs.from_edges: edges", "at least one pair", "none", "tasks="),
    "edges, a number": (lambda: graphs.from_edges(7), InputTypeError,
        "graphs.from_edges: edges", "pairs of tasks", "7", ""),
    "edges, a string": (lambda: graphs.from_edges("ab"), InputTypeError,
        "graphs.from_edges: edges", "pairs of tasks", "'ab'", ""),
    "edges, strings": (lambda: graphs.from_edges(["ab", "bc"]), InputTypeError,
        "graphs.from_edges: edges", "pairs of tasks", "the edge 'ab'", "weights="),
    "edges, triples": (lambda: graphs.from_edges([("a", "b", 2.0)]), InputTypeError,
        "graphs.from_edges: edges", "pairs of tasks", "('a', 'b', 2.0)", "weights="),
    "edges, unhashable end": (lambda: graphs.from_edges([("a", ["b"])]), InputTypeError,
        "graphs.from_edges: a task", "a hashable name", "['b']", "tuple"),
    "edges, nan end": (lambda: graphs.from_edges([("a", nan)]), InputTypeError,
        "tasks: a task", "an integer, a string", "NaN", "a name for missing tasks"),
    "edges, self-loop": (lambda: graphs.from_edges([("a", "b"), ("c", "c")]), InputError,
        "graphs.from_edges: edges", "different tasks", "a self-loop at task 'c'", "Remove it"),
    "edges, self-loop of equal names": (lambda: graphs.from_edges([(1, 1.0)]), InputError,
        "graphs.from_edges: edges", "different tasks", "a self-loop at task 1", "Remove it"),
    "edges, one twice": (lambda: graphs.from_edges([("x", "y"), ("a", "b"), ("b", "a")]), InputError,
        "graphs.from_edges: edges", "distinct pairs", "'a' and 'b' twice", "add their weights"),
    "weights, too few": (lambda: graphs.from_edges(edges, [1.0]), InputError,
        "graphs.from_edges: weights", "2 in all", "shape (1,)", ""),
    "weights, one for all": (lambda: graphs.from_edges(edges, 2.0), InputError,
        "graphs.from_edges: weights", "2 in all", "shape ()", ""),
    "weights, words": (lambda: graphs.from_edges(edges, ["much", "little"]), InputTypeError,
        "graphs.from_edges: weights", "one positive number per edge", "['much', 'little']", ""),
    "weights, negative": (lambda: graphs.from_edges(edges, [1.0, -1.0]), InputError,
        "graphs.from_edges: weights", "finite and positive", "-1.0 for edge 1", "from_similarity"),
    "weights, zero": (lambda: graphs.from_edges(edges, [0.0, 1.0]), InputError,
        "graphs.from_edges: weights", "finite and positive", "0.0 for edge 0", "Omit"),
    "weights, nan": (lambda: graphs.from_edges(edges, [nan, 1.0]), InputError,
        "graphs.from_edges: weights", "finite and positive", "nan for edge 0", "Omit"),
    "weights, infinite": (lambda: graphs.from_edges(edges, [1.0, inf]), InputError,
        "graphs.from_edges: weights", "finite and positive", "inf for edge 1", "Omit"),
    "weights, beyond rounding": (lambda: graphs.from_edges(edges, [1.0, 1e17]), InputError,
        "graphs.from_edges: the weights at a task", "at most 1e+10", "1e+17", "Scale"),
    "tasks, one twice": (lambda: graphs.from_edges(edges, tasks=["d", "d"]), InputError,
        "graphs.from_edges: tasks", "distinct names", "'d' twice", "once"),
    "tasks, equal names": (lambda: graphs.from_similarity(np.eye(2), tasks=[1, True]), InputError,
        "graphs.from_similarity: tasks", "distinct names", "1 twice", "once"),
    "tasks, a string": (lambda: graphs.from_edges(edges, tasks="dan"), InputTypeError,
        "graphs.from_edges: tasks", "a list of names", "'dan'", "in a list"),
    "tasks, unhashable": (lambda: graphs.from_edges(edges, tasks=[["d"]]), InputTypeError,
        "graphs.from_edges: a task", "a hashable name", "['d']", "tuple"),
    "tasks, too few": (lambda: graphs.from_laplacian(np.eye(3), tasks=["a"]), InputError,
        "graphs.from_laplacian: tasks", "3 in all", "1 names", ""),
    "networkx, a list": (lambda: graphs.from_networkx(edges), InputTypeError,
        "graphs.from_networkx: graph", "a networkx graph", "[('a', 'b')", "from_edges"),
    "networkx, directed": (lambda: graphs.from_networkx(nx.DiGraph([(0, 1)])), InputError,
        "graphs.from_networkx: graph", "undirected", "a directed graph", "to_undirected"),
    "networkx, self-loop": (lambda: graphs.from_networkx(looped), InputError,
        "graphs.from_networkx: edges", "different tasks", "a self-loop at task 1", "Remove it"),
    "networkx, parallel edges": (lambda: graphs.from_networkx(parallel), InputError,
        "graphs.from_networkx: edges", "distinct pairs", "0 and 1 twice", "add their weights"),
    "networkx, negative": (lambda: graphs.from_networkx(negative), InputError,
        "graphs.from_networkx: weights", "finite and positive", "-2.0", "from_similarity"),
    "networkx, empty": (lambda: graphs.from_networkx(nx.Graph()), InputError,
        "graphs.from_networkx: edges", "at least one pair", "none", "tasks"),
    "matrix, asymmetric": (lambda: graphs.from_laplacian([[1.0, -1.0], [0.0, 1.0]]), InputError,
        "graphs.from_laplacian: laplacian", "symmetric", "differ by 1 ", "(laplacian + laplacian.T) / 2"),
    "matrix, sparse asymmetric": (lambda: graphs.from_laplacian(sparse_lopsided), InputError,
        "graphs.from_laplacian: laplacian", "symmetric", "differ by 3 ", "(laplacian + laplacian.T) / 2"),
    "matrix, indefinite": (lambda: graphs.from_laplacian(indefinite), InputError,
        "graphs.from_laplacian: laplacian", "positive semidefinite", "eigenvalue -1", "Laplacians of graphs"),
    "similarity, indefinite": (lambda: graphs.from_similarity(indefinite), InputError,
        "graphs.from_similarity: similarity", "positive semidefinite", "eigenvalue -1", "Laplacians of graphs"),
    "matrix, large indefinite": (lambda: graphs.from_laplacian(big_indefinite), InputError,
        "graphs.from_laplacian: laplacian", "positive semidefinite", "eigenvalue -2", "Laplacians of graphs"),
    "matrix, nan": (lambda: graphs.from_laplacian([[nan]]), InputError,
        "graphs.from_laplacian: laplacian", "finite numbers", "NaN or infinity", "0"),
    "matrix, inf": (lambda: graphs.from_similarity(sp.csr_matrix([[inf]])), InputError,
        "graphs.from_similarity: similarity", "finite numbers", "NaN or infinity", "0"),
    "similarity, too large": (lambda: graphs.from_similarity([[1e200, 0], [0, 1e200]]), InputError,
        "graphs.from_similarity: similarity", "entries up to 1e+150", "an entry of magnitude 1e+200", "Scale"),
    "laplacian, too large": (lambda: graphs.from_laplacian([[1.7e308]], identity=False), InputError,
        "graphs.from_laplacian: laplacian", "entries up to 1e+150", "an entry of magnitude 1.7e+308", "Scale"),
    "laplacian, too small": (lambda: graphs.from_laplacian([[1e-310]], identity=False), InputError,
        "graphs.from_laplacian: laplacian", "whose pseudoinverse has entries up to 1e+150", "up to 1e-310", "Scale"),
    "matrix, not square": (lambda: graphs.from_laplacian(np.ones((2, 3))), InputError,
        "graphs.from_laplacian: laplacian", "a square matrix", "shape (2, 3)", "task"),
    "matrix, a vector": (lambda: graphs.from_similarity([1.0, 2.0]), InputError,
        "graphs.from_similarity: similarity", "a square matrix", "shape (2,)", "task"),
    "matrix, ragged": (lambda: graphs.from_similarity([[1.0], [1.0, 2.0]]), InputTypeError,
        "graphs.from_similarity: similarity", "a square matrix of numbers", "[[1.0], [1.0, 2.0]]", ""),
    "matrix, complex": (lambda: graphs.from_similarity([[1j]]), InputTypeError,
        "graphs.from_similarity: similarity", "real numbers", "complex128", ""),
    "matrix, words": (lambda: graphs.from_similarity([["a"]]), InputTypeError,
        "graphs.from_similarity: similarity", "real numbers", "dtype <U1", ""),
    "matrix, empty": (lambda: graphs.from_laplacian(np.zeros((0, 0))), InputError,
        "graphs.from_laplacian: laplacian", "at least one task", "an empty one", ""),
    "identity, a string": (lambda: graphs.from_laplacian(np.eye(2), identity="no"), InputTypeError,
        "graphs.from_laplacian: identity", "True or False", "'no'", ""),
    "large, no laplacian, no identity": (lambda: graphs.from_laplacian(big_psd, identity=False), InputError,
        "graphs.from_laplacian: laplacian", "Laplacian, if identity=False", "rows that do not", "pinv"),
    "large sparse similarity": (lambda: graphs.from_similarity(sp.eye_array(20_000)), InputError,
        "graphs.from_similarity: similarity", "at most 16384 tasks", "20000 tasks", "from_edges"),
    "similarities, open graph": (lambda: graphs.similarity_matrix(graphs.complete()), InputError,
        "graphs: graph", "a known number of tasks", "complete()", "tasks=[...]"),
    "resistances, open graph": (lambda: graphs.resistance_distances(graphs.complete()), InputError,
        "graphs.resistance_distances: graph", "a known number of tasks", "complete()", "n_tasks"),
    "resistances, clusters": (lambda: graphs.resistance_distances(graphs.clusters({1: 1})), InputError,
        "graphs.resistance_distances: graph", "a known number of tasks", "clusters(", "from_edges"),
    "resistances, other scale": (lambda: graphs.resistance_distances(doubled), InputError,
        "graphs.resistance_distances: graph", "A = I + L", "<graph of 1 task", "from_edges"),
    "resistances, not square": (lambda: graphs.similarities_from_resistances([[0.0]]), InputError,
        "graphs.similarities_from_resistances: resistances", "a square matrix", "shape (1, 1)", "dummy"),
    "unknown task": (lambda: graphs.from_edges(edges).similarity("a", "zed"), UnknownTask,
        "graph: a task", "one of the graph's 3 tasks ('a', 'b', 'c')", "'zed'", "graphs.complete()"),
    "unknown index": (lambda: graphs.from_laplacian(np.eye(5)).locate(np.array([0, 5])), UnknownTask,
        "graph: a task", "one of the graph's 5 tasks (0, 1, 2, …)", "5", "tasks=..."),
    "unhashable task": (lambda: graphs.from_edges(edges).locate([["a"]]), InputTypeError,
        "graph: a task", "a hashable name", "['a']", "tuple"),
}  # fmt: skip


@pytest.mark.parametrize("refused", CASES)
def test_invalid_input_is_refused_with_an_error_in_three_parts(refused):
    call, error, who, accepted, came, remedy = CASES[refused]
    with pytest.raises(error) as caught:
        call()
    head, _, rest = str(caught.value).partition("; got ")
    assert head.startswith(f"{who} must be ") and accepted in head
    assert rest.startswith(came) or came in rest.partition(". ")[0]
    assert remedy in rest.partition(". ")[2] if remedy else True


def test_an_open_graph_accepts_every_task():
    for graph in (graphs.complete(n_tasks=2), graphs.disconnected(), graphs.clusters({"a": 1})):
        assert [graph.similarity(task, task) for task in ("x", "y", 3)] == [graph.diagonal] * 3


def test_rounding_errors_are_not_asymmetry_or_indefiniteness():
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((30, 3))
    gram = factor @ factor.T
    noisy = gram + 1e-13 * rng.standard_normal((30, 30))
    task_graph = graphs.from_similarity(noisy)
    assert np.array_equal(task_graph.dense, task_graph.dense.T) and np.allclose(task_graph.dense, gram, atol=1e-12)
    with pytest.raises(InputError, match="semidefinite"):
        graphs.from_similarity(gram - 1e-6 * np.eye(30))
