"""The memory planner: parses budgets, and turns a byte budget into a number of stored examples.

`bytes_of` is an upper bound of what an engine allocates for given settings; `planned` searches for the largest capacity
whose bound stays within the budget. The formulas mirror the containers of the compiled core, so a change there needs a
change here: `tests/engine/memory` compares the bound with the core's own count of allocated bytes.

Symbols: B = capacity (slots), d = features, `item` = bytes per stored feature (4 or 8), `outputs` = 1 for two classes.
Called by learners when they make their engine, and by `budgetron.persist` to reject files whose model is too large.
The bound must never be below what the engine allocates; that would break the promise of a byte budget.
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
# Bytes of the factor of each explicit graph. Its fill-in cannot be predicted, so the core factors the graph once; the
# size is remembered for as long as the graph lives.
_FACTORS: WeakKeyDictionary[Explicit, int] = WeakKeyDictionary()
FIXED = 8 * 1024  # objects of constant size, small tables, and the allocator's overhead


@dataclass(frozen=True)
class Budget:
    """A parsed budget: a number of examples, or a number of bytes, or no limit (both None)."""

    examples: int | None = None
    bytes: int | None = None


def budget_of(who: str, budget: Any, parameter: str = "budget") -> Budget:
    """Parse a learner's `budget` parameter, or another parameter with the same syntax."""
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
    """Return the settings with the largest capacity whose memory never exceeds the budget, task names included.

    `nonzeros` is the expected number of non-zeros per sparse row; a longer row takes the space of several. The NumPy
    engine (not `compiled`) stores full matrices where the core stores triangles.
    """
    # Parts of the budget that do not depend on the capacity are set first, as fixed shares: 1/32 for task names, 1/8 of
    # the rest for cached columns of a large graph, 3/4 for a Budgetron's hashed table (its linear part is what makes it
    # accurate on sparse rows). A full covariance of its linear part is used only if it needs at most 1/8.
    limit = budget - name_bytes(budget)
    settings = replace(settings, column_cache=limit // 8)
    if settings.rule == "budgetron" and settings.sparse:
        settings = replace(settings, extra={**settings.extra, "slots": _slots(settings, limit * 3 // 4)})
    if settings.rule == "budgetron" and _whole(settings, compiled) > limit // 8:
        settings = replace(settings, extra={**settings.extra, "whole": False})

    def fits(capacity: int) -> bool:
        return bytes_of(_with_capacity(settings, capacity, limit, nonzeros), compiled) <= limit

    # `bytes_of` grows with the capacity: double until it no longer fits, then bisect. `low` fits, `high` does not.
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
        # Names take 1/32 of a budget, so the engine's bytes are 31/32 of what the budget must be.
        needed = bytes_of(_with_capacity(settings, 1, limit, nonzeros), compiled) * 32 // 31 + 1
        what = "this graph and rows of this size" if _graph(settings) else "rows of this size"
        error = TooFewBytes(refusal(who, "budget", f"at least {needed} bytes for {what}", f"{budget} bytes"))
        error.needed = needed
        raise error
    if settings.kernel is None:
        low = 1  # without a kernel nothing is stored, and the search would end at its upper limit
    return _with_capacity(settings, low, limit, nonzeros)


def name_bytes(limit: int) -> int:
    """Return the share of a byte budget that task names may take: 1/32."""
    return limit // 32


def table_slots(who: str, settings: Settings, size: int) -> int:
    """Return the number of cells of a hashed table of `size` bytes."""
    slots = _slots(settings, size)
    if slots < 1:
        raise refuse(who, "table", "a size of at least one cell", f"{size} bytes")
    return slots


def _slots(settings: Settings, size: int) -> int:
    if not _linear(settings):
        return 1  # without a linear part there is no table
    # A cell holds, per belief with a linear part, the weights of all outputs and a variance; and one scale in common.
    cell = np.dtype(settings.dtype).itemsize * (_linear(settings) * (settings.n_outputs + 1) + 1)
    return min(size // cell, 2**31)


def _linear(settings: Settings) -> int:
    """Return how many beliefs have a linear part: their first number, its prior variance, is above 0."""
    return sum(belief[0] > 0 for belief in settings.extra["beliefs"])


def _kernel(settings: Settings) -> int:
    """Return how many beliefs have a kernel part: their third number, its prior variance, is above 0."""
    return sum(belief[2] > 0 for belief in settings.extra["beliefs"])


def _without_kernel(settings: Settings) -> Settings | None:
    """Return a Budgetron without its kernel part, for budgets too small to store one example; None if impossible."""
    if settings.rule != "budgetron" or settings.kernel is None or not _linear(settings):
        return None
    beliefs = [belief for belief in settings.extra["beliefs"] if belief[2] == 0]
    return (
        replace(settings, kernel=None, extra={**settings.extra, "beliefs": beliefs, "own_rank": 0}) if beliefs else None
    )


def _with_capacity(settings: Settings, capacity: int, limit: int, nonzeros: float) -> Settings:
    """Return the settings with this capacity, and with the pool, anchors and task rows that go with it."""
    extra = settings.extra
    if settings.rule == "budgetron" and not extra["shared"]:
        capacity = min(capacity, max(1, extra["own_rank"]))  # it stores only anchors
    # All sparse rows share one pool of non-zeros. 16 is a floor, so that a tiny capacity can store one short row.
    pool = max(16, int(np.ceil(capacity * nonzeros))) if settings.sparse and settings.kernel is not None else None
    # Anchors are stored examples that are never evicted. Next to shared examples they get at most an eighth of the
    # slots, or there would be nothing left to evict.
    if settings.rule == "budgetron" and extra["own"] and settings.kernel is not None:
        extra = {**extra, "own_rank": min(extra["own_rank"], capacity // 8 if extra["shared"] else capacity)}
    settings = replace(settings, capacity=capacity, pool=pool, extra=extra)
    row = _table_row(settings)
    if row == 0:
        return settings
    # Weight rows of tasks. If the number of tasks is known, there are rows for all of them and one for their sum.
    # Otherwise rows get a share of the bytes. For a SharedProjectron this is half: its rows grow with the capacity.
    # For a Budgetron it is 3/4: its rows do not, and its capacity grows only as the root of the bytes, because of
    # B × B matrices, while every task needs a row.
    known = settings.graph.n_tasks
    wanted = 10**9 if known is None else known + 1
    left = limit - (limit * 3 // 4 if settings.rule == "budgetron" and settings.sparse and _linear(settings) else 0)
    share = left * 3 // 4 if settings.rule == "budgetron" else left // 2
    if capacity == 1:  # the smallest budgets have less than their share left
        share = min(share, limit - bytes_of(replace(settings, max_task_rows=0)))
    cap = wanted if settings.max_task_rows is None else settings.max_task_rows
    return replace(settings, max_task_rows=min(cap, wanted, max(2, share // row)))


def bytes_of(settings: Settings, compiled: bool = True) -> int:
    """Return an upper bound of the memory of an engine with these settings.

    The capacity must be set, and for sparse rows the pool. Task names are not included.
    """
    slots = settings.capacity
    assert slots is not None
    # Per slot 24 bytes for task id, cluster and arrival, and 16 for two rows of doubles (inner products and kernel
    # values) of the example that is being learned; 8 bytes per output for its margins.
    total = FIXED + slots * (24 + 16) + 8 * settings.n_outputs
    total += _graph(settings) if compiled else 0  # the NumPy engine uses the caller's graph and has no copy
    if settings.kernel is not None:
        total += _store(settings, slots)
    # Coefficients: one double per slot and output. Twice, because the array is copied to a wider one when it grows.
    if settings.rule in ("perceptron", "random", "forgetron", "projectron"):
        total += 2 * slots * 8 * settings.n_outputs
    if settings.rule == "forgetron":
        total += 2 * slots * 8  # the kernel row of the oldest example, and the order of arrival
    # Projections: the B × B factor or inverse of the Gram matrix, and vectors of B doubles beside it (4 that belong to
    # the matrix, 6 temporary ones in a projection).
    if settings.rule in ("projectron", "shared_projectron", "budgetron") and settings.kernel is not None:
        total += _matrix(slots, compiled) + slots * 8 * (4 + 6)
    if settings.rule == "shared_projectron":
        # The squared norms of the table's columns, and on an explicit graph one task's row of them.
        total += slots * 8 * (2 if isinstance(settings.graph, Explicit) else 1)
    if settings.rule == "budgetron":
        total += _flagship(settings, slots, compiled)
    if _table_row(settings):
        assert settings.max_task_rows is not None
        total += settings.max_task_rows * _table_row(settings)
    return total


def _graph(settings: Settings) -> int:
    """Return the bytes of the core's copy of an explicit graph.

    A small graph is the k × k matrix A⁻¹. A large one is a partial factor of A and a cache of columns of A⁻¹, which
    holds at least one column; and the work space of a solve.
    """
    graph = settings.graph
    if not isinstance(graph, Explicit) or not native.available:
        return 0
    if graph.dense is not None:
        return int(graph.dense.size) * 8 + 16 * graph.n_tasks
    if graph not in _FACTORS:
        _FACTORS[graph] = native.graph_bytes(graph)
    return _FACTORS[graph] + max(settings.column_cache, 8 * graph.n_tasks + 160)


def _matrix(slots: int, compiled: bool) -> int:
    """Return the bytes of a symmetric matrix of doubles: B(B + 1)/2 in the core; in NumPy all of it, one row larger
    while an example is appended."""
    return 4 * slots * (slots + 1) if compiled else 8 * (slots + 1) ** 2


def _store(settings: Settings, slots: int) -> int:
    """Return the bytes of the stored rows."""
    item = np.dtype(settings.dtype).itemsize
    if not settings.sparse:
        # Slots are in blocks of 256 bytes per feature, the unit of the vectorised kernels; the last may be part empty.
        lanes = 256 // item
        rounded = -(-slots // lanes) * lanes
        # The Gaussian kernel subtracts a reference point: the point, its candidate, and up to 4 centred rows of the
        # examples that are computed ahead.
        ahead = max(1, min(4, slots // 16))
        centring = (ahead + 2) * settings.n_features * item if isinstance(settings.kernel, Gaussian) else 0
        return rounded * (settings.n_features * item + 8 + 10 * item) + settings.n_features * item + centring
    pool = settings.pool
    assert pool is not None
    # Sparse rows are stored by rows and, as an inverted index, by features. The worst case is a pool in which every
    # non-zero is of another feature: one hash cell of 16 bytes each, with a quarter of free cells.
    index = (pool + pool // 4 + 1) * 16
    # Postings (slot, value) of features with several of them, as `bytes_for` in src/core/stores/postings.hpp.
    postings = pool * (24 if item == 8 else 16) + 64
    # Features that many slots share are dense columns, at most pool / 8B of them: one value per slot and a header.
    columns = pool // (8 * slots) * (slots * item + 96)
    # While all values are whole numbers they are stored as int16. Both forms exist during the conversion to floats.
    moving = pool * 2
    # The rows themselves: a 4-byte feature index per non-zero with an eighth of slack, and bookkeeping per slot.
    return index + postings + columns + moving + (pool + pool // 8 + 1) * 4 + slots * (3 * 4 + 5 * 8)


def _flagship(settings: Settings, slots: int, compiled: bool) -> int:
    """Return the bytes of a Budgetron in addition to the store, the Gram matrix and the task rows."""
    linear, kernel, outputs = _linear(settings), _kernel(settings), settings.n_outputs
    item = np.dtype(settings.dtype).itemsize
    total = 64 * (linear + kernel) * (outputs + 2)
    if settings.sparse:
        total += settings.extra["slots"] * item * (linear * (outputs + 1) + 1)
        total += 2 * 16 * 192  # hashed features of two rows; rows of more than 192 allocate temporarily
    else:
        # Per feature, and for the constant: weights and a variance per linear belief, and three moments.
        total += (settings.n_features + 1) * 8 * (linear * (outputs + 1) + 3) + _whole(settings, compiled)
    if settings.kernel is not None and settings.extra["shared"]:
        total += kernel * (_matrix(slots, compiled) + slots * 8 * (2 * outputs + 2))
    # Triangle and vectors of the anchors' basis, twice: one to use and one to rebuild.
    rank: int = settings.extra["own_rank"]
    return total + 2 * 8 * (rank * (rank + 1) // 2 + 2 * rank)


def _whole(settings: Settings, compiled: bool) -> int:
    """Return the bytes of full covariances of the shared linear part, with two vectors per covariance to update it."""
    if not settings.extra["whole"]:
        return 0
    width = settings.n_features + 1
    return _linear(settings) * (_matrix(width, compiled) + 2 * 8 * width + 128)


def _table_row(settings: Settings) -> int:
    """Return the bytes of one task's row of weights; 0 if the rule has no such rows."""
    if settings.rule == "shared_projectron":
        assert settings.capacity is not None
        width = settings.capacity * settings.n_outputs
    elif settings.rule == "budgetron" and settings.extra["own"]:
        linear = 0 if settings.sparse else _linear(settings) * (settings.n_features + 1)
        width = (settings.n_outputs + 1) * (linear + _kernel(settings) * settings.extra["own_rank"])
    else:
        width = 0
    return width * 8 + 2 * (56 + 32) + 24 if width else 0  # two headers, doubled for array growth; 24 of the index
