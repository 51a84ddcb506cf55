"""The interface of an engine: the methods that learners call and both engines implement.

`native.Engine` runs the compiled core, `reference.Engine` is the definition in NumPy. mypy checks both against
`Engine` (see the end of `reference/engine.py`). Learners use an engine only through this interface.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgetron.engine.records import Rows, SparseRow
from budgetron.engine.settings import Settings
from budgetron.kernels import Kernel

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
State = dict[str, Any]
"""Arrays and numbers by name: a saved state, with the types and shapes that the rule's `layout` declares, or the answer
of `query` or `active`."""


class Engine(Protocol):
    """A learning rule together with its learned state.

    Callers validate the rows and convert them to the dtype of the settings. They pass each label as the code of its
    class, and each task as a task id and a cluster. Offsets are another model's scores; only `Budgetron` uses them, and
    adds them to its own scores.
    """

    concurrent_predictions: bool
    """Whether several threads may predict at once. If not, the caller holds the model's lock during every call."""

    settings: Settings

    def __init__(self, settings: Settings) -> None: ...

    @classmethod
    def restore(cls, settings: Settings, state: State) -> Self:
        """Return an engine that continues from a state, which either engine may have saved."""
        ...

    def learn(
        self, X: Rows, codes: NDArray[np.int32], task_ids: Integers, clusters: Integers, weights: Reals | None = None,
        offsets: Reals | None = None,
    ) -> tuple[Reals, NDArray[np.uint8]]:  # fmt: skip
        """Learn a block. Returns the margins of each row just before it was learned, and its flags (`Outcome`)."""
        ...

    def learn_one(
        self, x: NDArray[Any] | SparseRow, code: int, task_id: int, cluster: int, weight: float
    ) -> tuple[float | Reals, int] | None:
        """Learn one row. Returns its margin and flags, or None if the row is invalid."""
        ...

    def margin_one(self, x: NDArray[Any] | SparseRow, task_id: int, cluster: int) -> float | Reals | None:
        """Return the margin of one row, or one margin per class; None if the row is invalid."""
        ...

    def learn_example(self, x: Any, y: Any, task: Any, codes: dict[Any, int]) -> Any:
        """Learn one example as the user passed it, without conversions; `codes` maps labels to class codes.

        Returns the same as `learn_one`, or NotImplemented. If it is NotImplemented, the caller converts the example and
        calls `learn_one`. The NumPy engine always returns NotImplemented. The core learns the example itself if all of
        these conditions hold:

        - x is a plain dict, or a row in the model's precision;
        - the label is known;
        - the task is a small integer, a string or None;
        - the graph has no list of tasks (`native._names_for`);
        - the model no longer keeps its first rows (`first_rows`).
        """
        ...

    def margin_example(self, x: Any, task: Any) -> Any:
        """Return the margin of an example as the user passed it; None if the row is invalid.

        Returns NotImplemented if the core cannot read x or the task. The NumPy engine always returns NotImplemented.
        """
        ...

    def first_bad_row(self, X: Rows) -> int | None:
        """Return the number of the first row that is not finite or would overflow the kernel; None if there is none."""
        ...

    def margins(
        self, X: Rows, task_ids: Integers, clusters: Integers, threads: int = 1, offsets: Reals | None = None
    ) -> Reals:
        """Return the margins of each row without learning."""
        ...

    def query(
        self, name: str, X: Rows | None = None, task_ids: ArrayLike = (), clusters: ArrayLike = (),
        offsets: Reals | None = None,
    ) -> State:  # fmt: skip
        """Run a query that the rule defines, such as "explain", on some rows or on the model alone."""
        ...

    def forget(self, task_id: int) -> None:
        """Remove what was learned for a task: its stored examples, and its row of weights.

        Weights that tasks share stay. In `Budgetron`, the task's own weights in hashed arrays are cleared too, except
        in the hashed table of sparse rows.
        """
        ...

    def state(self) -> State:
        """Return everything learned, as plain arrays and numbers."""
        ...

    def active(self) -> State:
        """Return the stored examples as arrays, in slot order: key (the task ids), cluster, arrival, coef and rows."""
        ...

    def task_weights(self, task_id: int, cluster: int) -> Reals:
        """Return the weights w of the stored rows x_j in the margins of a task, (n_outputs, n).

        The margin of a row x is Σ_j w_j K'(x_j, x), where K' is the kernel of rows.
        """
        ...

    def memory_bytes(self) -> int:
        """Return the bytes that the engine has allocated."""
        ...

    @property
    def kernel(self) -> Kernel | None:
        """The kernel in use, with γ a number."""
        ...

    @property
    def task_ids(self) -> Integers:
        """The task id of each stored example, in slot order."""
        ...

    @property
    def n_stored(self) -> int: ...

    @property
    def n_seen(self) -> int: ...

    @property
    def n_mistakes(self) -> int: ...
