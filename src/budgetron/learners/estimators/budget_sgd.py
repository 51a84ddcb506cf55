"""BudgetSgd: stochastic gradient descent on the hinge loss within a budget.

BSGD, BPA, BOGD, NOGD and Ahpatron are presets of it. S are the stored examples, β their weights, B is the budget, t the
new example, y_t = ±1 its label and f its margin.

    every example:        β ← (1 − η_t λ) β           λ is `regularization`; not with passive-aggressive steps
    y_t f < `margin`:     S ← S ∪ {t},  β_t = τ y_t   the step τ follows from `step`, `rate` and `regularization`
    the budget is full:   an example is removed, or the step is projected, as `maintenance` says

The rule is in `src/core/rules/budget_sgd/`, and in NumPy in `budgetron/engine/reference/rules/budget_sgd/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from budgetron.engine.reference.rules.budget_sgd.parameters import WITH_RADIUS
from budgetron.engine.settings import Settings
from budgetron.errors import input_error, is_real, shown
from budgetron.graphs import TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel
from budgetron.learners.exemptions import ByParameters
from budgetron.learners.learner import Learner
from budgetron.learners.parameters import checked_eta, checked_seed

STEPS = ("constant", "root", "pegasos", "passive-aggressive")
MAINTENANCE = (
    "remove", "oldest", "random", "random-weighted", "replace", "project", "project-smallest", "merge", "halve",
    "nystrom",
)  # fmt: skip
_WITH_RADIUS = tuple(MAINTENANCE[method] for method in WITH_RADIUS)


def _exemptions(model: BudgetSgd) -> Mapping[str, str]:
    """Return the laws that the learner does not obey with these parameters, and why."""
    reasons = {
        "no_mistake_no_change": "it also learns from right predictions with a small margin",
        "ample_budget_is_perceptron": "its steps differ from the Perceptron's",
    }
    if model.step in ("root", "pegasos") or model.regularization or model.radius:
        reasons["disconnected_is_separate"] = "the step size or the bound on the norm depends on all tasks"
    if model.maintenance == "merge":
        reasons["gaussian_only"] = "only a Gaussian kernel has a formula for merged examples"
    return reasons


class BudgetSgd(Learner):
    """Stochastic gradient descent on the hinge loss, within a budget: one learner for a family of published ones.

    An example is learned if its margin is below `margin`, so also after a correct prediction with a small margin.
    `step` sets the size of a step; `maintenance` sets how an example is removed when the budget is full. The published
    learners are presets:

    =================  ===========================================================================================
    ``bsgd-remove``    BSGD: Pegasos steps; the example of smallest weight is removed (Wang, Crammer, Vucetic 2012)
    ``bsgd-project``   BSGD; the example of smallest weight is projected on all others
    ``bsgd-merge``     BSGD; two examples are merged into one (Gaussian kernel)
    ``bnorma``         steps of η/√t; the example of smallest weight is projected on all others
    ``bpa-s``          passive-aggressive, one example is projected on the new one (Wang, Vucetic 2010)
    ``bpa-p``          passive-aggressive, one example is projected on all others
    ``bogd``           online gradient descent, a random example is removed (Zhao et al. 2012)
    ``bogd++``         the same, but examples of small weight are removed with higher probability
    ``nogd``           online gradient descent in the Nyström features of the first B examples (Lu et al. 2016)
    ``ahpatron``       the half of the examples with the smallest terms is projected on the rest (Liao et al. 2024)
    =================  ===========================================================================================

    Parameters
    ----------
    budget : int, str or None, default=500
        The number of examples that all tasks together may store; or a size such as ``"64 MiB"``, which limits all
        memory of the model; or None for no limit.
    kernel : kernels.Kernel, default=Gaussian(gamma="scale")
        The kernel K' between the features of two examples. The multitask kernel K is divided by the largest K(x, x)
        that a normalised K' can give, because the published rules assume K(x, x) ≤ 1.
    graph : graphs.TaskGraph, default=complete()
        How strongly tasks are related.
    step : {"passive-aggressive", "constant", "root", "pegasos"}, default="passive-aggressive"
        The size η_t of a step. "passive-aggressive": just large enough to raise the margin to `margin`, but at most
        `rate`. "constant": `rate`. "root": `rate`/√t. "pegasos": 1/(λt), where λ is `regularization`. t counts the
        examples of all tasks.
    maintenance : str, default="project"
        What happens when the budget is full. In O(B) time: ``"remove"`` removes the example of smallest weight,
        ``"oldest"`` the oldest one; ``"random"`` and ``"random-weighted"`` remove a random one and enlarge the other
        weights to compensate; ``"replace"`` projects one example on the new one. In O(B²) time: ``"project"`` and
        ``"project-smallest"`` project one example on all others; with ``"project"`` it is the example whose projection
        loses least, with ``"project-smallest"`` the example of smallest weight. ``"merge"`` merges two examples,
        ``"halve"`` projects half of the examples on the other half, ``"nystrom"`` computes Nyström features of the
        first B examples. Weights are compared after multiplication by the norm of the example, except with
        ``"merge"``.
    rate : float, default=0.2
        The step size η; for passive-aggressive steps the aggressiveness C, which is the largest step. Pegasos steps do
        not use it.
    regularization : float, default=0.0
        λ: all weights shrink by the factor 1 − η_t λ at every example. Pegasos steps require it; passive-aggressive
        steps do not use it.
    margin : float, default=1.0
        Examples with a margin below it are learned.
    radius : float or None, default=None
        The norm of the classifier is kept at or below `radius`·√B. Only with ``"remove"``, ``"oldest"`` and
        ``"halve"``.
    clip : float or None, default=None
        With random removal: no weight may exceed `clip` times `rate`.
    rescale : bool, default=False
        How `clip` is applied. False: each weight above the limit is cut to it, as published. True: all weights shrink
        by one factor until none is above the limit, as in the code of Lu et al. (2016).
    skip : bool, default=True
        Whether a passive-aggressive step may skip an example, if storing it would lose more than it gains. Only with
        ``"replace"``, ``"project"`` and ``"project-smallest"``.
    eta : float, default=0.01
        With ``"project"`` and ``"project-smallest"``: an example at most this far from the span of the stored examples
        is projected on it instead of being stored. With a normalised kernel, the largest norm of an example is 1.
    ridge : float, default=0.0005
        With ``"halve"``: added to the diagonal of the Gram matrix.
    rank : float, default=0.2
        With ``"nystrom"``: the number of features, as a share of B.
    random_state : int, RandomState or None, default=0
        The seed of random removal.
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
    >>> from budgetron import BudgetSgd, kernels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0], [0.2, 1.0], [1.0, 0.1]])
    >>> y = ["ham", "spam", "spam", "ham", "ham", "ham"]
    >>> users = ["ann", "ann", "bob", "bob", "ann", "bob"]
    >>> model = BudgetSgd.preset("bpa-s", budget=2, kernel=kernels.Linear(bias=1.0))
    >>> margins = model.predict_then_learn(X, y, tasks=users)
    >>> model.n_stored_, model.step, model.maintenance
    (2, 'passive-aggressive', 'replace')

    References
    ----------
    Z. Wang, K. Crammer, S. Vucetic. Breaking the Curse of Kernelization. JMLR 13 (2012). Z. Wang, S. Vucetic. Online
    Passive-Aggressive Algorithms on a Budget. AISTATS 2010. P. Zhao et al. Fast Bounded Online Gradient Descent
    Algorithms for Scalable Kernel-Based Online Learning. ICML 2012. J. Lu et al. Large Scale Online Kernel Learning.
    JMLR 17 (2016). Y. Liao et al. Ahpatron: A New Budgeted Online Kernel Learning Machine. AAAI 2024.
    """

    rule: ClassVar[str] = "budget_sgd"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "bsgd-remove": {"step": "pegasos", "regularization": 1e-3, "maintenance": "remove"},
        "bsgd-project": {"step": "pegasos", "regularization": 1e-3, "maintenance": "project-smallest"},
        "bsgd-merge": {"step": "pegasos", "regularization": 1e-3, "maintenance": "merge"},
        "bnorma": {"step": "root", "rate": 0.71, "regularization": 1e-4, "maintenance": "project-smallest"},
        "bpa-s": {"step": "passive-aggressive", "rate": 1.0, "maintenance": "replace"},
        "bpa-p": {"step": "passive-aggressive", "rate": 1.0, "maintenance": "project"},
        "bogd": {"step": "constant", "rate": 0.2, "clip": 10.0, "maintenance": "random"},
        "bogd++": {"step": "constant", "rate": 0.2, "clip": 10.0, "maintenance": "random-weighted"},
        "nogd": {"step": "constant", "rate": 0.2, "maintenance": "nystrom", "rank": 0.2},
        "ahpatron": {"step": "constant", "rate": 0.25, "margin": 0.5, "radius": 0.5, "maintenance": "halve"},
    }
    takes_weights: ClassVar[bool] = True
    exemptions: ClassVar[Any] = ByParameters(_exemptions)
    expected_failed_checks: ClassVar[Mapping[str, str]] = {
        name: "an online learner depends on the order of the examples, so a weight of 2 is not two copies"
        for name in (
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        )
    }

    def __init__(
        self,
        budget: int | str | None = 500,
        kernel: Kernel = Gaussian(),
        graph: TaskGraph = complete(),
        step: str = "passive-aggressive",
        maintenance: str = "project",
        rate: float = 0.2,
        regularization: float = 0.0,
        margin: float = 1.0,
        radius: float | None = None,
        clip: float | None = None,
        rescale: bool = False,
        skip: bool = True,
        eta: float = 0.01,
        ridge: float = 5e-4,
        rank: float = 0.2,
        random_state: Any = 0,
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.budget = budget
        self.kernel = kernel
        self.graph = graph
        self.step = step
        self.maintenance = maintenance
        self.rate = rate
        self.regularization = regularization
        self.margin = margin
        self.radius = radius
        self.clip = clip
        self.rescale = rescale
        self.skip = skip
        self.eta = eta
        self.ridge = ridge
        self.rank = rank
        self.random_state = random_state
        self.task_column = task_column
        self.engine = engine

    def _with_rule(self, settings: Settings) -> Settings:
        """Check the parameters of the rule, and return the settings with them."""
        who = self._who
        for name, accepted in (("step", STEPS), ("maintenance", MAINTENANCE)):
            if getattr(self, name) not in accepted:
                raise input_error(who, name, f"one of {', '.join(accepted)}", shown(getattr(self, name)))
        self._check_merging(settings)
        return settings.with_parameters(
            step=STEPS.index(self.step), maintenance=MAINTENANCE.index(self.maintenance), rate=self._above_zero("rate"),
            regularization=self._checked_regularization(), margin=self._above_zero("margin"),
            radius=self._checked_radius(), clip=0.0 if self.clip is None else self._above_zero("clip"),
            rescale=bool(self.rescale), skip=bool(self.skip), eta=checked_eta(who, self.eta, settings.kernel, 1.0),
            ridge=self._above_zero("ridge"), rank=self._checked_rank(),
            seed=checked_seed(who, self.random_state),
        )  # fmt: skip

    def _above_zero(self, name: str) -> float:
        """Return a parameter that must be a positive number."""
        value = getattr(self, name)
        if not is_real(value) or value <= 0:
            raise input_error(self._who, name, "a finite number above 0", shown(value))
        return float(value)

    def _checked_regularization(self) -> float:
        """Return λ. In constant and root steps the factor 1 − η_t λ must be positive."""
        value = self.regularization
        if not is_real(value) or value < 0:
            raise input_error(self._who, "regularization", "a finite number >= 0", shown(value))
        if self.step == "pegasos" and value == 0:
            raise input_error(
                self._who, "regularization", 'above 0 with step="pegasos"', shown(value),
                "Its steps are 1/(regularization · t); try 1e-3.",
            )  # fmt: skip
        # The first step has the largest η_t, which is `rate`.
        if self.step in ("constant", "root") and value * self._above_zero("rate") >= 1:
            raise input_error(
                self._who, "regularization", "below 1 / rate", shown(value),
                "Otherwise a step sets all weights to 0 or flips their signs.",
            )  # fmt: skip
        return float(value)

    def _checked_radius(self) -> float:
        """Return `radius`, which bounds the norm of the classifier; 0 for no bound."""
        if self.radius is None:
            return 0.0
        if self.maintenance not in _WITH_RADIUS:
            accepted = f"None with maintenance={self.maintenance!r}"
            remedy = f"A radius goes with maintenance {', '.join(_WITH_RADIUS)}."
            raise input_error(self._who, "radius", accepted, shown(self.radius), remedy)
        return self._above_zero("radius")

    def _checked_rank(self) -> float:
        """Return the rank of the approximation, as a share of the budget."""
        if not is_real(self.rank) or not 0 < self.rank <= 1:
            raise input_error(self._who, "rank", "above 0 and at most 1, a share of the budget", shown(self.rank))
        return float(self.rank)

    def _check_merging(self, settings: Settings) -> None:
        """Reject a kernel other than Gaussian: the formula for merging two examples holds only there."""
        if self.maintenance != "merge":
            return
        remedy = 'Choose another maintenance, such as "project".'
        if not isinstance(settings.kernel, Gaussian):
            raise input_error(self._who, "kernel", 'Gaussian with maintenance="merge"', shown(settings.kernel), remedy)
