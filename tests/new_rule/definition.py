"""HashedPerceptron: a linear Perceptron whose features share a few cells. It has no kernel and stores no examples.

    φ(x)_c = Σ_{f mod m = c} x_f                       on a mistake:  w ← w + r y φ(x)

x_f is column f of the row x, m the number of cells, w their weights, r the length of a step, and y is ±1.

    weights  w (outputs, m)     hits  updates per cell (m,)     rate  r     cells  m
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays, RuleParameters
from budgetron.engine.reference.examples.rows import Array, Instance
from budgetron.engine.reference.examples.store import Store
from budgetron.engine.reference.rule import Located, Rule, update_direction
from budgetron.engine.saved_state import Field, Layout, require
from budgetron.engine.settings import Settings


class Parameters(RuleParameters, frozen=True):
    rate: Annotated[float, Meta(gt=0.0)] = 1.0
    cells: Annotated[int, Meta(ge=1, le=2**31)] = 1


class HashedPerceptron(Rule):
    """Each mistake updates the weights of the cells that the features of the row share."""

    name = "hashed_perceptron"
    Parameters = Parameters
    needs_kernel = False

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        m = settings.parameters.cells
        own = {"weights": Field("float64", (settings.n_outputs, m)), "hits": Field("int64", (m,))}
        return super().layout(settings, arrays) | own

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        require((arrays["hits"] >= 0).all(), "state.hits", "counts")

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        return int(settings.parameters.cells * 8 * (settings.n_outputs + 2))

    @classmethod
    def planned(cls, settings: Settings, limit: int, nonzeros: float, compiled: bool) -> Settings | None:
        fixed = replace(settings, capacity=1).with_parameters(cells=1)
        left = limit - cls._bytes(fixed, compiled)
        cells = min(settings.n_features, left // (8 * (settings.n_outputs + 2)))
        return fixed.with_parameters(cells=cells) if cells >= 1 else None

    @staticmethod
    def _bytes(settings: Settings, compiled: bool) -> int:
        from budgetron.engine.memory import bytes_of

        return bytes_of(settings, compiled)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = Store(settings)
        self.weights = np.zeros((settings.n_outputs, settings.parameters.cells))
        self.hits = np.zeros(settings.parameters.cells, dtype=np.int64)

    def features(self, x: Instance) -> Array:
        m = self.settings.parameters.cells
        return np.bincount(np.arange(len(x.values)) % m, x.values, minlength=m)

    def predict(self, x: Instance, task_id: int, cluster: int) -> Array:
        return self.weights @ self.features(x)

    def learn(self, x: Instance, task_id: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        phi = self.features(x)
        f = self.weights @ phi
        y = update_direction(f, code)
        self.n_seen += 1
        if y is None:
            return f, Outcome(0)
        self.n_mistakes += 1
        self.weights = self.weights + self.settings.parameters.rate * np.outer(y, phi)
        self.hits = self.hits + (phi != 0)
        return f, Outcome.MISTAKE | Outcome.UPDATED

    def query(self, name: str, examples: Iterable[Located]) -> dict[str, Any]:
        if name == "busiest":
            order = np.argsort(-self.hits, kind="stable")
            return {"cell": order, "weight": self.weights[0, order]}
        return super().query(name, examples)

    def forget(self, task_id: int) -> None:
        """Nothing is stored per task."""

    def state(self) -> dict[str, Any]:
        return super().state() | {"weights": self.weights.copy(), "hits": self.hits.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.weights, self.hits = np.array(state["weights"]), np.array(state["hits"])

    @property
    def nbytes(self) -> int:
        return self.weights.nbytes + self.hits.nbytes
