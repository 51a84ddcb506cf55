"""Budgets: a number of examples, or bytes; and what a number of examples costs.

The formulas are those of the compiled core's containers; tests hold them against its own count of what it
allocated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from budgetron.errors import refuse, shown
from budgetron.settings import Settings

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
          "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip
_ACCEPTED = 'an integer >= 1, a size such as "64 MiB", or None for no limit'
FIXED = 8 * 1024  # objects, small tables, and what an allocator adds


@dataclass(frozen=True)
class Budget:
    """What the caller allows: so many examples, or so many bytes, or anything (both None)."""

    examples: int | None = None
    bytes: int | None = None


def budget_of(who: str, budget: Any) -> Budget:
    """The meaning of a learner's `budget` parameter."""
    if budget is None:
        return Budget()
    if isinstance(budget, (int, np.integer)) and not isinstance(budget, bool):
        if budget < 1:
            raise refuse(who, "budget", _ACCEPTED, shown(budget))
        return Budget(examples=int(budget))
    if isinstance(budget, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", budget.lower())
        if found and found[2] in _UNITS and float(found[1]) > 0:
            return Budget(bytes=int(float(found[1]) * _UNITS[found[2]]))
    raise refuse(who, "budget", _ACCEPTED, shown(budget), "Sizes are in B, KB, MB, GB or KiB, MiB, GiB.")


def planned(who: str, settings: Settings, limit: int, nonzeros: float) -> Settings:
    """The settings with the largest capacity whose bytes stay below the limit for ever.

    `nonzeros` is the usual number of non-zeros in a sparse row; longer rows take the place of several.
    """
    low, high = 0, 1
    while bytes_of(_with_capacity(settings, high, limit, nonzeros)) <= limit and high < 2**40:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if bytes_of(_with_capacity(settings, middle, limit, nonzeros)) <= limit:
            low = middle
        else:
            high = middle
    if low == 0:
        needed = bytes_of(_with_capacity(settings, 1, limit, nonzeros))
        raise refuse(who, "budget", f"at least {needed} bytes for rows of this size", f"{limit} bytes")
    return _with_capacity(settings, low, limit, nonzeros)


def name_bytes(limit: int) -> int:
    """The part of a byte budget that may go to the names of tasks."""
    return limit // 32


def _with_capacity(settings: Settings, capacity: int, limit: int, nonzeros: float) -> Settings:
    pool = max(16, int(np.ceil(capacity * nonzeros))) if settings.sparse else None
    rows = settings.max_task_rows
    if settings.rule == "shared_projectron":
        # Rows for all tasks where their number is known; else up to half of the bytes for rows.
        known = settings.graph.n_tasks
        wanted = 10**9 if known is None else known + 1
        rows = min(wanted if rows is None else rows, wanted, max(2, limit // 2 // _table_row(settings, capacity)))
    return replace(settings, capacity=capacity, pool=pool, max_task_rows=rows)


def bytes_of(settings: Settings) -> int:
    """Bytes that an engine with these settings may come to hold; capacity (and pool, where sparse) must be set."""
    slots = settings.capacity
    assert slots is not None
    item = np.dtype(settings.dtype).itemsize
    total = FIXED + slots * (24 + 16) + 8 * settings.n_outputs  # key, cluster, arrival; the two rows; margins
    if settings.sparse:
        assert settings.pool is not None
        pool = settings.pool
        buckets = 16
        while buckets * 2 < pool * 3:
            buckets *= 2
        total += (pool + pool // 3 + 1) * (4 + item) + (pool + pool // 8 + 1) * 4 + pool * 16 + buckets * 4
        total += slots * (8 + 4 + 8 + 8 + 8) + pool // (8 * slots) * (slots * item + 64)
    else:
        lanes = 256 // item
        rounded = -(-slots // lanes) * lanes
        total += rounded * (settings.n_features * item + 16 + 8 * item)
    if settings.rule in ("perceptron", "random", "forgetron", "projectron"):
        total += 2 * slots * 8 * settings.n_outputs
    if settings.rule == "forgetron":
        total += slots * 8
    if settings.rule in ("projectron", "shared_projectron"):
        total += 4 * slots * (slots + 1) + slots * 8 * (4 + 6)
    if settings.rule == "shared_projectron":
        assert settings.max_task_rows is not None
        total += slots * 8 + settings.max_task_rows * _table_row(settings, slots)
    return total


def _table_row(settings: Settings, slots: int) -> int:
    return slots * settings.n_outputs * 8 + 2 * (56 + 32) + 24  # headers, twice for growth by doubling; the index
