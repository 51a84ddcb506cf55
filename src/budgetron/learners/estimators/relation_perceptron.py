"""RelationPerceptron: a linear multitask Perceptron that learns how its tasks are related.

    on a mistake of task i:   w_j ← w_j + y C_ji x for every task j;   then C is recomputed from the w before the step

C_ji says how much task j learns from a mistake of task i. This is the rule of Saha et al. (2011). The default,
"spectral", is another rule: only w_i is updated, and C combines the weights of the tasks in a prediction.

The rule is in `src/core/rules/relation_perceptron/`, and in NumPy in
`budgetron/engine/reference/rules/relation_perceptron.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.reference.rules.relation_perceptron import BATCH, COVARIANCE, LOGDET, SPECTRAL, VON_NEUMANN
from budgetron.engine.settings import Settings
from budgetron.errors import input_error, is_integer, is_real, shown
from budgetron.graphs import disconnected
from budgetron.learners.learner import Learner
from budgetron.learners.stored_weights import LinearWeights
from budgetron.plots import axes_for, matrix

RELATIONS = {
    "logdet": LOGDET, "von-neumann": VON_NEUMANN, "covariance": COVARIANCE, "batch": BATCH, "spectral": SPECTRAL,
}  # fmt: skip


class RelationPerceptron(LinearWeights, Learner):
    """Linear multitask Perceptron that learns the relations of its tasks from the stream.

    No graph is needed. Tasks that turn out to be similar learn from each other's mistakes; opposed tasks learn the
    opposite label. The memory is one vector per task and a matrix C of k × k numbers for k tasks; with `rank`, C takes
    only a few numbers per task.

    Parameters
    ----------
    relations : str, default="spectral"
        How C is computed from the weights. ``"spectral"`` is the 2p-norm matrix Perceptron, which uses C when it
        predicts. ``"logdet"``, ``"von-neumann"``, ``"covariance"`` and ``"batch"`` are the rules of Saha et al. (2011),
        which use C when they learn.
    rate : float, default=0.01
        The step size η of C, for ``"logdet"`` and ``"von-neumann"``.
    start : int, default=100
        C is learned only after this many examples. Until then all tasks are independent. ``"spectral"`` does not use
        it.
    power : float, default=2.0
        The p of ``"spectral"``, from 1 (independent tasks) to 64. A larger p ties tasks together more strongly.
    n_tasks : int or None, default=None
        The number of tasks k, which scales steps and C as in the paper. With None, steps are not scaled, and k is the
        number of tasks with at least one mistake. ``"spectral"`` does not use it.
    as_printed : bool, default=False
        Use the update exactly as it is printed in the paper: C is not normalised, and C is inverted for
        ``"covariance"`` and ``"batch"``. The weights then often diverge.
    rank : int or None, default=None
        The largest rank of the learned part of C. Memory then grows with the number of tasks and not with its square.
        Not with ``"spectral"``, and not with `as_printed` for ``"covariance"`` and ``"batch"``.
    task_column : int or str, optional
        The column of X that holds the task, as an alternative to the argument `tasks`.
    engine : {"auto", "core", "numpy"}, default="auto"
        The compiled engine, or the NumPy engine, which is slow.

    Attributes
    ----------
    classes_, n_features_in_
        The labels and the number of features. The first block of examples fixes them.
    n_seen_, n_mistakes_ : int
        The numbers of examples learned so far, and of wrong predictions or ties before an update.
    memory_bytes_ : int
        All bytes allocated for the model.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import RelationPerceptron
    >>> X = np.random.default_rng(0).standard_normal((600, 5))
    >>> tasks = np.arange(600) % 2
    >>> y = (X[:, 0] > 0) ^ (tasks == 1)  # opposed tasks
    >>> model = RelationPerceptron()
    >>> margins = model.predict_then_learn(X, y, tasks=tasks)
    >>> print(model.task_similarity([0, 1]).round(1))
    [[ 1. -1.]
     [-1.  1.]]

    References
    ----------
    A. Saha, P. Rai, H. Daumé III, S. Venkatasubramanian. Online Learning of Multiple Tasks and Their Relationships.
    AISTATS 2011. G. Cavallanti, N. Cesa-Bianchi, C. Gentile. Linear Algorithms for Online Multitask Classification.
    JMLR 11 (2010).
    """

    rule: ClassVar[str] = "relation_perceptron"
    graph: Any = disconnected()  # relations are learned, not given
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "srdv-logdet": {"relations": "logdet"},
        "srdv-von-neumann": {"relations": "von-neumann", "rate": 1e-3},
        "srdv-covariance": {"relations": "covariance"},
        "srdv-batch": {"relations": "batch"},
        "matrix-2p-norm": {"relations": "spectral"},
    }
    exemptions: ClassVar[Mapping[str, str]] = {
        "ample_budget_is_perceptron": "it has no kernel, and learns the relations",
        "disconnected_is_separate": "it has no graph: relations are learned",
        "explicit_graphs": "it has no graph: relations are learned",
    }

    def __init__(
        self,
        relations: str = "spectral",
        rate: float = 0.01,
        start: int = 100,
        power: float = 2.0,
        n_tasks: int | None = None,
        as_printed: bool = False,
        rank: int | None = None,
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.relations = relations
        self.rate = rate
        self.start = start
        self.power = power
        self.n_tasks = n_tasks
        self.as_printed = as_printed
        self.rank = rank
        self.task_column = task_column
        self.engine = engine

    def task_relations(self, tasks: Iterable[Any]) -> NDArray[np.float64]:
        """Return the learned matrix C of these tasks, (k, k): how much each task learns from a mistake of another.

        With ``"spectral"``, it is how much the weights of each task count in the predictions of another.
        """
        return self._relations(list(tasks))

    def plot_task_relations(self, tasks: Iterable[Any], *, ax: Any = None) -> Any:
        """Plot `task_relations`, scaled to 1 on the diagonal: blue for similar tasks, red for opposed ones."""
        names = list(tasks)
        if not names:
            raise input_error(self._who, "tasks", "at least one task", "none")
        C = self._relations(names)
        scale = np.sqrt(np.maximum(np.diag(C), 1e-300))
        return matrix(axes_for(self._who, ax), names, C / np.outer(scale, scale), "learned relation", signed=True)

    def query_probability(self, X: Any, *, tasks: Iterable[Any] | None = None) -> NDArray[np.float64]:
        """Return the probability with which to ask for the label of each row: b/(b + |f|), b = Σ_j |(C⁻¹)_ij|.

        i is the task of the row, f its margin. This is the active variant of Saha et al., which learns only from the
        examples whose labels it asks for. With three or more classes |f| is the difference of the two largest margins.
        With ``"spectral"`` b is 1.
        """
        self._check_fitted()
        block = self.validate(X, tasks=tasks)
        margins = self.block_margins(block)
        if margins.ndim > 1:
            top = np.sort(margins, axis=1)
            margins = top[:, -1] - top[:, -2]
        if RELATIONS[self.relations] == SPECTRAL:
            return np.asarray(1.0 / (1.0 + np.abs(margins)))
        task_ids, C = self._learned()
        # The pseudoinverse, because C may be singular.
        sums = np.abs(np.linalg.pinv(C, hermitian=True)).sum(axis=1)
        b_of_task = dict(zip(task_ids.tolist(), sums.tolist(), strict=True))
        b = np.array([b_of_task.get(task_id, 1.0 / self._unit) for task_id in block.task_ids.tolist()])
        return np.asarray(b / (b + np.abs(margins)))

    @property
    def _unit(self) -> float:
        """The diagonal of C for a task that has learned nothing yet: κ, or 1 for ``"spectral"``, which has no κ."""
        return 1.0 if RELATIONS[self.relations] == SPECTRAL else float(self.n_tasks or 1)

    def _learned(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the ids of the tasks that made mistakes, and their C."""
        engine = self._fitted_engine()
        with self._guard:
            answer = engine.query("relations")
        task_ids = answer["task"]
        return task_ids, answer["relations"].reshape(len(task_ids), len(task_ids))

    def _relations(self, names: list[Any]) -> NDArray[np.float64]:
        """Return the rows and columns of C for these tasks."""
        self._check_fitted()
        chosen_ids, _ = self._graph.locate(names)
        task_ids, C = self._learned()
        row_of = {task_id: row for row, task_id in enumerate(task_ids.tolist())}
        rows = np.array([row_of.get(task_id, -1) for task_id in chosen_ids.tolist()], dtype=np.int64)
        # C has no row for a task that never made a mistake: such a task is unrelated to all others.
        relations = C[np.ix_(rows, rows)] if len(C) else np.zeros((len(rows), len(rows)))
        relations = np.where((rows < 0)[:, None] | (rows < 0)[None, :], 0.0, relations)
        relations[(rows < 0), (rows < 0)] = self._unit
        return np.asarray(relations)

    def _with_rule(self, settings: Settings) -> Settings:
        """Check the parameters of the rule, and return the settings with them."""
        who = self._who
        if self.relations not in RELATIONS:
            raise input_error(who, "relations", f"one of {', '.join(RELATIONS)}", shown(self.relations))
        if not is_real(self.rate) or self.rate <= 0:
            raise input_error(who, "rate", "a finite number above 0", shown(self.rate))
        if not is_real(self.power) or not 1 <= self.power <= 64:
            raise input_error(who, "power", "a number from 1 to 64", shown(self.power))
        if not is_integer(self.start) or self.start < 0:
            raise input_error(who, "start", "an integer >= 0, a number of examples", shown(self.start))
        for name in ("n_tasks", "rank"):
            value = getattr(self, name)
            if value is not None and (not is_integer(value) or not 1 <= value <= 2**20):
                raise input_error(who, name, "an integer from 1 to 2**20, or None", shown(value))
        kind = RELATIONS[self.relations]
        if self.rank is not None and (kind == SPECTRAL or (self.as_printed and kind in (COVARIANCE, BATCH))):
            raise input_error(
                who, "rank", f"None with relations={self.relations!r}{', as_printed' if self.as_printed else ''}",
                shown(self.rank), "Its C is not of low rank.",
            )  # fmt: skip
        return settings.with_parameters(
            relations=kind, rate=float(self.rate), start=int(self.start), power=float(self.power),
            as_printed=bool(self.as_printed), tasks=None if self.n_tasks is None else int(self.n_tasks),
            rank=None if self.rank is None else int(self.rank),
        )  # fmt: skip
