"""Encode rows of a table as X: scaled numbers and dates, one-hot categories, hashed words. Called by `columns`.

    number     (x − mean) / deviation, 0 if missing; plus an indicator of missing values if the first rows had some
    category   one column per value seen in the first rows, one for all other values; "missing" is a value too
    date       scaled days; sine and cosine of the weekday, of the day of the year and, if times are given, of the
               hour; plus the same indicator
    hashed     the last columns: "name=value" for a category with many values; words and pairs of words for a text,
               scaled so that the vector of each text has length 1
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetron.engine import native
from budgetron.io.encoding.running_scale import RunningScale
from budgetron.io.encoding.values import CodedColumn, parse_category, parse_date
from budgetron.persist.columns import SCALED, is_hashed, width
from budgetron.persist.schema import Column, Plan

Floats = NDArray[np.float64]
_DAYS = {"weekday": 7.0, "year": 365.2425, "hour": 1.0}  # the length of each period in days
_MONDAY = 4.0  # 1970-01-05, the first Monday after day 0, which was a Thursday


def encode_rows(
    plan: Plan, scaling: RunningScale, numbers: Floats, texts: Mapping[str, CodedColumn], learn: Any
) -> Any:
    """Return X: a dense array, or a CSR matrix if some column is hashed."""
    dates = {c.name: parse_dates(texts[c.name], c.missing) for c in plan.columns if c.kind == "date"}
    raw = _scaled_columns(plan, numbers, dates)
    scaled = scaling.scale(raw, learn)
    dense = _dense(plan, raw, scaled, texts, dates)
    if not plan.hashed:
        return dense
    hashed = [column for column in plan.columns if is_hashed(column)]
    return _join(dense, [(_hash_values(c, texts[c.name].values, plan.hashed), texts[c.name].codes) for c in hashed])


def feature_names(plan: Plan) -> list[str]:
    """Return the names of the columns of X, without the hashed columns at the end."""
    names = []
    for column in plan.columns:
        name = column.name
        if column.kind == "number":
            names.append(name)
        elif column.kind == "date":
            names.append(f"{name} days")
            names += [f"{name} {period} {part}" for period in _periods(column) for part in ("sine", "cosine")]
        elif column.values is not None:
            names += [f"{name}={value}" for value in column.values] + [f"{name}=other"]
        if column.gaps:
            names.append(f"{name} missing")
    return names


def hashed_names(plan: Plan, texts: Mapping[str, CodedColumn]) -> dict[int, str]:
    """Return the names of the hashed columns of X that these texts use. Names with the same hash are joined by "or"."""
    first, names = sum(map(width, plan.columns)), dict[int, str]()
    for column in filter(is_hashed, plan.columns):
        for value in texts[column.name].values:
            for offset, name in _hashed_columns(column, value, plan.hashed):
                known = names.setdefault(first + offset, name)
                if name not in known.split(" or "):
                    names[first + offset] = f"{known} or {name}"
    return names


def _hashed_columns(column: Column, value: str, size: int) -> Iterator[tuple[int, str]]:
    """Yield the hashed columns that a value sets, counted from 0, each with the name of its feature."""
    from sklearn.utils import murmurhash3_32

    if column.kind != "text":
        name = f"{column.name}={parse_category(value, column.missing)}"
        yield murmurhash3_32(name, positive=True) % size, name
        return
    shift = murmurhash3_32(column.name, positive=True) % size
    for word in dict.fromkeys(_vectorizer(size).build_analyzer()(value)):
        yield (abs(murmurhash3_32(word)) % size + shift) % size, f"{column.name}: {word}"  # as in `HashingVectorizer`


def parse_dates(column: CodedColumn, missing: Collection[str] = ()) -> Floats:
    """Parse a column of dates as days since 1970; NaN if missing, infinity if it is not a date."""
    distinct = parse_date_values(column.values, missing)
    return distinct[column.codes] if len(distinct) else np.zeros(len(column.codes))


def parse_date_values(values: list[str], missing: Collection[str] = ()) -> Floats:
    """Parse dates as days since 1970; NaN if missing, infinity if it is not a date."""
    # The core parses the usual formats and returns infinity for all others, which are parsed here.
    days = np.full(len(values), np.inf) if native.parse_dates is None else native.parse_dates(values)
    if missing:  # a code for a missing value may look like a date
        # Marked as unparsed, so that `parse_date` below turns them into NaN.
        days[[value.strip() in missing for value in values]] = np.inf
    for i in np.flatnonzero(np.isinf(days)).tolist():
        day = parse_date(values[i], missing)
        days[i] = np.inf if day is None else day
    return days


def _periods(column: Column) -> list[str]:
    return ["weekday", "year", "hour"] if column.clock else ["weekday", "year"]


def _scaled_columns(plan: Plan, numbers: Floats, dates: Mapping[str, Floats]) -> Floats:
    """Return the values that are to be scaled, of numbers and dates, in the order of the plan."""
    if not dates:
        return numbers
    number_columns = iter(numbers.T)
    columns = [dates[c.name] if c.kind == "date" else next(number_columns) for c in plan.columns if c.kind in SCALED]
    return np.stack(columns, axis=1)


def _dense(
    plan: Plan, raw: Floats, scaled: Floats, texts: Mapping[str, CodedColumn], dates: Mapping[str, Floats]
) -> Floats:
    """Return the columns of X that are not hashed: scaled numbers, parts of dates, indicators and one-hot columns."""
    total = sum(map(width, plan.columns))
    # Only numbers without missing values: no further columns are needed.
    if total == scaled.shape[1]:
        return scaled
    X = np.zeros((len(scaled), total))
    start, scaled_at = 0, []  # the first column of X for the current column; the columns of X with scaled values
    for column in plan.columns:
        n_columns = width(column)
        if column.kind in SCALED:
            scaled_at.append(start)
            if column.kind == "date":
                _write_periods(column, dates[column.name], X[:, start + 1 :])
            if column.gaps:
                # The last column of a number or date with gaps is the indicator of missing values.
                X[:, start + n_columns - 1] = np.isnan(raw[:, len(scaled_at) - 1])
        elif column.kind == "category" and column.values is not None:
            X[np.arange(len(X)), start + _one_hot_index(column, texts[column.name])] = 1.0
        start += n_columns
    X[:, scaled_at] = scaled
    return X


def _write_periods(column: Column, days: Floats, out: Floats) -> None:
    """Write each period as a point on a circle, so that Sunday is next to Monday and December next to January."""
    known = np.isfinite(days)
    since_monday = np.where(known, days, 0.0) - _MONDAY
    for number, period in enumerate(_periods(column)):
        turns = since_monday / _DAYS[period]
        angle = (turns - np.floor(turns)) * (2 * np.pi)  # the same numbers as turns % 1.0, which is slower
        out[:, 2 * number] = np.where(known, np.sin(angle), 0.0)
        out[:, 2 * number + 1] = np.where(known, np.cos(angle), 0.0)


def _one_hot_index(column: Column, text: CodedColumn) -> NDArray[np.intp]:
    """Return for each row which of the one-hot columns is 1. All unknown values share the last one."""
    assert column.values is not None
    known = {value: code for code, value in enumerate(column.values)}
    other = len(known)
    distinct = [known.get(parse_category(value, column.missing), other) for value in text.values]
    return np.array(distinct, dtype=np.intp)[text.codes]


def _hash_values(column: Column, values: list[str], size: int) -> sparse.csr_matrix:
    """Hash the values of one column: one row per value. All hashed columns of a file share the same columns of X."""
    from sklearn.utils import murmurhash3_32

    n = len(values)
    if column.kind != "text":
        names = [f"{column.name}={parse_category(value, column.missing)}" for value in values]
        indices = np.array([murmurhash3_32(name, positive=True) % size for name in names], dtype=np.int32)
        return sparse.csr_matrix((np.ones(n), indices, np.arange(n + 1)), shape=(n, size))
    # Shift by a hash of the column's name, so that the same word in two columns is not the same feature.
    shift = murmurhash3_32(column.name, positive=True) % size
    if native.hashed_words is not None:
        indptr, indices, data = native.hashed_words(values, size, shift)
        return sparse.csr_matrix((data, indices, indptr), shape=(n, size))
    words: sparse.csr_matrix = _vectorizer(size).transform(values)
    words.indices = (words.indices + shift) % size
    # The shift has broken the order of the columns; SciPy must not rely on it.
    words.has_sorted_indices = False
    return words


def _join(dense: Floats, parts: list[tuple[sparse.csr_matrix, NDArray[np.int32]]]) -> sparse.csr_matrix:
    """Join dense columns with hashed ones. A part is a column: its hashed values, and the index of each row's value."""
    shape = (len(dense), dense.shape[1] + parts[0][0].shape[1])
    if native.joined_rows is not None:
        coded = [(np.asarray(part.indptr, dtype=np.int64), part.indices, part.data, codes) for part, codes in parts]
        indptr, indices, data = native.joined_rows(dense, coded)
        return sparse.csr_matrix((data, indices, indptr), shape=shape)
    rows = [part[codes] for part, codes in parts]
    # All hashed columns of the file share the same columns of X, so their rows are added.
    joined = sparse.hstack([sparse.csr_matrix(dense), sum(rows[1:], rows[0])], format="csr")
    joined.sort_indices()
    return joined


@lru_cache(maxsize=4)
def _vectorizer(size: int) -> Any:
    """Return a vectorizer that hashes the words, and the pairs of words, of a text."""
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(
        n_features=size, ngram_range=(1, 2), alternate_sign=False, token_pattern=r"(?u)\b\w+\b"
    )
