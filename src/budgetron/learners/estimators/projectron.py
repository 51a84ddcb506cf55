"""Projectron and Projectron++ (Orabona, Keshet, Caputo 2009), with a hard budget.

S are the stored examples, β their weights, H their Gram matrix, x_t is the new example with label y_t = ±1, k_t are its
kernel values with S, δ is its distance from the span of S, and η the parameter `eta`.

    α = H⁻¹k_t,  δ² = K_tt − k_tᵀα
    on a mistake, δ ≤ η:   β ← β + y_t α
    on a mistake, δ > η:   S ← S ∪ {t},  β_t = y_t
    Projectron++, 0 < y_t f(x_t) < 1:   β ← β + τ y_t α

The step τ is at most 1, and 0 if the projection is too far from x_t; the definition in NumPy has its formulas. The rule
is in `src/core/rules/projectron.cpp`, and in NumPy in `budgetron/engine/reference/rules/projectron.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from budgetron.engine.settings import Settings
from budgetron.errors import input_error, shown
from budgetron.graphs import TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel
from budgetron.learners.exemptions import ByParameters
from budgetron.learners.learner import Learner
from budgetron.learners.parameters import checked_eta

CONVENTIONS = ("norm", "squared", "budget")
WHEN_FULL = ("project", "evict")


def _exemptions(model: Projectron) -> Mapping[str, str]:
    """Return the laws that the learner does not obey with these parameters, and why."""
    if not model.plus:
        return {}
    return {
        "no_mistake_no_change": "it also learns from right predictions with a small margin",
        "ample_budget_is_perceptron": "it also learns from right predictions with a small margin",
    }


class Projectron(Learner):
    """Projectron and Projectron++: mistakes near the span of the stored examples are projected on this span.

    The published rule has no budget: the number of stored examples depends on `eta`. Here the rule also has a budget,
    and `when_full` says what happens when the budget is full. The presets ``projectron`` and ``projectron++`` are the
    published rules if `budget` is None. The presets ``projectron-lu`` and ``projectron++-lu`` are the rules in the
    tables of Lu et al. (2016), which store every mistake outside the span of the stored examples until the budget is
    full.

    Parameters
    ----------
    budget : int, str or None, default=500
        The number of examples that all tasks together may store; or a size such as ``"64 MiB"``, which limits all
        memory of the model; or None for no limit.
    kernel : kernels.Kernel, default=Gaussian(gamma="scale")
        The kernel K' between the features of two examples.
    graph : graphs.TaskGraph, default=complete()
        How strongly tasks are related.
    eta : float, default=0.1
        An example at most this far from the span of the stored examples is projected on it instead of being stored.
        With a normalised kernel, the largest norm of an example is 1, and `eta` must be below it.
    plus : bool, default=False
        Projectron++: also learn from correct predictions with a margin below 1, if their projection is close enough.
        Such examples are not stored.
    convention : {"norm", "squared", "budget"}, default="norm"
        What `eta` is compared with. "norm": the distance, as published. "squared": the squared distance, as in the
        DOGMA library. "budget": the distance, for mistakes; the updates of Projectron++ do not use `eta`, but a
        threshold computed from the budget, as in Lu et al.
    when_full : {"project", "evict"}, default="project"
        What happens when the budget is full, and a mistake is farther than `eta` from the span. "project": the mistake
        is projected, and the stored examples stay. "evict": the mistake is stored, and one example is projected on the
        others and evicted, as in `BudgetProjectron`.
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
    >>> from budgetron import Projectron, kernels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0], [0.2, 1.0], [1.0, 0.1]])
    >>> y = ["ham", "spam", "spam", "ham", "ham", "ham"]
    >>> users = ["ann", "ann", "bob", "bob", "ann", "bob"]
    >>> model = Projectron.preset("projectron++", budget=2, kernel=kernels.Linear(bias=1.0))
    >>> margins = model.predict_then_learn(X, y, tasks=users)
    >>> model.n_stored_, model.n_stored_ < model.n_mistakes_
    (2, True)

    References
    ----------
    F. Orabona, J. Keshet, B. Caputo. Bounded Kernel-Based Online Learning. JMLR 10 (2009). J. Lu et al. Large Scale
    Online Kernel Learning. JMLR 17 (2016).
    """

    rule: ClassVar[str] = "projectron"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "projectron": {},
        "projectron++": {"plus": True},
        "projectron-lu": {"eta": 0.0, "convention": "budget"},
        "projectron++-lu": {"eta": 0.0, "convention": "budget", "plus": True},
    }
    exemptions: ClassVar[Any] = ByParameters(_exemptions)

    def __init__(
        self,
        budget: int | str | None = 500,
        kernel: Kernel = Gaussian(),
        graph: TaskGraph = complete(),
        eta: float = 0.1,
        plus: bool = False,
        convention: str = "norm",
        when_full: str = "project",
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.budget = budget
        self.kernel = kernel
        self.graph = graph
        self.eta = eta
        self.plus = plus
        self.convention = convention
        self.when_full = when_full
        self.task_column = task_column
        self.engine = engine

    def _with_rule(self, settings: Settings) -> Settings:
        """Check the parameters of the rule, and return the settings with them."""
        for name, accepted in (("convention", CONVENTIONS), ("when_full", WHEN_FULL)):
            if getattr(self, name) not in accepted:
                raise input_error(self._who, name, f"one of {', '.join(accepted)}", shown(getattr(self, name)))
        eta = checked_eta(self._who, self.eta, settings.kernel, 1.0)
        # The step of Projectron++ divides by η.
        if self.plus and eta == 0 and self.convention != "budget":
            raise input_error(
                self._who, "eta", "above 0 with plus=True", shown(self.eta),
                'The step divides by eta; with convention="budget" it does not.',
            )  # fmt: skip
        return settings.with_parameters(
            eta=eta, plus=bool(self.plus), convention=float(CONVENTIONS.index(self.convention)),
            evict=self.when_full == "evict",
        )  # fmt: skip
