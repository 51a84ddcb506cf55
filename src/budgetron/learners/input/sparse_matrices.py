"""Validation of the structure of sparse matrices, with messages that users understand.

SciPy does not fully check the arrays that a matrix is built from, and its own conversions write outside of their
memory if the arrays contradict each other. So the structure is checked before SciPy converts anything. The compiled
core checks the columns once more when it reads them, because nothing may make it write out of bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from budgetron.errors import input_error, input_type_error

_REMEDY = "X.check_format() of SciPy finds such errors."


def canonical_csr(who: str, X: Any) -> sparse.csr_matrix:
    """Return X in CSR format with sorted columns, and without duplicates or stored zeros. Copies only if needed."""
    if X.dtype.kind not in "fiub":
        raise input_type_error(
            who, "X", "real numbers", f"dtype {X.dtype}", "Complex data not supported." if X.dtype.kind == "c" else ""
        )
    if X.shape[1] > np.iinfo(np.int32).max:
        raise input_error(
            who, "X", "a sparse matrix of at most 2147483647 columns", f"{X.shape[1]}", "Hash the features to fewer."
        )
    csr = as_format(who, X, "csr")
    # A new object for the same arrays: the flags of X are out of date if someone has changed its arrays.
    csr = type(csr)((csr.data, csr.indices, csr.indptr), shape=csr.shape)
    # The engines need sorted columns without duplicates, and no stored zeros. A matrix that is like this already is
    # not copied, because a copy would double the memory of a large block.
    has_zeros = np.count_nonzero(csr.data) != csr.nnz or len(csr.data) != csr.nnz
    if csr.dtype in (np.float32, np.float64) and csr.has_canonical_format and not has_zeros:
        return csr
    # `astype` copies, so that the caller's matrix is not changed.
    csr = csr.astype(csr.dtype if csr.dtype in (np.float32, np.float64) else np.float64)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return csr


def as_format(who: str, X: Any, name: str) -> Any:
    """Convert a sparse matrix to the format "csr" or "csc". Index arrays (CSR, CSC, BSR, COO) are checked first."""
    if X.format in ("csr", "csc", "bsr"):
        _check_structure(who, X)
    elif X.format == "coo":
        _check_numbers(who, "row", X.row, X.shape[0], "")
        _check_numbers(who, "column", X.col, X.shape[1], "")
    return X.asformat(name)


def _check_structure(who: str, X: Any) -> None:
    """Reject a CSR, CSC or BSR matrix whose arrays contradict each other or its shape."""
    outer, inner = X.shape[::-1] if X.format == "csc" else X.shape
    if X.format == "bsr":
        outer, inner = outer // X.blocksize[0], inner // X.blocksize[1]
    ends, numbers = X.indptr, X.indices
    are_ends = len(ends) == outer + 1 and ends[0] == 0 and ends[-1] <= len(numbers) == len(X.data)
    if not are_ends or (np.diff(ends) < 0).any():
        accepted = "a sparse matrix whose indptr ascends from 0 to at most the number of stored values"
        raise input_error(who, "X", accepted, "another indptr", _REMEDY)
    _check_numbers(who, {"csr": "column", "csc": "row", "bsr": "block column"}[X.format], numbers, inner, _REMEDY)


def _check_numbers(who: str, what: str, numbers: Any, limit: int, remedy: str) -> None:
    """Reject row or column numbers that are negative or not below the limit."""
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < limit:
        raise input_error(
            who, "X", f"a sparse matrix with {what} numbers from 0 to {limit - 1}",
            f"numbers from {numbers.min()} to {numbers.max()}", remedy,
        )  # fmt: skip
