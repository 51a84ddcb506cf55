"""The memory planner: parses budgets, and turns a byte budget into settings.

`bytes_of` is an upper bound of the bytes that an engine with given settings allocates. The parts that all rules share
are counted here, and every rule counts its own (`Rule.bytes_beyond`). `planned` asks the rule for the best settings
within a budget. The formulas mirror the containers of the compiled core, so a change there needs a change here:
`tests/engine/memory` compares the bound with the core's own count of allocated bytes.

A slot is the place of one stored example; `capacity` is the number of slots, B in the papers. `item` is the number of
bytes per stored feature (4 or 8). `n_outputs` is 1 for two classes, otherwise the number of classes.

Learners call `planned` when they make their engine. `budgetron.persist` calls `bytes_of` to reject files whose model is
too large. The engine must never allocate more than the bound: users rely on byte budgets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from budgetron.engine import native
from budgetron.engine.registry import rule_class
from budgetron.engine.settings import Settings
from budgetron.errors import TooFewBytes, error_message, input_error, is_integer, shown
from budgetron.graphs import Explicit
from budgetron.kernels import Gaussian

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
          "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip
_ACCEPTED = 'an integer >= 1, a size such as "64 MiB", or None for no limit'
LARGEST = 2**40  # the largest budget, in examples or bytes
# Bytes of the factor of each explicit graph. The fill-in of a factor cannot be predicted, so the core factors the graph
# once. The size is cached as long as the graph exists.
_FACTORS: WeakKeyDictionary[Explicit, int] = WeakKeyDictionary()
FIXED = 8 * 1024  # objects of constant size, small tables, and the allocator's overhead


@dataclass(frozen=True)
class Budget:
    """A parsed budget: a number of examples, or a number of bytes, or no limit (both None)."""

    examples: int | None = None
    bytes: int | None = None


def budget_of(who: str, budget: Any, parameter: str = "budget", accepted: str = _ACCEPTED) -> Budget:
    """Parse a learner's `budget` parameter, or another parameter with the same syntax."""
    if budget is None:
        return Budget()
    if is_integer(budget):
        if not 1 <= budget <= LARGEST:
            raise input_error(
                who, parameter, accepted, shown(budget), f"The largest budget is {LARGEST}." if budget > 1 else ""
            )
        return Budget(examples=int(budget))
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", budget.lower())
        if match and match[2] in _UNITS and 0 < float(match[1]) * _UNITS[match[2]] <= LARGEST:
            return Budget(bytes=int(float(match[1]) * _UNITS[match[2]]))
    raise input_error(who, parameter, accepted, shown(budget), "Sizes are in B, KB, MB, GB or KiB, MiB, GiB.")


def planned(who: str, settings: Settings, budget: int, nonzeros: float, compiled: bool = True) -> Settings:
    """Turn a byte budget into settings. The memory of the model, task names included, never exceeds the budget.

    `nonzeros` is the expected number of non-zeros per sparse row. A longer row leaves less of the pool of non-zeros to
    other rows. The NumPy engine (not `compiled`) stores full matrices where the core stores triangles.
    """
    plan = _plan(settings, budget, nonzeros, compiled)
    if plan is not None:
        return plan
    needed = _sufficient(settings, budget, nonzeros, compiled)
    what = "this graph and rows of this size" if _graph_bytes(settings) else "rows of this size"
    error = TooFewBytes(error_message(who, "budget", f"at least {needed} bytes for {what}", f"{budget} bytes"))
    error.needed = needed
    raise error


