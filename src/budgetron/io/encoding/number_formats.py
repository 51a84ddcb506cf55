"""Parse numbers with decimal commas and thousands separators, and words for missing values.

    ""           1234.5       plain: the compiled core parses such columns
    "1.234,5"    1.234,5      decimal comma; points, blanks or apostrophes may separate thousands
    "1,234.5"    1,234.5      decimal point; commas, blanks or apostrophes may separate thousands

`infer_types` decides the format of each column from the first rows. If all values are like 1,234, which fits both
formats, the other columns of the file decide. If they do not decide either, nothing is guessed: a warning asks the
caller for `decimal`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetron.io.encoding.values import LARGEST, MISSING, is_numeric_literal, looks_numeric, parse_number

COMMA, POINT = "1.234,5", "1,234.5"
ENOUGH = 0.95  # a column is numeric if at least this share of its values are numbers; the same holds for dates
# Common notations for missing values in columns of numbers and dates, in lower or upper case. In a column of categories
# they are values like any other, because "unknown" may be informative.
NA_LIKE = frozenset(
    {
        "-", "--", "---", ".", "..", "*", "na", "n/a", "n.a.", "n. a.", "n.a", "#na", "#n/a", "nan", "-nan", "1.#qnan",
        "null", "(null)", "nil", "none", "void", "missing", "unknown", "undefined", "not available", "not applicable",
        "empty", "blank", "nd", "n.d.", "n/d", "k.a.", "k. a.", "k.a", "ka", "unbekannt", "leer", "inconnu",
        "desconocido", "\\n", "#value!", "#ref!", "#div/0!", "#num!", "#null!", "#name?", "0000-00-00",
        "0000-00-00 00:00:00",
    }
)  # fmt: skip
_PADDING = " \t\u00a0"  # blanks before and after a number
_BLANKS = " \u00a0\u202f'’"  # blanks of all widths, and the apostrophes that separate thousands in Switzerland
_SEPARATORS = re.compile(f"[,{_BLANKS}]")
_GROUPED_POINTS = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+", re.ASCII)


def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    """Return the pattern of numbers with these separators. All thousands separators of a number must be equal."""
    # The digits before the first separator have no leading zero, so that 0,125 cannot be mistaken for 125. The pattern
    # \3 is the first separator again.
    integer = rf"([0-9]+|[1-9][0-9]{{0,2}}([{thousands}])[0-9]{{3}}(\3[0-9]{{3}})*)"
    return re.compile(rf"[+-]?({integer}({decimal}[0-9]*)?|{decimal}[0-9]+)"
                      r"([eE][+-]?[0-9]+)?", re.ASCII)  # fmt: skip


_PATTERNS = {COMMA: _pattern(",", "." + _BLANKS), POINT: _pattern(r"\.", "," + _BLANKS)}
_PATTERNS[""] = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
# The possessive *+ never backtracks, so a hostile file cannot make the match of a block slow.
_LINES = {format: re.compile(f"(?:{pattern.pattern}\n)*+", re.ASCII) for format, pattern in _PATTERNS.items()}
_TRANSLATIONS = {"": {}, COMMA: str.maketrans(",", ".", "." + _BLANKS), POINT: str.maketrans("", "", "," + _BLANKS)}


class NumberFormat(NamedTuple):
    """The format of the numbers in one column, and further words for missing values."""

    format: str = ""
    missing: tuple[str, ...] = ()

    def parse(self, text: str) -> float | None:
        """Parse a number; NaN if it is missing, None if the text is neither a number nor a missing value."""
        stripped = text.strip(_PADDING)
        if stripped in self.missing:
            return math.nan
        if not self.format:
            return parse_number(text)
        if stripped in MISSING:
            return math.nan
        if _PATTERNS[self.format].fullmatch(stripped) is None:
            return None
        number = float(stripped.translate(_TRANSLATIONS[self.format]))
        return number if abs(number) <= LARGEST else None

    def parse_all(self, texts: list[str]) -> NDArray[np.float64]:
        """Parse many numbers. Like `parse`, but infinity stands for a text that is neither a number nor missing."""
        ordinary = [text for text in texts if text not in MISSING and text not in self.missing]
        # One regular expression and one conversion for all texts take a fifth of the time of one call per text.
        joined = "\n".join(ordinary) + "\n"
        # A text with a newline would shift all later numbers, so the lines are counted too.
        if _LINES[self.format].fullmatch(joined) is None or joined.count("\n") != len(ordinary):
            values = [self.parse(text) for text in texts]
            return np.array([np.inf if value is None else value for value in values], dtype=np.float64)
        numbers = np.array(joined.translate(_TRANSLATIONS[self.format]).split("\n")[:-1], dtype=np.float64)
        numbers[np.abs(numbers) > LARGEST] = np.inf
        if len(ordinary) == len(texts):
            return numbers
        values_or_nan = np.full(len(texts), np.nan)
        values_or_nan[[text not in MISSING and text not in self.missing for text in texts]] = numbers
        return values_or_nan

    def is_number(self, text: str) -> bool:
        """Return whether a text has the form of a number in this column."""
        if self.format:
            return self.parse(text) is not None
        return (bool(self.missing) and text.strip(_PADDING) in self.missing) or looks_numeric(text)


def infer_formats(columns: Mapping[str, Mapping[str, int]], decimal: str | None, typed: bool) -> dict[str, str | None]:
    """Return the format of each column whose numbers are not plain; None if it cannot be decided.

    `columns` maps each column to its values and how often they occur, without missing values. `decimal` is the decimal
    separator that the caller named. `typed` says that the file format has numbers (JSON, Parquet), which are always
    plain.
    """
    values_of = {name: {value: n for value, n in values.items() if value.strip().casefold() not in NA_LIKE}
                 for name, values in columns.items()}  # fmt: skip
    if decimal is not None:
        stated = COMMA if decimal == "," else POINT
        always = decimal == "," and not typed  # a decimal comma may appear only after the first rows
        return {name: stated for name, values in values_of.items()
                if _share(values, stated) >= ENOUGH and (always or _is_special(values))}  # fmt: skip
    fitting = {name: [format for format in (COMMA, POINT) if _share(values, format) >= ENOUGH]
               for name, values in values_of.items() if _is_special(values)}  # fmt: skip
    formats: dict[str, str | None] = {name: fits[0] for name, fits in fitting.items() if len(fits) == 1}
    plain = {name: values for name, values in values_of.items() if name not in fitting}
    has_comma = COMMA in formats.values()
    has_point = POINT in formats.values() or any(map(_has_decimal_point, plain.values()))
    for name, fits in fitting.items():
        if len(fits) == 2:
            # If other columns have both decimal separators or none, the format stays undecided.
            formats[name] = None if has_comma == has_point else COMMA if has_comma else POINT
    if has_comma and not typed:  # in a file with 12,5 a value such as 1.234 means 1234
        formats |= {name: COMMA for name, values in plain.items() if _has_only_grouped_points(values)}
    return formats


def _share(values: Mapping[str, int], format: str) -> float:
    """Return the share of the values that have this format."""
    total = sum(values.values())
    fitting = sum(n for value, n in values.items() if _PATTERNS[format].fullmatch(value.strip()))
    return fitting / total if total else 0.0


def _is_special(values: Iterable[str]) -> bool:
    """Return whether some values are numbers with a comma, a blank or an apostrophe."""
    special = [value for value in values if _SEPARATORS.search(value.strip())]
    return any(pattern.fullmatch(value.strip()) for value in special[:100] for pattern in _PATTERNS.values())


def _has_decimal_point(values: Iterable[str]) -> bool:
    return any("." in value and is_numeric_literal(value) and _GROUPED_POINTS.fullmatch(value.strip()) is None
               for value in values)  # fmt: skip


def _has_only_grouped_points(values: Mapping[str, int]) -> bool:
    pointed = [value.strip() for value in values if "." in value]
    return bool(pointed) and _share(values, COMMA) >= ENOUGH and all(map(_GROUPED_POINTS.fullmatch, pointed))
