"""Corrects the margins m of the mixture, which may be too small, too large, or biased towards one class.

    z_c = s m_c + b_c,   g = [y] − p(z)
    P ← max(P/(1 + hP), floor),   s += P Σ_c g_c m_c,   b += rate · g

z is the corrected margin, s the scale and b_c the offset of class c. p(z) are the class probabilities, [y] is 1 for the
true class and 0 for the others, and h is the variance of m under p(z). s is learned by a Bayesian filter, and P is its
posterior variance. P has a lower bound, so that s keeps following a mixture that becomes more confident as it learns.
The scale changes the probabilities, not the predicted class. An example weight above 1 counts as 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rules.budgetron.parts.steps import log_probabilities

FIRST_VARIANCE, MIN_VARIANCE = 0.02, 0.006
"""P before the first example, and its lower bound."""
RATE = 0.002
"""Step size of the offsets."""
MAX_CHANGE = 0.1
"""The largest change of the scale by one example, because a single confident mistake is weak evidence."""
MIN_SCALE, MAX_SCALE = 0.25, 4.0


class Calibration:
    """Scale and offsets, one per output."""

    def __init__(self, outputs: int) -> None:
        self.scale, self.variance = 1.0, FIRST_VARIANCE
        self.offset = np.zeros(outputs)

    def margins(self, m: Array) -> Array:
        """Return the corrected margins. For more than two classes, both m and the result are log probabilities."""
        z = self.scale * m + self.offset
        return log_probabilities(z) if len(z) > 1 else z

    def learn(self, m: Array, z: Array, code: int, omega: float) -> None:
        """Update s, P and b from an example of class `code` with weight ω; `z` is `margins(m)`."""
        # Heavy examples, such as rare labels with a class weight, must not make the scale jump.
        weight = min(omega, 1.0)
        if len(z) > 1:
            p, target = np.exp(z), np.arange(len(z)) == code
        else:
            p, target = np.exp(log_probabilities(z)[1:]), np.array([code == 1])
        g = target - p
        h = weight * max(0.0, float(p @ m**2 - (p @ m) ** 2))
        self.variance = max(self.variance / (1 + h * self.variance), MIN_VARIANCE)
        change = float(np.clip(weight * self.variance * (g @ m), -MAX_CHANGE, MAX_CHANGE))
        self.scale = float(np.clip(self.scale + change, MIN_SCALE, MAX_SCALE))
        self.offset += RATE * weight * g

    def state(self) -> dict[str, Any]:
        return {"calibration_scale": self.scale, "calibration_variance": self.variance,
                "calibration_offset": self.offset}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        self.scale, self.variance = float(state["calibration_scale"]), float(state["calibration_variance"])
        self.offset = np.array(state["calibration_offset"], dtype=np.float64)
