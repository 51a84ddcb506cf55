"""The cap on weight rows."""

from __future__ import annotations

from typing import Any

from budgetron.errors import is_whole, refuse, shown


def checked_rows(who: str, rows: Any) -> int | None:
    """`max_task_rows` as an integer, or None for no cap. One task and its cluster's common row must fit."""
    if rows is None:
        return None
    if not is_whole(rows) or rows < 2:
        raise refuse(who, "max_task_rows", "an integer >= 2 or None", shown(rows))
    return int(rows)
