"""Corrects the margins m of the mixture, which may be too small, too large, or biased towards one class.

    z_c = s m_c + b_c,   q_c = ε/C + (1 − ε) p_c(z)
    r = (1 − ε) p_y/q_y,   g = r ([y] − p)
    P ← max(P/(1 + hP), floor),   s += P Σ_c g_c m_c,   b += rate · g,   ε += step · (1 − r − ε)

s is the scale and b_c the offset of class c. p(z) are the class probabilities, [y] is 1 for the true class y and 0 for
the others. q are the corrected probabilities of the C classes, from which the corrected margins are computed.

ε is the lapse rate: the share of labels that are drawn at random, such as mistakes of annotators. Without it, no
probability could stay below 1 far from the boundary, and all others would be too small to make up for it. r is the
probability that the label of the example is no lapse. ε is learned by online expectation maximisation. A new model has
ε = 0; its first example sets it to a prior.

s is learned by a Bayesian filter, P is its posterior variance, and h is r times the variance of m under p. P has a
lower bound, so that s keeps following a mixture that becomes more confident as it learns. Neither s nor ε changes the
predicted class. An example weight above 1 counts as 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rules.budgetron.parts.steps import log_probabilities

FIRST_VARIANCE, MIN_VARIANCE = 0.5, 0.02
"""P before the first example, and its lower bound."""
RATE = 0.002
"""Step size of the offsets."""
MAX_CHANGE = 0.1
"""The largest change of the scale by one example, because a single confident mistake is weak evidence."""
MIN_SCALE, MAX_SCALE = 0.25, 8.0
FIRST_LAPSE, MIN_LAPSE, MAX_LAPSE = 0.05, 1e-5, 0.9
"""ε at the first example, and its bounds. Above 0 so that it can grow again, and below 1 so that margins are not 0."""
FIRST_STEP, MIN_STEP = 0.05, 0.005
"""The step of ε falls from the first to the second: it is 1/(20 + n) for example n, as if 20 had come before."""


class Calibration:
    """Scale, offset per output, and lapse rate."""

    NAMES = ("scale", "variance", "lapse", "lapse_step")

    def __init__(self, outputs: int) -> None:
        self.scale, self.variance = 1.0, FIRST_VARIANCE
        self.lapse, self.lapse_step = 0.0, FIRST_STEP
        self.offset = np.zeros(outputs)

    def margins(self, m: Array) -> Array:
        """Return the corrected margins. For more than two classes, both m and the result are log probabilities."""
        z = self.scale * m + self.offset
        logs = log_probabilities(z)
        if self.lapse:
            logs = np.log(self.lapse / len(logs) + (1 - self.lapse) * np.exp(logs))
        elif len(z) == 1:
            return np.asarray(z)
        return np.asarray(logs[1:] - logs[:1] if len(z) == 1 else logs)

    def shrinkage(self, m: Array) -> float:
        """Return the corrected margin of two classes divided by z, which is how much the lapse rate shrinks it.

        It is 1 for more classes, of which no margin is a multiple of z.
        """
        z = self.scale * m + self.offset
        return float(self.margins(m)[0] / z[0]) if len(z) == 1 and z[0] else 1.0

    def learn(self, m: Array, code: int, omega: float) -> None:
        """Learn from an example of class `code` with weight ω."""
        # Heavy examples, such as rare labels with a class weight, must not make the scale jump.
        weight = min(omega, 1.0)
        self.lapse = self.lapse or FIRST_LAPSE
        p = np.exp(log_probabilities(self.scale * m + self.offset))
        kept = (1 - self.lapse) * p[code]
        r = float(kept / (self.lapse / len(p) + kept))
        target, p = (np.arange(len(p)) == code)[-len(m):], p[-len(m):]
        g = r * (target - p)
        h = weight * r * max(0.0, float(p @ m**2 - (p @ m) ** 2))
        self.variance = max(self.variance / (1 + h * self.variance), MIN_VARIANCE)
        change = float(np.clip(weight * self.variance * (g @ m), -MAX_CHANGE, MAX_CHANGE))
        self.scale = float(np.clip(self.scale + change, MIN_SCALE, MAX_SCALE))
        self.offset += RATE * weight * g
        self.lapse_step = max(self.lapse_step / (1 + self.lapse_step), MIN_STEP)
        lapse = self.lapse + weight * self.lapse_step * (1 - r - self.lapse)
        self.lapse = float(np.clip(lapse, MIN_LAPSE, MAX_LAPSE))

    def state(self) -> dict[str, Any]:
        scalars = {f"calibration_{name}": getattr(self, name) for name in self.NAMES}
        return scalars | {"calibration_offset": self.offset}

    def restore(self, state: dict[str, Any]) -> None:
        for name in self.NAMES:
            setattr(self, name, float(state[f"calibration_{name}"]))
        self.offset = np.array(state["calibration_offset"], dtype=np.float64)
