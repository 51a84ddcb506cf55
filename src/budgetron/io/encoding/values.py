"""Parse single values: numbers, missing values, dates, categories, tasks. The rules are the same for every format.

number    digits with at most one point, optionally with a sign and an exponent; at most 1e100 in absolute value;
          true and false are 1 and 0, whatever the case
missing   nothing, or one of the words in `MISSING`
date      2024-02-29, optionally with a time (2024-02-29 12:30:00.5), and then also a zone (Z or +02:00)
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e100  # the largest absolute value of a number, so that squares and their sums are finite
MISSING = frozenset({"", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "<NA>", "#N/A"})
# Words for missing labels and tasks. They are fewer than in MISSING, because "NA" may be Namibia and "None" a class.
NO_NAME = frozenset({"", "NaN", "nan", "null", "NULL", "<NA>"})
_NUMBER = re.compile(r"[ \t]*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*", re.ASCII)
_TASK = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}.*)?", re.ASCII)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TRUTH_NUMBERS = {"true": 1.0, "false": 0.0}
_TRUTH_LABELS = {"true": True, "false": False, "1": True, "0": False}


class CodedColumn(NamedTuple):
    """A column of text: its distinct values, and for each row the index of its value."""

    values: list[str]
    codes: NDArray[np.int32]

    def rows(self, keep: Any) -> CodedColumn:
        """Return some of the rows."""
        return CodedColumn(self.values, self.codes[keep])


def code_texts(texts: Iterable[str]) -> CodedColumn:
    """Encode texts as a list of distinct values and, for each text, the index of its value."""
    code_of: dict[str, int] = {}
    codes = [code_of.setdefault(text, len(code_of)) for text in texts]
    return CodedColumn(list(code_of), np.array(codes, dtype=np.int32))


def parse_number(text: str) -> float | None:
    """Parse a number; NaN if it is missing, None if the text is neither a number nor a missing value."""
    stripped = text.strip(" \t")
    if stripped in MISSING:
        return math.nan
    # Python's float accepts more, such as "1_000", "nan" and full-width digits; the core does not.
    if _NUMBER.fullmatch(text) is None:
        return _TRUTH_NUMBERS.get(stripped.lower())
    number = float(text)
    return number if abs(number) <= LARGEST else None


def looks_numeric(text: str) -> bool:
    """Return whether a text may be in a column of numbers: a number of any size, inf, true, false, or missing."""
    if is_numeric_literal(text):
        return True
    stripped = text.strip(" \t")
    word = stripped.lower()
    return stripped in MISSING or word in _TRUTH_NUMBERS or word.lstrip("+-") in ("inf", "infinity")


def is_numeric_literal(text: str) -> bool:
    """Return whether a text is a number in digits, and not a word such as "true" or a missing value."""
    return _NUMBER.fullmatch(text) is not None


def parse_date(text: str, missing: Collection[str] = ()) -> float | None:
    """Parse a date to days since 1970; NaN if it is missing, None if it is not a date. Without a zone it is UTC."""
    stripped = text.strip()
    if stripped in MISSING or stripped in missing:
        return math.nan
    if _DATE.fullmatch(stripped) is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(stripped)
        moment = moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment
        return (moment - _EPOCH).total_seconds() / 86400.0
    except (ValueError, OverflowError):
        return None


def parse_integer(text: str) -> int | None:
    """Parse an integer label below 2⁵³ in absolute value; None for other texts, also for "true" and "false"."""
    number = parse_number(text) if is_numeric_literal(text) else None
    return int(number) if number is not None and number == math.floor(number) and abs(number) < 2**53 else None


def parse_truth(text: str) -> bool | None:
    """Parse a boolean label: true, True, TRUE or 1, and likewise false and 0; None if the text is not a boolean."""
    return _TRUTH_LABELS.get(text.strip().lower())


def parse_category(text: str, missing: Collection[str] = ()) -> str:
    """Return a category: the text without surrounding white space. All missing values are one category, ""."""
    stripped = text.strip()
    return "" if stripped in MISSING or stripped in missing else stripped


@lru_cache(maxsize=1 << 16)
def parse_task(text: str) -> int | str:
    """Parse a task: an integer of up to 18 digits if Python prints it in the same way, otherwise a text such as 007."""
    return int(text) if _TASK.fullmatch(text) else text


def format_value(value: Any) -> str:
    """Format a typed value, such as a JSON or Parquet value, as a delimited file would contain it."""
    if isinstance(value, str):
        # JSON can escape half of a surrogate pair, as in an emoji that was cut. UTF-8 cannot encode it, so a model file
        # could not store it.
        return value if value.isascii() else _HALF_PAIR.sub("\ufffd", value)
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return " ".join(map(format_value, value))
    return str(value)
