"""The confusion matrix: how often each label was predicted for each true label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.learners.input.classes import label_text

RARE = 0.1  # a label with a smaller share is rare
MAX_CLASSES = 256  # with more classes, the table could be larger than the model and is left out


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often each class was predicted for each true class.

    >>> table = Confusion(("ham", "spam"), np.array([[5, 1], [2, 8]]))
    >>> table.of("spam", "ham")
    2
    """

    classes: tuple[Any, ...]
    counts: NDArray[np.int64]  # rows are true classes, columns predicted ones

    def of(self, true: Any, predicted: Any) -> int:
        """Return how often `predicted` was predicted for examples of class `true`."""
        return int(self.counts[self.classes.index(true), self.classes.index(predicted)])

    def to_dict(self) -> dict[str, Any]:
        return {"classes": [label_text(label) for label in self.classes], "counts": self.counts.tolist()}


def rare_label(table: Confusion | None) -> tuple[Any, float] | None:
    """Return the rarer of two labels and its share if that is below 10 %; otherwise None.

    >>> rare_label(Confusion(("no", "click"), np.array([[970, 20], [5, 5]])))
    ('click', 0.01)
    """
    if table is None or len(table.classes) != 2 or not table.counts.sum():
        return None
    shares = table.counts.sum(axis=1) / table.counts.sum()
    lowest = int(shares.argmin())
    return (table.classes[lowest], float(shares[lowest])) if 0 < shares[lowest] < RARE else None


def rare_sentence(label: str, share: float) -> str:
    """Return advice on which figures to read if this label is rare."""
    return (
        f"Only {100 * share:.1f} % of the labels are {label}, so the error says little: always predicting the other "
        "label has nearly the same error. Read AUC and average precision."
    )


class ConfusionCounts:
    """Counts pairs of true and predicted class codes."""

    def __init__(self) -> None:
        self._counts: NDArray[np.int64] | None = None

    def add(self, truth: NDArray[np.intp], predicted: NDArray[np.intp], n_classes: int) -> None:
        """Count pairs of true and predicted classes."""
        if n_classes > MAX_CLASSES:
            return
        if self._counts is None:
            self._counts = np.zeros((n_classes, n_classes), dtype=np.int64)
        # One number per pair of true and predicted class, so that one bincount counts all pairs.
        pairs = np.bincount(truth * n_classes + predicted, minlength=n_classes * n_classes)
        self._counts += pairs.reshape(n_classes, n_classes)

    def named(self, classes: Sequence[Any]) -> Confusion | None:
        """Return the table with class labels; None if nothing was counted or there are too many classes."""
        return None if self._counts is None else Confusion(tuple(classes), self._counts.copy())
