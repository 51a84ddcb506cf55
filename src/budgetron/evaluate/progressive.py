"""One pass over a stream: each example is predicted, counted, then learned.

Labels at once: `predict_then_learn` gives the margin that the update needed anyway: none is computed twice.
Labels after `delay` examples: example t is predicted by the model that has learned 0 … t − delay − 1; its
label comes when example t + delay has been predicted. What is learned then starts from the margin of that
moment, which is another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

from budgetron.errors import refuse, refuse_type, shown
from budgetron.evaluate.calibration import Calibration
from budgetron.evaluate.confusion import ConfusionCounts
from budgetron.evaluate.counts import TaskCounts, figures, increments, macro
from budgetron.evaluate.curve import Curve
from budgetron.evaluate.result import Validation
from budgetron.evaluate.streams import Block, blocks, whole
from budgetron.evaluate.task_curves import TaskCurves


class Scored(NamedTuple):
    """Examples whose label is known, with the margin that each was predicted by."""

    y: Any
    tasks: Any
    margins: NDArray[np.float64]


def progressive(
    model: Any, stream: Any, *, delay: int = 0, window: int = 1000, classes: Any = None, max_tasks: int = 1000
) -> Validation:
    """Predict, count and learn every example of a stream, once and in order.

    Parameters
    ----------
    model : a learner of this library, new or already at work; it goes on learning.
    stream : (X, y, tasks), a data set, or an iterable of blocks (X, y, tasks) or examples (x, y, task).
    delay : after how many further examples a label arrives.
    window : examples to a point of the curve; doubled as needed to stay within 512 points.
    classes : the labels, where the first block may not show them all; arrays show them by themselves.
    max_tasks : tasks to report one by one, the first that appear; the rest are counted together. What is held
        grows with this and not with the length of the stream.

    A model whose margins are log odds (one with `predict_proba`) also gets log loss and calibration.

    >>> import numpy as np
    >>> from budgetron import Forgetron, evaluate, kernels
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0]] * 50)
    >>> model = Forgetron(budget=3, kernel=kernels.Linear())
    >>> print(evaluate.progressive(model, (X, [1, 0] * 50, ["ann"] * 60 + ["bob"] * 40)))
    100 examples of 2 tasks: 2 mistakes, error 1.0 %, F 99.0 %, precision 100.0 %, recall 98.0 %
    mean over tasks: error 0.8 %, F 99.2 %
    """
    who = "evaluate.progressive"
    _check(who, model, delay, window, max_tasks)
    at_once = whole(stream)
    if classes is None and at_once is not None and len(at_once) and not _begun(model):
        labels = np.unique(at_once.y)
        classes = labels if len(labels) > 1 else None
    pieces = blocks(who, stream, window, getattr(model, "n_features_in_", None))
    scored = _after(model, pieces, classes, delay, window) if delay else _at_once(model, pieces, classes)

    counts, curve, calibration = TaskCounts(max_tasks), Curve(), Calibration.empty()
    confusion, task_curves = ConfusionCounts(), TaskCurves()
    probabilistic = hasattr(model, "predict_proba")
    position = 0
    in_window: Any = 0.0
    for part in scored:
        rows = _counted(model, part, calibration if probabilistic else None, confusion)
        counts.add(part.tasks, rows)
        in_window = in_window + rows.sum(axis=0)
        position += len(rows)
        if position % window == 0:
            curve.close_window(position, in_window, model)
            task_curves.close_window(position, counts)
            in_window = 0.0
    if position % window:
        curve.close_window(position, in_window, model)

    per_task = {task: figures(row, probabilistic) for task, row in counts.by_task().items()}
    return Validation(
        overall=figures(counts.total, probabilistic),
        macro=macro(list(per_task.values())),
        per_task=per_task,
        others=figures(counts.others, probabilistic) if counts.others[0] else None,
        curve=curve.points(probabilistic),
        calibration=calibration if probabilistic else None,
        delay=delay,
        confusion=confusion.named(model.classes_.tolist()) if position else None,
        task_curves=task_curves.by_task(position, counts),
    )


def _at_once(model: Any, pieces: Iterator[Block], classes: Any) -> Iterator[Scored]:
    for block in pieces:
        yield Scored(
            block.y, block.tasks, model.predict_then_learn(block.X, block.y, block.tasks, classes=classes)
        )


def _after(model: Any, pieces: Iterator[Block], classes: Any, delay: int, window: int) -> Iterator[Scored]:
    labelled: list[tuple[Block, Any]] = []
    for position, (example, margin) in enumerate(_predicted_early(model, pieces, delay), start=1):
        model.partial_fit(example.X, example.y, example.tasks, classes=classes)
        labelled.append((example, margin))
        if position % window == 0:
            yield _together(labelled)
            labelled = []
    if labelled:
        yield _together(labelled)


def _predicted_early(model: Any, pieces: Iterator[Block], delay: int) -> Iterator[tuple[Block, Any]]:
    """Each example, when its label comes, with the margin it had when it came itself."""
    waiting: deque[tuple[Block, Any]] = deque()  # at most delay + 1
    for block in pieces:
        for place in range(len(block)):
            example = block.rows(place, place + 1)
            margin = model.decision_function(example.X, example.tasks)[0] if _begun(model) else None
            waiting.append((example, margin))
            if len(waiting) > delay:
                yield waiting.popleft()
    yield from waiting


def _together(labelled: list[tuple[Block, Any]]) -> Scored:
    given = [margin for _, margin in labelled if margin is not None]
    unknown = np.zeros_like(given[0]) if given else 0.0  # predicted before anything was learned
    margins = np.array([unknown if margin is None else margin for _, margin in labelled])
    tasks = None if labelled[0][0].tasks is None else [example.tasks[0] for example, _ in labelled]
    return Scored(np.concatenate([example.y for example, _ in labelled]), tasks, margins)


def _counted(
    model: Any, part: Scored, calibration: Calibration | None, confusion: ConfusionCounts
) -> NDArray[np.float64]:
    """What each example adds to the counts; its probability goes to the calibration, its labels to the confusion."""
    known = model.classes_
    truth = np.searchsorted(known, part.y)
    if len(known) > 2:
        return _counted_among_many(part, truth, len(known), calibration, confusion)
    signed = np.where(truth == 1, part.margins, -part.margins)
    loss = None
    if calibration is not None:
        calibration.add(expit(part.margins), truth == 1)
        loss = np.logaddexp(0.0, -signed)
    predicted = (part.margins > 0).astype(np.intp)
    confusion.add(truth, predicted, 2)
    return increments(truth, predicted, signed <= 0, 2, loss)


def _counted_among_many(
    part: Scored,
    truth: NDArray[np.intp],
    n_classes: int,
    calibration: Calibration | None,
    confusion: ConfusionCounts,
) -> NDArray[np.float64]:
    everyone = np.arange(len(truth))
    margins = part.margins if part.margins.ndim == 2 else np.zeros((len(truth), n_classes))
    predicted = margins.argmax(axis=1)
    confusion.add(truth, predicted, n_classes)
    rivals = margins.copy()
    rivals[everyone, truth] = -np.inf
    loss = None
    if calibration is not None:
        log_probability = log_softmax(margins, axis=1)
        calibration.add(np.exp(log_probability.max(axis=1)), predicted == truth)
        loss = -log_probability[everyone, truth]
    return increments(truth, predicted, margins[everyone, truth] <= rivals.max(axis=1), n_classes, loss)


def _begun(model: Any) -> bool:
    return hasattr(model, "n_seen_")


def _check(who: str, model: Any, delay: int, window: int, max_tasks: int) -> None:
    if not hasattr(model, "predict_then_learn"):
        raise refuse_type(
            who, "model", "a learner of budgetron, which can predict_then_learn", shown(type(model).__name__)
        )
    for name, value, least in (("delay", delay, 0), ("window", window, 1), ("max_tasks", max_tasks, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise refuse(who, name, f"an integer >= {least}", shown(value))
