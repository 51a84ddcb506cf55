"""Making an explicit graph: from edges, a networkx graph, a Laplacian, or the similarities themselves."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from budgetron.errors import refuse, refuse_type, shown
from budgetron.graphs.explicit import DENSE_LIMIT, Explicit
from budgetron.graphs.matrices import check_semidefinite, connected, distinct, is_laplacian, named, symmetric
from budgetron.graphs.task_ids import plain
from budgetron.graphs.taskgraph import Floats

_SPARSE_SIMILARITY_LIMIT = 16 * DENSE_LIMIT
_LARGEST = 1e10


def from_edges(
    edges: Iterable[Any], weights: ArrayLike | None = None, tasks: Iterable[Any] | None = None
) -> Explicit:
    """The graph of these edges, A = I + L.

    Tasks are indexed in the order of `tasks`, then as the edges name them. An edge has no direction.

    Parameters
    ----------
    edges : pairs of tasks; an integer array of two columns will do.
    weights : one positive number an edge, how strongly it relates its two tasks; 1 if None.
    tasks : names to list first, in particular those of isolated tasks.

    >>> graph = from_edges([("ann", "bob"), ("bob", "cid")], weights=[1.0, 3.0])
    >>> round(graph.similarity("bob", "ann"), 4), round(graph.similarity("bob", "cid"), 4)
    (0.2222, 0.3333)
    """
    return _from_edges("graphs.from_edges", edges, weights, tasks)


def from_networkx(graph: Any) -> Explicit:
    """The graph of a networkx graph; an edge's attribute "weight" is its weight, 1 where there is none.

    Parameters
    ----------
    graph : an undirected networkx graph without self-loops; its nodes are the tasks.

    >>> import networkx
    >>> from_networkx(networkx.path_graph(3)).similarity(0, 2)
    0.125
    """
    who = "graphs.from_networkx"
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise refuse_type(who, "graph", "a networkx graph", shown(graph), "Edges go to graphs.from_edges.")
    if graph.is_directed():
        raise refuse(
            who, "graph", "undirected", "a directed graph", "graph.to_undirected() forgets the directions."
        )
    found = list(graph.edges(data="weight", default=1.0))
    return _from_edges(who, [edge[:2] for edge in found], [edge[-1] for edge in found], graph.nodes)


def from_laplacian(laplacian: Any, identity: bool = True, tasks: Iterable[Any] | None = None) -> Explicit:
    """The graph with this Laplacian, or any symmetric positive semidefinite matrix in its place.

    Parameters
    ----------
    laplacian : L, an array or a SciPy sparse matrix.
    identity : A = I + L with its inverse; if False, A = L with its pseudoinverse, as in the paper's footnote.
    tasks : the task of each row; 0, 1, … if None.

    >>> laplacian = [[1, -1], [-1, 1]]
    >>> round(from_laplacian(laplacian).similarity(0, 1), 6)
    0.333333
    >>> round(from_laplacian(laplacian, identity=False).similarity(0, 1), 6)
    -0.25
    """
    who = "graphs.from_laplacian"
    if not isinstance(identity, (bool, np.bool_)):
        raise refuse_type(who, "identity", "True or False", shown(identity))
    matrix = symmetric(who, "laplacian", laplacian)
    check_semidefinite(who, "laplacian", matrix)
    return _from_checked(who, matrix, bool(identity), named(who, tasks, matrix.shape[0]))


def from_similarity(similarity: Any, tasks: Iterable[Any] | None = None) -> Explicit:
    """The graph whose similarities A⁻¹ are given outright.

    Parameters
    ----------
    similarity : A⁻¹, symmetric positive semidefinite: entry (i, j) is how much an example of j counts for i.
    tasks : the task of each row; 0, 1, … if None.

    >>> from_similarity([[1.0, 0.8], [0.8, 1.0]], tasks=["ann", "bob"]).similarity("ann", "bob")
    0.8
    """
    who = "graphs.from_similarity"
    matrix = symmetric(who, "similarity", similarity)
    size = matrix.shape[0]
    names = named(who, tasks, size)
    if not isinstance(matrix, np.ndarray):
        if size > _SPARSE_SIMILARITY_LIMIT:
            raise refuse(
                who,
                "similarity",
                f"an array, or sparse with at most {_SPARSE_SIMILARITY_LIMIT} tasks",
                f"a sparse matrix of {size} tasks",
                "It would be held in full: give the graph to graphs.from_edges or graphs.from_laplacian.",
            )
        matrix = matrix.toarray()
    check_semidefinite(who, "similarity", matrix)
    return Explicit(names, connected(matrix), dense=matrix)


def _from_edges(who: str, edges: Iterable[Any], weights: Any, tasks: Iterable[Any] | None) -> Explicit:
    from scipy.sparse import coo_array

    ends, index = _indexed(who, edges, () if tasks is None else distinct(who, tasks))
    if not index:
        raise refuse(
            who, "edges", "at least one pair of tasks", "none", "tasks=[...] names tasks without an edge."
        )
    strength = _checked_weights(who, weights, len(ends))
    here, there = ends.min(axis=1), ends.max(axis=1)
    names = tuple(index)
    if len(loops := np.flatnonzero(here == there)):
        raise refuse(
            who,
            "edges",
            "pairs of different tasks",
            f"a self-loop at task {shown(names[here[loops[0]]])}",
            "Leave it out: a task is always related to itself.",
        )
    codes, first, counts = np.unique(here * len(index) + there, return_index=True, return_counts=True)
    if len(codes) < len(ends):
        pair = ends[first[counts.argmax()]]
        raise refuse(
            who,
            "edges",
            "pairs that differ",
            f"{shown(names[pair[0]])} and {shown(names[pair[1]])} twice",
            "An edge has no direction: give it once, with the sum of the weights if that is meant.",
        )
    rows, columns = np.concatenate([here, there]), np.concatenate([there, here])
    both = np.concatenate([strength, strength])
    every = np.arange(len(index))
    degrees = np.bincount(rows, weights=both, minlength=len(index))
    laplacian = coo_array(
        (np.concatenate([-both, degrees]), (np.concatenate([rows, every]), np.concatenate([columns, every]))),
        shape=(len(index), len(index)),
    ).tocsr()
    return _from_checked(who, laplacian, True, names)


def _indexed(
    who: str, edges: Any, names: Sequence[Hashable]
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], dict[Hashable, int]]:
    """The edges as an (m, 2) array of task indices, and the index of each task."""
    pair_of = "pairs of tasks, such as [(1, 2), (2, 3)]"
    if isinstance(edges, (str, bytes)) or not isinstance(edges, Iterable):
        raise refuse_type(who, "edges", pair_of, shown(edges))
    index: dict[Hashable, int] = {name: place for place, name in enumerate(names)}
    ends: list[int] = []
    for edge in edges.tolist() if isinstance(edges, np.ndarray) else edges:
        if not isinstance(edge, (tuple, list, np.ndarray)) or len(edge) != 2:
            raise refuse_type(who, "edges", pair_of, f"the edge {shown(edge)}", "Weights go to weights=.")
        try:
            ends += [index.setdefault(plain(task), len(index)) for task in edge]
        except TypeError as error:
            if isinstance(error, ValueError):  # ours, in three parts already
                raise
            raise refuse_type(
                who,
                "a task",
                "a hashable name",
                f"one in the edge {shown(edge)}",
                "Turn a list into a tuple.",
            ) from None
    return np.array(ends, dtype=np.int64).reshape(-1, 2), index


def _checked_weights(who: str, weights: Any, n_edges: int) -> Floats:
    if weights is None:
        return np.ones(n_edges)
    try:
        strength: Floats = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise refuse_type(who, "weights", "one positive number an edge", shown(weights)) from None
    if strength.shape != (n_edges,):
        raise refuse(who, "weights", f"one number an edge, {n_edges} in all", f"shape {strength.shape}")
    if len(bad := np.flatnonzero(~((strength > 0) & np.isfinite(strength)))):
        raise refuse(
            who,
            "weights",
            "finite and positive",
            f"{float(strength[bad[0]])!r} for edge {bad[0]}",
            "Leave out an edge that relates nothing; opposed tasks need graphs.from_similarity.",
        )
    return strength


def _from_checked(who: str, laplacian: Any, identity: bool, tasks: tuple[Hashable, ...]) -> Explicit:
    """The graph of a matrix known to be symmetric and positive semidefinite."""
    from scipy.sparse import csr_array, eye_array

    size = len(tasks)
    if (
        identity and not laplacian.diagonal().max() <= _LARGEST
    ):  # I + L would be L, and singular, after rounding
        raise refuse(
            who,
            "the weights at a task",
            f"at most {_LARGEST:.0e} in sum",
            f"{laplacian.diagonal().max():.3g}",
            "Scale the weights down, or give tasks that are one and the same one name.",
        )
    component = connected(laplacian)
    if size <= DENSE_LIMIT:
        full = laplacian if isinstance(laplacian, np.ndarray) else laplacian.toarray()
        return Explicit(tasks, component, dense=_inverted(full, component, identity))
    sparse = csr_array(laplacian)
    if identity:
        return Explicit(tasks, component, matrix=csr_array(sparse + eye_array(size, format="csr")))
    if not is_laplacian(sparse):
        raise refuse(
            who,
            "laplacian",
            f"a graph's Laplacian where identity=False and there are over {DENSE_LIMIT} tasks",
            "a matrix with positive off-diagonal entries, or rows that do not sum to 0",
            "Use identity=True, or give numpy.linalg.pinv of it to graphs.from_similarity.",
        )
    return Explicit(tasks, component, matrix=sparse, singular=True)


def _inverted(laplacian: Floats, component: Any, identity: bool) -> Floats:
    """(I + L)⁻¹, or L⁺, block by block, so that tasks of different components have exactly 0."""
    result = np.zeros_like(laplacian)
    for number in range(int(component.max()) + 1):
        block = np.ix_(component == number, component == number)
        if identity:
            result[block] = np.linalg.inv(laplacian[block] + np.eye(len(block[0])))
        else:
            result[block] = np.linalg.pinv(laplacian[block], rcond=1e-12, hermitian=True)
    return (result + result.T) / 2
