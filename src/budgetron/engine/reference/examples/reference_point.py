"""The reference point c, which dense stores subtract from every row under the Gaussian kernel.

‖x − y‖² is computed as ‖x‖² + ‖y‖² − 2⟨x, y⟩, whose rounding error grows with ‖x‖². For rows far from 0 but near each
other, it would lose all digits, and the kernel would no longer be positive semidefinite. Distances do not change under
a shift, so rows are stored as x − c, rounded to their dtype.

c is 0 at first. p is the candidate that may replace it, and `streak` counts how many consecutive rows agree with p.

    a row x is near c, γ‖x − c‖² ≤ REACH:                      streak = 0
    x is far from c, streak > 0, and γ‖x − p‖² ≤ REACH:        streak + 1
    x is far from c, and streak = 0 or x is also far from p:   p = x, streak = 1
    streak = 2^(1 + min(moves, 9)):   c = p, moves + 1, streak = 0; stored rows are shifted by the difference

At least two consecutive rows must agree before c moves, so that a single outlier never becomes the reference point.
Each of the first nine moves doubles the streak that the next one needs, up to 1,024 rows, because a stream that
alternates between two regions must not move c again and again. Rows are processed one by one, so the result does not
depend on how a stream is cut into blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.settings import Settings
from budgetron.kernels import Gaussian, Kernel

# The largest γ‖x − c‖² that counts as near. The exponent of the kernel then has an error of about REACH times the unit
# roundoff of the dtype.
REACH = {"float32": 2.0**5, "float64": 2.0**18}


class ReferencePoint:
    """c, the candidate to replace it, and how many rows agree with the candidate."""

    def __init__(self, settings: Settings, kernel: Kernel | None) -> None:
        self.reach2 = np.inf
        if type(kernel) is Gaussian and not settings.sparse:
            self.reach2 = REACH[settings.dtype] / float(kernel.gamma)
        d = settings.n_features if self.is_used else 0
        self.c: NDArray[Any] = np.zeros(d, dtype=settings.dtype)
        self.candidate: NDArray[Any] = np.zeros(d, dtype=settings.dtype)
        self.streak = self.moves = 0

    @property
    def is_used(self) -> bool:
        """Whether rows are centred: only dense rows under the Gaussian kernel are."""
        return self.reach2 < np.inf

    def update(self, x: Array, square: float) -> Array | None:
        """Update c with a row x and `square` = ‖x − c‖². If c moved, returns the vector to add to stored rows."""
        if not square > self.reach2:
            self.streak = 0
            return None
        if self.streak and float(((x - self.candidate) ** 2).sum()) <= self.reach2:
            self.streak += 1
        else:
            self.candidate, self.streak = x.astype(self.c.dtype), 1
        if self.streak < 2 ** (1 + min(self.moves, 9)):
            return None
        shift: Array = self.c.astype(np.float64) - self.candidate.astype(np.float64)
        self.c, self.streak, self.moves = self.candidate.copy(), 0, self.moves + 1
        return shift

    def set_gamma(self, gamma: float) -> None:
        """Change γ, and with it the distance from c beyond which a row is far."""
        if self.is_used:
            self.reach2 = REACH[str(self.c.dtype)] / gamma

    def state(self) -> dict[str, Any]:
        if not self.moves and not self.streak:
            return {}
        return {"reference": self.c.copy(), "reference_candidate": self.candidate.copy(),
                "reference_streak": self.streak, "reference_moves": self.moves}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore c.

        A state does not contain c if it has never moved and the last row was near it, or if the state is of an earlier
        version.
        """
        if "reference" not in state:
            return
        self.c = np.array(state["reference"], dtype=self.c.dtype)
        self.candidate = np.array(state["reference_candidate"], dtype=self.c.dtype)
        self.streak, self.moves = int(state["reference_streak"]), int(state["reference_moves"])

    @property
    def nbytes(self) -> int:
        return self.c.nbytes + self.candidate.nbytes
