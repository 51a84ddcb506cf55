"""The interface of learning rules, and the steps that mistake-driven rules share.

`Rule` is the interface that the engine calls. A `KernelRule` has a store (the stored examples) and weights (their
coefficients). A `MistakeDriven` rule is a kernel rule that changes only on mistakes. Its subclasses implement
`correct`, which is called on a mistake, with the kernel row from which the margin was computed. (`projectron` also
overrides `learn`, because Projectron++ changes on small margins too.) Rules that store no examples, such as `budgetron`
and `linear_perceptron`, implement `Rule` directly.

These symbols are the same in all rules:

    S        the stored examples; j is a slot of S, x_j its row and i_j its task
    B        the budget, the largest number of stored examples
    β_j      the coefficient of x_j in the margin, one number per output
    x_t      the new example, of task i_t with label y_t; f is its margin
    A        the interaction matrix of the task graph; c_G² is the largest diagonal entry of A⁻¹
    K'       the kernel of rows
    K        the multitask kernel A⁻¹ ⊗ K' (unless a rule overrides `similarity`):
             K((x, i), (x', l)) = (A⁻¹)_il K'(x, x')
    k_t      K(x_j, x_t) for every slot j, the kernel row of x_t;   K_tt = K(x_t, x_t)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays, Declaration
from budgetron.engine.reference.examples.rows import Array, Instance, Integers
from budgetron.engine.reference.examples.store import Store
from budgetron.engine.reference.weights import Weights
from budgetron.engine.saved_state import Field, Layout, require
from budgetron.engine.settings import Settings

Located = tuple[Instance, int, int]
"""An instance with its task id and its cluster."""


@dataclass
class Example:
    """The example of step t with its kernel row: k_t = K(x_j, x_t) for every slot j, and K_tt."""

    x: Instance
    task_id: int
    cluster: int
    arrival: int
    k: Array
    k_tt: float


class Rule(Declaration, ABC):
    """A learning rule: takes examples, returns margins and outcomes. `Declaration` describes it to other modules."""

    settings: Settings
    store: Store
    n_seen: int = 0
    n_mistakes: int = 0

    @abstractmethod
    def predict(self, x: Instance, task_id: int, cluster: int) -> Array:
        """Return the margins, one per output, without learning."""

    @abstractmethod
    def learn(self, x: Instance, task_id: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        """Learn one example. Returns the margins before the update, and the outcome.

        `weight` scales the step of rules that have a step size; other rules ignore it.
        """

    @abstractmethod
    def forget(self, task_id: int) -> None:
        """Remove what was learned for a task: its stored examples, lowest slot first, and its own weights."""

    # The defaults of the next three methods are for rules that store no examples.

    def evict_one(self) -> bool:
        """Evict one example without adding another. Returns False if the rule cannot."""
        return False

    def coef(self) -> Array:
        """Return one coefficient per output and slot (n_outputs, n)."""
        return np.empty((self.settings.n_outputs, 0))

    def of_task(self, task_id: int, cluster: int) -> Array:
        """Return the weights w of the stored examples, (n_outputs, n): f(x) of the task is Σ_j w_j K'(x_j, x)."""
        return self.coef()

    def state(self) -> dict[str, Any]:
        """Return everything learned. Rules add their own arrays."""
        return self.store.state() | {"n_seen": self.n_seen, "n_mistakes": self.n_mistakes}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state. The rule must be new."""
        self.n_seen, self.n_mistakes = int(state["n_seen"]), int(state["n_mistakes"])
        self.store.restore(state)

    def rows_moved(self) -> None:
        """Recompute stored kernel values; called after the store's reference point has moved."""

    def kernel_changed(self) -> None:
        """Adapt the stored state to another γ; called during the first rows under ``gamma="scale"``."""

    def query(self, name: str, examples: Iterable[Located]) -> dict[str, Any]:
        """Run a query that this rule defines, such as "variances". Queries do not change predictions."""
        if name != "explain":
            raise ValueError(f"{self.name} has no query {name!r}")
        collected: dict[str, list[Array]] = {"margins": [], "similarity": [], "terms": []}
        for x, task_id, cluster in examples:
            row, _ = self.store.kernel_row(x)
            terms = self.of_task(task_id, cluster) * row  # w_j K'(x_j, x), (n_outputs, n)
            for array, values in zip(collected, (self.predict(x, task_id, cluster), row, terms), strict=True):
                collected[array].append(values.ravel())
        stored = {"key": self.store.task_id.copy(), "arrival": self.store.arrival.copy()}
        return stored | {array: np.concatenate(values or [np.zeros(0)]) for array, values in collected.items()}

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of all arrays."""


class KernelRule(Rule):
    """The base class of rules that store examples: kernel rows, margins, and the slots of the store."""

    stores_examples = True

    def __init__(self, settings: Settings, weights: Weights) -> None:
        self.settings = settings
        self.store = Store(settings)
        self.weights = weights
        self.eta2 = 0.0  # η², for the rules that project: an example of norm at most η counts as zero

    # ---- the declaration

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        coef = Field("float64", (settings.n_outputs, len(arrays["key"])))
        return super().layout(settings, arrays) | {"coef": coef, "scale": Field("float64")}

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        require(float(arrays["scale"][0]) == 1.0, "state.scale", "1", str(arrays["scale"][0]))

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        # One double per slot and output; twice, because the array is copied to a wider one when it grows.
        assert settings.capacity is not None
        return 2 * settings.capacity * 8 * settings.n_outputs

    # ---- the steps of one example

    def with_kernel_row(self, x: Instance, task_id: int, cluster: int) -> Example:
        """Compute the kernel row of x. Margin and update share it, since it is most of the cost of a step."""
        k, k_tt = self.store.kernel_row(x)
        k = k * self.similarity(task_id, cluster, self.store.task_id, self.store.cluster)
        k_tt *= float(self.similarity(task_id, cluster, np.array([task_id]), np.array([cluster]))[0])
        return Example(x, task_id, cluster, self.n_seen, k, k_tt)

    def example_of(self, j: int) -> Example:
        """Return the stored example of slot j, with its kernel row."""
        store = self.store
        return self.with_kernel_row(store.rows.instance(j), int(store.task_id[j]), int(store.cluster[j]))

    def gram_row(self, j: int) -> tuple[Array, float]:
        """Return row j of the Gram matrix and K_jj, for `gram.recompute_gram`."""
        x_j = self.example_of(j)
        return x_j.k, x_j.k_tt

    def similarity(self, task_id: int, cluster: int, task_ids: Integers, clusters: Integers) -> Array:
        """Return (A⁻¹)_{i_j,i} for the tasks i_j in `task_ids`, the factor of K' in the kernel K."""
        return self.settings.graph.row(task_id, cluster, task_ids, clusters)

    def margins(self, t: Example) -> Array:
        """Return f, one value per output."""
        return self.weights.margins(t.k, t.task_id, t.cluster, self.store)

    def predict(self, x: Instance, task_id: int, cluster: int) -> Array:
        return self.margins(self.with_kernel_row(x, task_id, cluster))

    # ---- changes of the stored examples

    def append(self, t: Example, y: Array) -> None:
        """Store x_t in slot n with β_t = y."""
        self.weights.append(t.task_id, t.cluster, y)
        self.store.append(t.x, t.task_id, t.cluster, t.arrival)

    def remove(self, r: int) -> None:
        """Remove slot r and its weights; the last slot takes its place."""
        self.weights.remove(r)
        self.store.remove(r)

    def forget(self, task_id: int) -> None:
        while (slots := np.flatnonzero(self.store.task_id == task_id)).size:
            self.remove(int(slots[0]))

    # ---- state

    def coef(self) -> Array:
        return self.weights.coef()

    def of_task(self, task_id: int, cluster: int) -> Array:
        return self.weights.of_task(task_id, cluster, self.store)

    def state(self) -> dict[str, Any]:
        return super().state() | self.weights.state()

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.weights.restore(state)

    @property
    def nbytes(self) -> int:
        return self.store.nbytes + self.weights.nbytes


