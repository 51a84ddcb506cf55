"""`from_description`: restore a graph from the description that `TaskGraph.describe` returned.

Descriptions may come from untrusted files, so everything is validated again. Called by `budgetron.persist`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from budgetron.errors import input_error, shown
from budgetron.graphs.closed import Clique, clusters, complete
from budgetron.graphs.explicit import Explicit
from budgetron.graphs.matrices import check_semidefinite, is_laplacian, symmetric, task_names
from budgetron.graphs.taskgraph import Ints, TaskGraph

_WHO = "graphs.from_description"
_NAMES = {
    "clique": [{"coupling", "n_tasks"}, {"coupling", "n_tasks", "tasks", "clusters"}],
    "explicit": [
        {"tasks", "component", "similarity"},
        {"tasks", "component", "data", "indices", "indptr", "singular"},
    ],
}


def from_description(description: Mapping[str, Any]) -> TaskGraph:
    """Restore a graph from its description, identical in every bit.

    >>> from budgetron import graphs
    >>> graphs.from_description(graphs.complete(n_tasks=3).describe())
    complete(n_tasks=3)
    """
    if not isinstance(description, Mapping) or description.get("kind") not in _NAMES:
        raise input_error(
            _WHO, "description", f"a mapping of kind {' or '.join(map(repr, _NAMES))}", shown(description)
        )
    names = set(description) - {"kind"}
    if names not in _NAMES[description["kind"]]:
        raise input_error(_WHO, "description", "a mapping with exactly the entries of its kind", f"{sorted(names)}")
    return _clique(description) if description["kind"] == "clique" else _explicit(description)


def _clique(description: Mapping[str, Any]) -> Clique:
    if "tasks" not in description:
        return complete(description["n_tasks"], description["coupling"])
    tasks, numbers = list(description["tasks"]), np.asarray(description["clusters"]).tolist()
    if len(tasks) != len(numbers):
        raise input_error(_WHO, "clusters", "one number per task", f"{len(numbers)} for {len(tasks)} tasks")
    if description["n_tasks"] is not None:
        raise input_error(_WHO, "n_tasks", "None for a graph of clusters", shown(description["n_tasks"]))
    return clusters(dict(zip(tasks, numbers, strict=True)), description["coupling"])


def _explicit(description: Mapping[str, Any]) -> Explicit:
    """Restore an explicit graph, with A⁻¹ or with A."""
    if "similarity" in description:
        dense = symmetric(_WHO, "similarity", description["similarity"])
        check_semidefinite(_WHO, "similarity", dense)
        tasks = task_names(_WHO, description["tasks"], len(dense))
        return Explicit(tasks, _components(description, dense), dense=dense)
    singular = bool(description["singular"])
    matrix = _sparse(description)
    if singular and not is_laplacian(matrix):
        got = "positive off-diagonal entries, or rows that do not sum to 0"
        raise input_error(_WHO, "data", "a Laplacian", got)
    tasks = task_names(_WHO, description["tasks"], matrix.shape[0])
    return Explicit(tasks, _components(description, matrix), matrix=matrix, singular=singular)


def _sparse(description: Mapping[str, Any]) -> Any:
    """Return the sparse matrix A of a description, after validation."""
    from scipy.sparse import csr_array, eye_array

    data, indices, indptr = (np.asarray(description[name]) for name in ("data", "indices", "indptr"))
    size = len(indptr) - 1
    try:
        matrix = csr_array((data, indices, indptr), shape=(size, size))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise input_error(
            _WHO, "data, indices, indptr", "a sparse matrix in CSR form", f"an invalid one: {error}"
        ) from None
    matrix = symmetric(_WHO, "data", matrix)
    lowest = 0.0 if description["singular"] else 1.0  # no eigenvalue of A = I + L is below 1
    check_semidefinite(_WHO, "data", csr_array(matrix - lowest * eye_array(size, format="csr")))
    return matrix


def _components(description: Mapping[str, Any], matrix: Any) -> Ints:
    """Return the described component numbers after validation.

    They cannot be recomputed from A⁻¹: an entry between distant tasks may have been rounded to 0.
    """
    component = np.array(description["component"])
    accepted = f"{matrix.shape[0]} component numbers 0, 1, …, with no entry between components"
    if component.shape != (matrix.shape[0],) or component.dtype.kind not in "iu":
        raise input_error(_WHO, "component", accepted, f"{component.dtype} of shape {component.shape}")
    rows, columns = matrix.nonzero()
    if (
        not 0 <= int(component.max()) < len(component)  # first, because the next line makes a range of this length
        or set(np.unique(component).tolist()) != set(range(int(component.max()) + 1))
        or (component[rows] != component[columns]).any()
    ):
        raise input_error(_WHO, "component", accepted, "other numbers")
    return component.astype(np.int64)
