"""Feature hashing: turns dicts of features into sparse rows. Every feature name is hashed to a column.

Used wherever examples may be dicts: `learn_one`, `predict_one`, the service, river. The hash is the same in every
process and on every machine, so a saved model finds the same features again. The core reads plain dicts (names are
strings or integers, values are numbers or strings) by the same rules as `_entries`; other mappings are read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from budgetron.engine import native
from budgetron.engine.records import SparseRow
from budgetron.errors import input_error, input_type_error, shown
from budgetron.graphs.hashed_names import feature_columns
from budgetron.learners.input.nested import flattened

DICT_FEATURES = 2**18  # the number of columns that feature names are hashed to


def hashed_rows(who: str, dicts: Iterable[Mapping[Any, Any]], n_features: int) -> sparse.csr_matrix:
    """Return a CSR matrix with one row per dict of features."""
    dicts = list(dicts)
    # The core handles plain dicts, and returns NotImplemented for all others.
    if native.hashed_rows is not None:
        arrays = native.hashed_rows(dicts, feature_columns(n_features))
        if arrays is not NotImplemented:
            indptr, indices, data = arrays
            return sparse.csr_matrix((data, indices, indptr), shape=(len(dicts), n_features))
    rows = [_entries(who, features, n_features) for features in dicts]
    indptr = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    indices = np.array([column for columns, _ in rows for column in columns], dtype=np.int32)
    data = np.array([value for _, values in rows for value in values], dtype=np.float64)
    return sparse.csr_matrix((data, indices, indptr), shape=(len(rows), n_features))


def hashed_row(who: str, features: Mapping[Any, Any], n_features: int, dtype: str) -> SparseRow:
    """Return one dict as a sparse row for the engine. Building a SciPy matrix would take longer than learning."""
    columns, values = _entries(who, features, n_features)
    return SparseRow(np.array([0, len(columns)]), np.array(columns, dtype=np.int32), np.array(values, dtype=dtype))


def _entries(who: str, features: Mapping[Any, Any], n_features: int) -> tuple[list[int], list[float]]:
    """Return the hashed columns of a dict in ascending order, and their values, without zeros.

    A number is the value of its feature. A string becomes a feature "name=value" with value 1. A list is joined to one
    string. Nested dicts are flattened. A feature whose value is None is left out.
    """
    entries: dict[int, float] = {}
    columns_of = feature_columns(n_features)
    for name, value in features.items():
        if type(value) is not float:
            if isinstance(value, str):
                name, value = f"{name}={value}", 1.0
            elif isinstance(value, Mapping):
                return _entries(who, flattened(features), n_features)
            elif isinstance(value, list | tuple):
                name, value = f"{name}={_joined(value)}", 1.0
            elif value is None:
                continue
            else:
                value = _as_float(who, name, value)
        column = columns_of[name if type(name) is str else str(name)]
        # Features with the same hash are added, as in scikit-learn's FeatureHasher without signs.
        entries[column] = entries.get(column, 0.0) + value
    columns = [column for column in sorted(entries) if entries[column] != 0.0]
    return columns, [entries[column] for column in columns]


def names_of(features: Mapping[Any, Any], n_features: int) -> dict[int, str]:
    """Return the feature name of each column. Names with the same hash are joined by "or": they share one weight."""
    names: dict[int, str] = {}
    columns_of = feature_columns(n_features)
    for name, value in flattened(features).items():
        if value is None:
            continue
        text = _joined(value) if isinstance(value, list | tuple) else value
        hashed = f"{name}={text}" if isinstance(text, str) else str(name)
        column = columns_of[hashed]
        names[column] = f"{names[column]} or {hashed}" if column in names else hashed
    return names


def _joined(values: Sequence[Any]) -> str:
    """Join a list to one string, with booleans as in JSON."""
    return " ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in values)


def _as_float(who: str, name: Any, value: Any) -> float:
    """Convert the value of a feature to a float; reject a value that is not a number."""
    if not isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        raise input_type_error(who, f"the value of feature {shown(name)}", "a number or a string", shown(value))
    try:
        return float(value)
    except OverflowError:
        raise input_error(
            who, f"the value of feature {shown(name)}", "a number within the range of float64", shown(value)
        ) from None
