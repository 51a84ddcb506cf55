"""Validation of constructor parameters that several learners share: `random_state`, `eta` and `max_task_rows`.

Called when the settings of an engine are made: for a new model, and by `memory_bound`.
"""

from __future__ import annotations

from typing import Any

from sklearn.utils import check_random_state

from budgetron.errors import input_error, is_integer, is_real, shown
from budgetron.kernels import Gaussian, Kernel


def checked_seed(who: str, random_state: Any) -> int:
    """Return the seed of the engines' generators, which have 64 bits of state."""
    if isinstance(random_state, int) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state % 2**64)
    try:
        generator = check_random_state(random_state)
    except ValueError:
        raise input_error(
            who, "random_state", "an integer >= 0, a numpy RandomState, or None", shown(random_state)
        ) from None
    # One draw from the user's generator becomes the seed of the engine's own generator.
    return int(generator.randint(0, 2**31 - 1))


def checked_eta(who: str, eta: Any, kernel: Kernel | None, largest_norm: float) -> float:
    """Return η as a float. Reject an η so large that nothing could ever be stored.

    `largest_norm` is the largest √K_tt under a normalised kernel. The distance δ of an example from the span of the
    stored examples is at most its norm. So with η ≥ `largest_norm` even the first example would be projected (on
    nothing) instead of being stored.
    """
    if not is_real(eta) or eta < 0:
        raise input_error(who, "eta", "a finite number >= 0", shown(eta))
    normalised = isinstance(kernel, Gaussian) or (kernel is not None and kernel.normalize)
    if normalised and eta >= largest_norm:
        raise input_error(
            who,
            "eta",
            f"below {largest_norm:g}, the largest norm of an example under this kernel and graph",
            shown(eta),
            "Lower eta: nothing could ever be stored.",
        )
    return float(eta)


def checked_rows(who: str, rows: Any) -> int | None:
    """Return `max_task_rows` as an integer, or None for no limit.

    The smallest limit is 2: one row for a task and one for the sum of its cluster.
    """
    if rows is None:
        return None
    if not is_integer(rows) or rows < 2:
        raise input_error(who, "max_task_rows", "an integer >= 2 or None", shown(rows))
    return int(rows)
