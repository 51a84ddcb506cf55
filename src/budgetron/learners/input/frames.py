"""Validation of data frames of pandas and polars. Errors name the column that is not numeric.

Called by `validation`, for every X that is a data frame. It must not import pandas or polars: neither is required, and
a frame's own methods are enough to check it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from budgetron.errors import input_error, input_type_error, shown


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame of a library that states the type of each column."""
    # Look at the class: a pandas frame with a column named "schema" has an attribute `schema` too.
    kind = type(X)
    return hasattr(kind, "columns") and (hasattr(kind, "dtypes") or hasattr(kind, "schema"))


def check_frame(who: str, X: Any) -> None:
    """Reject a frame with a column that is not numeric or has missing values, or with a duplicate column name."""
    check_in_memory(who, "X", X)
    if not hasattr(X, "to_numpy"):
        return
    names = list(X.columns)
    # Two columns with the same name cannot be matched with the columns of a later frame.
    twice = [name for name, count in Counter(map(str, names)).items() if count > 1]
    if twice:
        raise input_error(who, "X", "a data frame with distinct column names", f"{shown(twice[0])} twice")
    if hasattr(type(X), "schema"):
        _check_polars(who, X)
    else:
        _check_pandas(who, X)


def check_in_memory(who: str, parameter: str, values: Any) -> None:
    """Reject a lazy frame, such as one of polars: it has no rows before it is collected."""
    if hasattr(type(values), "collect") and not hasattr(type(values), "to_numpy"):
        accepted = "in memory, an array, list or data frame"
        raise input_type_error(who, parameter, accepted, f"a {type(values).__name__}", "Call collect() first.")


def _check_polars(who: str, X: Any) -> None:
    """Reject columns that are not numeric, and missing values."""
    for name, dtype in X.schema.items():
        if dtype.is_temporal():
            raise _not_numbers(who, name, dtype, "Convert dates to numbers, such as days since a fixed date.")
        if not (dtype.is_numeric() or str(dtype) == "Boolean"):
            raise _not_numbers(who, name, dtype)
        if X[name].null_count():
            raise _missing(who, name, int(X[name].is_null().arg_max()))


def _check_pandas(who: str, X: Any) -> None:
    """Reject columns that are not numeric, and missing values."""
    for name, dtype in zip(X.columns, X.dtypes, strict=True):
        kind = getattr(dtype, "kind", "O")
        if kind in "mM":
            raise _not_numbers(who, name, dtype, "Convert dates to numbers, such as days since a fixed date.")
        if kind == "O" and not _has_numbers(X[name]):
            raise _not_numbers(who, name, dtype)
        plain = isinstance(dtype, np.dtype) and kind != "O"  # the only missing value is NaN, which the engine rejects
        if not plain and X[name].hasnans:
            raise _missing(who, name, int(X[name].isna().argmax()))


def _has_numbers(column: Any) -> bool:
    """Return whether a column of objects or categories converts to numbers, missing values aside."""
    try:
        column.astype("float64")
    except (TypeError, ValueError):
        # A missing value also fails to convert; it is reported as missing and not as text.
        return bool(column.isna().any()) and _has_numbers(column.dropna())
    return True


def _not_numbers(who: str, name: Any, dtype: Any, remedy: str = "") -> Exception:
    """Return the error for a column that is not numeric."""
    encode = "Encode it, for example with OneHotEncoder, or drop it. If it holds the task, pass task_column=..."
    return input_type_error(
        who, "X", "numeric in every column", f"column {shown(name)} of dtype {dtype}", remedy or encode
    )


def _missing(who: str, name: Any, row: int) -> Exception:
    got = f"a missing value in column {shown(name)}, row {row}"
    return input_error(who, "X", "free of missing values", got, "Impute the value or drop the row.")
