"""Flatten nested records: {"geo": {"lat": 1}} becomes {"geo.lat": 1}.

Files, the service, `learn_one` and `inspect` call it, so all of them name a feature in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def flattened(record: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return a flat copy of a record, or the record itself if no value is a mapping.

    >>> flattened({"geo": {"lat": 1, "at": {"hour": 7}}, "n": 2})
    {'geo.lat': 1, 'geo.at.hour': 7, 'n': 2}
    """
    # A record has few types of values, and most records have no nested ones.
    if not any(issubclass(kind, Mapping) for kind in set(map(type, record.values()))):
        return record
    return dict(_flat(record, ""))


def _flat(record: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the values of nested records, with names joined by dots."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
