"""Nested records as flat ones: {"geo": {"lat": 1}} is {"geo.lat": 1}, wherever records come from.

Files, the service, `learn_one` and `inspect` call it, so that all of them name a feature in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def flattened(record: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return a record without objects within objects; the same record if it has none.

    >>> flattened({"geo": {"lat": 1, "at": {"hour": 7}}, "n": 2})
    {'geo.lat': 1, 'geo.at.hour': 7, 'n': 2}
    """
    if not any(isinstance(value, Mapping) for value in record.values()):
        return record
    return dict(_flat(record, ""))


def _flat(record: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
