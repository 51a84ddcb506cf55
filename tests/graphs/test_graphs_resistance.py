"""Proposition 3.1 against resistance distances computed by networkx on the augmented graph."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetron import graphs


def augmented_resistances(graph):
    """R of G', from networkx alone; the dummy node last."""
    augmented = nx.Graph()
    augmented.add_nodes_from(graph)
    augmented.add_edges_from(
        (a, b, {"weight": data.get("weight", 1.0)}) for a, b, data in graph.edges(data=True)
    )
    augmented.add_edges_from(("dummy", node, {"weight": 1.0}) for node in graph)
    order = [*graph, "dummy"]
    distances = nx.resistance_distance(augmented, weight="weight", invert_weight=False)
    return np.array([[distances[a][b] for b in order] for a in order])


@st.composite
def random_graphs(draw):
    graph = nx.gnp_random_graph(
        draw(st.integers(1, 9)), draw(st.floats(0, 1)), seed=draw(st.integers(0, 999))
    )
    for edge in graph.edges:
        graph.edges[edge]["weight"] = draw(st.sampled_from([0.2, 1.0, 5.0]))
    return graph


@settings(max_examples=40, deadline=None)
@given(random_graphs())
def test_resistances_are_those_of_networkx_and_imply_the_inverse(graph):
    resistances = augmented_resistances(graph)
    task_graph = graphs.from_networkx(graph)
    assert np.allclose(graphs.resistance_distances(task_graph), resistances, atol=1e-9)
    inverse = np.linalg.inv(np.eye(len(graph)) + nx.laplacian_matrix(graph).toarray())
    assert np.allclose(graphs.similarities_from_resistances(resistances), inverse, atol=1e-9)


@pytest.mark.parametrize(
    "graph", [nx.path_graph(4), nx.complete_graph(5), nx.star_graph(3), nx.empty_graph(2)]
)
def test_the_printed_coefficient_fails_and_the_corrected_one_holds(graph):
    r, k = augmented_resistances(graph), len(graph)
    inverse = np.linalg.inv(np.eye(k) + nx.laplacian_matrix(graph).toarray())

    def proposition(coefficient):
        sums = r.sum(axis=1)
        full = (
            -r / 2
            + (sums[:, None] + sums) / (2 * (k + 1))
            - coefficient * abs(r).sum()
            + (k + 2) / (k + 1) ** 2
        )
        return full[:k, :k]

    assert np.allclose(proposition(1 / (2 * (k + 1) ** 2)), inverse, atol=1e-12)
    assert abs(proposition(1 / (k + 1) ** 2) - inverse).min() > 0.05
    assert np.allclose(graphs.similarities_from_resistances(r), inverse, atol=1e-12)


def test_the_closed_form_for_a_known_number_of_tasks():
    expected = augmented_resistances(nx.complete_graph(6))
    assert np.allclose(graphs.resistance_distances(graphs.complete(n_tasks=6)), expected, atol=1e-12)


def test_relatedness_is_the_correlation_of_the_prior():
    task_graph = graphs.from_networkx(nx.path_graph(5))
    inverse = np.linalg.inv(np.eye(5) + nx.laplacian_matrix(nx.path_graph(5)).toarray())
    norms = np.sqrt(np.diag(inverse))
    assert np.allclose(graphs.relatedness(task_graph), inverse / norms[:, None] / norms)
    assert np.allclose(graphs.relatedness(task_graph, [4, 0])[0, 1], inverse[0, 4] / (norms[0] * norms[4]))
    assert graphs.relatedness(graphs.from_similarity([[1.0, 0.0], [0.0, 0.0]]))[1, 1] == 0.0


def test_similarity_decreases_as_resistance_grows():
    task_graph = graphs.from_networkx(nx.path_graph(6))
    similarity, resistance = graphs.similarity_matrix(task_graph)[0], graphs.resistance_distances(task_graph)[0, :6]
    assert (np.diff(similarity) < 0).all() and (np.diff(resistance) > 0).all()
