"""Validation of `random_state`, for the learners that draw random numbers."""

from __future__ import annotations

from typing import Any

from sklearn.utils import check_random_state

from budgetron.errors import refuse, shown


def checked_seed(who: str, random_state: Any) -> int:
    """Return the seed of the engines' generators, which have 64 bits of state."""
    if isinstance(random_state, int) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state % 2**64)
    try:
        generator = check_random_state(random_state)
    except ValueError:
        raise refuse(
            who, "random_state", "an integer >= 0, a numpy RandomState, or None", shown(random_state)
        ) from None
    return int(generator.randint(0, 2**31 - 1))
