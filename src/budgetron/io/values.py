"""What a written value means: a number, a gap, a date, a word. The same rules for every format.

number    a sign, digits with at most one point, an exponent; absolute value up to 1e100; true and false are 1 and 0
gap       nothing, or one of the words of `MISSING`
date      2024-02-29, then perhaps a time, 2024-02-29 12:30:00.5, and a zone, Z or +02:00
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e100  # its square is still a number, with room for sums
MISSING = frozenset({"", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "<NA>", "#N/A"})
NO_NAME = frozenset({"", "NaN", "nan", "null", "NULL", "<NA>"})  # gaps among labels and tasks: NA may be Namibia
_NUMBER = re.compile(r"[ \t]*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*", re.ASCII)
_TASK = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}.*)?", re.ASCII)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TRUTH = {"true": 1.0, "false": 0.0}


class Coded(NamedTuple):
    """A column of text: its different values, and the number of the value on each row."""

    values: list[str]
    codes: NDArray[np.int32]

    def rows(self, keep: Any) -> Coded:
        """Some of the rows."""
        return Coded(self.values, self.codes[keep])


def coded(texts: Iterable[str]) -> Coded:
    """Texts as a coded column."""
    numbers: dict[str, int] = {}
    codes = [numbers.setdefault(text, len(numbers)) for text in texts]
    return Coded(list(numbers), np.array(codes, dtype=np.int32))


def number_of(text: str) -> float | None:
    """The number that a text says, NaN for a gap, None if it says neither."""
    stripped = text.strip(" \t")
    if stripped in MISSING:
        return math.nan
    if _NUMBER.fullmatch(text) is None:
        return _TRUTH.get(stripped.lower())
    number = float(text)
    return number if abs(number) <= LARGEST else None


def is_meant_as_number(text: str) -> bool:
    """Whether a text is a number, a gap, or a number that is none to us: infinite, or beyond `LARGEST`."""
    if number_of(text) is not None or is_in_digits(text):
        return True
    return text.strip(" \t").lower().lstrip("+-") in ("inf", "infinity")


def is_in_digits(text: str) -> bool:
    """Whether a text is a number in digits, no word for one and no gap."""
    return _NUMBER.fullmatch(text) is not None


def moment_of(text: str) -> float | None:
    """Days since 1970 of a date, NaN for a gap, None if it is neither. A time without a zone counts as universal."""
    stripped = text.strip()
    if stripped in MISSING:
        return math.nan
    if _DATE.fullmatch(stripped) is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(stripped)
        moment = moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment
        return (moment - _EPOCH).total_seconds() / 86400.0
    except (ValueError, OverflowError):
        return None


def whole_of(text: str) -> int | None:
    """The whole number that a label says, None if it says none; true and false are words here."""
    number = number_of(text) if is_in_digits(text) else None
    return int(number) if number is not None and number == math.floor(number) and abs(number) < 2**53 else None


def category_of(text: str) -> str:
    """A category: the text without blanks around it; gaps are one category, the empty one."""
    stripped = text.strip()
    return "" if stripped in MISSING else stripped


@lru_cache(maxsize=1 << 16)
def task_of(text: str) -> int | str:
    """A task: an integer where it is written as Python would write one, else the text."""
    return int(text) if _TASK.fullmatch(text) else text


def text_of(value: Any) -> str:
    """A typed value as a delimited file would have it."""
    if isinstance(value, str):
        return value
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
        return " ".join(map(text_of, value))
    return str(value)
