"""Corrects the margins m of a Budgetron, which may be too small, too large, or biased towards one class.

There are two `Curve`s, mixed in the same way as beliefs (see `mixture`). The second curve assumes that a share ε of
the labels is random, such as mistakes of annotators. Then even far from the decision boundary, probabilities stay below
1. A curve without ε approaches 1 there. So if some labels are random, it learns a scale that is too small. The first
curve assumes ε = 0. It is better where one label is rare, because the second curve takes rare labels for random ones.

    z_c = s m_c + b_c,   q_c = ε/C + (1 − ε) p_c(z)
    r = (1 − ε) p_y/q_y,   g = r ([y] − p)
    P ← max(P/(1 + hP), floor),   s += P Σ_c g_c m_c,   b += rate · g,   ε += step · (1 − r − ε)

s is the scale and b_c the offset of class c. p(z) are the class probabilities, [y] is 1 for the true class y and 0 for
the others. q are the corrected probabilities of the C classes. r is the probability that the label is not random. ε is
learned by online expectation maximisation; it is 0 until the first example sets it to a prior.

s is learned by a Bayesian filter, P is its posterior variance, and h is r times the variance of m under p. P has a
lower bound, so that s keeps following a mixture that becomes more confident as it learns. s and ε change
probabilities; only b can change the predicted class. h and the changes of s, b and ε are multiplied by the weight of
the example; a weight above 1 counts as 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rules.budgetron import mixture
from budgetron.engine.reference.rules.budgetron.parts.steps import log_probabilities
from budgetron.engine.saved_state import Field, Layout, require

FIRST_VARIANCES, MIN_VARIANCES = (0.02, 1.0), (0.006, 0.04)
"""P before the first example and its lower bound, per curve. They are larger for the curve with ε, whose best scale is
often above 2."""
FIRST_LAPSES = (0.0, 0.05)
"""ε at the first example, per curve. If it is 0, it stays 0."""
MIN_LAPSE, MAX_LAPSE = 1e-5, 0.9
"""Bounds of ε in the second curve: above 0 so that ε can grow again, and below 1 so that margins are not 0."""
FIRST_STEP, MIN_STEP = 0.05, 0.005
"""The first and the smallest step of ε. The step at example n is 1/(20 + n), as if there had been 20 examples before,
but not less than the smallest."""
RATE = 0.002
"""Step size of the offsets."""
MAX_CHANGE = 0.1
"""The largest change of the scale by one example, because a single confident mistake is weak evidence."""
MIN_SCALE, MAX_SCALE = 0.25, 8.0


class Curve:
    """One curve: its scale, an offset per output, and its lapse rate ε. `index` is 0 for the first curve, else 1."""

    def __init__(self, index: int, outputs: int) -> None:
        self.first_lapse, self.min_variance = FIRST_LAPSES[index], MIN_VARIANCES[index]
        self.scale, self.variance = 1.0, FIRST_VARIANCES[index]
        self.lapse, self.lapse_step = 0.0, FIRST_STEP
        self.offset = np.zeros(outputs)

    def margins(self, m: Array) -> Array:
        z = self.scale * m + self.offset
        logs = log_probabilities(z)
        if self.lapse:
            logs = np.log(self.lapse / len(logs) + (1 - self.lapse) * np.exp(logs))
        elif len(z) == 1:
            return np.asarray(z)
        return np.asarray(logs[1:] - logs[:1] if len(z) == 1 else logs)

    def learn(self, m: Array, code: int, weight: float) -> None:
        self.lapse = self.lapse or self.first_lapse
        p = np.exp(log_probabilities(self.scale * m + self.offset))
        kept = (1 - self.lapse) * p[code]
        r = float(kept / (self.lapse / len(p) + kept)) if self.lapse else 1.0
        target, p = (np.arange(len(p)) == code)[-len(m):], p[-len(m):]
        g = r * (target - p)
        h = weight * r * max(0.0, float(p @ m**2 - (p @ m) ** 2))
        self.variance = max(self.variance / (1 + h * self.variance), self.min_variance)
        change = float(np.clip(weight * self.variance * (g @ m), -MAX_CHANGE, MAX_CHANGE))
        self.scale = float(np.clip(self.scale + change, MIN_SCALE, MAX_SCALE))
        self.offset += RATE * weight * g
        if self.lapse:
            self.lapse_step = max(self.lapse_step / (1 + self.lapse_step), MIN_STEP)
            lapse = self.lapse + weight * self.lapse_step * (1 - r - self.lapse)
            self.lapse = float(np.clip(lapse, MIN_LAPSE, MAX_LAPSE))


class Calibration:
    """The two curves and their weights."""

    NAMES = ("scale", "variance", "lapse", "lapse_step", "offset")

    def __init__(self, outputs: int) -> None:
        self.curves = [Curve(k, outputs) for k in range(2)]
        self.w = np.full(2, 0.5)

    def margins(self, m: Array) -> Array:
        """Return the corrected margins of m. For more than two classes, m and the result are log probabilities."""
        mixed = mixture.margins(self._of_curves(m), self.w)
        # `mixture` raises tiny probabilities, so the sum over more than two classes may exceed 1.
        return log_probabilities(mixed) if len(mixed) > 1 else mixed

    def _of_curves(self, m: Array) -> Array:
        return np.stack([curve.margins(m) for curve in self.curves])

    def learn(self, m: Array, code: int, omega: float) -> None:
        """Learn from an example of class `code` with weight ω."""
        # Heavy examples, such as rare labels with a class weight, must not make the scale jump.
        weight = min(omega, 1.0)
        self.w = mixture.weights(self._of_curves(m), self.w, code, weight)
        for curve in self.curves:
            curve.learn(m, code, weight)

    # ---- scale, offset and shrinkage, for explanations

    @property
    def scale(self) -> float:
        """s, averaged over the curves."""
        return float(self.w @ [curve.scale for curve in self.curves])

    @property
    def offset(self) -> Array:
        """b, averaged over the curves."""
        return np.asarray(self.w @ np.stack([curve.offset for curve in self.curves]))

    def shrinkage(self, m: Array) -> float:
        """Return the factor (at most 1) by which ε shrinks the margin: the corrected margin divided by s m + b.

        It is 1 for more than two classes. Their margins are normalised log probabilities, which are not multiples of
        s m + b.
        """
        z = self.scale * m + self.offset
        return float(np.clip(self.margins(m)[0] / z[0], 0.0, 1.0)) if len(z) == 1 and z[0] else 1.0

    # ---- state

    def state(self) -> dict[str, Any]:
        of_curves = {name: np.array([getattr(curve, name) for curve in self.curves]) for name in self.NAMES}
        return {"calibration_weight": self.w} | {f"calibration_{name}": values for name, values in of_curves.items()}

    def restore(self, state: dict[str, Any]) -> None:
        self.w = np.array(state["calibration_weight"], dtype=np.float64)
        for name in self.NAMES:
            values = np.array(state[f"calibration_{name}"], dtype=np.float64).reshape(2, -1)
            for curve, value in zip(self.curves, values, strict=True):
                setattr(curve, name, value if name == "offset" else float(value[0]))


def fields(outputs: int) -> Layout:
    """Return the layout of `Calibration.state`."""
    layout = {f"calibration_{name}": Field("float64", (2,)) for name in ("weight", *Calibration.NAMES)}
    return layout | {"calibration_offset": Field("float64", (2, outputs))}


def verify(arrays: Arrays) -> None:
    """Reject a saved calibration with a number outside of its range."""
    weight = arrays["calibration_weight"]
    is_distribution = (weight > 0).all() and abs(weight.sum() - 1) < 1e-6
    require(is_distribution, "state.calibration_weight", "positive weights that add up to 1")
    ranges = {"scale": ((MIN_SCALE,) * 2, (MAX_SCALE,) * 2), "variance": (MIN_VARIANCES, FIRST_VARIANCES),
              "lapse": ((0.0, 0.0), (0.0, MAX_LAPSE)),
              "lapse_step": ((MIN_STEP,) * 2, (FIRST_STEP,) * 2)}  # fmt: skip
    for name, (low, high) in ranges.items():
        values = arrays[f"calibration_{name}"]
        in_range = ((values >= low) & (values <= high)).all()
        require(in_range, f"state.calibration_{name}", f"from {low} to {high}", str(values.tolist()))
