"""The state of an engine as named arrays: their dtypes and shapes, and checks of the numbers in them.

Rules declare their fields with these functions. `engine.native` converts states by these declarations, and `persist`
saves and validates by them. A file with a correct digest may still be hostile. Weights may have any finite value,
because learning can produce every finite value. But indices must stay within the stored examples, no example and no row
of weights may be listed twice, and counts, variances and scales must have values that learning can produce: the
compiled engine uses them unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.settings import Settings
from budgetron.file_errors import require as require
from budgetron.graphs import Clique, Explicit
from budgetron.graphs.task_ids import HASHED, NOT_A_TASK
from budgetron.kernels import Gaussian

Arrays = Mapping[str, NDArray[Any]]
Ints = NDArray[np.int64]
_INTEGERS = 2**61  # integer tasks are their own task ids within ± this limit (`graphs.task_ids`)


class Field(NamedTuple):
    """One array of a state. The shape () is a Python number in the state, and an array of length 1 in a file."""

    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def is_integer(self) -> bool:
        return "int" in self.dtype


Layout = dict[str, Field]


# ---- fields


def length(arrays: Arrays, name: str) -> int:
    """Return the length of a one-dimensional array, which may not have been validated yet."""
    require(name in arrays and arrays[name].ndim == 1, f"state.{name}", "present and one-dimensional")
    return len(arrays[name])


def triangle(n: int) -> int:
    """Return the number of entries of the lower triangle of an n × n matrix. Symmetric matrices are stored this way."""
    return n * (n + 1) // 2


def packed(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the lower triangle of a symmetric matrix, row by row."""
    return np.asarray(matrix[np.tril_indices(len(matrix))])


def unpacked(values: NDArray[Any]) -> NDArray[Any]:
    """Return the symmetric matrix with this lower triangle."""
    n = int(np.sqrt(2 * len(values)))  # there are n(n + 1)/2 values
    rows, columns = np.tril_indices(n)
    matrix = np.zeros((n, n), dtype=values.dtype)
    matrix[rows, columns] = matrix[columns, rows] = values
    return matrix


def optional(fields: Layout, arrays: Arrays) -> Layout:
    """Return the fields if at least one of them is present, otherwise none.

    Files of earlier versions, and states of the other engine, have none of them.
    """
    return fields if fields.keys() & arrays.keys() else {}


def counts_fields() -> Layout:
    """Return the two counts that every rule has."""
    return {"n_seen": Field("int64"), "n_mistakes": Field("int64")}


def store_fields(settings: Settings, arrays: Arrays) -> Layout:
    """Return the fields of the stored examples."""
    n = length(arrays, "key")
    fields = {name: Field("int64", (n,)) for name in ("key", "cluster", "arrival")}
    if isinstance(settings.kernel, Gaussian) and settings.kernel.gamma == "scale":
        fields |= {name: Field("float64") for name in ("gamma", "scale_mean", "scale_m2")}
    if settings.sparse:
        nonzeros = length(arrays, "indices")
        return fields | {"indptr": Field("int64", (n + 1,)), "indices": Field("int32", (nonzeros,)),
                         "data": Field(settings.dtype, (nonzeros,))}  # fmt: skip
    # Dense rows are stored minus the reference point, see `reference.examples.reference_point`.
    fields["rows"] = Field(settings.dtype, (n, settings.n_features))
    if isinstance(settings.kernel, Gaussian):
        point = Field(settings.dtype, (settings.n_features,))
        fields |= optional({"reference": point, "reference_candidate": point, "reference_streak": Field("int64"),
                            "reference_moves": Field("int64")}, arrays)  # fmt: skip
    return fields


def gram_fields(arrays: Arrays) -> Layout:
    """Return the fields of the inverse of the Gram matrix, or of the Cholesky factor of the Gram matrix.

    `inverse_diagonal` belongs to both.
    Only the core saves them. The NumPy engine computes the Gram matrix again from the stored examples.
    """
    n = length(arrays, "key")
    lower_triangle, per_slot = Field("float64", (triangle(n),)), Field("float64", (n,))
    if "factor" in arrays:
        fields = {"factor": lower_triangle, "inverse_diagonal": per_slot, "factor_order": Field("int64", (n,)),
                  "factor_age": Field("int64")}  # fmt: skip
    else:
        fields = optional({"inverse": lower_triangle, "inverse_diagonal": per_slot}, arrays)
    return fields | optional({"gram_rebuilds": Field("int64", (2,))}, arrays)


# ---- checks


