"""Validation of `max_task_rows`, the limit on weight rows per model (SharedProjectron, Budgetron)."""

from __future__ import annotations

from typing import Any

from budgetron.errors import is_whole, refuse, shown


def checked_rows(who: str, rows: Any) -> int | None:
    """Return `max_task_rows` as an integer, or None for no limit.

    The least is 2: one row for a task and one for the sum of its cluster.
    """
    if rows is None:
        return None
    if not is_whole(rows) or rows < 2:
        raise refuse(who, "max_task_rows", "an integer >= 2 or None", shown(rows))
    return int(rows)
