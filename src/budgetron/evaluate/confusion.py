"""Which label was said where another was true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_CLASSES = 256  # past this the table would be larger than the model; it is not kept


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often each class was predicted for each true one.

    >>> table = Confusion(("ham", "spam"), np.array([[5, 1], [2, 8]]))
    >>> table.of("spam", "ham")
    2
    """

    classes: tuple[Any, ...]
    counts: NDArray[np.int64]  # true class down, predicted class across

    def of(self, true: Any, predicted: Any) -> int:
        """How often `predicted` was said where `true` was right."""
        return int(self.counts[self.classes.index(true), self.classes.index(predicted)])

    def to_dict(self) -> dict[str, Any]:
        return {"classes": [str(label) for label in self.classes], "counts": self.counts.tolist()}


class ConfusionCounts:
    """Counts pairs of class codes as they come."""

    def __init__(self) -> None:
        self._counts: NDArray[np.int64] | None = None

    def add(self, truth: NDArray[np.intp], predicted: NDArray[np.intp], n_classes: int) -> None:
        if n_classes > MAX_CLASSES:
            return
        if self._counts is None:
            self._counts = np.zeros((n_classes, n_classes), dtype=np.int64)
        pairs = np.bincount(truth * n_classes + predicted, minlength=n_classes * n_classes)
        self._counts += pairs.reshape(n_classes, n_classes)

    def named(self, classes: Sequence[Any]) -> Confusion | None:
        """The table with the labels of its classes; None where nothing was counted, or too many classes."""
        return None if self._counts is None else Confusion(tuple(classes), self._counts.copy())
