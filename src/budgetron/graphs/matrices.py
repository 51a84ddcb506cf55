"""Validation of matrices and task lists that users pass to graph constructors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from budgetron.errors import InputError, input_error, input_type_error, shown
from budgetron.graphs.task_ids import plain
from budgetron.graphs.taskgraph import Floats, Ints

LARGEST = 1e150  # the largest magnitude of an entry; its square does not overflow
_ROUNDING = 1e-10  # relative tolerance of the tests for symmetry and definiteness, because of rounding errors


def symmetric(who: str, name: str, value: Any) -> Any:
    """Return a float64 copy of a matrix (an array or CSR), made exactly symmetric. Reject an asymmetric one."""
    from scipy.sparse import csr_array, issparse

    try:
        matrix: Any = csr_array(value, copy=True) if issparse(value) else np.array(value)
    except (TypeError, ValueError):
        raise input_type_error(who, name, "a square matrix of numbers", shown(value)) from None
    if matrix.dtype.kind not in "fiub":
        raise input_type_error(who, name, "a square matrix of real numbers", f"dtype {matrix.dtype}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise input_error(
            who, name, "a square matrix", f"shape {matrix.shape}", "It has one row and one column per task."
        )
    if matrix.shape[0] == 0:
        raise input_error(who, name, "a matrix of at least one task", "an empty one")
    matrix = matrix.astype(np.float64)
    values = matrix.data if issparse(matrix) else matrix
    if not np.isfinite(values).all():
        raise input_error(
            who,
            name,
            "a matrix of finite numbers",
            "NaN or infinity in it",
            "Write 0 where tasks are unrelated.",
        )
    if (largest := float(abs(values).max(initial=0.0))) > LARGEST:
        accepted = f"a matrix of entries up to {LARGEST:g} in magnitude"
        raise input_error(who, name, accepted, f"an entry of magnitude {largest:.3g}", "Scale the matrix down.")
    difference = abs(matrix - matrix.T).max()
    if difference > _ROUNDING * abs(matrix).max():
        raise input_error(
            who,
            name,
            "symmetric",
            f"entries that differ by {difference:.3g} from their mirror image",
            f"({name} + {name}.T) / 2 is symmetric.",
        )
    # Solvers and factorisations rely on exact symmetry.
    matrix = (matrix + matrix.T) / 2
    if issparse(matrix):
        matrix = csr_array(matrix)
        matrix.eliminate_zeros()
        matrix.sort_indices()
    return matrix


def check_semidefinite(who: str, name: str, matrix: Any) -> None:
    """Reject a symmetric matrix (an array or CSR) that has a negative eigenvalue.

    All Laplacians are diagonally dominant, which proves that they are semidefinite. So most graphs need no
    factorisation.
    """
    if _is_dominant(matrix):
        return
    if isinstance(matrix, np.ndarray):
        # A semidefinite matrix may be singular; with the slack its Cholesky factor exists.
        slack = _ROUNDING * float(abs(matrix).max())
        try:
            np.linalg.cholesky(matrix + slack * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            raise _indefinite(who, name, float(np.linalg.eigvalsh(matrix)[0])) from None
    elif (lowest := _lowest_eigenvalue(matrix)) < -_ROUNDING * float(abs(matrix).max()):
        raise _indefinite(who, name, lowest)


def is_laplacian(matrix: Any) -> bool:
    """Return whether this is a Laplacian of a weighted graph: rows sum to 0, off-diagonal entries are at most 0."""
    diagonal, off, off_magnitude = _parts(matrix)
    # Σ|a| + Σa, over the off-diagonal entries a of a row, is 0 if and only if no a is positive.
    return bool(
        (off_magnitude + off <= _ROUNDING * diagonal).all() and (abs(diagonal + off) <= _ROUNDING * diagonal).all()
    )


def component_numbers(matrix: Any) -> Ints:
    """Return the number of each task's connected component."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    numbers = connected_components(csr_array(matrix), directed=False)[1]
    return np.asarray(numbers, dtype=np.int64)


def task_names(who: str, tasks: Iterable[Any] | None, size: int) -> tuple[Hashable, ...]:
    """Return the task of each row: `tasks`, or 0, 1, … if it is None."""
    if tasks is None:
        return tuple(range(size))
    names = distinct_names(who, tasks)
    if len(names) != size:
        raise input_error(who, "tasks", f"one name per row, {size} in all", f"{len(names)} names")
    return names


def distinct_names(who: str, tasks: Any) -> tuple[Hashable, ...]:
    """Return the tasks as plain names; reject duplicates."""
    if isinstance(tasks, (str, bytes)) or not isinstance(tasks, Iterable):
        raise input_type_error(who, "tasks", "a list of names", shown(tasks), "Put a single name in a list.")
    known: set[Hashable] = set()
    names = []
    for task in tasks:
        try:
            name = plain(task)
            repeated = name in known
        except TypeError as error:
            if isinstance(error, InputError):
                raise
            raise input_type_error(who, "a task", "a hashable name", shown(task), "Turn a list into a tuple.") from None
        if repeated:
            raise input_error(who, "tasks", "distinct names", f"{shown(name)} twice", "Name each task once.")
        known.add(name)
        names.append(name)
    return tuple(names)


def _parts(matrix: Any) -> tuple[Floats, Floats, Floats]:
    """Return the diagonal, and per row the sum and the absolute sum of the off-diagonal entries."""
    diagonal = np.asarray(matrix.diagonal(), dtype=np.float64)
    signed = np.asarray(matrix.sum(axis=1)).ravel() - diagonal
    absolute = np.asarray(abs(matrix).sum(axis=1)).ravel() - abs(diagonal)
    return diagonal, signed, absolute


def _is_dominant(matrix: Any) -> bool:
    """Return whether the matrix is diagonally dominant, up to rounding: then it is positive semidefinite."""
    diagonal, _, absolute = _parts(matrix)
    return bool((diagonal - absolute >= -_ROUNDING * diagonal).all())


def _lowest_eigenvalue(matrix: Any) -> float:
    """Estimate the smallest eigenvalue by Lanczos iteration.

    The estimate is never too low, so a negative one proves that the matrix is indefinite. If the iteration does not
    converge, 0 is returned and the matrix is accepted.
    """
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    # An upper bound of all eigenvalues (Gershgorin). After it is subtracted, no eigenvalue is positive, and the lowest
    # one has the largest absolute value, which Lanczos iteration finds first.
    upper_bound = float(abs(matrix).sum(axis=1).max())
    shifted = matrix - upper_bound * eye_array(matrix.shape[0], format="csr")
    max_steps = min(10 * matrix.shape[0], max(300, 10**8 // max(matrix.nnz, 1)))  # bounds the time for any matrix
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])  # fixed, so that the result is reproducible
    try:
        lowest = eigsh(shifted, k=1, which="LM", v0=start, tol=1e-8, maxiter=max_steps, return_eigenvectors=False)
        return float(lowest[0]) + upper_bound
    except ArpackNoConvergence:
        return 0.0


def _indefinite(who: str, name: str, eigenvalue: float) -> InputError:
    return input_error(
        who,
        name,
        "positive semidefinite",
        f"a matrix with eigenvalue {eigenvalue:.3g}",
        "Laplacians of graphs and matrices of inner products are positive semidefinite.",
    )
