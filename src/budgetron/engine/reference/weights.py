"""The weights of stored examples: one coefficient β per example and output.

    f_i(x) = Σ_j β_j (A⁻¹)_{i_j,i} K'(x_j, x)      weights[c, j] = β_j of output c

`Weights` is the interface that rules use. `shared_table` implements it for `SharedProjectron`, `Coefficients` for all
other rules that store examples. Every change of the store's slots must be made here too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from budgetron.engine.reference.examples.rows import Array, flushed, without
from budgetron.engine.reference.examples.store import Store
from budgetron.engine.settings import Settings
from budgetron.graphs import TaskGraph


class Weights(ABC):
    """Weights over the slots of a store."""

    @abstractmethod
    def margins(self, k: Array, task_id: int, cluster: int, store: Store) -> Array:
        """Return f for a task, from the row k of the rule's kernel."""

    @abstractmethod
    def of_task(self, task_id: int, cluster: int, store: Store) -> Array:
        """Return the weights w of the stored examples, (n_outputs, n): f(x) of the task is Σ_j w_j K'(x_j, x)."""

    @abstractmethod
    def coef(self) -> Array:
        """Return one coefficient per output and slot (n_outputs, n)."""

    @abstractmethod
    def append(self, task_id: int, cluster: int, y: Array) -> None:
        """Add a last slot for the task, with weight y."""

    @abstractmethod
    def remove(self, r: int) -> None:
        """Remove slot r; the last slot takes its place."""

    @abstractmethod
    def add(self, task_id: int, cluster: int, y: Array, alpha: Array) -> None:
        """Add y α to the weights, for an example of the task that is projected on the stored ones."""

    @abstractmethod
    def norms(self) -> Array:
        """Return ‖β_j‖₂ for every slot j."""

    @abstractmethod
    def distribute(self, r: int, gamma: Array) -> None:
        """Add β_r γ_j to β_j for every slot j: the examples on which x_r is projected take over its weight."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the weights, under the names of the rule's layout."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Restore the weights of a state."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of all arrays."""


class Coefficients(Weights):
    """The matrix β (n_outputs, n)."""

    def __init__(self, settings: Settings) -> None:
        self.graph: TaskGraph = settings.graph
        self.beta: Array = np.empty((settings.n_outputs, 0))

    def margins(self, k: Array, task_id: int, cluster: int, store: Store) -> Array:
        return self.beta @ k

    def of_task(self, task_id: int, cluster: int, store: Store) -> Array:
        return self.beta * self.graph.row(task_id, cluster, store.task_id, store.cluster)

    def coef(self) -> Array:
        return self.beta.copy()

    def append(self, task_id: int, cluster: int, y: Array) -> None:
        self.beta = np.column_stack([self.beta, y])

    def remove(self, r: int) -> None:
        self.beta = without(self.beta, r)

    def add(self, task_id: int, cluster: int, y: Array, alpha: Array) -> None:
        self.beta = flushed(self.beta + np.outer(y, alpha))

    def norms(self) -> Array:
        norms: Array = np.sqrt((self.beta**2).sum(axis=0))
        return norms

    def distribute(self, r: int, gamma: Array) -> None:
        self.beta = flushed(self.beta + np.outer(self.beta[:, r], gamma))

    def state(self) -> dict[str, Any]:
        return {"coef": self.coef(), "scale": 1.0}  # the core stores β divided by a common factor

    def restore(self, state: dict[str, Any]) -> None:
        self.beta = np.array(state["coef"], dtype=np.float64)

    @property
    def nbytes(self) -> int:
        return self.beta.nbytes
