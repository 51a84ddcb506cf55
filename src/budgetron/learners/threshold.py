"""η, the distance below which an instance is projected instead of stored."""

from __future__ import annotations

from typing import Any

from budgetron.errors import is_real, refuse, shown
from budgetron.kernels import Gaussian, Kernel


def checked_eta(who: str, eta: Any, kernel: Kernel | None, largest_norm: float) -> float:
    """η as a float; refused where nothing could ever be stored. `largest_norm` is √max K_tt of a normalised kernel."""
    if not is_real(eta) or eta < 0:
        raise refuse(who, "eta", "a finite number >= 0", shown(eta))
    normalised = isinstance(kernel, Gaussian) or (kernel is not None and kernel.normalize)
    if normalised and eta >= largest_norm:
        raise refuse(
            who,
            "eta",
            f"below {largest_norm:g}, the norm of every instance under this kernel and graph",
            shown(eta),
            "Nothing could ever be stored: lower eta.",
        )
    return float(eta)
