"""Scale a complete data set for a kernel: rows to unit length (text), or columns to unit variance (measurements).

For experiments on stored data sets. Streams are scaled online by `budgetron.io.encoding.running_scale`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def unit_norm(X: Any) -> Any:
    """Return a copy of X with every row scaled to Euclidean length 1; zero rows stay zero.

    >>> import numpy as np
    >>> unit_norm(np.array([[3.0, 4.0], [0.0, 0.0]])).round(6).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    if sparse.issparse(X):
        lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel())
        return sparse.csr_matrix(sparse.diags(_inverse(lengths)) @ X)
    X = np.asarray(X, dtype=np.float64)
    return X * _inverse(np.linalg.norm(X, axis=1))[:, None]


def standardized(X: Any) -> Any:
    """Return a copy of the array X with columns of mean 0 and variance 1; constant columns become 0.

    The means are taken over all rows, so the scale of the first example depends on the last one. Published tables do
    this to compare learners on a stored data set. In production, use means and deviations of past examples only.

    >>> import numpy as np
    >>> standardized(np.array([[1.0, 7.0], [3.0, 7.0]])).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    X = np.asarray(X, dtype=np.float64)
    return (X - X.mean(axis=0)) * _inverse(X.std(axis=0))


def _inverse(lengths: Any) -> Any:
    """Return 1/length, and 0 for a length of 0."""
    return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
