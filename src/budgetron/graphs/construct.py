"""Constructors of explicit graphs: from edges, a networkx graph, a Laplacian or a similarity matrix.

Users' arguments are validated here and in `matrices`, and the content of files in `saved`. The class `Explicit` does
not validate its fields.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from budgetron.errors import input_error, input_type_error, shown
from budgetron.graphs.explicit import DENSE_LIMIT, Explicit
from budgetron.graphs.matrices import (
    LARGEST,
    check_semidefinite,
    component_numbers,
    distinct_names,
    is_laplacian,
    symmetric,
    task_names,
)
from budgetron.graphs.task_ids import plain
from budgetron.graphs.taskgraph import Floats

_SPARSE_SIMILARITY_LIMIT = 16 * DENSE_LIMIT  # a full matrix of this many tasks has 2 GiB
_LARGEST = 1e10  # the largest sum of weights at a task; rounding in I + L leaves about six digits of I


def from_edges(edges: Iterable[Any], weights: ArrayLike | None = None, tasks: Iterable[Any] | None = None) -> Explicit:
    """Return the graph with these undirected edges, A = I + L.

    Tasks are indexed in the order of `tasks`, then in the order in which edges name them.

    Parameters
    ----------
    edges : pairs of tasks, or an integer array with two columns.
    weights : one positive number per edge: how strongly its two tasks are related. None: every weight is 1.
    tasks : tasks to list first. Tasks without an edge must be listed here.

    >>> graph = from_edges([("ann", "bob"), ("bob", "cid")], weights=[1.0, 3.0])
    >>> round(graph.similarity("bob", "ann"), 4), round(graph.similarity("bob", "cid"), 4)
    (0.2222, 0.3333)
    """
    return _from_edges("graphs.from_edges", edges, weights, tasks)


def from_networkx(graph: Any) -> Explicit:
    """Convert a networkx graph. The edge attribute "weight" is the weight of an edge; 1 if it is missing.

    Parameters
    ----------
    graph : an undirected networkx graph without self-loops; its nodes are the tasks.

    >>> import networkx
    >>> from_networkx(networkx.path_graph(3)).similarity(0, 2)
    0.125
    """
    who = "graphs.from_networkx"
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise input_type_error(
            who, "graph", "a networkx graph", shown(graph), "Use graphs.from_edges for a list of edges."
        )
    if graph.is_directed():
        raise input_error(who, "graph", "undirected", "a directed graph", "Use graph.to_undirected().")
    edges = list(graph.edges(data="weight", default=1.0))
    return _from_edges(who, [edge[:2] for edge in edges], [edge[-1] for edge in edges], graph.nodes)


def from_laplacian(laplacian: Any, identity: bool = True, tasks: Iterable[Any] | None = None) -> Explicit:
    """Return the graph with this Laplacian L, or with any symmetric positive semidefinite matrix as L.

    Parameters
    ----------
    laplacian : L, an array or a SciPy sparse matrix.
    identity : if True, similarities are (I + L)⁻¹; if False, the pseudoinverse L⁺, as in the paper's footnote.
    tasks : the task of each row; 0, 1, … if None.

    >>> laplacian = [[1, -1], [-1, 1]]
    >>> round(from_laplacian(laplacian).similarity(0, 1), 6)
    0.333333
    >>> round(from_laplacian(laplacian, identity=False).similarity(0, 1), 6)
    -0.25
    """
    who = "graphs.from_laplacian"
    if not isinstance(identity, (bool, np.bool_)):
        raise input_type_error(who, "identity", "True or False", shown(identity))
    matrix = symmetric(who, "laplacian", laplacian)
    check_semidefinite(who, "laplacian", matrix)
    return _from_checked(who, matrix, bool(identity), task_names(who, tasks, matrix.shape[0]))


def from_similarity(similarity: Any, tasks: Iterable[Any] | None = None) -> Explicit:
    """Return the graph with these similarities A⁻¹.

    Parameters
    ----------
    similarity : A⁻¹, symmetric positive semidefinite. Entry (i, j) is how much an example of task j counts for task i.
    tasks : the task of each row; 0, 1, … if None.

    >>> from_similarity([[1.0, 0.8], [0.8, 1.0]], tasks=["ann", "bob"]).similarity("ann", "bob")
    0.8
    """
    who = "graphs.from_similarity"
    matrix = symmetric(who, "similarity", similarity)
    size = matrix.shape[0]
    names = task_names(who, tasks, size)
    if not isinstance(matrix, np.ndarray):
        if size > _SPARSE_SIMILARITY_LIMIT:
            raise input_error(
                who,
                "similarity",
                f"an array, or sparse with at most {_SPARSE_SIMILARITY_LIMIT} tasks",
                f"a sparse matrix of {size} tasks",
                "It would be stored as a full matrix: use graphs.from_edges or graphs.from_laplacian.",
            )
        matrix = matrix.toarray()
    check_semidefinite(who, "similarity", matrix)
    return Explicit(names, component_numbers(matrix), dense=matrix)


def _from_edges(who: str, edges: Iterable[Any], weights: Any, tasks: Iterable[Any] | None) -> Explicit:
    """Check the edges and return their graph; `who` is named in errors."""
    from scipy.sparse import coo_array

    ends, index = _index_edges(who, edges, () if tasks is None else distinct_names(who, tasks))
    if not index:
        raise input_error(
            who, "edges", "at least one pair of tasks", "none", "List tasks without an edge in tasks=[...]."
        )
    strength = _checked_weights(who, weights, len(ends))
    low, high = ends.min(axis=1), ends.max(axis=1)
    names = tuple(index)
    if len(loops := np.flatnonzero(low == high)):
        raise input_error(
            who,
            "edges",
            "pairs of different tasks",
            f"a self-loop at task {shown(names[low[loops[0]]])}",
            "Remove it: a task is always related to itself.",
        )
    # One number per undirected pair finds duplicates, also in opposite directions.
    codes, first, counts = np.unique(low * len(index) + high, return_index=True, return_counts=True)
    if len(codes) < len(ends):
        pair = ends[first[counts.argmax()]]
        raise input_error(
            who,
            "edges",
            "distinct pairs",
            f"{shown(names[pair[0]])} and {shown(names[pair[1]])} twice",
            "Edges have no direction. List each pair once; to count both edges, add their weights.",
        )
    # The Laplacian: −w for both directions of each edge, and the sum of weights on the diagonal.
    rows, columns = np.concatenate([low, high]), np.concatenate([high, low])
    entries = np.concatenate([strength, strength])
    diagonal = np.arange(len(index))
    degrees = np.bincount(rows, weights=entries, minlength=len(index))
    laplacian = coo_array(
        (
            np.concatenate([-entries, degrees]),
            (np.concatenate([rows, diagonal]), np.concatenate([columns, diagonal])),
        ),
        shape=(len(index), len(index)),
    ).tocsr()
    return _from_checked(who, laplacian, True, names)


def _index_edges(
    who: str, edges: Any, names: Sequence[Hashable]
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], dict[Hashable, int]]:
    """Return the edges as an (m, 2) array of task indices, and the index of each task."""
    accepted = "pairs of tasks, such as [(1, 2), (2, 3)]"
    if isinstance(edges, (str, bytes)) or not isinstance(edges, Iterable):
        raise input_type_error(who, "edges", accepted, shown(edges))
    index: dict[Hashable, int] = {name: i for i, name in enumerate(names)}
    ends: list[int] = []
    for edge in edges.tolist() if isinstance(edges, np.ndarray) else edges:
        if not isinstance(edge, (tuple, list, np.ndarray)) or len(edge) != 2:
            remedy = "Pass weights with weights=[...]."
            raise input_type_error(who, "edges", accepted, f"the edge {shown(edge)}", remedy)
        try:
            ends += [index.setdefault(plain(task), len(index)) for task in edge]
        except TypeError as error:
            if isinstance(error, ValueError):  # an InputTypeError of `plain`, whose message is complete
                raise
            raise input_type_error(
                who,
                "a task",
                "a hashable name",
                f"a task that is not hashable, in the edge {shown(edge)}",
                "Turn a list into a tuple.",
            ) from None
    return np.array(ends, dtype=np.int64).reshape(-1, 2), index


def _checked_weights(who: str, weights: Any, n_edges: int) -> Floats:
    """Return one positive weight per edge."""
    if weights is None:
        return np.ones(n_edges)
    try:
        strength: Floats = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise input_type_error(who, "weights", "one positive number per edge", shown(weights)) from None
    if strength.shape != (n_edges,):
        raise input_error(who, "weights", f"one number per edge, {n_edges} in all", f"shape {strength.shape}")
    if len(bad := np.flatnonzero(~((strength > 0) & np.isfinite(strength)))):
        raise input_error(
            who,
            "weights",
            "finite and positive",
            f"{float(strength[bad[0]])!r} for edge {bad[0]}",
            "Omit edges of weight 0; for negatively related tasks use graphs.from_similarity.",
        )
    return strength


def _from_checked(who: str, laplacian: Any, identity: bool, tasks: tuple[Hashable, ...]) -> Explicit:
    """Return the graph of a matrix that is known to be symmetric and positive semidefinite."""
    from scipy.sparse import csr_array, eye_array

    size = len(tasks)
    # With larger weights, rounding in I + L loses most digits of I. Without I there is no inverse: L is singular.
    if identity and not laplacian.diagonal().max() <= _LARGEST:
        raise input_error(
            who,
            "the weights at a task",
            f"at most {_LARGEST:.0e} in sum",
            f"{laplacian.diagonal().max():.3g}",
            "Scale the weights down, or give tasks that should be identical the same name.",
        )
    component = component_numbers(laplacian)
    # A small graph is inverted at once. A large one stores A and solves for single columns when they are needed.
    if size <= DENSE_LIMIT:
        full = laplacian if isinstance(laplacian, np.ndarray) else laplacian.toarray()
        inverse = _inverse(full, component, identity)
        if not (abs(inverse) <= LARGEST).all():  # "not <=" also rejects NaN
            raise input_error(
                who, "laplacian", f"a matrix whose pseudoinverse has entries up to {LARGEST:g} in magnitude",
                f"one with entries up to {abs(full).max():.3g}", "Scale the matrix up.",
            )  # fmt: skip
        return Explicit(tasks, component, dense=inverse)
    sparse = csr_array(laplacian)
    if identity:
        return Explicit(tasks, component, matrix=csr_array(sparse + eye_array(size, format="csr")))
    if not is_laplacian(sparse):
        raise input_error(
            who,
            "laplacian",
            f"a graph's Laplacian, if identity=False and there are more than {DENSE_LIMIT} tasks",
            "a matrix with positive off-diagonal entries, or rows that do not sum to 0",
            "Use identity=True, or pass numpy.linalg.pinv(laplacian) to graphs.from_similarity.",
        )
    return Explicit(tasks, component, matrix=sparse, singular=True)


def _inverse(laplacian: Floats, component: Any, identity: bool) -> Floats:
    """Return (I + L)⁻¹ or L⁺. It is computed per component, so that similarities across components are exactly 0."""
    result = np.zeros_like(laplacian)
    for number in range(int(component.max()) + 1):
        block = np.ix_(component == number, component == number)
        if identity:
            result[block] = np.linalg.inv(laplacian[block] + np.eye(len(block[0])))
        else:
            # Eigenvalues below the limit are rounding errors of the eigenvalue 0.
            with np.errstate(all="ignore"):  # the caller rejects a result that is too large
                result[block] = np.linalg.pinv(laplacian[block], rcond=1e-12, hermitian=True)
    # Rounding in the inverse makes it slightly asymmetric.
    return (result + result.T) / 2
