"""Rows of a table to X: numbers and dates scaled, few categories a column each, many categories and words hashed.

    number     (x − mean) / deviation, 0 for a gap; then a column that is 1 at gaps, where the first rows had some
    category   a column for each value of the first rows and one for all others; a gap is a value too
    date       days, scaled; sine and cosine of the weekday, of the day of the year and, with a clock, of the hour; gaps
    hashed     behind all these: name=value of a category; words and pairs of words of a text, with length 1
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetron.io.scaling import Scaling
from budgetron.io.values import Coded, category_of, moment_of
from budgetron.persist.columns import SCALED, is_hashed, width
from budgetron.persist.schema import Column, Plan

Floats = NDArray[np.float64]
_DAYS = {"weekday": 7.0, "year": 365.2425, "hour": 1.0}  # periods
_MONDAY = 4.0  # days after 1970-01-01, a Thursday


def encoded(plan: Plan, scaling: Scaling, numbers: Floats, texts: Mapping[str, Coded], learn: Any) -> Any:
    """X: an array, or a CSR matrix where something is hashed."""
    moments = {c.name: moments_of(texts[c.name]) for c in plan.columns if c.kind == "date"}
    raw = _scaled_columns(plan, numbers, moments)
    scaled = scaling.scaled(raw, learn)
    dense = _dense(plan, raw, scaled, texts, moments)
    if not plan.hashed:
        return dense
    parts = [_hashed(column, texts[column.name], plan.hashed) for column in plan.columns if is_hashed(column)]
    both = sparse.hstack([sparse.csr_matrix(dense), sum(parts[1:], parts[0])], format="csr")
    both.sort_indices()
    return both


def feature_names(plan: Plan) -> list[str]:
    """The names of the columns of X, those that are hashed into aside."""
    names = []
    for column in plan.columns:
        name = column.name
        if column.kind == "number":
            names.append(name)
        elif column.kind == "date":
            names.append(f"{name} days")
            names += [f"{name} {period} {wave}" for period in _periods(column) for wave in ("sine", "cosine")]
        elif column.values is not None:
            names += [f"{name}={value}" for value in column.values] + [f"{name}=other"]
        if column.gaps:
            names.append(f"{name} missing")
    return names


def moments_of(column: Coded) -> Floats:
    """A column of dates as days since 1970; NaN for a gap, infinity where it says no date."""
    each = np.array([np.inf if day is None else day for day in map(moment_of, column.values)], dtype=np.float64)
    return each[column.codes] if len(each) else np.zeros(len(column.codes))


def _periods(column: Column) -> list[str]:
    return ["weekday", "year", "hour"] if column.clock else ["weekday", "year"]


def _scaled_columns(plan: Plan, numbers: Floats, moments: Mapping[str, Floats]) -> Floats:
    if not moments:
        return numbers
    of_numbers = iter(numbers.T)
    columns = [moments[c.name] if c.kind == "date" else next(of_numbers) for c in plan.columns if c.kind in SCALED]
    return np.stack(columns, axis=1)


def _dense(
    plan: Plan, raw: Floats, scaled: Floats, texts: Mapping[str, Coded], moments: Mapping[str, Floats]
) -> Floats:
    total = sum(map(width, plan.columns))
    if total == scaled.shape[1]:
        return scaled
    X = np.zeros((len(scaled), total))
    at, places = 0, []
    for column in plan.columns:
        wide = width(column)
        if column.kind in SCALED:
            places.append(at)
            if column.kind == "date":
                _waves(column, moments[column.name], X[:, at + 1 :])
            if column.gaps:
                X[:, at + wide - 1] = np.isnan(raw[:, len(places) - 1])
        elif column.kind == "category" and column.values is not None:
            slots = _slots(column, texts[column.name])
            X[np.arange(len(X)), at + slots] = 1.0
        at += wide
    X[:, places] = scaled
    return X


def _waves(column: Column, days: Floats, out: Floats) -> None:
    known = np.isfinite(days)
    for number, period in enumerate(_periods(column)):
        angle = np.where(known, (days - _MONDAY) / _DAYS[period] % 1.0, 0.0) * (2 * np.pi)
        out[:, 2 * number] = np.where(known, np.sin(angle), 0.0)
        out[:, 2 * number + 1] = np.where(known, np.cos(angle), 0.0)


def _slots(column: Column, text: Coded) -> NDArray[np.intp]:
    """The place of each row's value among the column's; behind them, the place of all others."""
    assert column.values is not None
    known = {value: place for place, value in enumerate(column.values)}
    other = len(known)
    each = [known.get(category_of(value), other) for value in text.values]
    return np.array(each, dtype=np.intp)[text.codes]


def _hashed(column: Column, text: Coded, size: int) -> sparse.csr_matrix:
    """The rows of one column, in the columns of X that all hashed ones share."""
    from sklearn.utils import murmurhash3_32

    if column.kind == "text":
        words: sparse.csr_matrix = _vectorizer(size).transform(text.values)[text.codes]
        words.indices = (words.indices + murmurhash3_32(column.name, positive=True) % size) % size  # a place of its own
        words.has_sorted_indices = False
        return words
    names = [f"{column.name}={category_of(value)}" for value in text.values]
    each = np.array([murmurhash3_32(name, positive=True) % size for name in names], dtype=np.int32)
    n = len(text.codes)
    return sparse.csr_matrix((np.ones(n), each[text.codes], np.arange(n + 1)), shape=(n, size))


@lru_cache(maxsize=4)
def _vectorizer(size: int) -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(
        n_features=size, ngram_range=(1, 2), alternate_sign=False, token_pattern=r"(?u)\b\w+\b"
    )
