"""The arguments of `io.read` about columns, and their checks that do not need the file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from budgetron.errors import input_error, input_type_error, shown

WHO = "io.read"
_MAX_NA_VALUES = 100


@dataclass(frozen=True)
class ColumnOptions:
    """The arguments of `io.read` about columns."""

    label: str | None = None
    task: str | None = None
    weight: str | None = None
    offset: str | None = None
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    decimal: str | None = None
    na_values: tuple[str, ...] = ()
    classes: tuple[Any, ...] | None = None

    @classmethod
    def of(
        cls, label: Any, task: Any, weight: Any, offset: Any, drop: Any, text: Any, categorical: Any, decimal: Any,
        na_values: Any, classes: Any,
    ) -> ColumnOptions:  # fmt: skip
        """Check the arguments of `stream.read`. A single name may be given instead of a list."""
        if decimal not in (None, ".", ","):
            raise input_error(WHO, "decimal", '".", "," or None to detect it', shown(decimal))
        # Numbers are accepted too: -999 and "-999" are the same code.
        codes = tuple(str(code).strip() for code in _as_tuple("na_values", na_values, str | int | float))
        if len(codes) > _MAX_NA_VALUES:
            raise input_error(WHO, "na_values", f"at most {_MAX_NA_VALUES} values", str(len(codes)))
        return cls(
            label, task, weight, offset, _as_tuple("drop", drop), _as_tuple("text", text),
            _as_tuple("categorical", categorical), decimal, codes, None if classes is None else tuple(classes),
        )  # fmt: skip

    def columns(self) -> Iterable[tuple[str, str]]:
        """Yield each column name that the caller gave, with the parameter it was given for."""
        for parameter in ("label", "task", "weight", "offset", "drop", "text", "categorical"):
            value = getattr(self, parameter)
            for name in (value,) if isinstance(value, str) else value or ():
                yield parameter, name


def _as_tuple(parameter: str, names: Any, kinds: Any = str) -> tuple[Any, ...]:
    """Convert a list that the caller passed to a tuple; a single value becomes a tuple of one."""
    if isinstance(names, kinds):
        return (names,)
    try:
        return tuple(names)
    except TypeError:
        raise input_type_error(WHO, parameter, "a list", shown(names)) from None
