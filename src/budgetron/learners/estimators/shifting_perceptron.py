"""ShiftingPerceptron: all weights shrink at every mistake, so the learner follows a stream that changes.

    on a mistake, after M earlier ones:   β ← φ β,   S ← S ∪ {t},  β_t = y_t;   if |S| = B + 1, the oldest is removed
    φ = M/(λ + M) (polynomial decay)   or   φ = 1 − a (fixed decay)

S are the stored examples, β their weights, B the budget, t the new example and y_t = ±1 its label; λ or a is the
parameter `rate`.
The rule is in `src/core/rules/shifting_perceptron.cpp`, and in NumPy in
`budgetron/engine/reference/rules/shifting_perceptron.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from budgetron.engine.reference.rules.shifting_perceptron import FIXED, POLYNOMIAL, shrink_for
from budgetron.engine.settings import Settings
from budgetron.errors import input_error, is_real, shown
from budgetron.graphs import TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel
from budgetron.learners.learner import Learner

DECAYS = {"polynomial": POLYNOMIAL, "fixed": FIXED}
DEFAULT_LAMBDA = 0.5


class ShiftingPerceptron(Learner):
    """Perceptron that forgets: at every mistake all weights shrink, and with a budget the oldest example is evicted.

    It has two presets. ``shifting-perceptron`` is the Shifting Perceptron, which stores every mistake and forgets more
    and more slowly. ``fixed-shrink-forgetron`` stays within a budget and forgets at a constant rate. Its mistake bound
    holds even if the best classifier changes over time (`theory.guarantee`).

    Parameters
    ----------
    budget : int, str or None, default=500
        The number of examples that all tasks together may store; or a size such as ``"64 MiB"``, which limits all
        memory of the model; or None for no limit.
    kernel : kernels.Kernel, default=Gaussian(gamma="scale")
        The kernel K' between the features of two examples.
    graph : graphs.TaskGraph, default=complete()
        How strongly tasks are related.
    decay : {"fixed", "polynomial"}, default="fixed"
        "fixed": at every mistake all weights are multiplied by 1 − `rate`. "polynomial": they are multiplied by
        M/(`rate` + M) after M earlier mistakes.
    rate : float or None, default=None
        How fast the learner forgets; with 0 it never forgets. None means 0.5 for "polynomial". For "fixed", None means
        ln(B)/B, with which the weight of an example is about 1/B when the example is evicted.
    task_column : int or str, optional
        The column of X that holds the task, as an alternative to the argument `tasks`.
    engine : {"auto", "core", "numpy"}, default="auto"
        The compiled engine, or the NumPy engine, which is slow but can also run kernels that you write in Python.

    Attributes
    ----------
    classes_, n_features_in_, kernel_, capacity_
        The labels, the number of features, the kernel in use, and the largest number of stored examples. The first
        block of examples fixes them, except that ``gamma="scale"`` is estimated from the first 64 examples, and that
        `resize` changes the capacity.
    active_set_ : records.ActiveSet
        The stored examples, with their tasks, their positions in the stream and their weights.
    n_stored_, n_seen_, n_mistakes_ : int
        The numbers of stored examples, of examples learned so far, and of wrong predictions or ties before an update.
    budget_share_ : dict
        Each task's current share of the stored examples.
    memory_bytes_ : int
        All bytes allocated for the model.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import ShiftingPerceptron, kernels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0], [0.2, 1.0], [1.0, 0.1]])
    >>> y = ["ham", "spam", "spam", "ham", "ham", "ham"]
    >>> users = ["ann", "ann", "bob", "bob", "ann", "bob"]
    >>> model = ShiftingPerceptron(budget=2, kernel=kernels.Linear(bias=1.0), rate=0.2)
    >>> margins = model.predict_then_learn(X, y, tasks=users)
    >>> model.n_stored_, sorted(abs(model.active_set_.coef).round(6).tolist())
    (2, [0.8, 1.0])

    References
    ----------
    G. Cavallanti, N. Cesa-Bianchi, C. Gentile. Tracking the best hyperplane with a simple budget Perceptron. Machine
    Learning 69 (2007).
    """

    rule: ClassVar[str] = "shifting_perceptron"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "shifting-perceptron": {"budget": None, "decay": "polynomial", "rate": DEFAULT_LAMBDA},
        "fixed-shrink-forgetron": {"decay": "fixed"},
    }
    exemptions: ClassVar[Mapping[str, str]] = {
        "ample_budget_is_perceptron": "all weights shrink at every mistake",
        "disconnected_is_separate": "a mistake of one task shrinks the weights of all",
    }

    def __init__(
        self,
        budget: int | str | None = 500,
        kernel: Kernel = Gaussian(),
        graph: TaskGraph = complete(),
        decay: str = "fixed",
        rate: float | None = None,
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.budget = budget
        self.kernel = kernel
        self.graph = graph
        self.decay = decay
        self.rate = rate
        self.task_column = task_column
        self.engine = engine

    @property
    def fixed_shrink_(self) -> float | None:
        """The a of the fixed decay: at a mistake all weights shrink by the factor 1 − a. None for polynomial decay."""
        self._check_fitted()
        p, budget = self._engine.settings.parameters, self._engine.settings.capacity
        if p.shrink != FIXED:
            return None
        return shrink_for(budget) if p.amount is None else float(p.amount)

    def _with_rule(self, settings: Settings) -> Settings:
        """Check the parameters of the rule, and return the settings with them."""
        if self.decay not in DECAYS:
            raise input_error(self._who, "decay", '"fixed" or "polynomial"', shown(self.decay))
        rate = self.rate
        if rate is None:
            if self.decay == "fixed" and self.budget is None:
                raise input_error(
                    self._who, "rate", "a number, because the decay is fixed and there is no budget", "None",
                    'Set rate=0.01, or decay="polynomial", or a budget.',
                )  # fmt: skip
            rate = DEFAULT_LAMBDA if self.decay == "polynomial" else None
        elif not is_real(rate) or rate < 0 or (self.decay == "fixed" and rate >= 1):
            accepted = "a number >= 0" + (" and below 1" if self.decay == "fixed" else "")
            raise input_error(self._who, "rate", accepted, shown(rate))
        amount = None if rate is None else float(rate)
        return settings.with_parameters(shrink=DECAYS[self.decay], amount=amount)
