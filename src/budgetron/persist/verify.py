"""Validation of the stored examples of a saved state, after the names and shapes of its arrays were checked.

The fields that a rule adds are validated by the rule itself (`Rule.verify`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.saved_state import are_distinct_steps, verify_csr, verify_tasks
from budgetron.engine.settings import Settings
from budgetron.file_errors import require
from budgetron.kernels import Gaussian

Arrays = Mapping[str, NDArray[Any]]
_MAX_SEEN = 2**62  # the largest accepted n_seen; it leaves room to continue counting in int64


def verify_examples(settings: Settings, state: Arrays) -> None:
    """Reject stored examples and counts that an engine with these settings cannot produce."""
    n, n_seen, n_mistakes = len(state["key"]), int(state["n_seen"][0]), int(state["n_mistakes"][0])
    require(0 <= n_seen <= _MAX_SEEN, "state.n_seen", "an integer from 0 to 2**62", str(n_seen))
    require(0 <= n_mistakes <= n_seen, "state.n_mistakes", "a count of at most n_seen", str(n_mistakes))
    limit = settings.capacity
    require(limit is None or n <= limit, "the number of stored examples", f"at most {limit}, the capacity", str(n))
    require(settings.kernel is not None or n == 0, "state.key", "empty without a kernel", str(n))
    require(are_distinct_steps(state["arrival"], n_seen), "state.arrival", "distinct integers from 0 to n_seen − 1")
    verify_tasks(settings, "state.key", state["key"], state["cluster"])
    if settings.sparse:
        verify_csr("state.", state["indptr"], state["indices"], settings.n_features)
        nonzeros = len(state["indices"])
        require(settings.pool is None or nonzeros <= settings.pool, "state.data",
                f"at most {settings.pool} non-zeros", str(nonzeros))  # fmt: skip
        slots = np.repeat(np.arange(n), np.diff(state["indptr"]))
        squares: NDArray[Any] = np.bincount(slots, weights=state["data"].astype(np.float64) ** 2, minlength=n)
    else:
        squares = (state["rows"].astype(np.float64) ** 2).sum(axis=1)
    # The largest squared norm of a row that engines accept, see `first_bad_row` in `engine.reference.engine`.
    largest = 1e37 if settings.dtype == "float32" and not settings.sparse else 1e150
    if "reference" in state:  # rows are stored minus a reference point c, see `engine.reference.examples`
        points = (state["reference"], state["reference_candidate"])
        squared_norm = max(float((point.astype(np.float64) ** 2).sum()) for point in points)
        require(squared_norm <= largest * 1.001, "the squared norms of state.reference and state.reference_candidate",
                f"at most {largest:g}", f"{squared_norm:g}")  # fmt: skip
        streak, moves = int(state["reference_streak"][0]), int(state["reference_moves"][0])
        require(0 <= streak <= n_seen and 0 <= moves <= n_seen, "state.reference_streak and state.reference_moves",
                "counts of at most n_seen", f"{streak} and {moves}")  # fmt: skip
        require(moves > 0 or not state["reference"].any(), "state.reference", "0 before the first move")
        largest *= 4  # ‖x − c‖² ≤ (‖x‖ + ‖c‖)²
    kernel = settings.kernel
    # For a Gaussian kernel only the squared norms are checked: K(x, x) is 1, and γ may still be unknown.
    self_kernel = squares
    if kernel is not None and not isinstance(kernel, Gaussian):
        self_kernel = kernel.of_products(squares, squares, squares)
    if "gamma" in state:
        gamma, m2 = float(state["gamma"][0]), float(state["scale_m2"][0])
        got = f"{gamma:g} and {m2:g}"
        require(gamma > 0 and m2 >= 0, "state.gamma and state.scale_m2", "a positive and a non-negative number", got)
    # The factor 1.001 is for rounding: the engine that accepted the rows may sum in another order.
    is_computable = (squares <= largest * 1.001).all() and (self_kernel <= 1e150 * 1.001).all()
    require(is_computable, "stored rows", "small enough for the kernel to be computed without overflow", "larger ones")
