"""The first lines of a stream for a new model. Their form and labels decide what the model will accept.

A block is learned together, so a new model knows all labels of its first block. A stream therefore waits until its
lines have enough labels for a model, but only until a block is full or the stream ends. If the model rejects this
block, only the lines of the most frequent form are tried again, so that one bad first line does not decide the form.
`ndjson` and `consumption` use these functions until the model has learned its first block.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import UNSET

from budgetron.errors import InputError, input_error

Numbered = tuple[int, Any]  # line number and example


def can_begin(block: list[Numbered]) -> bool:
    """Whether these lines suffice for a new model: two labels, or one of -1, 0 and 1, which implies a second label."""
    labels = set(labels_of(usual_lines(block)))
    return len(labels) > 1 or (bool(labels) and labels <= {-1, 0, 1})


def usual_lines(block: list[Numbered]) -> list[Numbered]:
    """The lines of the most frequent form. Of equally frequent forms, the first in the stream wins."""
    counts = Counter(_form(example) for _, example in block)
    usual = max(counts, key=counts.__getitem__, default=None)  # `max` returns the first of equal counts
    return [(line, example) for line, example in block if _form(example) == usual]


def labels_of(block: list[Numbered]) -> list[Any]:
    return list(dict.fromkeys(example.label for _, example in block))


def _form(example: Any) -> tuple[Any, ...]:
    """What all lines of a first block must have in common. `_form_words` says the same in words."""
    features = example.features
    width = len(features) if isinstance(features, list) else None
    return type(features), width, example.task is None, isinstance(example.label, str), example.offset is UNSET


def unusual_form(example: Any, usual: Any) -> InputError:
    """The error for a line that has another form than most of the first lines."""
    return input_error("stream", "the first lines of a new model", f"of one form: most have {_form_words(usual)}",
                       _form_words(example))  # fmt: skip


def _form_words(example: Any) -> str:
    features = example.features
    shape = f"{len(features)} numbers" if isinstance(features, list) else "features by name"
    task = "no task" if example.task is None else "a task"
    task += "" if example.offset is UNSET else ", an offset"
    label = {str: "a string", bool: "true or false"}.get(type(example.label), "a number")
    return f"{shape}, {task} and {label} as label"
