"""Evaluate a learner in one pass over a stream: predict each example, count, then learn it."""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron.evaluate.result import Validation
from budgetron.evaluate.streams import as_one_block, blocks
from budgetron.evaluate.validator import Validator
from budgetron.progress import ProgressLine


def progressive(
    model: Any,
    stream: Any,
    *,
    delay: int = 0,
    window: int = 1000,
    classes: Any = None,
    max_tasks: int = 1000,
    k: int = 100,
    progress: bool = False,
) -> Validation:
    """Validate a learner on a stream, in order and in one pass: predict each example, count the error, then learn it.

    Parameters
    ----------
    model : a learner of this library, new or already fitted; it is updated.
    stream : (X, y, tasks), a data set, or an iterable of blocks (X, y, tasks) or examples (x, y, task).
    delay : how many further examples are predicted before a label arrives.
    window : examples per point of the curve. Whenever there would be more than 512 points, neighbours are merged in
        pairs, and the window doubles.
    classes : all labels, if the first block may lack some. For arrays they are found automatically.
    max_tasks : how many tasks are reported separately, in order of appearance; all others are counted together. Memory
        grows with this number and not with the length of the stream.
    progress : whether to show a line with the examples so far, the speed and the error, also in a notebook.
    k : `precision_at_k` is the share of positives among the k examples with the highest scores.

    For a model with `predict_proba`, log loss, Brier score and calibration are computed too.

    >>> import numpy as np
    >>> from budgetron import Forgetron, evaluate, kernels
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0]] * 50)
    >>> model = Forgetron(budget=3, kernel=kernels.Linear())
    >>> print(evaluate.progressive(model, (X, [1, 0] * 50, ["ann"] * 60 + ["bob"] * 40)))
    100 examples of 2 tasks: 2 mistakes, error 1.0 %, F 99.0 %, precision 100.0 %, recall 98.0 %, AUC 1.000, average \
precision 1.000
    mean over tasks: error 0.8 %, F 99.2 %
    """
    who = "evaluate.progressive"
    validator = Validator(model, delay=delay, window=window, classes=classes, max_tasks=max_tasks, k=k, who=who)
    at_once = as_one_block(stream)
    if classes is None and at_once is not None and len(at_once) and not hasattr(model, "n_seen_"):
        # A new model must know all classes before its first block, which may lack some of them.
        labels = np.unique(at_once.y)
        validator.classes = labels if len(labels) > 1 else None
    with ProgressLine(progress, "examples") as line:
        total = None if at_once is None else len(at_once)
        for block in blocks(who, stream, window, getattr(model, "n_features_in_", None)):
            # To show progress, cut blocks into pieces of one window. The cuts do not change the result.
            step = window if progress else len(block)
            for start in range(0, len(block), max(step, 1)):
                part = block.rows(start, start + step) if progress else block
                validator.add(part.X, part.y, part.tasks)
                if line.due():
                    _show(line, validator, total)
        result = validator.finish()
        _show(line, validator, total)
    return result


def _show(line: ProgressLine, validator: Validator, total: int | None) -> None:
    """Update the progress line."""
    done = validator.position
    error = validator.so_far.error if done else None
    line.show(done, done / total if total else None, "" if error is None else f"error {100 * error:.1f} %")
