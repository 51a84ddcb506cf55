"""`Validator`: progressive validation of a stream that arrives in pieces, in bounded memory.

Without a delay, `predict_then_learn` returns the margin that the update computes anyway, so no margin is computed
twice. With a delay, the model has learned examples 0 … t − delay − 1 when it predicts example t. The label of example t
arrives after example t + delay was predicted. The update then computes a new margin, which does not count.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from budgetron.errors import input_error, input_type_error, shown
from budgetron.evaluate.metrics.counts import Figures, macro
from budgetron.evaluate.result import Validation
from budgetron.evaluate.scoring import Scored
from budgetron.evaluate.streams import Block, block_of
from budgetron.evaluate.tally import Tally
from budgetron.evaluate.task_curves import TaskCurves


class Validator:
    """Validates a learner on blocks as they arrive; `progressive` does this for a complete stream.

    It has the parameters of `progressive`, without `stream` and `progress`.

    >>> import numpy as np
    >>> from budgetron import Forgetron, evaluate, kernels
    >>> validator = evaluate.Validator(Forgetron(budget=3, kernel=kernels.Linear()), classes=[0, 1])
    >>> for _ in range(4):
    ...     margins = validator.add(np.array([[1.0, 0.0], [0.0, 1.0]]), [1, 0], tasks=["ann", "bob"])
    >>> validator.so_far.n, validator.so_far.mistakes
    (8, 2)
    >>> validator.finish().per_task["ann"].n
    4
    """

    def __init__(
        self,
        model: Any,
        *,
        delay: int = 0,
        window: int = 1000,
        classes: Any = None,
        max_tasks: int = 1000,
        k: int = 100,
        who: str = "evaluate.Validator",
    ) -> None:
        _check(who, model, delay=(delay, 0), window=(window, 1), max_tasks=(max_tasks, 1), k=(k, 1))
        self.model = model
        self.delay, self.window, self.classes = delay, window, classes
        self._tally, self._task_curves = Tally(max_tasks, k, hasattr(model, "predict_proba")), TaskCurves()
        self._waiting: deque[tuple[Block, Any]] = deque()  # predicted examples without a label, at most delay + 1

    def add(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None, offset: Any = None) -> Any:
        """Predict, count and learn some examples in order. Return the margins before each update.

        Weights are used only for learning: every example counts as one. With a delay, labels are used when they arrive,
        and None is returned.
        """
        block = block_of(X, y, tasks, sample_weight, offset)
        if self.delay:
            self._add_delayed(block)
            return None
        margins, start = [], 0
        while start < len(block):
            # Cut at the ends of windows, so that the model's state is recorded exactly there.
            end = min(len(block), start + self.window - self.position % self.window)
            part = block.rows(start, end)
            margins.append(self._call(self.model.predict_then_learn, part))
            self._count(Scored(part.y, part.tasks, margins[-1]))
            start = end
        return np.concatenate(margins) if margins else np.empty(0)

    @property
    def position(self) -> int:
        """The number of examples counted so far."""
        return self._tally.position

    @property
    def so_far(self) -> Figures:
        """The figures of all examples counted so far."""
        return self._tally.overall

    def finish(self) -> Validation:
        """Learn the labels that have not arrived yet, and return the result."""
        while self._waiting:
            n = min(len(self._waiting), self.window - self.position % self.window)  # not beyond the end of the window
            self._count_labelled(list(self._learn_oldest(n)))
        return self.result()

    def result(self) -> Validation:
        """Return the complete result so far; more examples may be added later."""
        tally = self._tally
        per_task = tally.per_task()
        return Validation(
            overall=tally.overall,
            macro=macro(list(per_task.values())),
            per_task=per_task,
            others=tally.others(),
            curve=tally.points(self.model),
            calibration=tally.calibration.copy() if tally.probabilistic else None,
            delay=self.delay,
            confusion=tally.confusion.named(self.model.classes_.tolist()) if self.position else None,
            task_curves=self._task_curves.by_task(self.position, tally.counts),
            ranking=tally.ranking.ranking(),
            k=tally.k,
            alarms=list(tally.drift.latest),
            n_alarms=tally.drift.total,
        )

    # ---- delayed labels

    def _add_delayed(self, block: Block) -> None:
        """Predict each example now, and learn it `delay` examples later."""
        labelled: list[tuple[Block, Any]] = []
        for i in range(len(block)):
            example = block.rows(i, i + 1)
            is_fitted = hasattr(self.model, "n_seen_")
            optional = {} if example.offsets is None else {"offset": example.offsets}
            # Before the first label the model cannot predict: the margin counts as 0.
            margin = self.model.decision_function(example.X, tasks=example.tasks, **optional)[0] if is_fitted else None
            self._waiting.append((example, margin))
            if len(self._waiting) > self.delay:
                # Learn one example at a time, because the next prediction must already use it.
                labelled += self._learn_oldest(1)
                if (self.position + len(labelled)) % self.window == 0:
                    self._count_labelled(labelled)
                    labelled = []
        if labelled:
            self._count_labelled(labelled)

    def _learn_oldest(self, n: int) -> Any:
        """Learn the n examples that have waited longest for their labels; yield them with their margins."""
        for _ in range(n):
            example, margin = self._waiting.popleft()
            self._call(self.model.partial_fit, example)
            yield example, margin

    def _count_labelled(self, labelled: list[tuple[Block, Any]]) -> None:
        """Count examples by the margins with which they were predicted."""
        predicted = [margin for _, margin in labelled if margin is not None]
        unknown = np.zeros_like(predicted[0]) if predicted else 0.0  # predicted before anything was learned
        margins = np.array([unknown if margin is None else margin for _, margin in labelled])
        tasks = None if labelled[0][0].tasks is None else [example.tasks[0] for example, _ in labelled]
        self._count(Scored(np.concatenate([example.y for example, _ in labelled]), tasks, margins))

    def _call(self, method: Any, block: Block) -> Any:
        """Call a method of the model with a block, and with weights and offsets if there are any."""
        optional = {"sample_weight": block.weights, "offset": block.offsets}
        optional = {name: values for name, values in optional.items() if values is not None}
        return method(block.X, block.y, tasks=block.tasks, classes=self.classes, **optional)

    # ---- counting

    def _count(self, part: Scored) -> None:
        """Count examples that all belong to the current window."""
        self._tally.add(self.model.classes_, part)
        if self.position % self.window == 0:
            self._tally.close_window(self.model)
            self._task_curves.close_window(self.position, self._tally.counts)


def _check(who: str, model: Any, **numbers: tuple[int, int]) -> None:
    """Reject a model that cannot be validated, and numbers below their minimum."""
    if not hasattr(model, "predict_then_learn"):
        raise input_type_error(
            who, "model", "a learner with the method predict_then_learn", shown(type(model).__name__)
        )
    for name, (value, least) in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise input_error(who, name, f"an integer >= {least}", shown(value))
