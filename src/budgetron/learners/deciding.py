"""`Deciding`: decisions by an operating point, that is, by thresholds or costs. Base class of `BlockLearner`.

The operating point itself is in `budgetron.decisions`. A learner holds one, lets it count the examples that it learns,
and saves it with the model.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from budgetron.decisions.operating_point import OperatingPoint
from budgetron.errors import InputError, input_error, input_type_error, shown
from budgetron.learners.input.classes import Classes, updated_classes

_FRESH = "Assign point.fresh(), which has the same settings and has counted nothing."


class Deciding:
    """The methods of a learner that decide by thresholds, costs or a limit on errors."""

    _who: ClassVar[str]
    _classes: Classes
    _engine: Any
    _point: OperatingPoint | None = None

    @property
    def operating_point(self) -> OperatingPoint | None:
        """How `decide` turns margins into decisions: an `OperatingPoint`, or None.

        Once it is set and the labels are known, it counts every example that is learned, by its margin before the
        update. The model has a copy of the point that is assigned.

        >>> import numpy as np
        >>> from budgetron import Budgetron, OperatingPoint
        >>> X = np.random.default_rng(0).normal(size=(2000, 2)); y = X[:, 0] > 1.5
        >>> model = Budgetron()
        >>> model.operating_point = OperatingPoint(costs={"fp": 1, "fn": 20})
        >>> model.partial_fit(X, y).decide([[0.0, 0.0], [3.0, 0.0]]).tolist()
        [False, True]
        >>> model.operating_point.expected_cost < 0.2
        True
        """
        return self._point

    @operating_point.setter
    def operating_point(self, point: OperatingPoint | None) -> None:
        if point is not None and not isinstance(point, OperatingPoint):
            raise input_type_error(self._who, "operating_point", "an OperatingPoint or None", shown(point))
        self._point = None if point is None else self._adapted(point)

    def _adapted(self, point: OperatingPoint) -> OperatingPoint:
        """Return a copy of a point for this learner: for its kind of scores (probabilities or margins), and its labels.

        A point without labels has counted nothing and is adapted. Counts of another kind of scores or of other labels
        would be useless, so a point with such counts is rejected.
        """
        has_probabilities = hasattr(self, "predict_proba")
        if point.labels is None:
            # A learner without probabilities decides by margins, which have another scale.
            point = point.fresh(margins=not has_probabilities)
            if self._engine is not None and self._classes.settled:
                point.begin(self._classes.values)
            return point
        if point.log_odds != has_probabilities:
            scores, others = ("probabilities", "margins") if has_probabilities else ("margins", "probabilities")
            raise input_error(self._who, "operating_point", f"one that counts {scores}, as this learner gives them",
                              f"one that counts {others}", _FRESH)  # fmt: skip
        if self._engine is not None:
            self._check_point(point, self._classes)
        return deepcopy(point)

    def _check_point(self, point: OperatingPoint, classes: Classes) -> None:
        """Reject a point that cannot decide on these classes, or that has counted examples of other classes."""
        point.check(classes.values)
        # If only one label has been seen, the other is a guess, and the point may know the true one.
        if point.labels is not None and updated_classes(classes, point.labels).values.tolist() != point.labels.tolist():
            raise input_error(self._who, "operating_point", f"one for the labels {shown(classes.values.tolist())}",
                              f"one for {shown(point.labels.tolist())}", _FRESH)  # fmt: skip

    def change_operating_point(self, settings: dict[str, Any] | None) -> None:
        """Change the settings of `decide` (`threshold`, `costs`, `max_error`, `confidence`).

        Examples that were counted stay counted, and the new thresholds are chosen from them at once. None removes the
        operating point with its counts.
        """
        self._point = self.changed_point(self._point, settings)

    def changed_point(self, before: OperatingPoint | None, settings: dict[str, Any] | None) -> OperatingPoint | None:
        """Return an operating point with these settings and the counts of the point `before`; None without settings."""
        if settings is None:
            return None
        if before is None:
            return self._adapted(OperatingPoint(**settings, margins=not hasattr(self, "predict_proba")))
        return before.changed(**settings)

    def decide(
        self, X: Any, *, tasks: Iterable[Any] | None = None, n_jobs: int | None = None, offset: Any = None
    ) -> NDArray[Any]:
        """Decide on each row by the operating point. Returns labels, and None for rows that a person should decide."""
        margins = self.decision_function(X, tasks=tasks, n_jobs=n_jobs, offset=offset)  # type: ignore[attr-defined]
        return self.decided(margins)

    def decided(self, margins: NDArray[np.float64]) -> NDArray[Any]:
        """Turn margins into decisions by the operating point; see `decide`."""
        # The code −1 means "ask a person" and indexes the None at the end.
        labels = np.array([*self._classes.values.tolist(), None], dtype=object)
        decided: NDArray[Any] = labels[self._decision_codes(margins)]
        return decided

    def decide_one(self, x: Any, *, task: Hashable = None, offset: Any = None) -> Any:
        """Decide on one example, an array row or a dict of features: a label, or None."""
        self._check_fitted()  # type: ignore[attr-defined]
        margin = np.asarray(self._margin_of_one(x, task, offset))  # type: ignore[attr-defined]
        # A single margin of two classes has shape (), the margins of several classes (classes,).
        code = int(self._decision_codes(margin.reshape(1, *margin.shape) if margin.size > 1 else margin.reshape(1))[0])
        return None if code < 0 else self._classes.values.tolist()[code]

    def _decision_codes(self, margins: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the class codes of the decisions for these margins; −1 means to ask a person."""
        point = self._point
        if point is None:
            raise InputError(
                f"{self._who}: decide needs an operating point. Set model.operating_point = "
                "OperatingPoint(threshold=...), or with costs or max_error."
            )
        if point.labels is None:
            # `point` itself does not get the labels: they may still change, and a decision must not change the model.
            point = point.fresh()
            point.begin(self._classes.values)
        return point.decide_margins(margins)

    def _count_decisions(self, margins: NDArray[np.float64], codes: Any) -> None:
        """Let the operating point count examples, each by its margin before the update."""
        point = self._point
        # Until both labels are known, the label that a code stands for may still change.
        if point is not None and self._classes.settled:
            if point.labels is None:
                point.begin(self._classes.values)
            point.count_margins(margins, codes)
