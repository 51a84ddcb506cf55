"""Budgetron: how one example (x, i, y, ω) is scored and learned.

    1  Compute the features of x, and find the rows of weights of the tasks related to i.
    2  Compute the margins f_b of every belief b that is awake (`mixture`), their mixture, and their combination. The
       model's margin is the calibrated average of these two. The example is a mistake if its true class does not have
       the largest margin.
    3  Update the weights of the beliefs, the combination and the calibration from these margins.
    4  Update the parts of these beliefs. Drop a part that has had negligible weight for long, and let parts of large
       weight grow. Update the scaler's estimates of the columns.

i is the task, y the label and ω the weight of the example. In code, `w` are the weights of the beliefs, `parts` the
parts that have not been dropped, `index` their positions in the list of `make_parts`, and `idle` counts for how many
examples in a row each of them has had negligible weight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from budgetron.engine.records import Outcome
from budgetron.engine.reference.examples.rows import Array, Instance, Integers
from budgetron.engine.reference.examples.store import Store
from budgetron.engine.reference.rule import Located, update_direction
from budgetron.engine.reference.rules.budgetron import mixture
from budgetron.engine.reference.rules.budgetron.calibration import Calibration
from budgetron.engine.reference.rules.budgetron.combination import Combination
from budgetron.engine.reference.rules.budgetron.declaration import make_parts
from budgetron.engine.reference.rules.budgetron.features.fourier_features import FourierFeatures
from budgetron.engine.reference.rules.budgetron.features.scaler import Scaler
from budgetron.engine.reference.rules.budgetron.growth import GrowingParts
from budgetron.engine.reference.rules.budgetron.parts.part import Part, Seen
from budgetron.engine.reference.rules.budgetron.parts.task_rows import RowKey, TaskRows
from budgetron.engine.reference.rules.budgetron.sizes.shapes import dense_columns, filter_lapse, has_columns
from budgetron.engine.reference.rules.budgetron.terms import averaged_terms
from budgetron.engine.settings import Settings
from budgetron.graphs import Explicit, factor_of

MAX_WEIGHT = 1e9
"""Example weights are limited to this value, so that products stay finite. The limit changes little, because the
margin after a step grows only with the logarithm of a large weight (`steps`)."""


class Budgetron(GrowingParts):
    """Learns from every example, and stores weights instead of examples."""

    name = "budgetron"

    def __init__(self, settings: Settings) -> None:
        parameters, d = settings.parameters, dense_columns(settings)
        self.settings, self.store, self.outputs = settings, Store(settings), settings.n_outputs
        self.scaler, self.fourier = None, None
        if has_columns(settings):
            self.scaler, self.fourier = Scaler(d), FourierFeatures(d, parameters.bandwidth, parameters.bandwidths)
        self.calibration = Calibration(self.outputs)
        self.spare = 0  # bytes of dropped parts that nothing else uses yet
        self.parts: list[Part] = make_parts(settings)
        self.index = np.arange(len(self.parts))
        self.idle = np.zeros(len(self.parts), dtype=np.int64)
        beliefs = sum(part.count for part in self.parts)
        self.w, self.combination = np.full(beliefs, 1 / beliefs), Combination(beliefs)
        self.rows = TaskRows(self.parts, parameters.max_task_rows, parameters.rows_may_grow)
        self._fit_frequencies()
        self.factor = factor_of(settings.graph) if isinstance(settings.graph, Explicit) else None

    # ---- one example

    def related(self, task_id: int, cluster: int) -> list[tuple[float, RowKey]]:
        """Return the coefficient and the row key of each task or cluster whose own weights this task uses."""
        if self.factor is not None:
            tasks, values = self.factor.row(task_id)
            return [(float(r), (int(j), False)) for j, r in zip(tasks, values, strict=True)]
        parameters = self.settings.parameters
        # A task that is in no cluster has its own id as the number of its cluster. It has own weights only, because in
        # hashed arrays the weights of this cluster would be in the same place.
        if parameters.clustered and cluster != task_id:
            share = parameters.cluster_share
            # The squares of the coefficients add up to 1, so that a task has the same prior variance as without
            # clusters.
            return [(share**0.5, (cluster, True)), ((1 - share) ** 0.5, (task_id, False))]
        return [(1.0, (task_id, False))]

    def see(self, x: Instance, task_id: int, cluster: int) -> tuple[Seen, dict[RowKey, Array]]:
        """Return the example as the parts see it, and the rows of its task and the related tasks."""
        row, linear, banks = self._row(x), np.zeros(0), list[Array]()
        if self.scaler is not None:
            z = self.scaler.features(row)
            linear = np.append(z / np.sqrt(len(z)), 1.0)
            banks = [] if self.fourier is None else self.fourier.banks(z)
        related = self.related(task_id, cluster)
        keys = dict.fromkeys([key for _, key in related] + [(task_id, False)])
        rows = {key: self.rows.peek(key) for key in keys}
        related_rows = [(r, key[0], rows[key]) for r, key in related]
        return Seen(x, task_id, row, linear, banks, rows[task_id, False], related_rows), rows

    def _row(self, x: Instance) -> Array:
        """Return the columns that parts for dense rows see: of a sparse row only the frequent columns."""
        if x.indices is None:
            return x.values
        columns = self.settings.parameters.frequent_columns
        values = dict(zip(x.indices.tolist(), x.values.tolist(), strict=True))
        return np.array([values.get(column, 0.0) for column in columns])

    def awake(self) -> tuple[list[Part], Integers]:
        """Return the parts that see the next example, and the numbers of their beliefs."""
        limits = np.array([self.sleeps_after(k, part) for k, part in zip(self.index.tolist(), self.parts, strict=True)])
        awake = (self.idle < limits) | (self.n_seen % mixture.WAKE_EVERY == 0)
        counts = [part.count for part in self.parts]
        parts = [part for part, is_awake in zip(self.parts, awake, strict=True) if is_awake]
        return parts, np.flatnonzero(np.repeat(awake, counts))

    def values(self, e: Seen, parts: list[Part]) -> Array:
        """Return the margins f of every belief of these parts, as an array (beliefs, outputs).

        The offset of the example is added to f, so that beliefs learn only what the offset does not explain.
        """
        f = np.concatenate([part.margins(e) for part in parts])
        return f if e.x.offset is None else f + e.x.offset

    def _coefficients(self) -> Array:
        """Return the coefficients of all beliefs in a prediction: 0 for beliefs that sleep, and a sum of 1."""
        _, beliefs = self.awake()
        coefficients = np.zeros_like(self.w)
        coefficients[beliefs] = self.combination.coefficients(self.w[beliefs] / self.w[beliefs].sum(), beliefs)
        return coefficients

    def _lapses(self, beliefs: Integers) -> Array:
        """Return the shares of labels that these beliefs assume to be random."""
        parts = np.repeat(self.index, [part.count for part in self.parts])[beliefs]
        return np.array([filter_lapse(self.settings.parameters, int(k)) for k in parts])

    def predict(self, x: Instance, task_id: int, cluster: int) -> Array:
        parts, beliefs = self.awake()
        f, lapses = self.values(self.see(x, task_id, cluster)[0], parts), self._lapses(beliefs)
        mixed = mixture.margins(f, self.w[beliefs], lapses)
        return self.calibration.margins(self.combination.margins(mixture.logs(f, lapses), beliefs, mixed))

    def learn(self, x: Instance, task_id: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        e, rows = self.see(x, task_id, cluster)
        parts, beliefs = self.awake()
        f = self.values(e, parts)
        lapses = self._lapses(beliefs)
        mixed, logs = mixture.margins(f, self.w[beliefs], lapses), mixture.logs(f, lapses)
        combined = self.combination.margins(logs, beliefs, mixed)
        margins = self.calibration.margins(combined)
        outcome = Outcome(0) if update_direction(margins, code) is None else Outcome.MISTAKE
        self.n_mistakes += bool(outcome)
        if weight > 0:
            weight = min(weight, MAX_WEIGHT)
            # Calibration, combination and mixture learn before the parts do, from margins that have not seen the label.
            self.calibration.learn(combined, code, weight)
            self.combination.learn(logs, beliefs, mixed, code, weight)
            self.w[beliefs] = mixture.weights(f, self.w[beliefs], code, weight, lapses)
            if self._learn_parts(parts, e, f, code, weight):
                outcome |= Outcome.UPDATED
            # Only learning creates rows: a prediction must not evict the row of another task.
            self.rows.keep(rows)
            self.review_sizes()
            if self.scaler is not None:
                # The scaler learns last: x must be scaled in the same way for learning as for a prediction.
                self.scaler.learn(e.row)
        self.n_seen += 1
        return margins, outcome

    def _learn_parts(self, parts: list[Part], e: Seen, f: Array, code: int, weight: float) -> bool:
        changed, first = False, 0
        for part in parts:
            changed |= part.learn(e, f[first : first + part.count], code, weight)
            first += part.count
        return changed

    # ---- answers

    def query(self, name: str, examples: Iterable[Located]) -> dict[str, Any]:
        if name == "beliefs":
            pairs = [(index, k) for index, part in zip(self.index, self.parts, strict=True) for k in range(part.count)]
            parts, beliefs = np.array(pairs, dtype=np.int64).T
            return {"part": parts, "belief": beliefs, "weight": self.w.copy()}
        if name == "variances":
            return {"variance": np.concatenate([self._variance(*located) for located in examples] or [np.zeros(0)])}
        if name == "linear_weights":
            return {"weights": np.concatenate([self._linear(*located) for located in examples] or [np.zeros(0)])}
        if name == "explain":
            return self._explain(examples)
        return super().query(name, examples)

    def _variance(self, x: Instance, task_id: int, cluster: int) -> Array:
        """Return the variance of the calibrated mixture, one per output: s² (Σ_b w_b (V_b + f_b²) − (Σ_b w_b f_b)²).

        s is the scale of the calibration; w_b, f_b and V_b are the weight, the margin and the variance of belief b. The
        lapse rates of beliefs (the shares of labels that they assume to be random) are included. The lapse rate of the
        calibration, which would make margins smaller, is not.
        """
        e, _ = self.see(x, task_id, cluster)
        parts, beliefs = self.awake()
        f, w = self.values(e, parts), self.w[beliefs] / self.w[beliefs].sum()
        factors = mixture.lapse_factors(f, self._lapses(beliefs))
        f, v = factors[:, None] * f, factors**2 * np.concatenate([part.variances(e) for part in parts])
        return np.asarray(self.calibration.scale**2 * np.maximum(0.0, w @ (v[:, None] + f**2) - (w @ f) ** 2))

    def _linear(self, x: Instance, task_id: int, cluster: int) -> Array:
        """Return the weights of the linear features for a task, averaged over the beliefs and calibrated.

        For a model of sparse rows the result is empty.
        """
        e, _ = self.see(x, task_id, cluster)
        # Near the decision boundary, a lapse rate ε shrinks all margins of a belief by the same factor, 1 − ε.
        w = self._coefficients() * (1 - self._lapses(np.arange(len(self.w))))
        e = replace(e, linear=np.ones_like(e.linear), only_linear=True)
        columns, _ = averaged_terms(e, self.parts, w, self.calibration, self._places(e.x))
        return np.zeros(0) if self.settings.sparse else np.asarray(columns.sum(axis=0).ravel())

    def _places(self, x: Instance) -> Integers | None:
        """Return, for each column of `Seen.row` and the constant, its position among the terms of a sparse row.

        The terms are those of the entries, followed by the constant. A frequent column that is not among the entries is
        0, and its term is added to the term of the constant. For dense rows, the result is None.
        """
        if x.indices is None:
            return None
        positions = {column: position for position, column in enumerate(x.indices.tolist())}
        constant = len(x.indices)
        frequent = self.settings.parameters.frequent_columns
        return np.array([*(positions.get(column, constant) for column in frequent), constant])

    def _explain(self, examples: Iterable[Located]) -> dict[str, Any]:
        """Return the margin and the terms of each example. The terms add up to about the margin, see `terms`."""
        collected: dict[str, list[Array]] = {"margins": [], "columns": [], "fourier": [], "offsets": []}
        for located in examples:
            e, _ = self.see(*located)
            parts, beliefs = self.awake()
            f, lapses = self.values(e, parts), self._lapses(beliefs)
            w = self._coefficients()
            w[beliefs] *= mixture.lapse_factors(f, lapses)
            columns, fourier = averaged_terms(e, self.parts, w, self.calibration, self._places(e.x))
            mixed = mixture.margins(f, self.w[beliefs], lapses)
            combined = self.combination.margins(mixture.logs(f, lapses), beliefs, mixed)
            # The offset is part of every belief's margin, so it shrinks by their mean lapse factor.
            offset = np.zeros(0) if e.x.offset is None else self.calibration.scale * w.sum() * e.x.offset
            collected["margins"].append(self.calibration.margins(combined))
            shrinkage = self.calibration.shrinkage(combined)
            for name, values in (("columns", columns), ("fourier", fourier), ("offsets", offset)):
                collected[name].append(shrinkage * values.ravel())
        of_parts = {"part": self.index.copy(), "part_frequencies": np.array([part.frequencies for part in self.parts])}
        return of_parts | {name: np.concatenate(values or [np.zeros(0)]) for name, values in collected.items()}

    def forget(self, task_id: int) -> None:
        """Remove the task's row, and clear its own weights in short rows and hashed arrays.

        Its own weights in a `HashedTable` remain.
        """
        self.rows.forget(task_id)
        for part in self.parts:
            part.forget(task_id)

    # ---- state

    def state(self) -> dict[str, Any]:
        state = super().state()
        state |= {"part_index": self.index.copy(), "part_idle": self.idle.copy(), "belief_weight": self.w.copy()}
        state["spare_bytes"] = self.spare
        for source in self._sources():
            for name, value in source.state().items():
                state[name] = value.copy() if isinstance(value, np.ndarray) else value
        return state

    def _sources(self) -> list[Part | TaskRows | Scaler | Calibration | Combination]:
        scaler = [] if self.scaler is None else [self.scaler]
        return [*self.parts, self.rows, self.combination, self.calibration, *scaler]

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        remaining = set(np.asarray(state["part_index"]).tolist())
        for k in reversed(range(len(self.parts))):
            if k not in remaining:
                self._drop(k)
        self.w, self.idle = np.array(state["belief_weight"]), np.array(state["part_idle"])
        self.spare = int(state["spare_bytes"])
        for source in self._sources():
            source.restore(state)
        self._fit_frequencies()

    @property
    def nbytes(self) -> int:
        frequencies = 0 if self.fourier is None else self.fourier.nbytes
        scaler = 0 if self.scaler is None else self.scaler.nbytes
        return frequencies + scaler + self.rows.nbytes + sum(part.nbytes for part in self.parts)
