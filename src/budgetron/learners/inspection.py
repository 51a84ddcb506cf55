"""Looking inside a learner: what is stored, whose it is, and what it weighs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from budgetron.engine.records import ActiveSet
from budgetron.graphs import TaskGraph
from budgetron.kernels import Kernel
from budgetron.learners.classes import Classes
from budgetron.learners.guard import Guard
from budgetron.learners.task_names import TaskNames
from budgetron.learners.validation import located_one


class Inspection:
    """What a learner can say of itself. Everything here is there from the first example on."""

    _engine: Any  # core.Engine or reference.Engine
    _guard: Guard
    _graph: TaskGraph
    _names: TaskNames
    _classes: Classes
    _tasked: bool

    @property
    def active_set_(self) -> ActiveSet:
        """What is stored, in slot order."""
        self._check_begun()
        with self._guard:
            active = self._engine.active()
            names = self._names.of(active["key"])
        coef = active["coef"][0] if len(active["coef"]) == 1 else active["coef"].T
        return ActiveSet(task=names, arrival=active["arrival"], rows=active["rows"], coef=coef)

    def task_weights(self, task: Hashable = None) -> NDArray[np.float64]:
        """The weights w of one task over the stored examples: f_task(x) = Σ_j w_j K'(x_j, x)."""
        self._check_begun()
        key, cluster = located_one(self._who, task, self._graph, self._tasked)
        weights: NDArray[np.float64] = self._engine.task_weights(key, cluster)
        return weights[0] if len(weights) == 1 else weights.T

    @property
    def n_stored_(self) -> int:
        """How many examples are stored."""
        return int(self._begun_engine().n_stored)

    @property
    def n_mistakes_(self) -> int:
        """How many examples were predicted wrong before they were learned."""
        return int(self._begun_engine().n_mistakes)

    @property
    def n_seen_(self) -> int:
        """How many examples were learned from."""
        return int(self._begun_engine().n_seen)

    @property
    def budget_share_(self) -> dict[Hashable, float]:
        """Each task's share of the stored examples, largest first."""
        self._check_begun()
        with self._guard:
            keys = self._engine.keys
            counts = Counter(keys.tolist()).most_common()
            names = self._names.of(np.array([key for key, _ in counts], dtype=np.int64))
        return {name: count / len(keys) for name, (_, count) in zip(names, counts, strict=True)}

    @property
    def memory_bytes_(self) -> int:
        """Bytes that are allocated for the model right now, all of them; the columns of files, if it has any, aside."""
        return int(self._begun_engine().memory_bytes()) + self._names.bytes

    @property
    def capacity_(self) -> int | None:
        """How many examples may be stored at most; None where there is no limit."""
        self._check_begun()
        capacity: int | None = self._engine.settings.capacity
        return capacity

    @property
    def max_task_rows_(self) -> int | None:
        """How many tasks may have weights of their own at most; None where there is no limit, or no such weights."""
        self._check_begun()
        rows: int | None = self._engine.settings.max_task_rows
        return rows

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted."""
        self._check_begun()
        return self._classes.values

    @property
    def kernel_(self) -> Kernel | None:
        """The kernel in use, every parameter a number."""
        self._check_begun()
        kernel: Kernel | None = self._engine.settings.kernel
        return kernel

    @property
    def _who(self) -> str:
        return type(self).__name__

    @property
    def _begun(self) -> bool:
        return hasattr(self, "_engine")

    def __sklearn_is_fitted__(self) -> bool:
        return self._begun

    def _check_begun(self) -> None:
        if not self._begun:
            raise NotFittedError(
                f"{self._who}: the model must have learned something first; got a call on a new one. "
                "This instance is not fitted yet. Call fit, partial_fit or learn_one."
            )

    def _begun_engine(self) -> Any:
        if not self._begun:  # an AttributeError, so that hasattr tells the truth
            raise AttributeError(f"{self._who} has learned nothing yet")
        return self._engine