class MistakeDriven(KernelRule):
    """The base class of rules that change the model only on mistakes."""

    @abstractmethod
    def correct(self, t: Example, y: Array) -> Outcome:
        """Update the model after a mistake. y is +1 for the output to raise, −1 for the output to lower, else 0."""

    def learn(self, x: Instance, task_id: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        t = self.with_kernel_row(x, task_id, cluster)
        f = self.margins(t)
        y = update_direction(f, code)
        outcome = Outcome(0)
        if y is not None:
            self.n_mistakes += 1
            outcome = Outcome.MISTAKE
            # An x_t with K_tt ≤ η² counts as zero (η is 0 for rules without projection). A zero x_t changes no margin,
            # and would make the Gram matrix singular.
            if t.k_tt > self.eta2:
                outcome |= self.correct(t, y)
        self.n_seen += 1
        return f, outcome


def update_direction(f: Array, code: int) -> Array | None:
    """Return the direction y of the update if the example is a mistake (y·f ≤ 0), otherwise None."""
    y = direction(f, code)
    return y if float(y @ f) <= 0 else None


def direction(f: Array, code: int) -> Array:
    """Return y, with which y·f is the margin of the label: positive if f predicts the label, 0 if there is a tie.

    With two classes y is ±1. With more classes y is +1 for the label, −1 for the other class with the largest margin
    (among ties the first), and 0 for the rest.
    """
    if len(f) == 1:
        return np.array([2.0 * code - 1.0])
    others = f.copy()
    others[code] = -np.inf
    y = np.zeros(len(f))
    y[code], y[int(np.argmax(others))] = 1.0, -1.0
    return y
