"""Budgetron: a Bayesian filter under the multitask kernel, its linear part kept in primal.

Prior: f_i = shared + own_i, own covariance ρ times the shared one; over instances s_ℓ ⟨φ, φ'⟩ + s K'.
For each belief (s_ℓ, ρ_ℓ, s, ρ), with k the kernel row, ψ the same in the basis of the anchors, α = Pk:

    f = Σ weights·features,   V = Σ S φ² + kᵀMk + Σ N ψ²,   p = σ(f)
    the beliefs are mixed by Bayesian weights w_b ← w_b p_b(y); the margin is the logit of the mixed probability
    store x on a mistake (while there is room: whenever the margin is below 1) if it is new, δ² > η²K'(x, x);
    over budget let go the one of least expected damage, Σ_b w_b (‖U_j‖² + M_jj)/P_jj, projected on the others
    learn from every example:  h = q_y(1 − q_y),  v = V + sδ² + sρo²,
      weights += g/(1 + hv) · Σφ,   Σ −= h/(1 + hv) · Σφ(Σφ)ᵀ

The rule is in `src/core/rules/budgetron`, and in NumPy in `budgetron/engine/reference/budgetron`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from budgetron.engine.memory import budget_of
from budgetron.engine.reference.budgetron.declaration import slots_of
from budgetron.engine.settings import Settings
from budgetron.errors import is_real, is_whole, refuse, refuse_type, shown
from budgetron.graphs import Clique, TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel
from budgetron.learners import validation
from budgetron.learners.learner import Learner, Margins
from budgetron.learners.table_rows import checked_rows
from budgetron.plots import COLOURS, axes_for, bars


@dataclass(frozen=True)
class Belief:
    """One guess about the problem: how bold to be, and how related the tasks are.

    Parameters
    ----------
    linear, kernel : float
        Prior variance of the linear part and of the kernel part that all tasks share; 0 leaves the part out.
    linear_own, kernel_own : float
        Prior variance of what a task has of its own, as a multiple of the shared one.
    floor : float
        The linear variances never fall below this share of their prior: above 0 the belief goes on adapting for ever.
    """

    linear: float = 0.0
    linear_own: float = 0.1
    kernel: float = 0.0
    kernel_own: float = 0.1
    floor: float = 0.0

    def __post_init__(self) -> None:
        for name in ("linear", "linear_own", "kernel", "kernel_own", "floor"):
            value = getattr(self, name)
            if not is_real(value) or value < 0:
                raise refuse("Belief", name, "a finite number >= 0", shown(value))
        if self.linear == 0 and self.kernel == 0:
            raise refuse("Belief", "linear or kernel", "above 0", "0 for both", "A belief needs one of its two parts.")

    def in_words(self) -> str:
        """A line: each part with its prior variance, and what a task has of its own as a multiple of it.

        >>> Belief(linear=3, kernel=1, kernel_own=10).in_words()
        'linear 3 (own 0.1) + kernel 1 (own 10)'
        """
        parts = (("linear", self.linear, self.linear_own), ("kernel", self.kernel, self.kernel_own))
        words = " + ".join(f"{part} {variance:g} (own {own:g})" for part, variance, own in parts if variance)
        return words + (", adapting" if self.floor else "")


# Features have unit size in every block, so a scale means the same everywhere: 1 is calm, 10 is bold. Own parts are a
# tenth of the shared one where tasks are related, ten times it where they are not. Sparse features are seen rarely, so
# their prior is wider. One linear belief keeps adapting, for streams that drift.
SURE = 0.01  # what a belief with a kernel part has right with 99 % teaches it nothing: passes over B² are dear
MOST_WHOLE = 128  # features up to which the shared linear part has a whole covariance
DENSE = (
    Belief(linear=1, linear_own=0.1),
    Belief(linear=10, linear_own=0.1),
    Belief(linear=1, linear_own=10),
    Belief(linear=3, linear_own=0.1, floor=0.1),
    Belief(linear=3, linear_own=0.1, kernel=3, kernel_own=0.1),
    Belief(kernel=10, kernel_own=0.1),
    Belief(kernel=1, kernel_own=10),
)
SPARSE = (
    Belief(linear=10, linear_own=0.1),
    Belief(linear=3, linear_own=10),
    Belief(linear=30, linear_own=0.1, floor=0.03),
    Belief(kernel=10, kernel_own=0.1),
    Belief(kernel=1, kernel_own=10),
)


class Budgetron(Learner):
    """The flagship: learns from every example, gives probabilities, and finds out how related the tasks are.

    A linear part and a kernel part, each shared by all tasks and with a share of every task's own; several beliefs
    about how much of each there is run side by side on one store and are mixed by how well they predict. Nothing needs
    tuning: with no argument but `budget` it does well on dense and sparse, related and unrelated, still and drifting
    streams.

    Parameters
    ----------
    budget : int, str or None, default=500
        How many examples may be stored, by all tasks together; or a size such as ``"64 MiB"`` that bounds
        everything the model holds; or None for no limit.
    kernel : kernels.Kernel or None, default=Gaussian(gamma="scale")
        K' of the kernel part; None leaves it out, and with it the store.
    graph : graphs.TaskGraph, default=complete()
        ``complete()`` relates all tasks and finds out how much; ``complete(coupling=inf)`` is one model for all;
        ``disconnected()`` is one model a task. Other graphs are refused.
    eta : float, default=0.1
        Only what is at least this far from the span of what is stored, relative to its own norm, is stored; from 0.001
        to below 1.
    beliefs : "auto" or sequence of Belief, default="auto"
        The guesses that are mixed. "auto" is a set for dense and one for sparse input.
    own_rank : int, default=16
        How many stored examples (the first ones, never removed) span the kernel parts that tasks have of their own. On
        a disconnected graph they are all that is stored: more of them, 64 or 128, serve a kernel part that matters.
    table : int or str, default="4 MiB"
        Size of the hashed table of the linear part on sparse input. A byte budget gives it three quarters instead.
    max_task_rows : int or None, default=10000
        How many tasks may have parts of their own at a time; past that the least recently updated one falls back to
        what is shared.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes' examples; "balanced" in `fit` only.
    task_column : int or str, optional
        The column of X that holds the task, for those who keep it there; otherwise give `tasks`.
    engine : {"auto", "core", "numpy"}, default="auto"
        The compiled core, or the NumPy reference (slow; it also runs kernels of your own).

    Attributes
    ----------
    classes_, n_features_in_, kernel_, capacity_ : what the first block settled
    beliefs_ : list of (Belief, float)
        The beliefs that are left, and their weights.
    active_set_ : records.ActiveSet
        What is stored, in slot order.
    n_stored_, n_seen_, n_mistakes_ : int
    budget_share_ : dict
        Each task's share of the stored examples right now.
    memory_bytes_ : int
        What is really allocated, all of it.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import Budgetron, kernels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0], [0.2, 1.0], [1.0, 0.1]] * 10)
    >>> y = ["ham", "spam", "ham", "spam", "ham", "spam"] * 10
    >>> users = ["ann", "ann", "bob", "bob", "ann", "bob"] * 10
    >>> model = Budgetron(budget=2, kernel=kernels.Gaussian(gamma=0.5)).fit(X, y, tasks=users)
    >>> print(model.predict([[0.0, 1.0], [1.0, 0.0]], tasks=["bob", "carl"]))
    ['ham' 'spam']
    >>> bool((model.predict_proba([[0.0, 1.0]], tasks=["ann"])[0] > [0.9, 0.0]).all()), model.n_stored_
    (True, 2)

    References
    ----------
    G. Cavallanti and N. Cesa-Bianchi. Memory Constraint Online Multitask Classification. 2012.
    """

    rule: ClassVar[str] = "budgetron"
    takes_weights: ClassVar[bool] = True
    exemptions: ClassVar[Mapping[str, str]] = {
        "no_mistake_no_change": "it learns from every example",
        "ample_budget_is_perceptron": "it is not a Perceptron",
        "explicit_graphs": "it takes complete and disconnected graphs alone, and finds out how related tasks are",
        "dense_is_sparse": "dense columns are centred and scaled, sparse ones are hashed",
        "disconnected_is_separate": "beliefs are weighed, and columns scaled, over all tasks together",
        "relabelling": "on sparse input a task's own weights are hashed with its name",
    }
    expected_failed_checks: ClassVar[Mapping[str, str]] = {
        name: "an online learner depends on the order of the examples, so a weight of 2 is not two copies"
        for name in (
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        )
    }
    __metadata_request__predict_proba: ClassVar[dict[str, bool | None]] = {"tasks": True, "n_jobs": True}

    def __init__(
        self,
        budget: int | str | None = 500,
        kernel: Kernel | None = Gaussian(),
        graph: TaskGraph = complete(),
        eta: float = 0.1,
        beliefs: str | Sequence[Belief] = "auto",
        own_rank: int = 16,
        table: int | str = "4 MiB",
        max_task_rows: int | None = 10_000,
        class_weight: Mapping[Any, float] | str | None = None,
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.budget = budget
        self.kernel = kernel
        self.graph = graph
        self.eta = eta
        self.beliefs = beliefs
        self.own_rank = own_rank
        self.table = table
        self.max_task_rows = max_task_rows
        self.class_weight = class_weight
        self.task_column = task_column
        self.engine = engine

    # ---- predicting, with probabilities

    def predict_proba(
        self, X: Any, *, tasks: Iterable[Any] | None = None, n_jobs: int | None = None
    ) -> NDArray[np.float64]:
        """The probability of each class, (n, classes). `n_jobs` is that of `decision_function`."""
        return probabilities(self.decision_function(X, tasks=tasks, n_jobs=n_jobs))

    def predict_proba_one(self, x: Any, *, task: Hashable = None) -> dict[Any, float]:
        """The probability of each class for one example, by label."""
        self._check_begun()
        return dict(zip(self.classes_.tolist(), probabilities(self._margins_of_one(x, task))[0].tolist(), strict=True))

    def predict_std(self, X: Any, *, tasks: Iterable[Any] | None = None) -> NDArray[np.float64]:
        """How unsure the model is of f, the log odds: a standard deviation a row, (n,); or (n, classes).

        Large where little was learned: far from all examples, or for a new task. It has in it what the stored examples
        cannot express, and where beliefs differ. A probability near ½ may be well founded; this tells whether it is.

        >>> import numpy as np
        >>> from budgetron import Budgetron
        >>> X = np.array([[-1.0], [1.0]] * 100)
        >>> model = Budgetron(budget=10).fit(X, [0, 1] * 100, tasks=["ann"] * 200)
        >>> near, far = model.predict_std([[1.0], [30.0]], tasks=["ann", "ann"])
        >>> bool(near < far)
        True
        """
        self._check_begun()
        block = self.validate(X, tasks=tasks)
        with self._guard:
            answer = self._engine.query("variances", block.rows, block.task_ids, block.clusters)
        variances: NDArray[np.float64] = answer["variance"].reshape(len(block), -1)
        return np.sqrt(variances[:, 0] if variances.shape[1] == 1 else variances)

    # ---- looking inside

    @property
    def beliefs_(self) -> list[tuple[Belief, float]]:
        """The beliefs that are left, and their weights."""
        engine = self._begun_engine()
        answer, given = engine.query("beliefs"), engine.settings.parameters.beliefs
        pairs = zip(answer["index"].tolist(), answer["weight"].tolist(), strict=True)
        return [(Belief(*given[index]), weight) for index, weight in pairs]

    def plot_beliefs(self, *, ax: Any = None) -> Any:
        """Bars: what it believes about the problem, by weight. Gives the Axes."""
        self._check_begun()
        beliefs = sorted(self.beliefs_, key=lambda pair: -pair[1])
        ax = axes_for(self._who, ax)
        bars(ax, [belief.in_words() for belief, _ in beliefs], [w for _, w in beliefs], "weight", COLOURS[0])
        ax.set_xlim(0, 1)
        return ax

    # ---- settings

    def _with_rule(self, settings: Settings) -> Settings:
        shared, own = self._parts(settings.graph)
        if not is_whole(self.own_rank) or self.own_rank < 0:
            raise refuse(self._who, "own_rank", "an integer >= 0", shown(self.own_rank))
        table = budget_of(self._who, self.table, "table")
        beliefs = _adapted(self._chosen(settings), shared, own, settings.kernel is not None)
        kernel = settings.kernel if any(belief[2] > 0 for belief in beliefs) else None
        settings = replace(settings, kernel=kernel).with_parameters(
            beliefs=beliefs, shared=shared, own=own, own_rank=int(self.own_rank), sure=SURE,
            eta=self._checked_eta(), max_task_rows=checked_rows(self._who, self.max_task_rows),
        )  # fmt: skip
        if not shared and settings.capacity is not None:  # nothing but anchors is stored
            settings = replace(settings, capacity=min(settings.capacity, max(1, int(self.own_rank))))
        linear = any(belief[0] > 0 for belief in beliefs)
        whole = shared and not settings.sparse and settings.n_features <= MOST_WHOLE and linear
        settings = settings.with_parameters(own_rank=anchors(settings), whole=whole)
        if not settings.sparse:
            return settings
        size = table.bytes if table.bytes is not None else table.examples or 0
        slots = slots_of(settings, size)
        if slots < 1:
            raise refuse(self._who, "table", "a size of at least one cell", f"{size} bytes")
        return settings.with_parameters(slots=slots)

    def _checked_eta(self) -> float:
        """η relative to √K'(x, x). Below 1e-3 a covariance over stored examples cannot be kept in float64."""
        if not is_real(self.eta) or not 1e-3 <= self.eta < 1:
            raise refuse(
                self._who, "eta", "a number from 0.001 to below 1, relative to an instance's norm", shown(self.eta)
            )
        return float(self.eta)

    def _parts(self, graph: TaskGraph) -> tuple[bool, bool]:
        """Whether there are shared parts, and whether there are own parts."""
        if not isinstance(graph, Clique) or graph.mapped is not None:
            raise refuse(
                self._who,
                "graph",
                "complete() or disconnected()",
                shown(graph),
                "SharedProjectron and BudgetProjectron follow any graph.",
            )
        return graph.coupling != 0, graph.coupling != float("inf")

    def _chosen(self, settings: Settings) -> Sequence[Belief]:
        if isinstance(self.beliefs, str):
            if self.beliefs != "auto":
                raise refuse(self._who, "beliefs", '"auto" or a sequence of Belief', shown(self.beliefs))
            return SPARSE if settings.sparse else DENSE
        beliefs = list(self.beliefs) if isinstance(self.beliefs, Iterable) else []
        if not beliefs or not all(isinstance(belief, Belief) for belief in beliefs):
            raise refuse_type(self._who, "beliefs", '"auto" or a sequence of Belief', shown(self.beliefs))
        return beliefs

    @classmethod
    def _parameter_to_json(cls, name: str, value: Any) -> Any:
        if name == "beliefs" and not isinstance(value, str):
            return [[float(number) for number in vars(belief).values()] for belief in value]
        return value

    @classmethod
    def _parameter_from_json(cls, name: str, value: Any) -> Any:
        if name == "beliefs" and not isinstance(value, str):
            return tuple(Belief(*numbers) for numbers in value)
        return value

    # ---- weights of classes

    def fit(self, X: Any, y: Any, *, tasks: Iterable[Any] | None = None, sample_weight: Any = None) -> Self:
        """Forget everything, then learn the rows in order, once."""
        if self._balanced:
            labels = np.asarray(y).ravel()
            values, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
            balanced = len(labels) / (len(values) * counts)
            sample_weight = balanced[places] * (1.0 if sample_weight is None else np.asarray(sample_weight))
        super().fit(X, y, tasks=tasks, sample_weight=sample_weight)
        return self

    def check_streaming(self) -> None:
        """Reject `class_weight="balanced"` outside of `fit`: class frequencies need all examples."""
        if self._balanced:
            raise refuse(
                self._who, "class_weight", "a dict or None where not all examples are at hand", '"balanced"',
                "Use fit, or name the weights: class_weight={label: weight, ...}.",
            )  # fmt: skip

    @property
    def _balanced(self) -> bool:
        return isinstance(self.class_weight, str) and self.class_weight == "balanced"

    def _weighted(self, codes: NDArray[np.int32], weights: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        by_class = self._class_weights()
        if by_class is None:
            return weights
        return by_class[codes] if weights is None else by_class[codes] * weights

    def _weight_of(self, code: int, weight: float) -> float:
        by_class = self._class_weights()
        return weight if by_class is None else weight * float(by_class[code])

    def _class_weights(self) -> NDArray[np.float64] | None:
        if self.class_weight is None or self._balanced:
            return None
        if not isinstance(self.class_weight, Mapping):
            raise refuse_type(self._who, "class_weight", 'a dict, "balanced" or None', shown(self.class_weight))
        known = self._classes.values.tolist()
        for label in self.class_weight:
            if label not in known:
                raise refuse(self._who, "class_weight", f"for the classes {shown(known)}", f"one for {shown(label)}")
        values = [self.class_weight.get(label, 1.0) for label in known]
        checked = validation.weights(self._who, values, len(values), "class_weight")
        assert checked is not None
        return checked


def probabilities(margins: Margins) -> NDArray[np.float64]:
    """Probabilities of the classes from the decision values of a Budgetron."""
    if margins.ndim == 1:
        return np.column_stack([expit(-margins), expit(margins)])
    shares = np.exp(margins - margins.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def anchors(settings: Settings) -> int:
    """How many anchors there are: an eighth of the budget at most, unless nothing else is stored."""
    rank: int = settings.parameters.own_rank
    if not settings.parameters.own or settings.kernel is None:
        return 0
    if settings.capacity is None:
        return rank
    return min(rank, settings.capacity if not settings.parameters.shared else settings.capacity // 8)


def _adapted(beliefs: Sequence[Belief], shared: bool, own: bool, kernel: bool) -> list[tuple[float, ...]]:
    """The beliefs as five numbers each, as the graph and the kernel allow; those made equal are one."""
    rows: list[tuple[float, ...]] = []
    for belief in beliefs:
        if belief.kernel > 0 and not kernel:
            continue
        own_shares = (belief.linear_own, belief.kernel_own) if shared and own else (1.0, 1.0) if own else (0.0, 0.0)
        row = (
            float(belief.linear), float(own_shares[0]) if belief.linear else 0.0,
            float(belief.kernel), float(own_shares[1]) if belief.kernel else 0.0, float(belief.floor),
        )  # fmt: skip
        if row not in rows:
            rows.append(row)
    if not rows:
        raise refuse(
            "Budgetron", "beliefs", "such that one has no kernel part where kernel is None", shown(list(beliefs))
        )
    return rows
