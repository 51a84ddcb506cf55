"""The calibrated average of the beliefs as a sum of terms, for explanations.

    s Σ_b w_b f_b + b,   f_b = Σ terms of its part

The margin is that of the mixture of probabilities, not of this average. The difference is the remainder of an
explanation; it is small where the beliefs agree.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rules.budgetron.calibration import Calibration
from budgetron.engine.reference.rules.budgetron.parts.part import SHARED, Part, Seen


def averaged_terms(e: Seen, parts: Sequence[Part], w: Array, calibration: Calibration) -> tuple[Array, Array]:
    """Return the terms of the features, (3, outputs, n), and of the random features of each part, (parts, 3, outputs).

    `w` are the weights of the beliefs. The offset of the calibration belongs to the constant.
    """
    each, fourier, at = [], [], 0
    for part in parts:
        terms, weights = part.terms(e), calibration.scale * w[at : at + part.count]
        each.append(np.einsum("b,sbon->son", weights, terms.columns))
        fourier.append(np.einsum("b,sbo->so", weights, terms.fourier))
        at += part.count
    columns: Array = np.sum(each, axis=0)
    columns[SHARED, :, -1] += calibration.offset
    return columns, np.stack(fourier)
