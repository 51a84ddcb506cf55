"""The NumPy engine: learns the examples of a block one by one, and returns margins and outcomes.

It has the same interface as the compiled engine (`budgetron.engine.native.Engine`), which must return the same results.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgetron.engine.first_rows import BeginsTwice, FirstRows
from budgetron.engine.interface import State
from budgetron.engine.records import Rows, SparseRow
from budgetron.engine.reference.examples.rows import Array, Instance, Integers
from budgetron.engine.reference.rule import Located, Rule
from budgetron.engine.registry import rule_class
from budgetron.engine.settings import Settings
from budgetron.kernels import BUILT_IN, Kernel


class Engine(BeginsTwice):
    """Runs a rule on blocks of examples."""

    concurrent_predictions = False  # it is not thread-safe: the caller holds the model's lock during every call

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.rule: Rule = rule_class(settings.rule)(settings)

    @classmethod
    def restore(cls, settings: Settings, state: State) -> Self:
        """Return an engine that continues from a state."""
        engine = cls(settings)
        engine.rule.restore(state)
        if engine.first_rows is not None:
            engine.first_rows = FirstRows.of_state(state)
        return engine

    def learn(self, X: Rows, codes: NDArray[np.int32], task_ids: Integers, clusters: Integers,
              weights: Array | None = None, offsets: Array | None = None) -> tuple[Array, NDArray[np.uint8]]:
        """Learn a block. Returns the margins of each row just before it was learned, and its flags (`Outcome`)."""
        learn = self._learn if self.first_rows is None else self.learn_first
        return learn(X, codes, task_ids, clusters, weights, offsets)

    def _learn(self, X: Rows, codes: NDArray[np.int32], task_ids: Integers, clusters: Integers,
               weights: Array | None, offsets: Array | None) -> tuple[Array, NDArray[np.uint8]]:  # fmt: skip
        # A user's own kernel may raise an exception at any row. Then the model must be as it was before the block.
        before = None if self.kernel is None or type(self.kernel) in BUILT_IN else deepcopy(self.state())
        try:
            return self._learn_rows(X, codes, task_ids, clusters, weights, offsets)
        except Exception:
            if before is not None:
                self.rule = Engine.restore(self.settings, before).rule
            raise

    def _learn_rows(self, X: Rows, codes: NDArray[np.int32], task_ids: Integers, clusters: Integers,
                    weights: Array | None, offsets: Array | None) -> tuple[Array, NDArray[np.uint8]]:  # fmt: skip
        n = len(codes)
        margins = np.empty((n, self.settings.n_outputs))
        flags = np.zeros(n, dtype=np.uint8)
        for t, x in enumerate(self._instances(X, offsets)):
            weight = 1.0 if weights is None else float(weights[t])
            n_seen = self.rule.n_seen
            # The reference point is updated before the rule computes the kernel row of x, which would otherwise be
            # inaccurate if x is far from the old point.
            if self.rule.store.update_reference(x):
                self.rule.rows_moved()
            margins[t], flags[t] = self.rule.learn(x, int(task_ids[t]), int(clusters[t]), int(codes[t]), weight)
            self.rule.store.bandwidth.observe(x, n_seen)
            if self.rule.store.rescale(self.rule.n_seen):
                self.rule.kernel_changed()
        return self._per_row(margins), flags

    def learn_one(
        self, x: NDArray[Any] | SparseRow, code: int, task_id: int, cluster: int, weight: float
    ) -> tuple[float | Array, int] | None:
        X = x[None] if isinstance(x, np.ndarray) else x
        if self.first_bad_row(X) is not None:
            return None
        margin, flags = self.learn(X, np.array([code], dtype=np.int32), np.array([task_id]), np.array([cluster]),
                                   np.array([weight]))
        return (float(margin[0]) if margin.ndim == 1 else margin[0]), int(flags[0])

    def margin_one(self, x: NDArray[Any] | SparseRow, task_id: int, cluster: int) -> float | Array | None:
        X = x[None] if isinstance(x, np.ndarray) else x
        if self.first_bad_row(X) is not None:
            return None
        margins = self.margins(X, np.array([task_id]), np.array([cluster]))
        return float(margins[0]) if margins.ndim == 1 else margins[0]

    def learn_example(self, x: Any, y: Any, task: Any, codes: dict[Any, int]) -> Any:
        return NotImplemented  # a shortcut of the compiled engine

    def margin_example(self, x: Any, task: Any) -> Any:
        return NotImplemented

    def first_bad_row(self, X: Rows) -> int | None:
        """Return the number of the first row that is not finite or would overflow the kernel; None if there is none."""
        settings, kernel = self.settings, self.kernel
        # The product of two values above 1e150 could overflow. Inner products in float32 overflow much earlier. The
        # comparison below is False for NaN, so rows with NaN are rejected too.
        largest = 1e37 if settings.dtype == "float32" and not settings.sparse else 1e150
        with np.errstate(all="ignore"):
            squares = np.array([x.square for x in self.rule.store.instances(X)])
            is_good = squares <= largest
            if kernel is not None and is_good.any():
                usable = squares[is_good]
                is_good[is_good] = kernel.checked_values(usable, usable, usable) <= 1e150
        return None if is_good.all() else int(np.argmin(is_good))

    @property
    def kernel(self) -> Kernel | None:
        """The kernel in use, with γ a number."""
        return self.rule.store.bandwidth.kernel

    def margins(
        self, X: Rows, task_ids: Integers, clusters: Integers, threads: int = 1, offsets: Array | None = None
    ) -> Array:
        """Return the margins of each example without learning. (`threads` is for the compiled engine.)"""
        margins = np.empty((len(task_ids), self.settings.n_outputs))
        for t, x in enumerate(self._instances(X, offsets)):
            margins[t] = self.rule.predict(x, int(task_ids[t]), int(clusters[t]))
        return self._per_row(margins)

    def query(
        self, name: str, X: Rows | None = None, task_ids: ArrayLike = (), clusters: ArrayLike = (),
        offsets: Array | None = None,
    ) -> State:  # fmt: skip
        """Run a query that the rule defines, such as "explain", on some rows or on the model alone."""
        return self.rule.query(name, self._with_tasks(X, np.asarray(task_ids), np.asarray(clusters), offsets))

    def _instances(self, X: Rows, offsets: Array | None) -> Iterator[Instance]:
        """The rows, each with its offset (another model's score) if there are offsets."""
        instances = self.rule.store.instances(X)
        if offsets is None:
            return instances
        offset_rows = offsets.reshape(-1, self.settings.n_outputs)
        return (replace(x, offset=offset) for x, offset in zip(instances, offset_rows, strict=True))

    def _with_tasks(
        self, X: Rows | None, task_ids: NDArray[Any], clusters: NDArray[Any], offsets: Array | None
    ) -> Iterator[Located]:
        instances = () if X is None else self._instances(X, offsets)
        rows = zip(instances, task_ids, clusters, strict=True)
        return ((x, int(task_id), int(cluster)) for x, task_id, cluster in rows)

    def _forget(self, task_id: int) -> None:
        self.rule.forget(task_id)

    def _set_counts(self, n_seen: int, n_mistakes: int) -> None:
        self.rule.n_seen, self.rule.n_mistakes = n_seen, n_mistakes

    def _become(self, new: Engine) -> None:
        self.settings, self.rule, self.first_rows = new.settings, new.rule, new.first_rows

    def _is_compiled(self) -> bool:
        return False

    def shrink(self, capacity: int) -> bool:
        """Evict examples until `capacity` are left.

        Returns False if the rule cannot evict any more; some examples may have been evicted before.
        """
        while self.n_stored > capacity:
            if not self.rule.evict_one():
                return False
        return True

    def state(self) -> State:
        """Return everything learned, as plain arrays and numbers."""
        return self.rule.state() | ({} if self.first_rows is None else self.first_rows.state())

    def active(self) -> State:
        """Return the stored examples, in slot order."""
        store = self.rule.store
        slots = {"key": store.task_id.copy(), "cluster": store.cluster.copy(), "arrival": store.arrival.copy()}
        return slots | {"coef": self.rule.coef(), "rows": store.original_rows()}

    def task_weights(self, task_id: int, cluster: int) -> Array:
        """Return the weights w of the stored rows in the margins of a task, (n_outputs, n)."""
        return self.rule.of_task(task_id, cluster)

    @property
    def task_ids(self) -> Integers:
        """The task id of each stored example, in slot order."""
        return self.rule.store.task_id.copy()

    @property
    def n_stored(self) -> int:
        return len(self.rule.store)

    @property
    def n_seen(self) -> int:
        return self.rule.n_seen

    @property
    def n_mistakes(self) -> int:
        return self.rule.n_mistakes

    def __reduce__(self) -> tuple[Any, tuple[Settings, State]]:
        return Engine.restore, (self.settings, self.state())

    def memory_bytes(self) -> int:
        """Return the bytes of all arrays."""
        return self.rule.nbytes + (0 if self.first_rows is None else self.first_rows.nbytes)

    def _per_row(self, margins: Array) -> Array:
        """Return one number per row if there is one output, otherwise one row of numbers."""
        return margins[:, 0] if self.settings.n_outputs == 1 else margins


if TYPE_CHECKING:  # mypy checks here that both engines implement the interface that learners use
    from budgetron.engine import interface, native

    _numpy: type[interface.Engine] = Engine
    _compiled: type[interface.Engine] = native.Engine
