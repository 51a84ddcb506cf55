"""Tasks and labels as JSON, and back, for a closed list of types.

    null, true, 7, 0.5, "ann"       as they are
    ["kind", …]                      any other type: bytes, dates, UUIDs, tuples, …; also numbers and texts that JSON
                                     lacks, such as infinity

A name of another type (an enum, a class of your own) raises `NoJSON`. Decoding never imports or calls anything outside
this list. Used in model files, in the write-ahead log and between shards.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import math
import uuid
from collections.abc import Callable, Hashable
from typing import Any

from budgetron.errors import BudgetronError
from budgetron.file_errors import invalid, reported_as_file_error

_MAX_DEPTH = 16  # how deep tuples may be nested, so that a hostile file cannot cause a deep recursion
_MAX_DIGITS = 4000  # the longest integer; Python does not parse integers of more than 4300 digits
_TOO_LARGE = 10**_MAX_DIGITS


class NoJSON(BudgetronError):
    """The name of a task or label cannot be represented in JSON."""


_WRITE: dict[type, tuple[str, Callable[[Any], Any]]] = {
    bytes: ("bytes", bytes.hex),
    complex: ("complex", lambda value: [value.real.hex(), value.imag.hex()]),
    datetime.date: ("date", datetime.date.isoformat),
    datetime.datetime: ("datetime", datetime.datetime.isoformat),
    datetime.time: ("time", datetime.time.isoformat),
    datetime.timedelta: ("timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    uuid.UUID: ("uuid", lambda value: value.hex),
    decimal.Decimal: ("decimal", str),
    fractions.Fraction: ("fraction", lambda value: [value.numerator, value.denominator]),
}
_READ: dict[str, Callable[[Any], Any]] = {
    "str": lambda text: bytes.fromhex(text).decode("utf-8", "surrogatepass"),
    "float": float.fromhex,
    "bytes": bytes.fromhex,
    "complex": lambda parts: complex(*(float.fromhex(part) for part in parts)),
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda parts: datetime.timedelta(*parts),
    "uuid": lambda text: uuid.UUID(hex=text),
    "decimal": decimal.Decimal,
    "fraction": lambda parts: fractions.Fraction(*(_check_digits(part) for part in parts)),
}


def encode_name(name: Any) -> Any:
    """Encode a name as JSON values. Raises `NoJSON` unless decoding them returns the same name."""
    json_value = _to_json(name, 0)
    try:
        back = decode_name(json_value)
    except ValueError:
        raise NoJSON from None
    if not _is_same_name(back, name):
        raise NoJSON
    return json_value


def decode_name(json_value: Any) -> Hashable:
    """Decode a name."""
    with reported_as_file_error("a name", "a task or label as JSON"):
        return _from_json(json_value, 0)


def _to_json(name: Any, depth: int) -> Any:
    """Encode a name at a depth of nesting."""
    if depth > _MAX_DEPTH or isinstance(name, enum.Enum):
        raise NoJSON
    if name is None or isinstance(name, bool):
        return name
    if isinstance(name, int):
        if abs(int(name)) >= _TOO_LARGE:
            raise NoJSON
        return int(name)
    if isinstance(name, float):
        return float(name) if math.isfinite(name) else ["float", float(name).hex()]
    if isinstance(name, str):
        try:
            name.encode()
        except UnicodeEncodeError:  # a lone surrogate, as in undecodable file names
            return ["str", name.encode("utf-8", "surrogatepass").hex()]
        return str(name)
    if isinstance(name, (tuple, frozenset)):
        return ["tuple" if isinstance(name, tuple) else "frozenset", *(_to_json(part, depth + 1) for part in name)]
    kind, write = _WRITE.get(type(name), (None, None))
    if kind is None or write is None:
        raise NoJSON
    return [kind, write(name)]


def _from_json(json_value: Any, depth: int) -> Hashable:
    """Decode a name at a depth of nesting."""
    if isinstance(json_value, int) and not isinstance(json_value, bool):
        return _check_digits(json_value)
    if json_value is None or isinstance(json_value, (bool, float, str)):
        return json_value
    if depth > _MAX_DEPTH or not isinstance(json_value, list) or not json_value or not isinstance(json_value[0], str):
        accepted = f"a plain value, or a list that begins with its kind, at most {_MAX_DEPTH} deep"
        raise invalid("a name", accepted, "another value")
    kind, parts = json_value[0], json_value[1:]
    if kind in ("tuple", "frozenset"):
        values = [_from_json(part, depth + 1) for part in parts]
        return tuple(values) if kind == "tuple" else frozenset(values)
    if kind not in _READ or len(parts) != 1:
        raise invalid("a name", f"of a known kind ({', '.join(_READ)}, tuple, frozenset)", repr(kind)[:40])
    value: Hashable = _READ[kind](parts[0])
    return value


def _check_digits(number: Any) -> int:
    """Return the number; reject it if it is not an integer or has too many digits."""
    if not isinstance(number, int) or abs(number) >= _TOO_LARGE:
        raise invalid("a name", f"an integer of at most {_MAX_DIGITS} digits", "another")
    return number


def _is_same_name(back: Any, name: Any) -> bool:
    """Whether a decoded name equals the original. It differs if, say, a time had a `fold` or a named time zone."""
    if isinstance(name, tuple):
        return len(back) == len(name) and all(map(_is_same_name, back, name))
    if isinstance(name, (str, int, float, frozenset)):
        return bool(back == name)
    return repr(back) == repr(name)
