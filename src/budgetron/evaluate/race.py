"""Several learners over one stream, side by side: the same examples in the same order, one pass.

Whether one is better than another is asked of the examples on which they differ: with b examples that only the one
got wrong and c that only the other did, the difference is (b − c)/√(b + c) standard deviations of chance (McNemar).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from budgetron.errors import InputError, refuse
from budgetron.evaluate.result import Validation
from budgetron.evaluate.validator import Validator


@dataclass(frozen=True)
class Finish:
    """How one learner did."""

    model: Any
    validation: Validation
    seconds: float  # predicting and learning


class Race:
    """Takes blocks and gives every learner the same ones.

    A learner that refuses the first block (a graph it does not follow, a budget too small) is left out, with its reason
    in `refused`; a refusal later is raised.

    >>> import numpy as np
    >>> from budgetron import Forgetron, Perceptron, evaluate, kernels
    >>> X = np.random.default_rng(0).normal(size=(2000, 3)); y = (X[:, 0] > 0).astype(int)
    >>> line = kernels.Linear()
    >>> race = evaluate.Race({"all": Perceptron(line), "one": Forgetron(1, line)}, classes=[0, 1])
    >>> for start in range(0, 2000, 500):
    ...     race.add(X[start : start + 500], y[start : start + 500])
    >>> sorted(race.results()), race.is_worse("one", "all"), race.is_worse("all", "one")
    (['all', 'one'], True, False)
    """

    def __init__(self, models: Mapping[str, Any], *, classes: Any = None, window: int = 1000) -> None:
        self._validators = {name: Validator(model, classes=classes, window=window) for name, model in models.items()}
        self._seconds = dict.fromkeys(models, 0.0)
        self._alone: NDArray[np.float64] | None = None  # [i, j]: examples that i got wrong and j got right
        self.refused: dict[str, str] = {}
        self.n = 0

    def add(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> None:
        """Every learner predicts, counts and learns these examples."""
        wrong = {}
        for name, validator in list(self._validators.items()):
            begun = time.perf_counter()
            try:
                margins = validator.add(X, y, tasks, sample_weight)
            except InputError as refusal:
                if self.n:
                    raise
                self.refused[name] = str(refusal)
                del self._validators[name]
                continue
            self._seconds[name] += time.perf_counter() - begun
            wrong[name] = _said(margins, validator.model.classes_) != np.asarray(y)
        if not wrong:
            reasons = " ".join(self.refused.values())
            raise refuse("evaluate.Race", "models", "such that one can learn the stream", f"none. {reasons}")
        table = np.array(list(wrong.values()), dtype=np.float64)
        alone = table @ (1.0 - table).T
        self._alone = alone if self._alone is None else self._alone + alone
        self.n += table.shape[1]

    def results(self) -> dict[str, Finish]:
        """How each did, those left out aside."""
        return {
            name: Finish(validator.model, validator.result(), self._seconds[name])
            for name, validator in self._validators.items()
        }

    def is_worse(self, name: str, than: str, level: float = 0.05) -> bool:
        """Whether chance alone would hardly make `name` err so much more than `than`.

        The level is shared out among the learners that run, since one of many is soon the best by luck.
        """
        names = list(self._validators)
        i, j = names.index(name), names.index(than)
        if self._alone is None or i == j:
            return False
        only_this, only_that = self._alone[i, j], self._alone[j, i]
        limit = -ndtri(level / 2 / max(len(names) - 1, 1))
        return bool(only_this - only_that > limit * np.sqrt(only_this + only_that))


def _said(margins: NDArray[np.float64], classes: NDArray[Any]) -> NDArray[Any]:
    """The labels that these margins predict."""
    said: NDArray[Any] = classes[(margins > 0).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1)]
    return said
