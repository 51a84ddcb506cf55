"""Divide a budget among shards or replicas. The budget is the total, which the shares never exceed.

    fixed     every shard has an equal share for the life of the model; the remainder goes to the first shards
    demand    shares follow the mistakes of each shard. A rebalancing takes away about half of a share at most, so that
              a shard does not lose everything after a time without mistakes. Shards shrink before others grow, so that
              the total is never exceeded.

Both policies differ from one learner with one budget, in which all tasks compete for every stored example. Everything
here is arithmetic: `introspection`, `sharded` and `replicated` apply the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from budgetron.engine.memory import budget_of
from budgetron.engine.settings import Settings
from budgetron.errors import TooFewBytes, error_message, input_error, input_type_error, shown

WHO = "ShardedModel"
POLICIES = ("fixed", "demand")
Plan = Callable[[int | str | None], Settings]  # returns the settings of a model with a given budget
INERTIA = 0.5  # the part of a share that one rebalancing does not move


def divide(total: int, weights: Sequence[float]) -> list[int]:
    """Divide a total into integer shares in proportion to the weights, each at least 1.

    >>> divide(10, [1, 1, 1]), divide(10, [8, 1, 0]), divide(10, [0, 0])
    ([4, 3, 3], [8, 1, 1], [5, 5])
    """
    w = np.asarray(weights, dtype=np.float64)
    if not w.sum() > 0:
        w = np.ones(len(w))
    exact = np.ones(len(w))
    open_shares = np.ones(len(w), dtype=bool)  # those that are not clamped to 1
    while open_shares.any():  # Clamp shares to the minimum and redistribute the rest.
        free = total - int((~open_shares).sum())
        weight = w[open_shares].sum()
        exact[open_shares] = free * w[open_shares] / weight if weight > 0 else free / open_shares.sum()
        short = open_shares & (exact < 1)
        if not short.any():
            break
        exact[short] = 1
        open_shares &= ~short
    # Without 1e-9 a share of 3 that was computed as 2.9999999999 would be rounded down to 2.
    shares = np.floor(exact + 1e-9).astype(np.int64)
    # The units lost to rounding go to the largest remainders, so that the shares add up to the total exactly.
    order = np.argsort(-(exact - shares), kind="stable")
    shares[order[: total - int(shares.sum())]] += 1
    return [int(share) for share in shares]


def first_shares(budget: int | str | None, n: int, who: str = WHO, part: str = "shard") -> list[int | str | None]:
    """The initial budget of each shard: equal shares, and the remainder one by one to the first shards.

    >>> first_shares(10, 3), first_shares("1 MiB", 2), first_shares(None, 2)
    ([4, 3, 3], ['524288 B', '524288 B'], [None, None])
    """
    total = budget_of(who, budget)
    if total.bytes is not None:
        return [f"{share} B" for share in divide(total.bytes, [1] * n)]
    if total.examples is None:
        return [None] * n
    if total.examples < n:
        raise input_error(
            who, "budget", f"at least {n}, one stored example per {part}", f"{total.examples}",
            f"Raise the budget, or use {total.examples} {part}s or fewer.",
        )  # fmt: skip
    return list(divide(total.examples, [1] * n))


def least_bytes(plan: Plan) -> tuple[int, Settings]:
    """Find a byte budget close to the smallest that a model needs. Returns the budget and the model's settings."""
    budget = 1
    while True:
        try:
            return budget, plan(f"{budget} B")
        except TooFewBytes as error:  # the need may grow with the budget, which sets the size of some tables
            budget = max(error.needed, budget + budget // 16 + 1)


def too_few_bytes_error(who: str, part: str, budget: int, n: int, bytes_each: int) -> TooFewBytes:
    """The error for a byte budget that is too small for n models of `bytes_each` bytes."""
    fewer = f", or use {count_text(budget // bytes_each, part)} or fewer" if budget >= bytes_each else ""
    error = TooFewBytes(
        error_message(
            who,
            "budget",
            f"at least {n * bytes_each} bytes for {count_text(n, part)}, {bytes_each} for each",
            f"{budget} bytes",
            f"Raise the budget{fewer}.",
        )
    )
    error.needed = n * bytes_each
    return error


def count_text(n: int, part: str) -> str:
    """A number with its noun, such as "1 shard" or "8 shards"."""
    return f"{n} {part}" if n == 1 else f"{n} {part}s"


def rebalanced_shares(total: int, capacities: Sequence[int], mistakes: Sequence[int]) -> list[int]:
    """The capacities after a rebalancing: half by the old capacities, half by the mistakes since the last rebalancing.

    >>> rebalanced_shares(40, [10, 10, 10, 10], [0, 0, 0, 60])
    [5, 5, 5, 25]
    >>> rebalanced_shares(40, [5, 5, 5, 25], [0, 0, 0, 0])
    [5, 5, 5, 25]
    """
    if sum(mistakes) == 0:
        return list(capacities)
    demand = np.asarray(mistakes, dtype=np.float64) / sum(mistakes)
    current = np.asarray(capacities, dtype=np.float64) / sum(capacities)
    return divide(total, (INERTIA * current + (1 - INERTIA) * demand).tolist())


def check_policy(shares: object, budget: object) -> str:
    """Validate the policy of shares against the kind of budget."""
    if shares not in POLICIES:
        raise input_error(WHO, "shares", '"fixed" or "demand"', shown(shares))
    if shares == "demand" and budget_of(WHO, budget).examples is None:
        raise input_type_error(
            WHO,
            "shares",
            '"fixed" unless the budget is a number of stored examples',
            f'"demand" with {shown(budget)}',
            "Give the budget as a number of examples.",
        )
    return str(shares)


def unused_only(wanted: Sequence[int], capacities: Sequence[int], stored: Sequence[int]) -> list[int]:
    """Limit a rebalancing to unused capacity: no shard shrinks below the number of its stored examples.

    >>> unused_only([2, 18], [10, 10], [6, 10])
    [6, 14]
    """
    targets = [max(want, n) for want, n in zip(wanted, stored, strict=True)]
    freed = sum(max(0, capacity - target) for capacity, target in zip(capacities, targets, strict=True))
    result = []
    for capacity, target in zip(capacities, targets, strict=True):
        growth = min(max(0, target - capacity), freed)
        freed -= growth
        result.append(capacity + growth if target >= capacity else target)
    return result
