"""Similarity matrices of graphs, and their interpretation as resistance distances (Proposition 3.1 of the paper).

    G'          the graph G of k tasks, with a dummy node 0 joined to every task by an edge of weight 1
    R           resistance distances of G' (an edge of weight w is a resistor of 1/w); ‖R‖₁ is the sum of its entries
    (A⁻¹)_ij = −R_ij/2 + (Σ_l R_il + Σ_l R_jl)/(2(k+1)) − ‖R‖₁/(2(k+1)²) + (k+2)/(k+1)²

The paper prints ‖R‖₁/(k+1)² in place of the correct ‖R‖₁/(2(k+1)²). The inverse formulas are R_i0 = (A⁻¹)_ii and
R_ij = (A⁻¹)_ii + (A⁻¹)_jj − 2(A⁻¹)_ij. So tasks that are joined by many short paths are close, and similar.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from budgetron.errors import input_error, shown
from budgetron.graphs.taskgraph import Floats, TaskGraph


def similarity_matrix(graph: TaskGraph, tasks: Iterable[Any] | None = None) -> Floats:
    """Return (A⁻¹)_ij for all pairs of the given tasks.

    Parameters
    ----------
    graph : any task graph.
    tasks : the tasks to compare; None for all tasks, if the graph knows their number.

    >>> from budgetron import graphs
    >>> similarity_matrix(graphs.complete(), tasks=["ann", "bob"])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    if tasks is None:
        tasks = _all_tasks("graphs", graph, "Name the tasks with tasks=[...], or pass n_tasks to graphs.complete.")
    task_ids, clusters = graph.locate(tasks)
    rows = [
        graph.row(int(task_id), int(cluster), task_ids, clusters)
        for task_id, cluster in zip(task_ids, clusters, strict=True)
    ]
    return np.array(rows).reshape(len(task_ids), len(task_ids))


def relatedness(graph: TaskGraph, tasks: Iterable[Any] | None = None) -> Floats:
    """Return the normalised similarities (A⁻¹)_ij / √((A⁻¹)_ii (A⁻¹)_jj) of each pair of tasks.

    1 means that the learner treats both as one task; 0 means that neither learns from the other; a negative number
    means that each learns the opposite of the other's labels.

    Parameters
    ----------
    graph : any task graph.
    tasks : as for `similarity_matrix`.

    >>> from budgetron import graphs
    >>> relatedness(graphs.from_edges([(1, 2), (2, 3)])).round(3)
    array([[1.   , 0.447, 0.2  ],
           [0.447, 1.   , 0.447],
           [0.2  , 0.447, 1.   ]])
    """
    similarity = similarity_matrix(graph, tasks)
    norms: Floats = np.sqrt(similarity.diagonal())
    scale = np.outer(norms, norms)
    return np.divide(similarity, scale, out=np.zeros_like(similarity), where=scale > 0)


def resistance_distances(graph: TaskGraph) -> Floats:
    """Return the resistance distances R, (k+1) × (k+1), of the augmented graph G'; the dummy node is last.

    Parameters
    ----------
    graph : a graph of known size on the paper's scale, A = I + L with L a Laplacian.

    >>> from budgetron import graphs
    >>> resistance_distances(graphs.complete(n_tasks=2)).round(4)
    array([[0.    , 0.6667, 0.6667],
           [0.6667, 0.    , 0.6667],
           [0.6667, 0.6667, 0.    ]])
    """
    who, remedy = "graphs.resistance_distances", "Make it with graphs.from_edges, or with graphs.complete(n_tasks=...)."
    inverse = similarity_matrix(graph, _all_tasks(who, graph, remedy))
    if not np.allclose(inverse.sum(axis=1), 1.0, rtol=0, atol=1e-9):  # L·1 = 0 if and only if A⁻¹·1 = 1
        raise input_error(who, "graph", "a graph with A = I + L, where L is a Laplacian", shown(graph), remedy)
    # R_i0 = (A⁻¹)_ii; the dummy node itself is last, at distance 0.
    to_ground = np.append(inverse.diagonal(), 0.0)
    between = np.zeros((len(to_ground), len(to_ground)))
    between[:-1, :-1] = inverse
    distances = to_ground[:, None] + to_ground[None, :] - 2 * between
    # Rounding may leave values near 0 on the diagonal, and negative ones elsewhere.
    np.fill_diagonal(distances, 0.0)
    return np.asarray(np.maximum(distances, 0.0))


def similarities_from_resistances(resistances: ArrayLike) -> Floats:
    """Return A⁻¹ from the resistance distances of the augmented graph: Proposition 3.1 with a corrected coefficient.

    Parameters
    ----------
    resistances : R, (k+1) × (k+1), the dummy node last.

    >>> third = 2 / 3
    >>> similarities_from_resistances([[0, third, third], [third, 0, third], [third, third, 0]]).round(4)
    array([[0.6667, 0.3333],
           [0.3333, 0.6667]])
    """
    r = np.asarray(resistances, dtype=np.float64)
    if r.ndim != 2 or r.shape[0] != r.shape[1] or len(r) < 2:
        raise input_error(
            "graphs.similarities_from_resistances",
            "resistances",
            "a square matrix with one row per task and one for the dummy node",
            f"shape {r.shape}",
            "The dummy node is last.",
        )
    n = len(r)  # k + 1
    sums = r.sum(axis=1)
    full = -r / 2 + (sums[:, None] + sums[None, :]) / (2 * n) - sums.sum() / (2 * n**2) + (n + 1) / n**2
    return np.asarray(full[:-1, :-1])


def _all_tasks(who: str, graph: TaskGraph, remedy: str) -> Iterable[Any]:
    """Return all tasks of a graph; reject a graph that does not know their number."""
    if graph.tasks is not None:
        return graph.tasks
    if graph.n_tasks is None:
        raise input_error(who, "graph", "a graph with a known number of tasks", shown(graph), remedy)
    return range(graph.n_tasks)
