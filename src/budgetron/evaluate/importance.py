"""Feature importance: average explanations over a stream, in bounded memory.

The importance of a feature is the mean absolute value of its term, the number that it adds to the margin, over all
examples; an example without the feature counts as 0. Hashed features may have any number of names, so only the most
important ones are kept, by the Space-Saving algorithm (Metwally et al., 2005) in batches: when there are more than
twice `limit` names, only the `limit` most important ones remain. A dropped name that appears again starts with a sum of
0. So the sum of any later name may be too low, by at most the largest sum that was dropped so far; `missed` is this
bound, per example.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from budgetron.errors import input_error, is_integer, shown


@dataclass(frozen=True)
class Importance:
    """The importance of one feature.

    Attributes
    ----------
    name : str
    mean : float
        The mean absolute value of its term, the number that it adds to the margin, over all examples.
    shared, own, related : float
        The mean of the absolute value of each part. Parts may cancel, so these three add up to at least `mean`.
    direction : float
        The mean of its term, with its sign. It equals `mean` if the feature is always evidence for the explained label.
    missed : float
        How much larger the true `mean` may be, because the name may have been dropped for a while.
    """

    name: str
    mean: float
    shared: float
    own: float
    related: float
    direction: float
    missed: float


class FeatureImportance:
    """Averages explanations over a stream. `limit` is the number of features to keep.

    >>> import numpy as np
    >>> from budgetron import Budgetron, evaluate
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> model = Budgetron().fit(X, X[:, 1] > 0)
    >>> importance = evaluate.FeatureImportance()
    >>> for x in X[:100]:
    ...     importance.add(model.explain(x))
    >>> next(feature.name for feature in importance.top() if feature.name.startswith("x")), importance.n
    ('x1', 100)
    """

    def __init__(self, limit: int = 1000) -> None:
        if not is_integer(limit) or limit < 1:
            raise input_error("FeatureImportance", "limit", "an integer >= 1", shown(limit))
        self.limit, self.n = int(limit), 0
        self._sums: dict[str, list[float]] = {}  # name → |total|, |shared|, |own|, |related|, total, missed
        self._dropped = 0.0  # the largest |total| of a name that was dropped

    def add(self, explanation: Any) -> None:
        """Add one explanation: all of its terms except the constant and the normalisation."""
        self.n += 1
        for term in explanation.terms:
            if term.kind in ("constant", "normalisation"):
                continue
            sums = self._sums.get(term.name)
            if sums is None:
                # The name may have been dropped before, with a sum of at most `_dropped`.
                sums = self._sums[term.name] = [0.0] * 5 + [self._dropped]
            total = term.total
            for k, value in enumerate((total, term.shared, term.own, term.related)):
                sums[k] += abs(value)
            sums[4] += total
        if len(self._sums) > 2 * self.limit:
            self._drop()

    def _drop(self) -> None:
        """Keep only the largest features, and remember the largest sum that was dropped."""
        # Sort by the upper bound of the sum: otherwise a new name would be dropped again and again.
        ordered = sorted(self._sums.items(), key=lambda item: -(item[1][0] + item[1][5]))
        self._dropped = max([self._dropped, *(sums[0] + sums[5] for _, sums in ordered[self.limit :])])
        self._sums = dict(ordered[: self.limit])

    def top(self, n: int = 20) -> list[Importance]:
        """Return the n most important features, the largest first."""
        largest = sorted(self._sums.items(), key=lambda item: -item[1][0])[:n]
        examples = max(1, self.n)
        return [Importance(name, *(value / examples for value in sums)) for name, sums in largest]
