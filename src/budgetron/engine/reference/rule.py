"""The path of one example, and the hook where the rules differ.

    x, task → one row of kernel values → margins f → right: leave
                                                      wrong: `correct`, with the same row

A `MistakeDriven` rule has a store (who is remembered) and weights (what each counts for); `correct` says what a
mistake does to them. Its kernel is K = A⁻¹ ⊗ K' unless it overrides `similarity`. `Rule` is what an engine asks of
any rule, also of the one that learns from every example (`budgetron`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from budgetron.engine.records import Outcome
from budgetron.engine.reference.rows import Array, Instance, Integers
from budgetron.engine.reference.store import Store
from budgetron.engine.reference.weights import Weights
from budgetron.engine.settings import Settings


@dataclass
class Newcomer:
    """The example of step t with its row: k_t = K(x_j, x_t) for every slot j, and K_tt."""

    x: Instance
    key: int
    cluster: int
    arrival: int
    k: Array
    k_tt: float


class Rule(ABC):
    """What an engine drives: example in, margins and outcome out."""

    store: Store
    n_seen: int = 0
    n_mistakes: int = 0

    @abstractmethod
    def predict(self, x: Instance, key: int, cluster: int) -> Array:
        """Margins, one an output; nothing changes."""

    @abstractmethod
    def learn(self, x: Instance, key: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        """Margins before the update, and what the example did; `weight` is for rules with a step to scale."""

    @abstractmethod
    def forget(self, key: int) -> None:
        """Drop the stored examples of a task, lowest slot first."""

    @abstractmethod
    def let_go(self) -> bool:
        """One member leaves by the rule's own choice though nothing came; False where the rule has no such step."""

    @abstractmethod
    def coef(self) -> Array:
        """One coefficient an output for each slot (n_outputs, n)."""

    @abstractmethod
    def of_task(self, key: int, cluster: int) -> Array:
        """w (n_outputs, n) with f_task(x) = Σ_j w_j K'(x_j, x)."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Everything learned."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state, into a rule that has seen nothing."""

    def rows_moved(self) -> None:  # noqa: B027 - most rules keep no kernel values
        """The store's reference point moved: kernel values that are kept must be computed again."""

    def variance(self, x: Instance, key: int, cluster: int) -> Array:
        """The variance of f, one an output, for the rule that knows one."""
        raise NotImplementedError

    def beliefs(self) -> list[tuple[int, float]]:
        """Number and weight of the live beliefs, for the rule that has some."""
        return []

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held."""


class MistakeDriven(Rule):
    """The skeleton of the paper's rules: without a mistake nothing changes."""

    def __init__(self, settings: Settings, weights: Weights) -> None:
        self.settings = settings
        self.store = Store(settings)
        self.weights = weights
        self.eta2 = 0.0  # η², for the rules that have one

    # The hook.

    @abstractmethod
    def correct(self, t: Newcomer, y: Array) -> Outcome:
        """What a mistake does. y holds +1 and −1 for the outputs to raise and to lower, else 0."""

    # The path.

    def see(self, x: Instance, key: int, cluster: int) -> Newcomer:
        """The row, computed once."""
        row, own = self.store.kernel_row(x)
        row = row * self.similarity(key, cluster, self.store.key, self.store.cluster)
        own *= float(self.similarity(key, cluster, np.array([key]), np.array([cluster]))[0])
        return Newcomer(x, key, cluster, self.n_seen, row, own)

    def similarity(self, key: int, cluster: int, keys: Integers, clusters: Integers) -> Array:
        """(A⁻¹)_{i_j,i} for the tasks i_j in `keys`: what K' is multiplied by."""
        return self.settings.graph.row(key, cluster, keys, clusters)

    def margins(self, t: Newcomer) -> Array:
        """f, one value an output."""
        return self.weights.margins(t.k, t.key, t.cluster, self.store)

    def predict(self, x: Instance, key: int, cluster: int) -> Array:
        return self.margins(self.see(x, key, cluster))

    def learn(self, x: Instance, key: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        t = self.see(x, key, cluster)
        f = self.margins(t)
        y = mistaken(f, code)
        outcome = Outcome(0)
        if y is not None:
            self.n_mistakes += 1
            outcome = Outcome.MISTAKE
            if t.k_tt > self.eta2:  # else x_t is as good as zero: nothing to learn from
                outcome |= self.correct(t, y)
        self.n_seen += 1
        return f, outcome

    # What all rules do to the active set.

    def append(self, t: Newcomer, y: Array) -> None:
        """Store x_t in slot n with β_t = y."""
        self.weights.append(t.key, t.cluster, y)
        self.store.append(t.x, t.key, t.cluster, t.arrival)

    def remove(self, r: int) -> None:
        """Drop slot r and its weights; the last slot moves into the hole."""
        self.weights.remove(r)
        self.store.remove(r)

    def forget(self, key: int) -> None:
        while (slots := np.flatnonzero(self.store.key == key)).size:
            self.remove(int(slots[0]))

    def let_go(self) -> bool:
        return False

    # What is held.

    def coef(self) -> Array:
        return self.weights.coef()

    def of_task(self, key: int, cluster: int) -> Array:
        return self.weights.of_task(key, cluster, self.store)

    def state(self) -> dict[str, Any]:
        counts = {"n_seen": self.n_seen, "n_mistakes": self.n_mistakes}
        return self.store.state() | self.weights.state() | counts

    def restore(self, state: dict[str, Any]) -> None:
        self.n_seen, self.n_mistakes = int(state["n_seen"]), int(state["n_mistakes"])
        self.store.restore(state)
        self.weights.restore(state)

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + self.weights.nbytes


def mistaken(f: Array, code: int) -> Array | None:
    """Where to push after a mistake; None where there was none.

    Two classes (one output, y = ±1): y f ≤ 0. More: f_y ≤ max_{c≠y} f_c; + for y, − for the lowest such c.
    """
    if len(f) == 1:
        y = 2.0 * code - 1.0
        return np.array([y]) if y * f[0] <= 0 else None
    others = f.copy()
    others[code] = -np.inf
    c = int(np.argmax(others))
    if f[code] > f[c]:
        return None
    direction = np.zeros(len(f))
    direction[code], direction[c] = 1.0, -1.0
    return direction
