"""Compare several learners on one stream: the same examples in the same order, in one pass.

Whether one learner is worse than another is tested on the examples on which they differ (McNemar's test). If only
the first is wrong on b examples, and only the second on c examples, the difference is (b − c)/√(b + c) standard
deviations.

If a label is rare, AUC says more than the error. AUCs are compared on pieces of the stream. If the AUCs on piece i
differ by d_i, and the piece has w_i pairs of a positive and a negative, the difference is Σ w_i d_i / √(Σ w_i² d_i²)
standard deviations.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from budgetron.errors import InputError
from budgetron.evaluate.metrics.ranking import auc, by_score
from budgetron.evaluate.result import Validation
from budgetron.evaluate.validator import Validator
from budgetron.learners.input.classes import in_known_spelling

_PIECE = 500  # examples per piece on which AUCs are compared


@dataclass(frozen=True)
class ComparedModel:
    """The result of one learner in a comparison."""

    model: Any
    validation: Validation
    seconds: float  # the time for predicting, counting and learning


class Comparison:
    """Runs several learners on the same blocks, and tests whether one is significantly worse than another.

    A learner that rejects the first block, for example because its budget is too small, is left out; `refused` has the
    reason. An error at a later block is raised.

    >>> import numpy as np
    >>> from budgetron import Forgetron, Perceptron, evaluate, kernels
    >>> X = np.random.default_rng(0).normal(size=(2000, 3)); y = (X[:, 0] > 0).astype(int)
    >>> line = kernels.Linear()
    >>> comparison = evaluate.Comparison({"all": Perceptron(line), "one": Forgetron(1, line)}, classes=[0, 1])
    >>> for start in range(0, 2000, 500):
    ...     comparison.add(X[start : start + 500], y[start : start + 500])
    >>> sorted(comparison.results()), comparison.is_worse("one", "all"), comparison.is_worse("all", "one")
    (['all', 'one'], True, False)
    """

    def __init__(self, models: Mapping[str, Any], *, classes: Any = None, window: int = 1000) -> None:
        self._validators = {name: Validator(model, classes=classes, window=window) for name, model in models.items()}
        self._seconds = dict.fromkeys(models, 0.0)
        self._only_wrong: NDArray[np.float64] | None = None  # [i, j]: number of examples that i got wrong and j right
        # [0, i, j]: Σ w (AUC_j − AUC_i); [1, i, j]: Σ w² (AUC_j − AUC_i)²
        self._auc_differences: NDArray[np.float64] | None = None
        self.refused: dict[str, str] = {}
        self.n = 0

    def add(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None, offset: Any = None) -> None:
        """Let every learner predict these examples, count its errors, and learn them."""
        wrong, margins_of_all = {}, []
        for name, validator in list(self._validators.items()):
            start = time.perf_counter()
            try:
                margins = validator.add(X, y, tasks, sample_weight, offset)
            except InputError as error:
                if self.n:
                    raise
                self.refused[name] = str(error)
                del self._validators[name]
                continue
            self._seconds[name] += time.perf_counter() - start
            classes = validator.model.classes_
            wrong[name] = _predicted(margins, classes) != in_known_spelling(classes, y)
            margins_of_all.append(margins)
        if not wrong:
            reasons = " ".join(self.refused.values())
            raise InputError(f"evaluate.Comparison: no learner accepts the stream. {reasons}")
        table = np.array(list(wrong.values()), dtype=np.float64)
        # Entry (i, j) counts the examples that learner i got wrong and learner j right.
        only_wrong = table @ (1.0 - table).T
        self._only_wrong = only_wrong if self._only_wrong is None else self._only_wrong + only_wrong
        if margins_of_all[0].ndim == 1:
            classes = next(iter(self._validators.values())).model.classes_
            sums = _auc_differences(margins_of_all, in_known_spelling(classes, y) == classes[1])
            self._auc_differences = sums if self._auc_differences is None else self._auc_differences + sums
        self.n += table.shape[1]

    def results(self) -> dict[str, ComparedModel]:
        """Return the result of each learner that was not left out."""
        return {
            name: ComparedModel(validator.model, validator.result(), self._seconds[name])
            for name, validator in self._validators.items()
        }

    def is_worse(self, name: str, than: str, level: float = 0.05, by: str = "error") -> bool:
        """Return whether `name` has a significantly higher error than `than` (or, with by="auc", a lower AUC).

        The significance level is divided by the number of other learners (Bonferroni correction), because the best of
        many learners is often the best by chance. With more than two classes, errors are compared also with by="auc".
        """
        names = list(self._validators)
        i, j = names.index(name), names.index(than)
        if self._only_wrong is None or i == j:
            return False
        # The two-sided quantile of the normal distribution, with the Bonferroni correction.
        limit = -ndtri(level / 2 / max(len(names) - 1, 1))
        if by == "auc" and self._auc_differences is not None:
            difference, squares = self._auc_differences[:, i, j]
            return bool(difference > limit * np.sqrt(squares))
        only_i_wrong, only_j_wrong = self._only_wrong[i, j], self._only_wrong[j, i]
        return bool(only_i_wrong - only_j_wrong > limit * np.sqrt(only_i_wrong + only_j_wrong))


def _predicted(margins: NDArray[np.float64], classes: NDArray[Any]) -> NDArray[Any]:
    """Return the labels that these margins predict."""
    codes = (margins > 0).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1)
    labels: NDArray[Any] = classes[codes]
    return labels


def _auc_differences(margins: list[NDArray[np.float64]], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return Σ w_i d_i and Σ w_i² d_i² of each pair of learners, over the pieces of a block."""
    sums = np.zeros((2, len(margins), len(margins)))
    for start in range(0, len(positive), _PIECE):
        true = positive[start : start + _PIECE]
        pairs = float(true.sum()) * float((~true).sum())
        if pairs:
            aucs = np.array([auc(*by_score(scores[start : start + _PIECE], true)[1:]) for scores in margins])
            # Entry (i, j) is AUC_j − AUC_i, weighted by the number of pairs.
            differences = pairs * (aucs - aucs[:, None])
            sums += differences, differences**2
    return sums
