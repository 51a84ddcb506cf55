"""Which features matter over a stream of explanations, in bounded memory.

The importance of a feature is the mean of |what it adds to the margin| over all examples; an example without the
feature counts as 0. The names of hashed features are unlimited, so only the heaviest are kept, by the rule of
Space-Saving (Metwally et al., 2005) in batches: when there are twice as many names as the limit, the lighter half is
dropped. A name that appears afterwards may have been dropped before: `missed` bounds what it lost by the largest sum
that was dropped so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from budgetron.errors import input_error, is_whole, shown


@dataclass(frozen=True)
class Importance:
    """The importance of one feature.

    Attributes
    ----------
    name : str
    mean : float
        Mean of |what it adds to the margin| over all examples.
    shared, own, related : float
        Mean of the absolute value of each part. Parts may cancel, so these three add up to at least `mean`.
    direction : float
        Mean of what it adds, with its sign: equal to `mean` if it always speaks for the explained label.
    missed : float
        How much larger `mean` may be in truth, because the name may have been dropped for a while.
    """

    name: str
    mean: float
    shared: float
    own: float
    related: float
    direction: float
    missed: float


class FeatureImportance:
    """Accumulate explanations over a stream. `limit` is the number of features that are kept.

    >>> import numpy as np
    >>> from budgetron import Budgetron, evaluate
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> model = Budgetron().fit(X, X[:, 1] > 0)
    >>> importance = evaluate.FeatureImportance()
    >>> for x in X[:100]:
    ...     importance.add(model.explain(x))
    >>> next(one.name for one in importance.top() if one.name.startswith("x")), importance.n
    ('x1', 100)
    """

    def __init__(self, limit: int = 1000) -> None:
        if not is_whole(limit) or limit < 1:
            raise input_error("FeatureImportance", "limit", "an integer >= 1", shown(limit))
        self.limit, self.n = int(limit), 0
        self._sums: dict[str, list[float]] = {}  # name → |total|, |shared|, |own|, |related|, total, missed
        self._dropped = 0.0  # the largest |total| of a name that was dropped

    def add(self, explanation: Any) -> None:
        """Add one explanation: all its terms except the constant and the normalisation."""
        self.n += 1
        for term in explanation.terms:
            if term.kind in ("constant", "normalisation"):
                continue
            sums = self._sums.get(term.name)
            if sums is None:
                sums = self._sums[term.name] = [0.0] * 5 + [self._dropped]
            total = term.total
            for place, value in enumerate((total, term.shared, term.own, term.related)):
                sums[place] += abs(value)
            sums[4] += total
        if len(self._sums) > 2 * self.limit:
            self._drop()

    def _drop(self) -> None:
        # Sorted by the upper bound of the sum: otherwise a name that came late would be dropped again and again.
        kept = sorted(self._sums.items(), key=lambda item: -(item[1][0] + item[1][5]))
        self._dropped = max([self._dropped, *(sums[0] + sums[5] for _, sums in kept[self.limit :])])
        self._sums = dict(kept[: self.limit])

    def top(self, n: int = 20) -> list[Importance]:
        """Return the n most important features, the largest first."""
        heaviest = sorted(self._sums.items(), key=lambda item: -item[1][0])[:n]
        each = max(1, self.n)
        return [Importance(name, *(value / each for value in sums)) for name, sums in heaviest]
