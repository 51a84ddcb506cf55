"""Errors about input that does not fit a model.

Except for `check_same_classes`, nothing in here runs unless a call is rejected.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetron.engine.records import SparseRow
from budgetron.errors import InputError, input_error, input_type_error, shown


def bad_row(who: str, rows: Any, bad: int, names: Any) -> InputError:
    """Return the error for a row that is not finite or too large. `names` are the column names, or None."""
    is_sparse = sparse.issparse(rows) or isinstance(rows, SparseRow)
    row = rows.data if isinstance(rows, SparseRow) else rows[bad].data if is_sparse else rows[bad]
    if np.isfinite(row).all():
        got = f"row {bad} with values up to {np.abs(row).max():g}"
        accepted = "small enough for the kernel to be computed without overflow"
        return input_error(who, "X", accepted, got, "Scale the features.")
    where = ""
    if not is_sparse:
        column = int(np.flatnonzero(~np.isfinite(row))[0])
        where = f" in column {column if names is None else shown(names[column])}"
    return input_error(who, "X", "finite", f"row {bad} with NaN or inf (infinity){where}", "Impute or drop such rows.")


def check_same_classes(who: str, classes: Any, values: NDArray[Any]) -> None:
    """Reject `classes=` that differs from the classes of the first call."""
    if not np.array_equal(np.unique(np.asarray(classes)), values):
        raise input_error(who, "classes", f"the same as in the first call, {shown(values.tolist())}", shown(classes))


def wrong_arguments(
    who: str, method: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]
) -> InputError | None:
    """Return the error for a call with too many positional arguments or with an unknown name; None for other calls."""
    _, *parameters = inspect.signature(method).parameters.values()
    by_name = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    first = [parameter.name for parameter in parameters if parameter.name not in by_name]
    unknown = next((name for name in named if name not in (*first, *by_name)), None)
    if unknown is not None:
        similar = get_close_matches(unknown, (*first, *by_name), n=1)
        got, remedy = f"{unknown}=", f"Did you mean {similar[0]}=?" if similar else ""
    elif len(given) > len(first):
        got, remedy = f"{len(given)} positional arguments", f"Pass {by_name[0]} and the others by name: {by_name[0]}=…"
    else:
        return None
    accepted = f"{', '.join(first)} and, by name, {', '.join(by_name)}"
    return input_type_error(who, f"the arguments of {method.__name__}", accepted, got, remedy)
