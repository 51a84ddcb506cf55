"""Validation of η (`eta`), the distance below which an example is projected instead of stored.

Called by the projection learners, once, when their engine is created.
"""

from __future__ import annotations

from typing import Any

from budgetron.errors import is_real, refuse, shown
from budgetron.kernels import Gaussian, Kernel


def checked_eta(who: str, eta: Any, kernel: Kernel | None, largest_norm: float) -> float:
    """Return η as a float. Reject an η so large that nothing could ever be stored.

    `largest_norm` is the largest √K_tt under a normalised kernel. The distance δ of an example from the span of the
    stored ones is at most its norm, so with η at or above it every example would be projected on an empty set.
    """
    if not is_real(eta) or eta < 0:
        raise refuse(who, "eta", "a finite number >= 0", shown(eta))
    normalised = isinstance(kernel, Gaussian) or (kernel is not None and kernel.normalize)
    if normalised and eta >= largest_norm:
        raise refuse(
            who,
            "eta",
            f"below {largest_norm:g}, the largest norm of an example under this kernel and graph",
            shown(eta),
            "Lower eta: nothing could ever be stored.",
        )
    return float(eta)
