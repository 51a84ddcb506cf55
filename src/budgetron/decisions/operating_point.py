"""`OperatingPoint`: turns scores into decisions by a threshold or by costs, or asks a person if an error is likely.

    threshold          the positive label from this probability (or margin) on
    costs              the threshold with the lowest cost of the examples counted so far
    costs with ask     two thresholds, and between them a question to a person
    max_error          decide only where few decisions are wrong (`risk_control`); otherwise ask

It learns online: scores of examples that were predicted before they were learned are counted in fixed bins. A *cut* is
the index of the first bin at or above a threshold. Cuts are chosen again each time the number of counted examples has
grown by a sixteenth, and at least by 64. A learner has an operating point as `model.operating_point`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from budgetron.decisions.costs import Costs
from budgetron.decisions.point_figures import PointFigures
from budgetron.decisions.risk_control import CANDIDATES, safe_thresholds
from budgetron.decisions.score_grid import BINS, bins_of, edges, one_against_rest, scale_of
from budgetron.errors import InputError, input_error, shown

WHO = "OperatingPoint"
ASK = -1  # the code of "ask a person"
_FIRST = 256  # the first margins only determine the scale, and are not counted
_STEP, _SHARE = 64, 16  # cuts are chosen again after 64 examples, or after 1/16 of all counted ones if that is more
# With fewer examples of a label, costs choose the cuts as if probabilities were calibrated; for margins, the cut is 0.
_MIN_EXAMPLES = 50
Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


class OperatingPoint(PointFigures):
    """Decide by a threshold, by costs, or only where decisions are safe enough.

    Parameters
    ----------
    threshold : float, optional
        Decide for the positive label, the second one, from this probability on; with `margins`, from this margin on.
    costs : dict, optional
        Costs of a false positive, a false negative and, optionally, of asking a person: ``{"fp": 1, "fn": 20}``. The
        thresholds with the lowest cost are chosen. Like `threshold`, this is only for two labels.
    max_error : float, optional
        Decide for a label only at scores where at most this share of the decisions for the label is wrong; otherwise
        ask a person.
    confidence : float, default=0.95
        The probability with which `max_error` holds for future decisions, for all labels together, if the model stays
        as it is and examples are independent draws.
    margins : bool, default=False
        Whether scores are margins and not probabilities. A learner sets this for its operating point.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000); y = rng.random(5000) < p  # calibrated probabilities
    >>> point = OperatingPoint(costs={"fp": 1, "fn": 9}).update(p, y)
    >>> abs(point.high - 0.1) < 0.05, point.expected_cost < 0.5
    (True, True)
    >>> safe = OperatingPoint(max_error=0.1).update(p, y)
    >>> safe.decide([0.01, 0.5, 0.99]).tolist()
    [False, None, True]
    """

    def __init__(
        self,
        *,
        threshold: float | None = None,
        costs: Any = None,
        max_error: float | None = None,
        confidence: float = 0.95,
        margins: bool = False,
    ) -> None:
        if threshold is None and costs is None and max_error is None:
            raise input_error(WHO, "threshold, costs or max_error", "given", "none of them")
        if threshold is not None and costs is not None:
            raise input_error(WHO, "threshold and costs", "given one at a time", "both", "Costs choose the threshold.")
        self.log_odds = not margins
        self.threshold = None if threshold is None else _number("threshold", threshold, *self._range())
        self.costs = None if costs is None else Costs.of(WHO, costs)
        self.max_error = None if max_error is None else _number("max_error", max_error, 0.0, 1.0)
        self.confidence = _number("confidence", confidence, 0.0, 1.0)
        self._reset()

    def _range(self) -> tuple[float, float]:
        return (0.0, 1.0) if self.log_odds else (-1e100, 1e100)

    def _reset(self) -> None:
        self.labels: NDArray[Any] | None = None  # sorted; known from the first example on
        self.scale: float | None = 1.0 if self.log_odds else None
        self._first: list[Floats] = []
        # Axes: predicted label, wrong or right, bin of its score. With two labels: one row, true label, bin.
        self.counts = np.zeros((0, 2, BINS), dtype=np.int64)
        self.decided = np.zeros((0, 0), dtype=np.int64)  # (true label, decided label or asked), as decided at the time
        # Two labels: negative below the first cut, positive from the second on. More labels: one cut per label.
        self.cuts: list[int] = []
        self.next_choice = _STEP

    def fresh(self, margins: bool | None = None) -> OperatingPoint:
        """Return a point with the same settings that has counted nothing."""
        return OperatingPoint(
            threshold=self.threshold, costs=self.costs, max_error=self.max_error, confidence=self.confidence,
            margins=not self.log_odds if margins is None else margins,
        )  # fmt: skip

    def changed(self, **settings: Any) -> OperatingPoint:
        """Return a point with other settings, whose cuts are chosen from the scores counted so far.

        The counts of decisions start from zero, because earlier decisions were made with the old settings.
        """
        other = OperatingPoint(**settings, margins=not self.log_odds)
        if self.labels is not None:
            other.begin(self.labels)
            other.scale, other.counts = self.scale, self.counts.copy()
            other.next_choice = self.next_choice
            other._choose()
        return other

    # ---- learning

    def update(self, scores: Any, y: Any) -> OperatingPoint:
        """Count examples with known labels, by the scores with which they were predicted.

        Scores are probabilities of the second label, (n,), or of all labels, (n, labels). Margins are (n,) for two
        labels, and (n, labels) for more.
        """
        values, labels = np.asarray(scores, dtype=np.float64), np.asarray(y)
        if labels.ndim != 1 or values.ndim not in (1, 2) or len(values) != len(labels):
            raise input_error(WHO, "scores and y", "of one length", f"shapes {values.shape} and {labels.shape}")
        known = self.labels
        if known is None:
            known = np.unique(labels)
            if len(known) < (2 if values.ndim == 1 else values.shape[1]):
                remedy = "Call begin(labels) first."
                raise input_error(WHO, "y", "all labels in the first call", shown(known.tolist()), remedy)
        codes = np.minimum(np.searchsorted(known, labels), len(known) - 1)
        unknown = known[codes] != labels
        if unknown.any():
            raise input_error(WHO, "y", f"one of {shown(known.tolist())}", shown(labels[unknown][0]))
        checked = self._scores(values, known)
        if self.labels is None:
            self.begin(known)
        self.count(checked, codes)
        return self

    def check(self, labels: NDArray[Any]) -> None:
        """Reject labels that this point cannot decide on."""
        if len(labels) > 2 and (self.threshold is not None or self.costs is not None):
            parameter = "threshold" if self.costs is None else "costs"
            raise input_error(WHO, parameter, "given for two labels", f"{len(labels)} labels", "Use max_error.")

    def begin(self, labels: NDArray[Any]) -> None:
        """Set the labels, in sorted order. Called by the first `update`, and by learners."""
        self.check(labels)
        self.labels = np.asarray(labels)
        n, rows = len(labels), 1 if len(labels) == 2 else len(labels)
        self.counts = np.zeros((rows, 2, BINS), dtype=np.int64)
        self.decided = np.zeros((n, n + 1), dtype=np.int64)
        self._choose()

    def count(self, scores: Floats, codes: NDArray[Any]) -> None:
        """Count log odds or margins, (n,) or (n, labels), and the codes of the true labels."""
        if self.scale is None:
            scores, codes = self._after_first_margins(scores, codes)
        while len(codes):
            # Split the block where cuts are chosen again, so that they do not depend on the sizes of blocks.
            n = min(len(codes), self.next_choice - self.n)
            self._count(scores[:n], codes[:n])
            scores, codes = scores[n:], codes[n:]
            if self.n >= self.next_choice:
                self._choose()
                self.next_choice = self.n + max(_STEP, self.n // _SHARE)

    def _after_first_margins(self, scores: Floats, codes: NDArray[Any]) -> tuple[Floats, NDArray[Any]]:
        """Determine the scale of margins from the first margins, and return the later ones."""
        missing = _FIRST - sum(len(part) for part in self._first)
        self._first.append(scores[:missing].copy())
        if len(scores) >= missing:
            self.scale, self._first = scale_of(np.concatenate(self._first)), []
            self._choose()
        return scores[missing:], codes[missing:]

    def _count(self, scores: Floats, codes: NDArray[Any]) -> None:
        """Count decisions and scores of a block within which the cuts do not change."""
        decisions = self._decide(scores)
        np.add.at(self.decided, (codes, decisions), 1)  # ASK is −1, the last column
        assert self.scale is not None
        if scores.ndim == 1:
            np.add.at(self.counts[0], (np.asarray(codes, dtype=np.intp), bins_of(scores, self.scale)), 1)
            return
        predicted = scores.argmax(axis=1)
        bins = bins_of(scores[np.arange(len(predicted)), predicted], self.scale)
        np.add.at(self.counts, (predicted, (predicted == codes).astype(np.intp), bins), 1)

    # ---- choosing

    def _choose(self) -> None:
        """Choose the cuts from the counts."""
        if len(self.counts) == 1:
            negatives, positives = self.counts[0]
            low, high = self._two_cuts(negatives, positives)
            if self.max_error is not None:
                delta = self._delta(2)
                above = safe_thresholds(positives, negatives, self.max_error, delta)
                below = BINS - safe_thresholds(negatives[::-1], positives[::-1], self.max_error, delta)
                low, high = max(below[below <= low], default=0), min(above[above >= high], default=BINS)
            self.cuts = [int(low), int(high)]
            return
        assert self.max_error is not None
        delta = self._delta(len(self.counts))
        self.cuts = [
            int(min(safe_thresholds(right, wrong, self.max_error, delta), default=BINS)) for wrong, right in self.counts
        ]

    def _delta(self, classes: int) -> float:
        """Return the δ' of one bound, see `risk_control`."""
        return (1.0 - self.confidence) / (classes * len(CANDIDATES))

    def _two_cuts(self, negatives: NDArray[np.int64], positives: NDArray[np.int64]) -> tuple[int, int]:
        """Return the cuts for two labels by costs or by the threshold, before `max_error` is applied."""
        if self.costs is not None:
            if min(negatives.sum(), positives.sum()) < _MIN_EXAMPLES:
                return self.costs.expected() if self.log_odds else (BINS // 2, BINS // 2)
            return self.costs.cheapest(negatives, positives)
        if self.threshold is None or self.scale is None:
            return BINS // 2, BINS // 2
        cut = int(np.searchsorted(edges(self.scale), self._threshold_score(), side="left"))
        return cut, cut

    def _threshold_score(self) -> float:
        assert self.threshold is not None
        return float(logit(self.threshold)) if self.log_odds else self.threshold

    # ---- deciding

    def decide(self, scores: Any) -> NDArray[Any]:
        """Return the decided label of each score, and None where a person should be asked."""
        if self.labels is None:
            raise InputError(f"{WHO}: nothing was counted yet. Call update(scores, y), or begin(labels), first.")
        codes = self._decide(self._scores(np.asarray(scores, dtype=np.float64), self.labels))
        label_of = np.empty(len(self.labels) + 1, dtype=object)  # the last entry stays None: ASK is −1
        label_of[:-1] = self.labels.tolist()
        decided: NDArray[Any] = label_of[codes]
        return decided

    def decide_margins(self, margins: Floats) -> Codes:
        """Return the code of the decided label of each row of log odds or margins (as a learner gives them), or ASK."""
        if margins.ndim == 2 and self.log_odds:
            margins = one_against_rest(margins)
        return self._decide(margins)

    def count_margins(self, margins: Floats, codes: NDArray[Any]) -> None:
        """Count examples by the margins of a learner, and the codes of their labels."""
        if margins.ndim == 2 and self.log_odds:
            margins = one_against_rest(margins)
        self.count(margins, codes)

    def _decide(self, scores: Floats) -> Codes:
        """Return the code of the decided label of each score, or ASK."""
        if scores.ndim == 1 and self.threshold is not None and self.max_error is None:
            return (scores >= self._threshold_score()).astype(np.intp)  # a given threshold is not rounded to a bin
        if self.scale is None:
            return np.full(len(scores), ASK, dtype=np.intp) if self.max_error is not None else _largest(scores)
        if scores.ndim == 1:
            bins, (low, high) = bins_of(scores, self.scale), self.cuts
            return np.where(bins >= high, 1, np.where(bins < low, 0, ASK)).astype(np.intp)
        predicted = scores.argmax(axis=1)
        bins = bins_of(scores[np.arange(len(predicted)), predicted], self.scale)
        return np.where(bins >= np.array(self.cuts)[predicted], predicted, ASK).astype(np.intp)

    def _scores(self, values: Floats, labels: NDArray[Any]) -> Floats:
        """Check scores. Turn probabilities into log odds of the second label, or of each label against the rest."""
        self._check_shape(values.shape, labels)
        if not self.log_odds:
            if np.isnan(values).any():
                raise input_error(WHO, "scores", "numbers", "nan", "Leave out examples without a score.")
            return values
        invalid = values[~((values >= 0) & (values <= 1))]
        if len(invalid):
            raise input_error(WHO, "scores", "probabilities from 0 to 1", shown(float(invalid[0])),
                              "For margins, create it with margins=True.")  # fmt: skip
        if values.ndim == 2 and values.shape[1] == 2:
            values = values[:, 1]
        with np.errstate(divide="ignore"):
            return np.asarray(np.clip(logit(values), -700.0, 700.0))

    def _check_shape(self, shape: tuple[int, ...], labels: NDArray[Any]) -> None:
        """Reject scores whose shape does not fit the labels."""
        n, kind = len(labels), "probabilities" if self.log_odds else "margins"
        one_score = n <= 2  # the score of the second label is enough for both
        one_per_label = n != 2 or self.log_odds  # for two labels, a learner has only one margin
        if (one_score and len(shape) == 1) or (one_per_label and len(shape) == 2 and shape[1] == n):
            return
        accepted = " or ".join(["(n,)"] * one_score + [f"(n, {n})"] * one_per_label)
        if one_per_label:
            remedy = f"Its labels are {shown(labels.tolist())}. Create another OperatingPoint for other labels."
        else:
            remedy = "Pass the margin of the second label only."
        raise input_error(WHO, "scores", f"of shape {accepted} for the {kind} of {n} labels", f"shape {shape}", remedy)


def _number(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not low < value < high:
        raise input_error(WHO, name, f"a number above {low:g} and below {high:g}", shown(value))
    return float(value)


def _largest(scores: Floats) -> Codes:
    return (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