def _plan(settings: Settings, budget: int, nonzeros: float, compiled: bool) -> Settings | None:
    """Return the settings for a byte budget; None if it is too small."""
    # Parts of the budget that do not depend on the rule are set first, as fixed shares: 1/32 for task names, 1/8 of
    # the rest for cached columns of a large graph.
    limit = budget - name_bytes(budget)
    plan: Settings | None = rule_class(settings.rule).planned(
        replace(settings, column_cache=limit // 8), limit, nonzeros, compiled
    )
    return plan


def _sufficient(settings: Settings, budget: int, nonzeros: float, compiled: bool) -> int:
    """Return a byte budget that suffices, and is as small as possible; `budget` is too small."""
    limit = budget - name_bytes(budget)
    smallest = rule_class(settings.rule).with_capacity(replace(settings, column_cache=limit // 8), 1, limit, nonzeros)
    # Names take 1/32 of a budget, so the smallest sufficient budget is 32/31 of the engine's bytes. But there may be
    # parts that grow with the budget, such as the cache. Then the number is searched for, from this one on.
    low = high = max(bytes_of(smallest, compiled) * 32 // 31 + 1, budget + 1)
    while high < LARGEST and _plan(settings, high, nonzeros, compiled) is None:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _plan(settings, middle, nonzeros, compiled) is None else (low, middle)
    return high


def largest_within(with_capacity: Callable[[int], Settings], limit: int, compiled: bool) -> Settings | None:
    """Return the settings of the largest capacity within a limit of bytes; None if not even one example fits."""

    def fits(capacity: int) -> bool:
        return bytes_of(with_capacity(capacity), compiled) <= limit

    # `bytes_of` grows with the capacity: double the capacity until it no longer fits, then bisect. The capacity `low`
    # fits, and `high` does not.
    low, high = 0, 1
    while high < 2**40 and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low == 0:
        return None
    if with_capacity(low).kernel is None:
        low = 1  # without a kernel no example is stored, so more slots would be useless
    return with_capacity(low)


def with_pool(settings: Settings, capacity: int, nonzeros: float) -> Settings:
    """Return the settings with a capacity, and for sparse rows with the pool of non-zeros that goes with it."""
    # All sparse rows share one pool of non-zeros. It has at least 16, so that a tiny capacity can store one short row.
    pool = max(16, int(np.ceil(capacity * nonzeros))) if settings.sparse and settings.kernel is not None else None
    return replace(settings, capacity=capacity, pool=pool)


def with_task_rows(settings: Settings, row_bytes: int, share: int, limit: int) -> Settings:
    """Return the settings with as many task rows, of `row_bytes` each, as fit into `share` bytes, but at least two.

    If the number of tasks is known, there are at most as many rows as tasks, and one more for the sum of these rows.
    """
    if row_bytes == 0:
        return settings
    n_tasks = settings.graph.n_tasks
    wanted = 10**9 if n_tasks is None else n_tasks + 1
    if settings.capacity == 1:
        # The smallest budgets: beside one example, less than `share` bytes may remain for the rows.
        share = min(share, limit - bytes_of(settings.with_parameters(max_task_rows=0)))
    max_rows = settings.parameters.max_task_rows
    wanted = wanted if max_rows is None else min(max_rows, wanted)
    return settings.with_parameters(max_task_rows=min(wanted, max(2, share // row_bytes)))


def name_bytes(limit: int) -> int:
    """Return the share of a byte budget that task names may take: 1/32."""
    return limit // 32


def bytes_of(settings: Settings, compiled: bool = True) -> int:
    """Return an upper bound of the memory of an engine with these settings.

    The capacity must be set, and for sparse rows the pool. Task names are not included.
    """
    slots = settings.capacity
    assert slots is not None
    # Per slot 24 bytes for task id, cluster and arrival, and 16 for two rows of doubles (inner products and kernel
    # values) of the example that is being learned; 8 bytes per output for the margins.
    rule = rule_class(settings.rule)
    total: int = rule.fixed_bytes + slots * (24 + 16) + 8 * settings.n_outputs
    total += _graph_bytes(settings) if compiled else 0  # the NumPy engine uses the caller's graph and has no copy
    if settings.kernel is not None:
        total += _store_bytes(settings, slots)
    return total + int(rule.bytes_beyond(settings, compiled))


def _graph_bytes(settings: Settings) -> int:
    """Return the bytes of a model's own copy of an explicit graph in the core; 0 if it has none.

    A is the matrix of the graph and A⁻¹ has the similarities of its tasks (see `budgetron.graphs`). For a small graph
    the copy is A⁻¹. For a large graph it has three parts: a partial factor of A, in which only some tasks are
    eliminated (src/core/algebra/sparse_inverse.hpp), a cache of at least one column of A⁻¹, and the working memory of a
    solve.
    """
    graph = settings.graph
    if not isinstance(graph, Explicit) or not native.available:
        return 0  # a clique is just two numbers, and without the core there is no copy
    if rule_class(settings.rule).follows_factor:
        return 0  # the factor of A⁻¹ belongs to the graph: all models with this graph share it
    if graph.dense is not None:
        return int(graph.dense.size) * 8 + 16 * graph.n_tasks
    if graph not in _FACTORS:
        _FACTORS[graph] = native.graph_bytes(graph)
    # At least one column is cached: 8 bytes per task, and 160 for the entry in the cache (kNodeBytes in
    # src/core/similarity.hpp).
    return _FACTORS[graph] + max(settings.column_cache, 8 * graph.n_tasks + 160)


def matrix_bytes(n: int, compiled: bool) -> int:
    """Return the bytes of a symmetric matrix of doubles.

    The core stores a triangle of n(n + 1)/2 entries, NumPy the full matrix, which has one row more while an example is
    appended.
    """
    return 4 * n * (n + 1) if compiled else 8 * (n + 1) ** 2


def _store_bytes(settings: Settings, slots: int) -> int:
    """Return the bytes of the stored rows."""
    item = np.dtype(settings.dtype).itemsize
    if not settings.sparse:
        # Rows are stored in blocks of `lanes` slots, because the vectorised loops process 256 bytes of one feature at a
        # time. The last block may be partly empty.
        lanes = 256 // item
        rounded = -(-slots // lanes) * lanes
        # For the Gaussian kernel, a reference point is subtracted from all rows. This takes memory for the point, for
        # the point that may replace it, and for up to 4 centred rows of the next examples, whose inner products are
        # computed ahead.
        ahead = max(1, min(4, slots // 16))
        centring = (ahead + 2) * settings.n_features * item if isinstance(settings.kernel, Gaussian) else 0
        # Per slot: its row; a double, the scale of the kernel; its squared norm; and its inner products with up to 8 of
        # the next examples and one stored example. In addition, one row of working memory.
        return rounded * (settings.n_features * item + 8 + 10 * item) + settings.n_features * item + centring
    pool = settings.pool
    assert pool is not None
    # A sparse row is a list of its features. The values are only in an inverted index, which lists the slots of each
    # feature. In the worst case every non-zero of the pool belongs to a different feature, and each feature has a hash
    # cell of 16 bytes. A quarter more cells stay free.
    index = (pool + pool // 4 + 1) * 16
    # The postings (slot, value) of features that occur in several slots; see `bytes_for` in
    # src/core/stores/postings.hpp.
    postings = pool * (24 if item == 8 else 16) + 64
    # A feature that many slots have is a dense column: one value per slot, and a header. There are at most
    # pool / (8 · slots) of them.
    columns = pool // (8 * slots) * (slots * item + 96)
    # While all values are small integers, they are stored as int16. When other values come, the integers are copied
    # before they are converted to floats.
    converting = pool * 2
    # The rows themselves: a 4-byte feature index per non-zero and an eighth more, and bookkeeping per slot.
    return index + postings + columns + converting + (pool + pool // 8 + 1) * 4 + slots * (3 * 4 + 5 * 8)


def gram_bytes(slots: int, compiled: bool) -> int:
    """Return the bytes of the factor or inverse of the Gram matrix, and of the vectors beside it."""
    return matrix_bytes(slots, compiled) + slots * 8 * (4 + 6)  # 4 vectors of the matrix, 6 for working memory


def task_row_bytes(width: int) -> int:
    """Return the bytes of one task's row of `width` weights; 0 if `width` is 0."""
    # 8 bytes per weight. 56 bytes for the header of the row and 32 for the header of its vector; both count twice,
    # because arrays of headers grow by doubling. 24 bytes in the hash table.
    return width * 8 + 2 * (56 + 32) + 24 if width else 0