def verify_gram(arrays: Arrays) -> None:
    """Check the numbers of `gram_fields`."""
    n = len(arrays["key"])
    diagonal = np.cumsum(np.arange(1, n + 1)) - 1  # positions of the diagonal in a packed lower triangle
    for name in ("inverse", "factor"):
        if name in arrays:
            require((arrays[name][diagonal] > 0).all(), f"state.{name}", "with a positive diagonal")
            require((arrays["inverse_diagonal"] > 0).all(), "state.inverse_diagonal", "positive")
    if "factor_order" in arrays:
        is_permutation = np.array_equal(np.sort(arrays["factor_order"]), np.arange(n))
        require(is_permutation, "state.factor_order", f"0 … {n - 1}, each once")
        age = int(arrays["factor_age"][0])
        require(0 <= age <= max(n, 16) * 4, "state.factor_age", "a count of steps since the last refresh", str(age))
    if "gram_rebuilds" in arrays:
        require((arrays["gram_rebuilds"] >= 0).all(), "state.gram_rebuilds", "counts")


def verify_csr(where: str, indptr: Ints, indices: NDArray[np.integer[Any]], columns: int) -> None:
    """Reject arrays that are not canonical CSR: row starts in order, and ascending columns within each row.

    `where` is the prefix of the names of both arrays in messages. The engines use the numbers in both arrays as indices
    into memory, without further checks.
    """
    lengths = np.diff(indptr)
    require(
        indptr[0] == 0
        and (indptr >= 0).all()
        and (indptr <= len(indices)).all()
        and (lengths >= 0).all()
        and indptr[-1] == len(indices),
        f"{where}indptr",
        "row starts in order, from 0 to the number of entries",
    )
    if len(indices):
        require(indices.min() >= 0 and indices.max() < columns, f"{where}indices", f"columns from 0 to {columns - 1}")
        starts = np.zeros(len(indices), dtype=bool)
        starts[indptr[:-1][lengths > 0]] = True
        require((np.diff(indices) > 0)[~starts[1:]].all(), f"{where}indices", "strictly ascending in every row")


def verify_tasks(settings: Settings, name: str, task_ids: Ints, clusters: Ints) -> None:
    """Check task ids and their clusters against the graph."""
    graph = settings.graph
    if isinstance(graph, Explicit):
        k = graph.n_tasks
        require(((task_ids >= 0) & (task_ids < k)).all(), name, f"numbers of the graph's {k} tasks")
        require(np.array_equal(clusters, graph.component[task_ids]), f"clusters of {name}", "as in the graph")
        return
    assert isinstance(graph, Clique)
    is_task = ((task_ids > -_INTEGERS) & (task_ids < _INTEGERS)) | ((task_ids >= HASHED) & (task_ids < NOT_A_TASK))
    require(is_task.all(), name, "valid task ids")
    expected = clusters_of(graph, task_ids)
    # `tasks=None` is task 0 in cluster 0, even if the graph puts a task named 0 into another cluster.
    without_task = (task_ids == 0) & (clusters == 0)
    require(((clusters == expected) | without_task).all(), f"clusters of {name}", "as in the graph")


def clusters_of(graph: Clique, task_ids: Ints) -> Ints:
    """Return the cluster of each task id."""
    if graph.coupling == 0:
        return task_ids
    return np.zeros_like(task_ids) if graph.mapped is None else graph.mapped.clusters_of(task_ids)


def verify_task_rows(settings: Settings, n_rows: int, arrays: Arrays, clusters: Ints) -> None:
    """Check the rows of weights per task: their tasks, their last updates, and how many there are.

    `n_rows` is the number of all saved rows. It includes the sums of clusters, which are not in `table_key`.
    """
    limit = settings.parameters.max_task_rows
    require(limit is None or n_rows <= limit, "state.table_key", f"at most {limit} rows", str(n_rows))
    task_ids = arrays["table_key"]
    require(len(np.unique(task_ids)) == len(task_ids), "state.table_key", "tasks, without duplicates")
    verify_tasks(settings, "state.table_key", task_ids, clusters)
    seen = int(arrays["n_seen"][0])
    accepted = "distinct integers from 0 to n_seen − 1"
    require(are_distinct_steps(arrays["table_stamp"], seen), "state.table_stamp", accepted)


def are_distinct_steps(steps: Ints, seen: int) -> bool:
    """Whether these are distinct integers from 0 to seen − 1."""
    return bool(((steps >= 0) & (steps < seen)).all()) and len(np.unique(steps)) == len(steps)
