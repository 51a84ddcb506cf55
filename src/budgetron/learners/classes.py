"""Labels as codes: which classes there are, and when that is settled.

Until classes are known, −1, 0 and False are negative and 1 and True positive on sight, so that a stream may
begin with any one of them. Two or more labels in the first block, or `classes=`, settle it for good.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import UnknownLabel, refusal, refuse, shown


class Classes:
    """The known classes, sorted; label → code is the position. Immutable: `seeing` gives the next one."""

    def __init__(self, values: NDArray[Any], settled: bool = True) -> None:
        self.values = values
        self.settled = settled  # False while only the positive label has been seen, and the negative is assumed
        self._codes = {label: code for code, label in enumerate(values.tolist())}

    @property
    def n_outputs(self) -> int:
        return 1 if len(self.values) == 2 else len(self.values)

    def code(self, who: str, label: Any) -> int:
        """The code of one label."""
        try:
            code = self._codes.get(label)
        except TypeError:
            code = None
        if code is None:
            raise UnknownLabel(
                refusal(
                    who,
                    "y",
                    f"one of the known classes {shown(self.values.tolist())}",
                    shown(label),
                    "Name all classes in the first call, classes=[...], or fit anew.",
                )
            )
        return code

    def codes(self, who: str, y: NDArray[Any]) -> NDArray[np.int32]:
        """The codes of many labels."""
        if y.dtype.kind in "iufb" and self.values.dtype.kind in "iufb":
            codes = np.minimum(np.searchsorted(self.values, y), len(self.values) - 1)
            wrong = self.values[codes] != y
            if wrong.any():
                self.code(who, y[wrong][0].item())
            return codes.astype(np.int32)
        return np.array([self.code(who, label) for label in y.tolist()], dtype=np.int32)

    def of_margins(self, margins: NDArray[np.float64]) -> NDArray[Any]:
        """The predicted labels: the sign of a single output, or the class with the largest one."""
        codes = (margins > 0).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1)
        labels: NDArray[Any] = self.values[codes]
        return labels


def known(who: str, classes: Any) -> Classes:
    """Classes named by the caller."""
    try:
        values = np.unique(np.asarray(classes))
    except TypeError:
        raise refuse(who, "classes", "labels of one kind", shown(classes)) from None
    if values.ndim != 1 or len(values) < 2:
        raise refuse(who, "classes", "at least two different labels", shown(classes))
    return Classes(values)


def first_seen(who: str, y: NDArray[Any]) -> Classes:
    """Classes from the labels of a first block."""
    try:
        values = np.unique(y)
    except TypeError:
        raise refuse(
            who, "y", "labels of one kind", shown(y.tolist()), "Make them all strings, or all numbers."
        ) from None
    if len(values) > 1:
        return Classes(values)
    return _assumed(who, values[0])


def seeing(who: str, classes: Classes, y: NDArray[Any]) -> Classes:
    """The classes after one more block: what was assumed may be settled now."""
    if classes.settled:
        return classes
    others = [label for label in np.unique(y).tolist() if label not in (classes.values[1].item(),)]
    if not others:
        return classes
    if len(others) == 1 and others[0] in (-1, 0):
        return Classes(np.array([others[0], classes.values[1].item()], dtype=np.result_type(classes.values, y)))
    return Classes(classes.values)


def _assumed(who: str, label: Any) -> Classes:
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, (bool, int, float)) and value in (-1, 0, 1):
        positive = type(value)(1)
        if value == 1:
            return Classes(np.array([type(value)(0), positive]), settled=False)
        return Classes(np.array([value, positive]))
    raise refuse(
        who,
        "y",
        "labels of at least two classes, or −1, 0, 1, False or True",
        f"only {shown(value)}",
        "Name all classes in the first call: classes=[...].",
    )
