"""Budgets: a number of examples, or bytes; and what a number of examples costs.

The formulas are those of the compiled core's containers; tests hold them against its own count of what it
allocated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from budgetron.engine import native
from budgetron.engine.settings import Settings
from budgetron.errors import TooFewBytes, is_whole, refusal, refuse, shown
from budgetron.graphs import Explicit
from budgetron.kernels import Gaussian

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
          "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip
_ACCEPTED = 'an integer >= 1, a size such as "64 MiB", or None for no limit'
LARGEST = 2**40  # examples or bytes
_FACTORS: WeakKeyDictionary[Explicit, int] = WeakKeyDictionary()  # bytes of graphs' factors, found by making them once
FIXED = 8 * 1024  # objects, small tables, and what an allocator adds


@dataclass(frozen=True)
class Budget:
    """What the caller allows: so many examples, or so many bytes, or anything (both None)."""

    examples: int | None = None
    bytes: int | None = None


def budget_of(who: str, budget: Any, parameter: str = "budget") -> Budget:
    """The meaning of a learner's `budget` parameter, or of another one like it."""
    if budget is None:
        return Budget()
    if is_whole(budget):
        if not 1 <= budget <= LARGEST:
            raise refuse(
                who, parameter, _ACCEPTED, shown(budget), f"At most {LARGEST} can be counted." if budget > 1 else ""
            )
        return Budget(examples=int(budget))
    if isinstance(budget, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", budget.lower())
        if found and found[2] in _UNITS and 0 < float(found[1]) * _UNITS[found[2]] <= LARGEST:
            return Budget(bytes=int(float(found[1]) * _UNITS[found[2]]))
    raise refuse(who, parameter, _ACCEPTED, shown(budget), "Sizes are in B, KB, MB, GB or KiB, MiB, GiB.")


def planned(who: str, settings: Settings, budget: int, nonzeros: float, compiled: bool = True) -> Settings:
    """The settings with the largest capacity whose bytes stay below the budget for ever, names of tasks included.

    `nonzeros` is the usual number of non-zeros in a sparse row; longer rows take the place of several. The NumPy engine
    (not `compiled`) keeps whole matrices where the core keeps triangles.
    """
    limit = budget - name_bytes(budget)
    settings = replace(settings, column_cache=limit // 8)
    if settings.rule == "budgetron" and settings.sparse:
        settings = replace(settings, extra={**settings.extra, "slots": _slots(settings, limit * 3 // 4)})
    if settings.rule == "budgetron" and _whole(settings, compiled) > limit // 8:
        settings = replace(settings, extra={**settings.extra, "whole": False})

    def fits(capacity: int) -> bool:
        return bytes_of(_with_capacity(settings, capacity, limit, nonzeros), compiled) <= limit

    low, high = 0, 1
    while high < 2**40 and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low == 0:
        without_kernel = _without_kernel(settings)
        if without_kernel is not None:
            return planned(who, without_kernel, budget, nonzeros, compiled)
        needed = bytes_of(_with_capacity(settings, 1, limit, nonzeros), compiled) * 32 // 31 + 1
        what = "this graph and rows of this size" if _graph(settings) else "rows of this size"
        error = TooFewBytes(refusal(who, "budget", f"at least {needed} bytes for {what}", f"{budget} bytes"))
        error.needed = needed
        raise error
    if settings.kernel is None:
        low = 1  # nothing is stored
    return _with_capacity(settings, low, limit, nonzeros)


def name_bytes(limit: int) -> int:
    """The part of a byte budget that may go to the names of tasks."""
    return limit // 32


def table_slots(who: str, settings: Settings, size: int) -> int:
    """Cells of a hashed table of so many bytes."""
    slots = _slots(settings, size)
    if slots < 1:
        raise refuse(who, "table", "a size of at least one cell", f"{size} bytes")
    return slots


def _slots(settings: Settings, size: int) -> int:
    if not _linear(settings):
        return 1  # no linear part: no table
    cell = np.dtype(settings.dtype).itemsize * (_linear(settings) * (settings.n_outputs + 1) + 1)
    return min(size // cell, 2**31)


def _linear(settings: Settings) -> int:
    return sum(belief[0] > 0 for belief in settings.extra["beliefs"])


def _kernel(settings: Settings) -> int:
    return sum(belief[2] > 0 for belief in settings.extra["beliefs"])


def _without_kernel(settings: Settings) -> Settings | None:
    """A Budgetron whose bytes do not reach for one stored example goes without its kernel part."""
    if settings.rule != "budgetron" or settings.kernel is None or not _linear(settings):
        return None
    beliefs = [belief for belief in settings.extra["beliefs"] if belief[2] == 0]
    return (
        replace(settings, kernel=None, extra={**settings.extra, "beliefs": beliefs, "own_rank": 0}) if beliefs else None
    )


def _with_capacity(settings: Settings, capacity: int, limit: int, nonzeros: float) -> Settings:
    extra = settings.extra
    if settings.rule == "budgetron" and not extra["shared"]:
        capacity = min(capacity, max(1, extra["own_rank"]))  # nothing but anchors is stored
    pool = max(16, int(np.ceil(capacity * nonzeros))) if settings.sparse and settings.kernel is not None else None
    if settings.rule == "budgetron" and extra["own"] and settings.kernel is not None:
        extra = {**extra, "own_rank": min(extra["own_rank"], capacity // 8 if extra["shared"] else capacity)}
    settings = replace(settings, capacity=capacity, pool=pool, extra=extra)
    row = _table_row(settings)
    if row == 0:
        return settings
    # Rows for all tasks where their number is known; else a share of the bytes: half, and more where a row does not
    # grow with the capacity (which grows as the root of the bytes, while every task needs its row).
    known = settings.graph.n_tasks
    wanted = 10**9 if known is None else known + 1
    left = limit - (limit * 3 // 4 if settings.rule == "budgetron" and settings.sparse and _linear(settings) else 0)
    share = left * 3 // 4 if settings.rule == "budgetron" else left // 2
    if capacity == 1:  # the smallest budgets leave less than that half
        share = min(share, limit - bytes_of(replace(settings, max_task_rows=0)))
    cap = wanted if settings.max_task_rows is None else settings.max_task_rows
    return replace(settings, max_task_rows=min(cap, wanted, max(2, share // row)))


def bytes_of(settings: Settings, compiled: bool = True) -> int:
    """Bytes that an engine with these settings may come to hold; capacity (and pool, where sparse) must be set."""
    slots = settings.capacity
    assert slots is not None
    total = FIXED + slots * (24 + 16) + 8 * settings.n_outputs  # key, cluster, arrival; the two rows; margins
    total += _graph(settings) if compiled else 0  # the NumPy engine asks the caller's own graph
    if settings.kernel is not None:
        total += _store(settings, slots)
    if settings.rule in ("perceptron", "random", "forgetron", "projectron"):
        total += 2 * slots * 8 * settings.n_outputs
    if settings.rule == "forgetron":
        total += 2 * slots * 8
    if settings.rule in ("projectron", "shared_projectron", "budgetron") and settings.kernel is not None:
        total += _matrix(slots, compiled) + slots * 8 * (4 + 6)
    if settings.rule == "shared_projectron":
        total += slots * 8 * (2 if isinstance(settings.graph, Explicit) else 1)
    if settings.rule == "budgetron":
        total += _flagship(settings, slots, compiled)
    if _table_row(settings):
        assert settings.max_task_rows is not None
        total += settings.max_task_rows * _table_row(settings)
    return total


def _graph(settings: Settings) -> int:
    """What the core keeps of an explicit graph: A⁻¹, or a partial factor of A with some columns; and work space."""
    graph = settings.graph
    if not isinstance(graph, Explicit) or not native.available:
        return 0
    if graph.dense is not None:
        return int(graph.dense.size) * 8 + 16 * graph.n_tasks
    if graph not in _FACTORS:
        _FACTORS[graph] = native.graph_bytes(graph)
    return _FACTORS[graph] + max(settings.column_cache, 8 * graph.n_tasks + 160)


def _matrix(slots: int, compiled: bool) -> int:
    """A symmetric matrix: its triangle, or all of it."""
    return 4 * slots * (slots + 1) if compiled else 8 * (slots + 1) ** 2


def _store(settings: Settings, slots: int) -> int:
    item = np.dtype(settings.dtype).itemsize
    if not settings.sparse:
        lanes = 256 // item
        rounded = -(-slots // lanes) * lanes
        # The reference point, its candidate, and rows on their way to the store less the point.
        ahead = max(1, min(4, slots // 16))
        centring = (ahead + 2) * settings.n_features * item if isinstance(settings.kernel, Gaussian) else 0
        return rounded * (settings.n_features * item + 8 + 10 * item) + settings.n_features * item + centring
    pool = settings.pool
    assert pool is not None
    index = (pool + pool // 4 + 1) * 16  # a cell for each live feature
    postings = pool * (24 if item == 8 else 16) + 64
    columns = pool // (8 * slots) * (slots * item + 96)
    moving = pool * 2  # whole numbers on their way into floating point
    return index + postings + columns + moving + (pool + pool // 8 + 1) * 4 + slots * (3 * 4 + 5 * 8)


def _flagship(settings: Settings, slots: int, compiled: bool) -> int:
    """What a Budgetron holds beside the store, P and the rows."""
    linear, kernel, outputs = _linear(settings), _kernel(settings), settings.n_outputs
    item = np.dtype(settings.dtype).itemsize
    total = 64 * (linear + kernel) * (outputs + 2)
    if settings.sparse:
        total += settings.extra["slots"] * item * (linear * (outputs + 1) + 1)
        total += 2 * 16 * 192  # hashed features of a row and the next; what a longer row needs is gone after it
    else:
        total += (settings.n_features + 1) * 8 * (linear * (outputs + 1) + 3) + _whole(settings, compiled)
    if settings.kernel is not None and settings.extra["shared"]:
        total += kernel * (_matrix(slots, compiled) + slots * 8 * (2 * outputs + 2))
    rank: int = settings.extra["own_rank"]
    return total + 2 * 8 * (rank * (rank + 1) // 2 + 2 * rank)


def _whole(settings: Settings, compiled: bool) -> int:
    """The covariances of the shared linear part, where they are whole, and what a pass over them needs."""
    if not settings.extra["whole"]:
        return 0
    width = settings.n_features + 1
    return _linear(settings) * (_matrix(width, compiled) + 2 * 8 * width + 128)


def _table_row(settings: Settings) -> int:
    """Bytes of one row of weights; 0 where the rule keeps none."""
    if settings.rule == "shared_projectron":
        assert settings.capacity is not None
        width = settings.capacity * settings.n_outputs
    elif settings.rule == "budgetron" and settings.extra["own"]:
        linear = 0 if settings.sparse else _linear(settings) * (settings.n_features + 1)
        width = (settings.n_outputs + 1) * (linear + _kernel(settings) * settings.extra["own_rank"])
    else:
        width = 0
    return width * 8 + 2 * (56 + 32) + 24 if width else 0  # headers, twice for growth by doubling; the index
