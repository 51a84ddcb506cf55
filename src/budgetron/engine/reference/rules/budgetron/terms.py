"""The calibrated margin of a model as a sum of terms, for explanations.

    s Σ_b c_b f_b + o,   f_b = Σ of the terms of belief b

c_b and f_b are the coefficient (see `Combination.coefficients`) and the margin of belief b; s and o are the scale and
the offset of the calibration. The model predicts with the margin of averaged probabilities, not with this sum of
margins. The difference is the remainder of an explanation; it is small where the beliefs agree. An explanation
multiplies all terms by `Calibration.shrinkage`. Then the terms and the remainder add up to the margin that users see.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from budgetron.engine.reference.examples.rows import Array, Integers
from budgetron.engine.reference.rules.budgetron.calibration import Calibration
from budgetron.engine.reference.rules.budgetron.parts.part import SHARED, Part, Seen


def averaged_terms(
    e: Seen, parts: Sequence[Part], w: Array, calibration: Calibration, places: Integers | None
) -> tuple[Array, Array]:
    """Return the terms of the features, (3, outputs, n), and of the Fourier features per part, (parts, 3, outputs).

    The axis of length 3 is the source of a term: SHARED, OWN or RELATED. `w` are the coefficients of the beliefs. The
    offset of the calibration is added to the term of the constant, which is the last feature. For sparse rows, `places`
    has the position, among the n features, of each column of a part for dense rows.
    """
    columns_of_parts, fourier, first = [], [], 0
    for part in parts:
        terms, weights = part.terms(e), calibration.scale * w[first : first + part.count]
        # Indices: b belief, s source, o output, n feature.
        columns = np.einsum("b,sbon->son", weights, terms.columns)
        if places is not None and not part.sees_entries:
            of_columns, columns = columns, np.zeros((*columns.shape[:2], len(e.x.values) + 1))
            for place, column in zip(places.tolist(), np.moveaxis(of_columns, -1, 0), strict=True):
                columns[:, :, place] += column  # several columns may be added to the constant
        columns_of_parts.append(columns)
        fourier.append(np.einsum("b,sbo->so", weights, terms.fourier))
        first += part.count
    total: Array = np.sum(columns_of_parts, axis=0)
    total[SHARED, :, -1] += calibration.offset
    return total, np.stack(fourier)
