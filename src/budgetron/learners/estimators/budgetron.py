"""Budgetron: runs several small models on one stream and mixes their probabilities, within a fixed memory budget.

    f_i(x) = shared(x) + own_i(x)      the function of task i in one model ("belief")
    mixture = logit Σ_b w_b p_b        p_b: the probability in belief b;  w_b: its weight, from its log loss so far

A learned linear combination of the beliefs predicts beside this mixture. The margin is computed from the weighted
average of the two probabilities, after a calibration.

`engine/reference/rules/budgetron` defines every part in NumPy; `src/core/rules/budgetron` is the compiled version.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from budgetron.engine.reference.rules.budgetron.beliefs import Belief as Belief
from budgetron.engine.reference.rules.budgetron.beliefs import beliefs_of
from budgetron.engine.reference.rules.budgetron.sizes import belief_sets, plan
from budgetron.engine.reference.rules.budgetron.sizes.shapes import rows_together
from budgetron.engine.settings import Settings
from budgetron.errors import input_error, input_type_error, shown
from budgetron.file_errors import invalid
from budgetron.graphs import Clique, Explicit, TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel, Linear
from budgetron.learners.input import validation
from budgetron.learners.input.classes import Classes
from budgetron.learners.learner import Learner, Margins
from budgetron.learners.parameters import checked_rows
from budgetron.learners.stored_weights import ComparableTasks, cosines
from budgetron.plots import COLOURS, axes_for, bars

MAX_ROWS_OF_A_COUNT = 10_000
"""The largest number of tasks with a row of own weights, if the budget is a number of examples."""


class Budgetron(ComparableTasks, Learner):
    """Learns from every example, gives probabilities, and finds out how the tasks are related.

    It runs several models ("beliefs") side by side and weighs each by how well it has predicted so far. Some models are
    linear, some use random features of a Gaussian kernel, some use bins of the columns. Most have weights shared by all
    tasks, and own weights per task. One further model learns which tasks are similar. Sparse rows have a hashed table
    of weights. If they contain many numbers, or have few columns, their most frequent columns are used like a dense
    row, too. Nothing needs tuning: columns are scaled by the values seen so far, and every setting that matters has
    different values in different models. It stores weights, not examples. There is one exception: the first sparse rows
    (up to 64) are stored until the memory has been planned from them.

    Parameters
    ----------
    budget : int, str or None, default="4 MiB"
        Either a size such as "64 KiB", which limits all memory of the model; weights per task are allocated as tasks
        appear. Or a number B: the model then gets about as many bytes as B stored examples and two B × B matrices take
        (at most 64 MiB, or 4 MiB for sparse rows), and weights per task in addition. None: about 64 MiB, and weights
        for any number of tasks in addition.
    kernel : Gaussian, Linear or None, default=Gaussian(gamma="scale")
        With a Gaussian kernel some models use random features of that kernel. A number as `gamma` refers to columns
        that are scaled to variance 1; for sparse rows it has no effect. None or Linear(): only linear models, which are
        faster; for sparse rows only the table.
    graph : graphs.TaskGraph, default=complete()
        How tasks are related. With ``complete()`` the model learns how much tasks have in common. Other graphs state
        which tasks learn from each other. With ``disconnected()`` tasks have no common weights, and with
        ``complete(coupling=inf)`` no weights of their own.
    max_task_rows : int or None, default=None
        How many tasks may have a row of own weights. Beyond that, the tasks that are updated most often keep their
        rows. The others use the shared weights and, if the model has them, own weights in smaller arrays. None: as many
        as a budget in bytes allows; 10,000 if the budget is a number; no limit without a budget.
    class_weight : dict, "balanced" or None, default=None
        Weights of the examples of each class. "balanced" works in `fit` only.
    task_column : int or str, optional
        The column of X that holds the task, as an alternative to the argument `tasks`.
    engine : {"auto", "core", "numpy"}, default="auto"
        The compiled engine, or the NumPy engine, which is slow.

    Attributes
    ----------
    classes_, n_features_in_
        The labels and the number of features. The first block of examples fixes them.
    beliefs_ : list of (Belief, float)
        The models that have not been dropped, and their weights; `str(belief)` describes a model in one line.
    n_seen_, n_mistakes_ : int
        The numbers of examples learned so far, and of wrong predictions or ties before an update.
    memory_bytes_ : int
        All bytes allocated for the model.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import Budgetron, kernels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0], [0.2, 1.0], [1.0, 0.1]] * 10)
    >>> y = ["ham", "spam", "ham", "spam", "ham", "spam"] * 10
    >>> users = ["ann", "ann", "bob", "bob", "ann", "bob"] * 10
    >>> model = Budgetron(budget="64 KiB").fit(X, y, tasks=users)
    >>> print(model.predict([[0.0, 1.0], [1.0, 0.0]], tasks=["bob", "carl"]))
    ['ham' 'spam']
    >>> bool((model.predict_proba([[0.0, 1.0]], tasks=["ann"])[0] > [0.9, 0.0]).all()), model.memory_bytes_ <= 2**16
    (True, True)

    References
    ----------
    G. Cavallanti and N. Cesa-Bianchi. Memory Constraint Online Multitask Classification. 2012.
    """

    rule: ClassVar[str] = "budgetron"
    takes_weights: ClassVar[bool] = True
    takes_offset: ClassVar[bool] = True
    exemptions: ClassVar[Mapping[str, str]] = {
        "no_mistake_no_change": "it learns from every example",
        "ample_budget_is_perceptron": "it is not a Perceptron",
        "dense_is_sparse": "sparse rows have a hashed table, and are used like dense rows only after the first rows",
        "any_kernel": "its random features approximate a Gaussian kernel",
        "closed_form_is_general": "how much tasks share is learned for a closed form, and fixed by an explicit matrix",
        "disconnected_is_separate": "weights of beliefs and scales of columns depend on the examples of all tasks",
        "renaming_tasks": "a hash of the task id decides where the task's weights are stored and how they begin",
    }
    single_weights: ClassVar[bool] = True  # some weights are float32, such as those of the AdaGrad models and the table
    expected_failed_checks: ClassVar[Mapping[str, str]] = {
        name: "an online learner depends on the order of the examples, so a weight of 2 is not two copies"
        for name in (
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        )
    }
    __metadata_request__predict_proba: ClassVar[dict[str, bool | None]] = {
        "tasks": True, "offset": True, "n_jobs": True,
    }  # fmt: skip

    def __init__(
        self,
        budget: int | str | None = "4 MiB",
        kernel: Kernel | None = Gaussian(),
        graph: TaskGraph = complete(),
        max_task_rows: int | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.budget = budget
        self.kernel = kernel
        self.graph = graph
        self.max_task_rows = max_task_rows
        self.class_weight = class_weight
        self.task_column = task_column
        self.engine = engine

    # ---- predicting, with probabilities

    @validation.with_named_arguments
    def predict_proba(
        self, X: Any, *, tasks: Iterable[Any] | None = None, offset: Any = None, n_jobs: int | None = None
    ) -> NDArray[np.float64]:
        """Return the probability of each class, (n, classes). For `n_jobs` see `decision_function`."""
        return probabilities(self.decision_function(X, tasks=tasks, offset=offset, n_jobs=n_jobs))

    def predict_proba_one(self, x: Any, *, task: Hashable = None, offset: Any = None) -> dict[Any, float]:
        """Return the probability of each class for one example, as a dict by label."""
        self._check_fitted()
        values = probabilities(np.array([self._margin_of_one(x, task, offset)]))[0].tolist()
        return dict(zip(self.classes_.tolist(), values, strict=True))

    def predict_std(self, X: Any, *, tasks: Iterable[Any] | None = None, offset: Any = None) -> NDArray[np.float64]:
        """Return the standard deviation of the log odds f: shape (n,), or (n, classes) with three or more classes.

        It is large where little was learned (far from all examples, or for a new task), and where the beliefs differ. A
        probability near ½ may mean that the label is random, or that the model knows nothing; the standard deviation
        tells which. It is computed for the mixture of the beliefs, without their learned combination.

        >>> import numpy as np
        >>> from budgetron import Budgetron
        >>> X = np.array([[-1.0], [1.0]] * 100)
        >>> model = Budgetron().fit(X, [0, 1] * 100, tasks=["ann"] * 200)
        >>> near, far = model.predict_std([[1.0], [30.0]], tasks=["ann", "ann"])
        >>> bool(near < far)
        True
        """
        self._check_fitted()
        block = self.validate(X, tasks=tasks, offset=offset)
        with self._guard:
            answer = self._engine.query("variances", block.rows, block.task_ids, block.clusters, offsets=block.offsets)
        variances: NDArray[np.float64] = answer["variance"].reshape(len(block), -1)
        return np.sqrt(variances[:, 0] if variances.shape[1] == 1 else variances)

    # ---- inspection

    @property
    def beliefs_(self) -> list[tuple[Belief, float]]:
        """The models that have not been dropped, and their weights."""
        engine = self._fitted_engine()
        answer, beliefs = engine.query("beliefs"), beliefs_of(engine.settings)
        numbers = zip(answer["part"].tolist(), answer["belief"].tolist(), answer["weight"].tolist(), strict=True)
        return [(beliefs[part][belief], weight) for part, belief, weight in numbers]

    def _part_names(self) -> Mapping[int, str]:
        """Return names for the parts with random features: filters come first, and all others are AdaGrad models."""
        settings = self._engine.settings
        n, filters = len(beliefs_of(settings)), len(settings.parameters.filters)
        return {k: "filter" if k < filters else "AdaGrad" for k in range(n)}

    def plot_beliefs(self, *, ax: Any = None) -> Any:
        """Plot the weights of the beliefs as bars. Returns the Axes."""
        self._check_fitted()
        beliefs = sorted(self.beliefs_, key=lambda pair: -pair[1])
        ax = axes_for(self._who, ax)
        bars(ax, [belief.words for belief, _ in beliefs], [weight for _, weight in beliefs], "weight", COLOURS[0])
        ax.set_xlim(0, 1)
        return ax

    def task_similarity(self, tasks: Iterable[Any]) -> NDArray[np.float64]:
        """Return how similar the tasks' functions are: a (k, k) matrix, the correlation of f_i and f_j.

        1 for tasks whose functions are proportional, 0 for unrelated tasks, −1 for opposed ones. It is computed from
        the linear weights of the tasks (a weighted sum over the beliefs), without the constant, as if the columns were
        uncorrelated with variance 1.

        A model does not remember which tasks it has seen. So it compares a task that it has never seen too, by the
        weights with which it would predict it: the shared weights, and own weights that have only their starting values
        or that it has in common with other tasks (see `max_task_rows`). Such similarities are mostly those of the
        shared weights, and say nothing about the examples that the task will have; on ``disconnected()``, where no
        weights are shared, they mean nothing. A graph of listed tasks rejects other tasks.

        >>> import numpy as np
        >>> from budgetron import Budgetron
        >>> X = np.random.default_rng(0).standard_normal((400, 3))
        >>> tasks = np.arange(400) % 2
        >>> y = (X[:, 0] > 0) ^ (tasks == 1)
        >>> Budgetron().fit(X, y, tasks=tasks).task_similarity([0, 1]).round()
        array([[ 1., -1.],
               [-1.,  1.]])
        """
        engine = self._fitted_engine()
        if engine.settings.sparse:
            raise input_error(self._who, "task_similarity", "a model of dense rows", "a model of sparse rows",
                              "The weights of its tasks are hashed, and cannot be compared.")  # fmt: skip
        names = list(tasks)
        # A model with offsets requires them in every call; they have no effect on its weights.
        zeros = np.zeros((len(names), engine.settings.n_outputs)) if self._has_offset else None
        block = self.validate(np.zeros((len(names), engine.settings.n_features)), tasks=names, offset=zeros)
        with self._guard:
            weights = engine.query("linear_weights", block.rows, block.task_ids, block.clusters)["weights"]
        # The last weight is the constant, which says nothing about how tasks use the features.
        w = weights.reshape(len(names), engine.settings.n_outputs, -1)[:, :, :-1].reshape(len(names), -1)
        return cosines(w)

    # ---- settings

    def _checked_kernel(self) -> Kernel | None:
        """Check the kernel, and return None for the engine."""
        if self.kernel is not None and type(self.kernel) not in (Gaussian, Linear):
            raise input_type_error(
                self._who, "kernel", "Gaussian(), Linear() or None", shown(self.kernel),
                "BudgetProjectron and SharedProjectron take any kernel.",
            )  # fmt: skip
        return None  # no examples are stored, so the engine evaluates no kernel

    def _with_rule(self, settings: Settings) -> Settings:
        return self._with_rows(settings, self._checked_rows(settings))

    def _without_tasks(self, settings: Settings) -> Settings:
        """Return the settings for a stream without tasks, with the smallest number of task rows."""
        self._checked_rows(settings)
        graph = settings.graph
        return self._with_rows(settings, rows_together(graph) if isinstance(graph, Explicit) else belief_sets.NO_TASKS)

    def _checked_rows(self, settings: Settings) -> int | None:
        """Return `max_task_rows`; reject a number that is too small for the related tasks of one example."""
        rows, graph = checked_rows(self._who, self.max_task_rows), settings.graph
        if isinstance(graph, Explicit) and rows is not None and rows < rows_together(graph) and not settings.sparse:
            accepted = f"at least {rows_together(graph)} on this graph, or None"
            raise input_error(self._who, "max_task_rows", accepted, shown(rows),
                              "An example updates the rows of related tasks too.")  # fmt: skip
        return rows

    def _with_rows(self, settings: Settings, rows: int | None) -> Settings:
        """Return the settings for this number of task rows: the mixed models, their sizes and their bandwidth."""
        graph = settings.graph
        # With an explicit graph there are shared and own weights; a clique may have only one kind.
        shared = own = True
        clustered, share = False, 0.5
        if isinstance(graph, Clique):
            shared, own, clustered = graph.coupling != 0, graph.coupling != float("inf"), graph.mapped is not None
            share = graph.coupling / (1 + graph.coupling) if own else 1.0
        gaussian = isinstance(self.kernel, Gaussian)
        gamma_factor = 1.0
        if isinstance(self.kernel, Gaussian) and not isinstance(self.kernel.gamma, str) and not settings.sparse:
            # The default γ is 1/d for columns of variance 1; the engine's `bandwidth` is a multiple of this default.
            gamma_factor = float(self.kernel.gamma) * settings.n_features
        count = settings.capacity
        settings = settings.with_parameters(
            shared=shared, own=own, clustered=clustered, cluster_share=share, max_task_rows=rows, bandwidth=gamma_factor
        )
        settings = belief_sets.with_all_beliefs(settings, gaussian)
        if isinstance(self.budget, str):
            return settings  # the memory planner divides a byte budget
        return plan.of_count(settings, count, MAX_ROWS_OF_A_COUNT if count is not None else None)

    @classmethod
    def _check_file(cls, parameters: Mapping[str, Any]) -> None:
        """Reject a model file of version 0.1."""
        if "beliefs" in parameters:
            raise invalid("the model", "a Budgetron of this version", "one of version 0.1, which stored examples",
                          "Train it again; a data directory with a complete log does so automatically.")  # fmt: skip

    # ---- weights of classes

    @validation.with_named_arguments
    def fit(
        self, X: Any, y: Any, *, tasks: Iterable[Any] | None = None, sample_weight: Any = None, offset: Any = None
    ) -> Self:
        """Forget everything, then learn the rows in order, in one pass."""
        if self._balanced:
            labels = np.asarray(y).ravel()
            values, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
            # As in scikit-learn: n / (classes · count of the class).
            balanced = len(labels) / (len(values) * counts)
            sample_weight = balanced[codes] * (1.0 if sample_weight is None else np.asarray(sample_weight))
        super().fit(X, y, tasks=tasks, sample_weight=sample_weight, offset=offset)
        return self

    def check_streaming(self) -> None:
        """Reject `class_weight="balanced"` outside of `fit`: class frequencies need all examples."""
        if self._balanced:
            raise input_error(
                self._who, "class_weight", "a dict or None outside of fit: only fit has all examples", '"balanced"',
                "Use fit, or name the weights: class_weight={label: weight, ...}.",
            )  # fmt: skip

    @property
    def _balanced(self) -> bool:
        return isinstance(self.class_weight, str) and self.class_weight == "balanced"

    def _weighted(
        self, codes: NDArray[np.int32], weights: NDArray[np.float64] | None, classes: Classes
    ) -> NDArray[np.float64] | None:
        """Multiply the weights of examples by the weights of their classes."""
        by_class = self._class_weights(classes)
        if by_class is None:
            return weights
        return by_class[codes] if weights is None else by_class[codes] * weights

    def _weight_of(self, code: int, weight: float) -> float:
        by_class = self._class_weights(self._classes)
        return weight if by_class is None else weight * float(by_class[code])

    def _class_weights(self, classes: Classes) -> NDArray[np.float64] | None:
        """Return one weight per class, 1 for classes without a weight; None if there is no dict of class weights."""
        if self.class_weight is None or self._balanced:
            return None
        if not isinstance(self.class_weight, Mapping):
            raise input_type_error(self._who, "class_weight", 'a dict, "balanced" or None', shown(self.class_weight))
        values = [1.0] * len(classes.values)
        for label, weight in self.class_weight.items():
            code = classes.find(label)
            if code is None:
                known = shown(classes.values.tolist())
                accepted = f"a dict with the classes {known} as keys"
                raise input_error(self._who, "class_weight", accepted, f"the key {shown(label)}")
            values[code] = weight
        checked = validation.weights(self._who, values, len(values), "class_weight")
        assert checked is not None
        return checked


def probabilities(margins: Margins) -> NDArray[np.float64]:
    """Return the probabilities of the classes, given the decision values of a Budgetron."""
    if margins.ndim == 1:
        return np.column_stack([expit(-margins), expit(margins)])
    # Softmax, shifted by the largest margin so that exp cannot overflow.
    shares = np.exp(margins - margins.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
