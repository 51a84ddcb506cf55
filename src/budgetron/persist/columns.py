"""The columns of the files that a model learned from: what of X each makes, and what must be true of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.settings import Settings
from budgetron.persist.parts import check_arrays
from budgetron.persist.refusals import require
from budgetron.persist.schema import Column, Plan

ARRAYS = ("center", "count", "total", "squares")
LARGEST = 1e100
SCALED = ("number", "date")
_MOST_ROWS = 2.0**62


class Kept(NamedTuple):
    """The plan and its running state, as a model file has them; `budgetron.io` makes columns of it."""

    plan: Plan
    arrays: dict[str, NDArray[Any]]

    def saved(self) -> Kept:
        """What to write."""
        return self


def width(column: Column) -> int:
    """How many columns of X a column makes, those it is hashed into aside."""
    if column.kind == "number":
        return 1 + column.gaps
    if column.kind == "date":
        return 5 + 2 * column.clock + column.gaps
    return len(column.values) + 1 if column.kind == "category" and column.values is not None else 0


def is_hashed(column: Column) -> bool:
    """Whether a column's values are hashed into the columns of X that all such columns share."""
    return column.kind == "text" or (column.kind == "category" and column.values is None)


def check_columns(plan: Plan, arrays: Mapping[str, NDArray[Any]], settings: Settings) -> None:
    """Refuse a plan that contradicts itself, its state or the model."""
    names = [column.name for column in plan.columns]
    taken = [*names, *(name for name in (plan.label, plan.task) if name is not None and plan.layout == "table")]
    require(len(set(taken)) == len(taken), "columns", "of different names")
    require(plan.layout == "table" or not names, "columns", "none where the layout has no names")
    for column in plan.columns:
        require(column.kind in SCALED or not column.gaps, "columns", "such that numbers and dates alone have gaps")
        require(column.kind == "date" or not column.clock, "columns", "such that dates alone have a clock")
        values = column.values
        require(values is None or (column.kind == "category" and len(set(values)) == len(values)),
                "columns", "such that categories alone have values, none twice")  # fmt: skip
    hashed = plan.layout != "table" or any(map(is_hashed, plan.columns))
    require(hashed == (plan.hashed > 0), "columns.hashed", "above 0 exactly where something is hashed")
    total = plan.hashed + sum(map(width, plan.columns))
    require(total == settings.n_features, "columns", f"{settings.n_features} columns of X in all", str(total))
    require(hashed == settings.sparse, "columns", "hashed exactly where the model is sparse")
    k = sum(column.kind in SCALED for column in plan.columns)
    check_arrays("columns", arrays, {name: ("float64", (k,)) for name in ARRAYS})
    center, count, total_off, squares = (arrays[name] for name in ARRAYS)
    require((np.abs(center) <= LARGEST).all(), "columns.center", f"of numbers up to {LARGEST:g}")
    whole = (count >= 0).all() and (count <= _MOST_ROWS).all() and (count == np.floor(count)).all()
    require(whole, "columns.count", "counts of rows")
    most = 2 * LARGEST * count
    require((np.abs(total_off) <= most).all(), "columns.total", "sums of as many values as were counted")
    require(((squares >= 0) & (squares <= most * 2 * LARGEST)).all(), "columns.squares", "sums of squares of so many")
