"""The formulas of `graphs.resistance`, compared with resistance distances that networkx computes.

Proposition 3.1 of the paper derives task similarities from the resistance distances R of the augmented graph G', which
is the task graph with a dummy node joined to every task by an edge of weight 1.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetron import graphs


def augmented_resistances(graph):
    """Return R of the augmented graph, computed by networkx alone; the dummy node is last."""
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
def test_proposition_3_1_is_right_with_the_corrected_coefficient_only(graph):
    """The paper prints the coefficient 1/(k + 1)² of ‖R‖₁; 1/(2(k + 1)²) is right."""
    resistances, k = augmented_resistances(graph), len(graph)
    inverse = np.linalg.inv(np.eye(k) + nx.laplacian_matrix(graph).toarray())

    def similarities(coefficient):
        sums = resistances.sum(axis=1)
        with_dummy = (
            -resistances / 2
            + (sums[:, None] + sums) / (2 * (k + 1))
            - coefficient * abs(resistances).sum()
            + (k + 2) / (k + 1) ** 2
        )
        return with_dummy[:k, :k]

    assert np.allclose(similarities(1 / (2 * (k + 1) ** 2)), inverse, atol=1e-12)
    assert abs(similarities(1 / (k + 1) ** 2) - inverse).min() > 0.05
    assert np.allclose(graphs.similarities_from_resistances(resistances), inverse, atol=1e-12)


def test_a_complete_graph_in_closed_form_has_the_resistances_of_networkx():
    expected = augmented_resistances(nx.complete_graph(6))
    assert np.allclose(graphs.resistance_distances(graphs.complete(n_tasks=6)), expected, atol=1e-12)


def test_relatedness_is_the_similarity_scaled_to_correlations():
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
