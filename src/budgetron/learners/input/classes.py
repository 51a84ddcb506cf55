"""Classes and label codes: a label's code is its position among the sorted classes.

Called by `Learner.validate`. The argument `classes` fixes the classes. Without it, they are the labels of the first
block, if it has at least two. A first block of a single label is accepted in two cases. If the label is −1, 0 or False,
the other class is 1 or True. If the label is 1 or True, the negative class is unknown until another label arrives. A
model never gains a class later, because its outputs are allocated once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import UnknownLabel, error_message, input_error, shown


class Classes:
    """The known classes, sorted. Immutable: `updated_classes` returns a new object."""

    def __init__(self, values: NDArray[Any], settled: bool = True) -> None:
        self.values = values
        self.settled = settled  # False while only the positive label has been seen and the negative one is a guess
        self.by_label: dict[Any, int] = {label: code for code, label in enumerate(values.tolist())}
        self._plain = [label.item() if isinstance(label, np.generic) else label for label in values.tolist()]
        # JSON and Python have booleans; a text file has the words "true" and "false". Each is accepted for the other.
        self._boolean_words = {
            label_text(label).lower(): code
            for label, code in self.by_label.items()
            if isinstance(label, bool) or (isinstance(label, str) and label.lower() in ("true", "false"))
        }

    @property
    def n_outputs(self) -> int:
        return 1 if len(self.values) == 2 else len(self.values)

    def find(self, label: Any) -> int | None:
        """Return the code of a label, or None if the label is unknown. Accepts True for "true" and "true" for True."""
        try:
            code = self.by_label.get(label)
        except TypeError:  # a label that is not hashable cannot be a known class
            return None
        if code is None and self._boolean_words and isinstance(label, bool if self.values.dtype.kind in "US" else str):
            return self._boolean_words.get(label_text(label).lower())
        return code

    def code(self, who: str, label: Any) -> int:
        """Return the code of one label."""
        code = self.find(label)
        if code is None:
            raise UnknownLabel(
                error_message(
                    who,
                    "y",
                    f"one of the known classes {shown(self.values.tolist())}",
                    shown(label),
                    "Name all classes in the first call with classes=[...], or fit again.",
                )
            )
        return code

    def codes(self, who: str, y: NDArray[Any]) -> NDArray[np.int32]:
        """Return the codes of many labels."""
        # Numbers, and strings of a NumPy array, take one vectorised binary search instead of one dict lookup per label.
        kinds = y.dtype.kind, self.values.dtype.kind
        if kinds == ("U", "U") or (kinds[0] in "iufb" and kinds[1] in "iufb"):
            # A label that is not a class gets the code of a neighbour; the comparison below finds it.
            codes = np.minimum(np.searchsorted(self.values, y), len(self.values) - 1)
            wrong = self.values[codes] != y
            if wrong.any():
                self.code(who, y[wrong][0].item())
            return codes.astype(np.int32)
        labels = y.tolist()
        try:
            label_codes = list(map(self.by_label.get, labels))
        except TypeError:  # a label that is not hashable
            label_codes = [None]
        if None in label_codes:
            # Accepts True for "true" and vice versa; raises an error that names any other label.
            label_codes = [self.code(who, label) for label in labels]
        return np.array(label_codes, dtype=np.int32)

    def of_margins(self, margins: NDArray[np.float64]) -> NDArray[Any]:
        """Turn margins into labels: by the sign of a single output, or the class with the largest output."""
        codes = (margins > 0).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1)
        labels: NDArray[Any] = self.values[codes]
        return labels

    def of_margin(self, margin: Any) -> Any:
        """Turn the margin of one example, or its array of margins, into a label as plain Python."""
        return self._plain[int(margin.argmax() if isinstance(margin, np.ndarray) else margin > 0)]


def label_text(label: Any) -> str:
    """Return a label as text, in the spelling of JSON: true and false for booleans."""
    return str(label).lower() if isinstance(label, bool | np.bool_) else str(label)


def in_known_spelling(classes: NDArray[Any], y: Any, who: str = "labels") -> NDArray[Any]:
    """Return labels in the spelling of a model's classes: "true" for True, or True for "true".

    Labels are returned unchanged unless booleans meet text. Then an unknown label raises `UnknownLabel`.
    """
    labels = np.asarray(y)
    for one, other in ((labels, classes), (classes, labels)):
        if _contains(one, bool, "b") and _contains(other, str | bytes, "US"):
            spelled: NDArray[Any] = classes[Classes(classes).codes(who, labels)]
            return spelled
    return labels


def _contains(labels: NDArray[Any], kind: Any, dtypes: str) -> bool:
    """Return whether any label is of a kind: by the dtype of the array, or label by label in an array of objects."""
    if labels.dtype.kind == "O":
        return any(isinstance(label, kind) for label in labels.tolist())
    return labels.dtype.kind in dtypes


def given_classes(who: str, classes: Any) -> Classes:
    """Return the classes that the caller named with `classes=`."""
    try:
        values = np.unique(np.asarray(classes))
    except TypeError:
        raise input_error(who, "classes", "labels of one kind", shown(classes)) from None
    if values.ndim != 1 or len(values) < 2:
        raise input_error(who, "classes", "at least two different labels", shown(classes))
    return Classes(values)


def classes_of_first_block(who: str, y: NDArray[Any]) -> Classes:
    """Return the classes found in the labels of the first block."""
    try:
        values = np.unique(y)
    except TypeError:
        raise input_error(
            who, "y", "labels of one kind", shown(y.tolist()), "Make them all strings, or all numbers."
        ) from None
    if len(values) > 1:
        return Classes(values)
    return _guessed_classes(who, values[0])


def updated_classes(classes: Classes, y: NDArray[Any]) -> Classes:
    """Return the classes after one more block. A guessed negative label is replaced by the real one or confirmed."""
    if classes.settled:
        return classes
    # The positive label is known; any other label shows which the negative one is.
    others = [label for label in np.unique(y).tolist() if label not in (classes.values[1].item(),)]
    if not others:
        return classes
    if len(others) == 1 and others[0] in (-1, 0):
        return Classes(np.array([others[0], classes.values[1].item()], dtype=np.result_type(classes.values, y)))
    return Classes(classes.values)


def _guessed_classes(who: str, label: Any) -> Classes:
    """Guess both classes from a single label that is −1, 0, 1, False or True; reject any other."""
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, (bool, int, float)) and value in (-1, 0, 1):
        positive = type(value)(1)
        # Only the positive label was seen: 0 is a guess for the negative one, which may turn out to be −1.
        if value == 1:
            return Classes(np.array([type(value)(0), positive]), settled=False)
        return Classes(np.array([value, positive]))
    raise input_error(
        who,
        "y",
        "labels of at least two classes, or −1, 0, 1, False or True",
        f"only {shown(value)}",
        "Name all classes in the first call with classes=[...].",
    )
