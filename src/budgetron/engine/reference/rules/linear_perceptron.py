"""LinearPerceptron: the multitask Perceptron in primal form, with one weight vector per task, and its p-norm form.

    no norm:   on a mistake of task i:  w_j ← w_j + y (A⁻¹)_ji x  for every task j          f_i(x) = w_i·x
               The kernel Perceptron with the linear kernel has the same weights.
    p-norm:    on a mistake of task i:  v_j ← v_j + y (A⁻¹)_ji x  for every task j
               w = ∇½‖v‖_p²:  w_n = sign(v_n) |v_n|^{p−1} / ‖v‖_p^{p−2}, n over all tasks, outputs and columns
               f_i(x) = Σ_j (A⁻¹)_ij w_j·x          A⁻¹ is in the update and in the prediction

In a clique (`graphs.closed`; A⁻¹ has the diagonal a and, within a cluster, the entries o) the rule stores u_j = Σ y x
over the mistakes of each task j, and the sum s of the u_j of each cluster. Then v_j = (a − o) u_j + o s, so a mistake
changes one row and one sum. A task without a mistake has v_j = o s. If the graph has a fixed number of tasks, such a
task counts in the norm; otherwise a task counts from its first mistake on. On an explicit graph, v itself is stored for
all tasks.

    rows.vectors  u, or v on an explicit graph     sums[cluster]  s

The weights are computed relative to the largest |v_n|, because |v_n|^p could overflow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays, RuleParameters
from budgetron.engine.reference.examples.rows import Array, Instance
from budgetron.engine.reference.examples.store import Store
from budgetron.engine.reference.rule import Located, Rule, update_direction
from budgetron.engine.reference.task_vectors import TaskVectors, columns, explain_linear, vector_fields, verify_vectors
from budgetron.engine.saved_state import Field, Layout, length, optional, require
from budgetron.engine.settings import Settings
from budgetron.graphs import Clique, Explicit

LARGEST_P = 50.0  # for |v| up to 2^16 (in the unit of the core), a sum of 2^60 values |v|^p is still finite


class Parameters(RuleParameters, frozen=True):
    norm: Annotated[float, Meta(ge=2.0, le=LARGEST_P)] | None = None  # p


class LinearPerceptron(Rule):
    """Every mistake changes the weights of all related tasks."""

    name = "linear_perceptron"
    Parameters = Parameters
    needs_kernel = False

    # ---- the declaration

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        s, shape = length(arrays, "sum_cluster"), (settings.n_outputs, settings.n_features)
        sums = {"sum_cluster": Field("int64", (s,)), "sums": Field("float64", (s, *shape))}
        # The core tracks ‖v‖_p^p from step to step, and per cluster and column Σ_j φ(v_j) and Σ_j |v_j|^p, where φ(v)
        # is sign(v)|v|^{p−1}.
        core = optional({"norm": Field("float64", (3,)), "dual_sums": Field("float64", (s, 2, *shape))}, arrays)
        return super().layout(settings, arrays) | vector_fields(settings, arrays) | sums | core

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        verify_vectors(settings, arrays)
        clusters = arrays["sum_cluster"]
        require(len(np.unique(clusters)) == len(clusters), "state.sum_cluster", "without repetition")
        if isinstance(settings.graph, Explicit):
            has_all = np.array_equal(arrays["task"], np.arange(settings.graph.n_tasks))
            require(has_all, "state.task", "all tasks of the graph")
            require(len(clusters) == 0, "state.sum_cluster", "empty for this graph")
        else:
            required = set(arrays["task_cluster"].tolist()) if _has_sums(settings) else set()
            require(required <= set(clusters.tolist()), "state.sum_cluster", "with the cluster of every task")
        if "norm" in arrays:
            is_valid = bool(np.isfinite(arrays["norm"]).all() and arrays["norm"][1] > 0)
            require(is_valid, "state.norm", "finite, with a unit above 0")

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        tasks = settings.graph.n_tasks if isinstance(settings.graph, Explicit) else 1
        return 8 * (tasks or 1) * settings.n_outputs * settings.n_features

    # ---- learning

    def __init__(self, settings: Settings) -> None:
        self.settings, self.store = settings, Store(settings)
        self.p = settings.parameters.norm
        self.rows = TaskVectors(settings)
        self.sums: dict[int, Array] = {}
        graph = settings.graph
        if isinstance(graph, Explicit):
            for task in range(graph.n_tasks):
                self.rows.where[task] = task
            self.rows.task, self.rows.cluster = np.arange(graph.n_tasks), np.array(graph.component)
            self.rows.vectors = np.zeros((graph.n_tasks, *self.rows.shape))

    def predict(self, x: Instance, task_id: int, cluster: int) -> Array:
        w = self.weights_of(task_id, cluster)
        return np.asarray((w[:, columns(x)] * x.values).sum(axis=1))

    def weights_of(self, task_id: int, cluster: int) -> Array:
        """Return the weights that f_i multiplies with x, (n_outputs, d)."""
        graph, r = self.settings.graph, self.rows.where.get(task_id)
        own = np.zeros(self.rows.shape) if r is None else self.rows.vectors[r]
        if isinstance(graph, Explicit):
            if self.p is None:
                return own
            phi, size = self.dual(self.rows.vectors, self.p)
            return np.asarray(size * np.tensordot(graph.column(task_id), phi, axes=1))
        assert isinstance(graph, Clique)
        a, o = graph.diagonal, graph.off_diagonal
        s = self.sums.get(cluster, np.zeros(self.rows.shape))
        if self.p is None:
            return np.asarray((a - o) * own + o * s)
        v = np.concatenate([self.clique_vectors(), (o * s)[None]])
        missing = 0 if graph.n_tasks is None else max(graph.n_tasks - len(self.rows), 0)
        phi, size = self.dual(v, self.p, np.append(np.ones(len(self.rows)), missing))
        # If the number of tasks is open, a task without a row counts in its own prediction, but not in the norm.
        unseen = graph.n_tasks is None and r is None
        related = np.append(self.rows.cluster == cluster, missing + unseen)
        return np.asarray(size * ((a - o) * phi[-1 if r is None else r] + o * np.tensordot(related, phi, axes=1)))

    def clique_vectors(self) -> Array:
        """Return v_j for every row."""
        graph = self.settings.graph
        assert isinstance(graph, Clique)
        v = (graph.diagonal - graph.off_diagonal) * self.rows.vectors
        if _has_sums(self.settings):
            for r, cluster in enumerate(self.rows.cluster.tolist()):
                v[r] += graph.off_diagonal * self.sums[cluster]
        return v

    @staticmethod
    def dual(v: Array, p: float, counts: Array | None = None) -> tuple[Array, float]:
        """Return φ = sign(z)|z|^{p−1} with z = v/max|v|, and the factor with which w = factor · φ.

        `counts` says how many tasks each row of v stands for; by default one each.
        """
        largest = float(np.abs(v).max(initial=0.0))
        if largest == 0:
            return np.zeros_like(v), 0.0
        z = v / largest
        phi = np.sign(z) * np.abs(z) ** (p - 1)
        sums = (phi * z).sum(axis=(1, 2))
        total = float(sums.sum() if counts is None else sums @ counts)
        return phi, (largest * total ** (2 / p - 1)) if total > 0 else 0.0

    def learn(self, x: Instance, task_id: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        f = self.predict(x, task_id, cluster)
        y = update_direction(f, code)
        self.n_seen += 1
        if y is None:
            return f, Outcome(0)
        self.n_mistakes += 1
        if x.square == 0:
            return f, Outcome.MISTAKE
        step, used = np.outer(y, x.values), columns(x)
        graph, rows = self.settings.graph, self.rows
        if isinstance(graph, Explicit):
            rows.vectors[:, :, used] += np.multiply.outer(graph.column(task_id), step)
        else:
            r = rows.add(task_id, cluster)
            rows.vectors[r][:, used] += step
            if _has_sums(self.settings):
                self.sums.setdefault(cluster, np.zeros(rows.shape))[:, used] += step
        return f, Outcome.MISTAKE | Outcome.UPDATED

    def query(self, name: str, examples: Iterable[Located]) -> dict[str, Any]:
        return explain_linear(self, examples) if name == "explain" else super().query(name, examples)

    def forget(self, task_id: int) -> None:
        """Remove the task's vector; in a clique also subtract it from the sum.

        On an explicit graph, the updates that its mistakes made to other tasks remain.
        """
        r = self.rows.where.get(task_id)
        if r is None:
            return
        if isinstance(self.settings.graph, Explicit):
            self.rows.vectors[r] = 0.0
            return
        cluster = int(self.rows.cluster[r])
        if cluster in self.sums:
            self.sums[cluster] = self.sums[cluster] - self.rows.vectors[r]
        self.rows.remove(r)

    # ---- state

    def state(self) -> dict[str, Any]:
        sums = np.array(list(self.sums.values())).reshape(len(self.sums), *self.rows.shape)
        shared = {"sum_cluster": np.array(list(self.sums), dtype=np.int64), "sums": sums}
        return super().state() | self.rows.state() | shared

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.rows.restore(state)
        clusters = np.asarray(state["sum_cluster"]).tolist()
        self.sums = dict(zip(clusters, np.array(state["sums"], dtype=np.float64), strict=True))

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + sum(values.nbytes for values in self.sums.values())


def _has_sums(settings: Settings) -> bool:
    """Whether tasks of a cluster share a sum: in a clique whose tasks are related."""
    return isinstance(settings.graph, Clique) and settings.graph.off_diagonal != 0
