"""Budgetron: features, margins of every belief, their mixture, and the update, one example (x, i, y, ω) at a time.

    1  features of x, and the rows of the tasks related to i
    2  f_b of every belief; the margin is that of the mixture; a mistake is a lead of the true class ≤ 0
    3  the weights of the beliefs
    4  every part learns; a part without weight is dropped; the columns are counted
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from budgetron.engine.records import Outcome
from budgetron.engine.reference.budgetron import mixture
from budgetron.engine.reference.budgetron.declaration import BudgetronDeclaration, make_parts
from budgetron.engine.reference.budgetron.parts import Part, Seen
from budgetron.engine.reference.budgetron.scaler import Scaler
from budgetron.engine.reference.budgetron.task_rows import Name, TaskRows
from budgetron.engine.reference.budgetron.waves import Waves
from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.rows import Array, Instance
from budgetron.engine.reference.rule import Located, mistaken
from budgetron.engine.reference.store import Store
from budgetron.engine.settings import Settings
from budgetron.graphs import Explicit, factor_of

FIRST_LOOK, ENOUGH_WEIGHT = 16, 0.2
HEAVIEST = 1e9
"""Larger weights count as this one. A step already ends just past the boundary, and products with it stay finite."""


class Budgetron(BudgetronDeclaration):
    """Learns from every example; stores weights, no examples."""

    name = "budgetron"

    def __init__(self, settings: Settings) -> None:
        given, d = settings.parameters, settings.n_features
        self.settings, self.store, self.outputs = settings, Store(settings), settings.n_outputs
        self.scaler = None if settings.sparse else Scaler(d)
        self.waves = Waves(d, given.waves, given.bandwidth) if given.waves and not settings.sparse else None
        self.parts: list[Part] = make_parts(settings)
        self.index = np.arange(len(self.parts))
        self.idle = np.zeros(len(self.parts), dtype=np.int64)
        beliefs = sum(part.count for part in self.parts)
        self.w = np.full(beliefs, 1 / beliefs)
        self.rows = TaskRows(self.parts, given.max_task_rows)
        self.factor = factor_of(settings.graph) if isinstance(settings.graph, Explicit) else None

    # ---- one example

    def related(self, task_id: int, cluster: int) -> list[tuple[float, Name]]:
        """Return coefficients and names of the tasks whose own weights this task uses."""
        if self.factor is not None:
            tasks, values = self.factor.row(task_id)
            return [(float(r), (int(j), False)) for j, r in zip(tasks, values, strict=True)]
        given = self.settings.parameters
        if given.clustered:
            share = given.cluster_share
            return [(share**0.5, (cluster, True)), ((1 - share) ** 0.5, (task_id, False))]
        return [(1.0, (task_id, False))]

    def see(self, x: Instance, task_id: int, cluster: int) -> tuple[Seen, dict[Name, Array]]:
        """Return the example as the parts see it, and the rows that it takes part in."""
        linear = waves = np.zeros(0)
        if self.scaler is not None:
            z = self.scaler.features(x.values)
            linear = np.append(z / np.sqrt(len(z)), 1.0)
            waves = waves if self.waves is None else self.waves.features(z)
        related = self.related(task_id, cluster)
        names = dict.fromkeys([name for _, name in related] + [(task_id, False)])
        rows = {name: self.rows.peek(name) for name in names}
        using = [(r, name[0], rows[name]) for r, name in related]
        return Seen(x, task_id, linear, waves, rows[task_id, False], using), rows

    def values(self, e: Seen) -> Array:
        """Return f of every belief, (beliefs, outputs)."""
        return np.concatenate([part.margins(e) for part in self.parts])

    def predict(self, x: Instance, key: int, cluster: int) -> Array:
        return mixture.margins(self.values(self.see(x, key, cluster)[0]), self.w)

    def learn(self, x: Instance, key: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        e, rows = self.see(x, key, cluster)
        f = self.values(e)
        margins = mixture.margins(f, self.w)
        outcome = Outcome(0) if mistaken(margins, code) is None else Outcome.MISTAKE
        self.n_mistakes += bool(outcome)
        if weight > 0:
            weight = min(weight, HEAVIEST)
            self.w = mixture.weights(f, self.w, code, weight)
            if self._learn_parts(e, f, code, weight):
                outcome |= Outcome.UPDATED
            self.rows.keep(rows)
            self._use_waves()
            self._drop_idle()
            if self.scaler is not None:
                self.scaler.learn(x.values)
        self.n_seen += 1
        return margins, outcome

    def _learn_parts(self, e: Seen, f: Array, code: int, weight: float) -> bool:
        changed, at = False, 0
        for part in self.parts:
            changed |= part.learn(e, f[at : at + part.count], code, weight)
            at += part.count
        return changed

    def _use_waves(self) -> None:
        """Let a filter use all of its waves, once it has a fifth of the weight.

        It is decided when 16, 32, 64 … examples have been learned: on a stream that a linear model describes, most
        waves of a filter are never used, and cost nothing.
        """
        seen = self.n_seen + 1
        if seen < FIRST_LOOK or seen & (seen - 1):
            return
        ends = np.cumsum([part.count for part in self.parts])
        for part, share in zip(self.parts, np.split(self.w, ends[:-1]), strict=True):
            if part.curved and share.sum() >= ENOUGH_WEIGHT:
                part.use_all_waves()

    def _drop_idle(self) -> None:
        ends = np.cumsum([part.count for part in self.parts])
        shares = np.array([share.sum() for share in np.split(self.w, ends[:-1])])
        self.idle = np.where(shares < mixture.NEGLIGIBLE, self.idle + 1, 0)
        longest = int(np.argmax(self.idle))
        if self.idle[longest] >= mixture.PATIENCE:
            self._drop(longest)

    def _drop(self, place: int) -> None:
        part = self.parts[place]
        at = sum(other.count for other in self.parts[:place])
        self.w = np.delete(self.w, range(at, at + part.count))
        self.w /= self.w.sum()
        self.rows.drop_part(part)
        del self.parts[place]
        self.index, self.idle = np.delete(self.index, place), np.delete(self.idle, place)

    # ---- answers

    def query(self, name: str, examples: Iterable[Located], arrays: Arrays) -> dict[str, Any]:
        if name == "beliefs":
            pairs = [(index, k) for index, part in zip(self.index, self.parts, strict=True) for k in range(part.count)]
            parts, beliefs = np.array(pairs, dtype=np.int64).T
            return {"part": parts, "belief": beliefs, "weight": self.w.copy()}
        if name == "variances":
            return {"variance": np.concatenate([self._variance(*located) for located in examples] or [np.zeros(0)])}
        if name == "linear_weights":
            return {"weights": np.concatenate([self._linear(*located) for located in examples] or [np.zeros(0)])}
        return super().query(name, examples, arrays)

    def _variance(self, x: Instance, key: int, cluster: int) -> Array:
        """Return the variance of the mixture: Σ_b w_b (V_b + f_b²) − (Σ_b w_b f_b)², one per output."""
        e, _ = self.see(x, key, cluster)
        f = self.values(e)
        v = np.concatenate([part.variances(e) for part in self.parts])
        return np.maximum(0.0, self.w @ (v[:, None] + f**2) - (self.w @ f) ** 2)

    def _linear(self, x: Instance, key: int, cluster: int) -> Array:
        """Return the weights of the linear features for a task, averaged over the beliefs."""
        e, _ = self.see(x, key, cluster)
        each = np.concatenate([part.linear_weights(e) for part in self.parts])
        return np.tensordot(self.w, each, 1).ravel()

    def forget(self, key: int) -> None:
        """Drop the task's row. Its cells in hashed arrays cannot be told apart from others, and stay."""
        self.rows.forget(key)

    def evict_one(self) -> bool:
        return False

    def coef(self) -> Array:
        return np.empty((self.outputs, 0))

    def of_task(self, key: int, cluster: int) -> Array:
        return self.coef()

    # ---- state

    def state(self) -> dict[str, Any]:
        state = self.store.state() | {"n_seen": self.n_seen, "n_mistakes": self.n_mistakes}
        state |= {"part_index": self.index.copy(), "part_idle": self.idle.copy(), "belief_weight": self.w.copy()}
        for source in self._sources():
            for name, value in source.state().items():
                state[name] = value.copy() if isinstance(value, np.ndarray) else value
        return state

    def _sources(self) -> list[Part | TaskRows | Scaler]:
        return [*self.parts, self.rows, *([] if self.scaler is None else [self.scaler])]

    def restore(self, state: dict[str, Any]) -> None:
        self.n_seen, self.n_mistakes = int(state["n_seen"]), int(state["n_mistakes"])
        left = set(np.asarray(state["part_index"]).tolist())
        for place in reversed(range(len(self.parts))):
            if place not in left:
                self._drop(place)
        self.w, self.idle = np.array(state["belief_weight"]), np.array(state["part_idle"])
        for source in self._sources():
            source.restore(state)

    @property
    def nbytes(self) -> int:
        waves = 0 if self.waves is None else self.waves.nbytes
        scaler = 0 if self.scaler is None else self.scaler.nbytes
        return waves + scaler + self.rows.nbytes + sum(part.nbytes for part in self.parts)
