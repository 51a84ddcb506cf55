"""The column descriptions of a model that learned from files: how each column becomes columns of X.

`budgetron.io` makes and uses them; `budgetron.learners` saves them with the model and validates them on loading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.settings import Settings
from budgetron.file_errors import require
from budgetron.persist.parts import check_arrays
from budgetron.persist.schema import Column, Plan

ARRAYS = ("center", "count", "total", "squares")
LARGEST = 1e100  # the largest accepted number in a file, see `budgetron.io.encoding.values`
SCALED = ("number", "date")  # the kinds of columns that are scaled
_MAX_ROWS = 2.0**62


class SavedColumns(NamedTuple):
    """The column plan and its scales, as stored in a model file. `budgetron.io` turns them into `Columns`."""

    plan: Plan
    arrays: dict[str, NDArray[Any]]

    def saved(self) -> SavedColumns:
        """Return this object, so that it can be saved like `budgetron.io.encoding.columns.Columns`."""
        return self


def width(column: Column) -> int:
    """Return how many columns of X belong to this column of the file alone: 0 if its values are hashed or ignored."""
    if column.kind == "number":
        return 1 + column.gaps
    if column.kind == "date":  # days; sine and cosine of weekday, day of the year and, with `clock`, the hour
        return 5 + 2 * column.clock + column.gaps
    # A category has one column of X per value, and one for all other values.
    return len(column.values) + 1 if column.kind == "category" and column.values is not None else 0


def is_hashed(column: Column) -> bool:
    """Whether a column's values are hashed into the columns of X that all such columns share."""
    return column.kind == "text" or (column.kind == "category" and column.values is None)


def check_columns(plan: Plan, arrays: Mapping[str, NDArray[Any]], settings: Settings) -> None:
    """Reject a plan that contradicts itself, its state or the model."""
    names = [column.name for column in plan.columns]
    others = (plan.label, plan.task, plan.weight, plan.offset)
    used_names = [*names, *(name for name in others if name is not None and plan.layout == "table")]
    require(len(set(used_names)) == len(used_names), "columns", "of different names")
    require(not (plan.whole_labels and plan.truth_labels), "columns", "with labels of one kind")
    for role in (plan.weight, plan.offset):
        require(plan.layout == "table" or role is None, "columns", "without weight and offset if columns have no names")
    require(plan.layout == "table" or not names, "columns", "empty if the layout has no column names")
    for column in plan.columns:
        require(column.kind in SCALED or not column.gaps, "columns", "with gaps in columns of numbers and dates only")
        require(column.kind == "date" or not column.clock, "columns", "with a clock in columns of dates only")
        require(column.kind == "number" or not column.format, "columns", "with a format in columns of numbers only")
        values = column.values
        require(values is None or (column.kind == "category" and len(set(values)) == len(values)),
                "columns", "with values, without duplicates, in columns of categories only")  # fmt: skip
    hashed = plan.layout != "table" or any(map(is_hashed, plan.columns))
    require(hashed == (plan.hashed > 0), "columns.hashed", "above 0 if and only if a column is hashed")
    total = plan.hashed + sum(map(width, plan.columns))
    require(total == settings.n_features, "columns", f"{settings.n_features} columns of X in all", str(total))
    require(hashed == settings.sparse, "columns", "hashed if and only if the model is sparse")
    k = sum(column.kind in SCALED for column in plan.columns)
    check_arrays("columns", arrays, {name: ("float64", (k,)) for name in ARRAYS})
    center, count, sums, squares = (arrays[name] for name in ARRAYS)
    require((np.abs(center) <= LARGEST).all(), "columns.center", f"of numbers up to {LARGEST:g}")
    are_counts = (count >= 0).all() and (count <= _MAX_ROWS).all() and (count == np.floor(count)).all()
    require(are_counts, "columns.count", "counts of rows")
    # The sums are over differences from `center`. Each difference is at most 2 LARGEST, which bounds the sums.
    bound = 2 * LARGEST * count
    require((np.abs(sums) <= bound).all(), "columns.total", "sums of as many values as were counted")
    in_range = ((squares >= 0) & (squares <= bound * 2 * LARGEST)).all()
    require(in_range, "columns.squares", "sums of squares of as many values")
