"""Turn margins and labels into rows of counts: errors, losses and so on, one row per example. `Tally` adds them up."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

from budgetron.decisions.score_grid import one_against_rest
from budgetron.evaluate.metrics.calibration import Calibration
from budgetron.evaluate.metrics.confusion import ConfusionCounts
from budgetron.evaluate.metrics.counts import increments
from budgetron.learners.input.classes import in_known_spelling


class Scored(NamedTuple):
    """Examples with known labels, and the margin with which each was predicted."""

    y: Any
    tasks: Any
    margins: NDArray[np.float64]


class Counted(NamedTuple):
    """The rows that examples add to the counts, their true classes, and their scores.

    Scores have the shape (n, 1) for two classes, and (n, k) for k > 2 classes.
    """

    rows: NDArray[np.float64]
    truth: NDArray[np.intp]
    scores: NDArray[np.float64]


def count_increments(
    classes: NDArray[Any], part: Scored, calibration: Calibration | None, confusion: ConfusionCounts
) -> Counted:
    """Return the row that each example adds to the counts, and update the calibration and the confusion matrix."""
    truth = np.searchsorted(classes, in_known_spelling(classes, part.y))
    if len(classes) > 2:
        return _multiclass_increments(part, truth, len(classes), calibration, confusion)
    positive = truth == 1
    # The margin in favour of the true class: at most 0 for a mistake.
    signed = np.where(positive, part.margins, -part.margins)
    losses = None
    if calibration is not None:
        probability = expit(part.margins)
        calibration.add(probability, positive)
        losses = np.logaddexp(0.0, -signed), np.square(positive - probability)
    predicted = (part.margins > 0).astype(np.intp)
    confusion.add(truth, predicted, 2)
    rows = increments(truth, predicted, signed <= 0, 2, losses)
    return Counted(rows, truth, part.margins.reshape(-1, 1))


def _multiclass_increments(
    part: Scored,
    truth: NDArray[np.intp],
    n_classes: int,
    calibration: Calibration | None,
    confusion: ConfusionCounts,
) -> Counted:
    """As `count_increments`, for more than two classes."""
    all_rows = np.arange(len(truth))
    # With delayed labels, the first examples are predicted before anything was learned. Each of them has one margin, 0,
    # which stands for a margin of 0 in every class.
    margins = part.margins if part.margins.ndim == 2 else np.zeros((len(truth), n_classes))
    predicted = margins.argmax(axis=1)
    confusion.add(truth, predicted, n_classes)
    # The margins of the wrong classes; the prediction is a mistake unless the true class exceeds all of them.
    wrong_margins = margins.copy()
    wrong_margins[all_rows, truth] = -np.inf
    losses, scores = None, margins
    if calibration is not None:
        log_probability = log_softmax(margins, axis=1)
        probability = np.exp(log_probability)
        calibration.add(probability.max(axis=1), predicted == truth)
        # Σ_c (p_c − y_c)² = Σ_c p_c² + 1 − 2 p_true, because y is 1 for the true class only.
        squares = np.square(probability).sum(axis=1) + 1.0 - 2.0 * probability[all_rows, truth]
        losses = -log_probability[all_rows, truth], squares
        scores = one_against_rest(margins)
    mistakes = margins[all_rows, truth] <= wrong_margins.max(axis=1)
    return Counted(increments(truth, predicted, mistakes, n_classes, losses), truth, scores)
