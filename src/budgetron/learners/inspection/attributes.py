"""Read-only attributes of a fitted learner: stored examples, weights, counts, memory.

Base class of `Learner`. Reading an attribute never changes the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from budgetron.engine.interface import Engine
from budgetron.engine.records import ActiveSet
from budgetron.graphs import TaskGraph
from budgetron.kernels import Kernel
from budgetron.learners.input.classes import Classes
from budgetron.learners.input.task_names import TaskNames
from budgetron.learners.input.validation import located_one
from budgetron.learners.lifecycle.guard import Guard


class Inspection:
    """The attributes that a learner has after its first example."""

    _who: ClassVar[str]
    _engine: Engine = cast(Engine, None)  # None until the first example
    _guard: Guard
    _graph: TaskGraph
    _names: TaskNames
    _classes: Classes
    _tasked: bool
    _has_offset: bool | None

    @property
    def active_set_(self) -> ActiveSet:
        """The stored examples, in the engine's order; `arrival` has their positions in the stream."""
        self._check_fitted()
        with self._guard:
            # Examples and names are read under one lock, so that they belong together.
            active = self._engine.active()
            names = self._names.of(active["key"])
        coef = active["coef"][0] if len(active["coef"]) == 1 else active["coef"].T
        return ActiveSet(task=names, arrival=active["arrival"], rows=active["rows"], coef=coef)

    def task_weights(self, task: Hashable = None) -> NDArray[np.float64]:
        """Return the weights w of one task over the stored examples: f_task(x) = Σ_j w_j K'(x_j, x).

        K' is `kernel_`, and the x_j are the rows of `active_set_`.
        """
        self._check_fitted()
        task_id, cluster = located_one(self._who, task, self._graph, self._tasked)
        weights = self._engine.task_weights(task_id, cluster)
        return weights[0] if len(weights) == 1 else weights.T

    @property
    def n_stored_(self) -> int:
        """How many examples are stored."""
        return self._fitted_engine().n_stored

    @property
    def n_mistakes_(self) -> int:
        """How many examples were predicted wrong, or with a tie (a margin of 0), before they were learned."""
        return self._fitted_engine().n_mistakes

    @property
    def n_seen_(self) -> int:
        """How many examples were learned."""
        return self._fitted_engine().n_seen

    @property
    def budget_share_(self) -> dict[Hashable, float]:
        """Each task's share of the stored examples, largest first."""
        self._check_fitted()
        with self._guard:
            task_ids = self._engine.task_ids
            counts = Counter(task_ids.tolist()).most_common()
            names = self._names.of(np.array([task_id for task_id, _ in counts], dtype=np.int64))
        return {name: count / len(task_ids) for name, (_, count) in zip(names, counts, strict=True)}

    @property
    def memory_bytes_(self) -> int:
        """Bytes of the engine and of the names of tasks now, without the operating point and the columns of files."""
        return self._fitted_engine().memory_bytes() + self._names.bytes

    @property
    def capacity_(self) -> int | None:
        """The largest number of stored examples; None if there is no limit."""
        self._check_fitted()
        return self._engine.settings.capacity

    @property
    def max_task_rows_(self) -> int | None:
        """The largest number of rows for the weights of tasks; None if there is no limit or no such rows."""
        self._check_fitted()
        rows: int | None = getattr(self._engine.settings.parameters, "max_task_rows", None)
        return rows

    @property
    def needs_offset_(self) -> bool:
        """Whether every call must give another model's scores, because the model was trained with them."""
        return bool(self._has_offset)

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted."""
        self._check_fitted()
        return self._classes.values

    @property
    def kernel_(self) -> Kernel | None:
        """The kernel in use, with gamma="scale" replaced by its value."""
        self._check_fitted()
        return self._engine.kernel

    @property
    def _is_fitted(self) -> bool:
        return self._engine is not None

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted

    def _check_fitted(self) -> None:
        """Raise NotFittedError before the first example."""
        # NotFittedError is an AttributeError, so hasattr(model, "n_seen_") is False before the first example.
        if self._engine is None:
            raise NotFittedError(
                f"{self._who}: this instance is not fitted yet. Call fit, partial_fit or learn_one first."
            )

    def _fitted_engine(self) -> Engine:
        """Return the engine. Raise NotFittedError before the first example."""
        self._check_fitted()
        return self._engine
