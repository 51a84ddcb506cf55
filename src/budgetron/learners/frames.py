"""Data frames of pandas and polars at the door: what is not a number is refused by the name of its column.

Neither library is imported here: a frame brings what is needed to look at it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from budgetron.errors import refuse, refuse_type, shown


def is_frame(X: Any) -> bool:
    """Whether X is a data frame, of a library that tells the kind of each column."""
    kind = type(X)  # a frame may have a column that is called schema
    return hasattr(kind, "columns") and (hasattr(kind, "dtypes") or hasattr(kind, "schema"))


def check_frame(who: str, X: Any) -> None:
    """Refuse a frame with a column that holds no numbers, or not all of them."""
    if not hasattr(X, "to_numpy"):
        if hasattr(X, "collect"):
            raise refuse_type(who, "X", "a frame with its rows at hand", type(X).__name__, "Call collect() first.")
        return
    names = list(X.columns)
    twice = [name for name, count in Counter(map(str, names)).items() if count > 1]
    if twice:
        raise refuse(who, "X", "a frame whose columns have different names", f"{shown(twice[0])} twice")
    if hasattr(type(X), "schema"):
        _check_polars(who, X)
    else:
        _check_pandas(who, X)


def _check_polars(who: str, X: Any) -> None:
    for name, dtype in X.schema.items():
        if dtype.is_temporal():
            raise _not_numbers(who, name, dtype, "Make a number of a date: days since one.")
        if not (dtype.is_numeric() or str(dtype) == "Boolean"):
            raise _not_numbers(who, name, dtype)
        if X[name].null_count():
            raise _missing(who, name, int(X[name].is_null().arg_max()))


def _check_pandas(who: str, X: Any) -> None:
    for name, dtype in zip(X.columns, X.dtypes, strict=True):
        kind = getattr(dtype, "kind", "O")
        if kind in "mM":
            raise _not_numbers(who, name, dtype, "Make a number of a date: days since one.")
        if kind == "O" and not _holds_numbers(X[name]):
            raise _not_numbers(who, name, dtype)
        plain = isinstance(dtype, np.dtype) and kind != "O"  # nothing is missing there; NaN is seen later
        if not plain and X[name].hasnans:
            raise _missing(who, name, int(X[name].isna().argmax()))


def _holds_numbers(column: Any) -> bool:
    """Whether a column of any kind can be read as numbers: objects may be, categories may stand for some."""
    try:
        column.astype("float64")
    except (TypeError, ValueError):
        return bool(column.isna().any()) and _holds_numbers(column.dropna())
    return True


def _not_numbers(who: str, name: Any, dtype: Any, remedy: str = "") -> Exception:
    usual = "Encode it (OneHotEncoder) or drop it; if it is the task, say so: task_column=..."
    return refuse_type(who, "X", "numbers in every column", f"column {shown(name)} of dtype {dtype}", remedy or usual)


def _missing(who: str, name: Any, row: int) -> Exception:
    came = f"a missing value in column {shown(name)}, row {row}"
    return refuse(who, "X", "without missing values", came, "Impute or drop such rows.")
