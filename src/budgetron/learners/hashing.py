"""Dicts of features as sparse rows: every feature name is hashed to a column.

Used wherever examples may be dicts: `learn_one`, `predict_one`, the service, river. The hash is the same in every
process and on every machine, so that a saved model reads the same features again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from scipy import sparse

from budgetron.engine.records import SparseRow
from budgetron.errors import refuse, refuse_type, shown

DICT_FEATURES = 2**18  # columns that feature names are hashed to


def hashed_rows(who: str, dicts: Iterable[Mapping[Any, Any]], n_features: int) -> sparse.csr_matrix:
    """A CSR matrix with one row per dict of features."""
    rows = [_entries(who, features, n_features) for features in dicts]
    indptr = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    indices = np.array([column for columns, _ in rows for column in columns], dtype=np.int32)
    data = np.array([value for _, values in rows for value in values], dtype=np.float64)
    return sparse.csr_matrix((data, indices, indptr), shape=(len(rows), n_features))


def hashed_row(who: str, features: Mapping[Any, Any], n_features: int, dtype: str) -> SparseRow:
    """One dict as a sparse row for the compiled engine. A SciPy matrix would take longer to build than to learn."""
    columns, values = _entries(who, features, n_features)
    return SparseRow(
        np.array([0, len(columns)]), np.array(columns, dtype=np.int32), np.array(values, dtype=dtype)
    )


def _entries(who: str, features: Mapping[Any, Any], n_features: int) -> tuple[list[int], list[float]]:
    """The columns in ascending order and their values, without zeros.

    A number is the value of its feature. A string value makes a feature of its own, "name=value", with value 1.
    """
    entries: dict[int, float] = {}
    for name, value in features.items():
        if type(value) is not float:
            if isinstance(value, str):
                name, value = f"{name}={value}", 1.0
            else:
                value = _as_float(who, name, value)
        column = _column(name if type(name) is str else str(name), n_features)
        entries[column] = entries.get(column, 0.0) + value
    columns = [column for column in sorted(entries) if entries[column] != 0.0]
    return columns, [entries[column] for column in columns]


def names_of(features: Mapping[Any, Any], n_features: int) -> dict[int, str]:
    """The names of the columns that a dict becomes. Names whose hashes agree are joined: they have one weight."""
    names: dict[int, str] = {}
    for name, value in features.items():
        said = f"{name}={value}" if isinstance(value, str) else str(name)
        column = _column(said, n_features)
        names[column] = f"{names[column]} or {said}" if column in names else said
    return names


@lru_cache(maxsize=2**15)  # hashing is most of the cost of a dict; this bounds the cache to a few MB
def _column(name: str, n_features: int) -> int:
    """The column of a feature name."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % n_features


def _as_float(who: str, name: Any, value: Any) -> float:
    if not isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        raise refuse_type(who, f"the value of feature {shown(name)}", "a number or a string", shown(value))
    try:
        return float(value)
    except OverflowError:
        raise refuse(
            who, f"the value of feature {shown(name)}", "a number within the range of float64", shown(value)
        ) from None
