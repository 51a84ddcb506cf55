"""Compute what a predicted example adds to the counts once its label is known. Used here and by the service."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

from budgetron.evaluate.calibration import Calibration
from budgetron.evaluate.confusion import ConfusionCounts
from budgetron.evaluate.counts import increments
from budgetron.learners.classes import in_known_spelling


class Scored(NamedTuple):
    """Examples with known labels, and the margin with which each was predicted."""

    y: Any
    tasks: Any
    margins: NDArray[np.float64]


def count_increments(
    classes: NDArray[Any], part: Scored, calibration: Calibration | None, confusion: ConfusionCounts
) -> NDArray[np.float64]:
    """Return what each example adds to the counts, and add it to the calibration and the confusion."""
    truth = np.searchsorted(classes, in_known_spelling(classes, part.y))
    if len(classes) > 2:
        return _multiclass_increments(part, truth, len(classes), calibration, confusion)
    signed = np.where(truth == 1, part.margins, -part.margins)
    loss = None
    if calibration is not None:
        calibration.add(expit(part.margins), truth == 1)
        loss = np.logaddexp(0.0, -signed)
    predicted = (part.margins > 0).astype(np.intp)
    confusion.add(truth, predicted, 2)
    return increments(truth, predicted, signed <= 0, 2, loss)


def _multiclass_increments(
    part: Scored,
    truth: NDArray[np.intp],
    n_classes: int,
    calibration: Calibration | None,
    confusion: ConfusionCounts,
) -> NDArray[np.float64]:
    rows = np.arange(len(truth))
    margins = part.margins if part.margins.ndim == 2 else np.zeros((len(truth), n_classes))
    predicted = margins.argmax(axis=1)
    confusion.add(truth, predicted, n_classes)
    rivals = margins.copy()
    rivals[rows, truth] = -np.inf
    loss = None
    if calibration is not None:
        log_probability = log_softmax(margins, axis=1)
        calibration.add(np.exp(log_probability.max(axis=1)), predicted == truth)
        loss = -log_probability[rows, truth]
    return increments(truth, predicted, margins[rows, truth] <= rivals.max(axis=1), n_classes, loss)
