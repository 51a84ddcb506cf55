"""What each stored example counts for: one coefficient an output, β.

    f_i(x) = Σ_j β_j (A⁻¹)_{i_j,i} K'(x_j, x)      weights[c, j] = β_j of output c

`Weights` is what any kind of weights can do; `Coefficients` are those of Perceptron, mtrbp, mtforg and
mtbprj. (mtbprj-2 has a table of its own, in `shared_table`.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from budgetron.engine.reference.rows import Array, flushed, without
from budgetron.engine.reference.store import Store
from budgetron.engine.settings import Settings
from budgetron.graphs import TaskGraph


class Weights(ABC):
    """Weights over the slots of a store, kept in step with it."""

    @abstractmethod
    def margins(self, k: Array, key: int, cluster: int, store: Store) -> Array:
        """f for a task, from the row k of the rule's kernel."""

    @abstractmethod
    def of_task(self, key: int, cluster: int, store: Store) -> Array:
        """w (n_outputs, n) with f_task(x) = Σ_j w_j K'(x_j, x)."""

    @abstractmethod
    def coef(self) -> Array:
        """One coefficient an output for each slot (n_outputs, n)."""

    @abstractmethod
    def append(self, key: int, cluster: int, y: Array) -> None:
        """A new last slot for the task, with weight y."""

    @abstractmethod
    def remove(self, r: int) -> None:
        """Drop slot r; the last moves into the hole."""

    @abstractmethod
    def add(self, key: int, cluster: int, y: Array, alpha: Array) -> None:
        """β += y α, for the task's example."""

    @abstractmethod
    def norms(self) -> Array:
        """‖β_j‖₂ for every slot j."""

    @abstractmethod
    def hand_over(self, r: int, gamma: Array) -> None:
        """β_j += β_r γ_j for every slot j."""

    def state(self) -> dict[str, Any]:
        return {"coef": self.coef()}

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Take up the weights of a state."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held."""


class Coefficients(Weights):
    """β."""

    def __init__(self, settings: Settings) -> None:
        self.graph: TaskGraph = settings.graph
        self.beta: Array = np.empty((settings.n_outputs, 0))

    def margins(self, k: Array, key: int, cluster: int, store: Store) -> Array:
        return self.beta @ k

    def of_task(self, key: int, cluster: int, store: Store) -> Array:
        return self.beta * self.graph.row(key, cluster, store.key, store.cluster)

    def coef(self) -> Array:
        return self.beta.copy()

    def append(self, key: int, cluster: int, y: Array) -> None:
        self.beta = np.column_stack([self.beta, y])

    def remove(self, r: int) -> None:
        self.beta = without(self.beta, r)

    def add(self, key: int, cluster: int, y: Array, alpha: Array) -> None:
        self.beta = flushed(self.beta + np.outer(y, alpha))

    def norms(self) -> Array:
        norms: Array = np.sqrt((self.beta**2).sum(axis=0))
        return norms

    def hand_over(self, r: int, gamma: Array) -> None:
        self.beta = flushed(self.beta + np.outer(self.beta[:, r], gamma))

    def restore(self, state: dict[str, Any]) -> None:
        self.beta = np.array(state["coef"], dtype=np.float64)

    @property
    def nbytes(self) -> int:
        return self.beta.nbytes
