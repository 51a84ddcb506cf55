"""The weights of `SharedProjectron`: one row β_i of weights per task, stored as C with β = A⁻¹C.

An update of task i then changes one row, C_i, whatever the number of tasks, and only tasks with a mistake have a row.
If the graph is a clique (`graphs.closed`; A⁻¹ has the diagonal d and, within a cluster, the entries o), each cluster
has one more row, the sum s = Σ_l C_l of its tasks, which an update changes too:

    clique:    β_i = (d − o) C_i + o s     ‖β_·j‖² = Σ_clusters (d − o)² Σ_l C_lj² + (2(d − o)o + n o²) s_j²
    explicit:  β_i = Σ_l (A⁻¹)_il C_l      ‖β_·j‖² = Σ_lm C_lj (A⁻²)_lm C_mj, a norm over all tasks

n is the number of tasks if the graph has a fixed number, otherwise the number of the cluster's task rows. With several
outputs, norms are over all of them. Task rows and sums together are at most `max_task_rows`; beyond that, the least
recently updated row is evicted. The contribution of an evicted task row to s stays, and its task predicts from s. (If a
task row and a sum were last updated in the same step, the task row is evicted first, so that a sum is evicted after its
tasks.)

    rows[task_id].values  C_i      sums[cluster].values  s      both are arrays (n_outputs, number of slots)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from budgetron.engine.reference.examples.rows import Array, flushed, without
from budgetron.engine.reference.examples.store import Store
from budgetron.engine.reference.weights import Weights
from budgetron.engine.settings import Settings
from budgetron.graphs import Clique, Explicit


@dataclass
class Row:
    """Weights over the slots, their cluster, and the step of their last update."""

    values: Array
    cluster: int
    stamp: int


class SharedTable(Weights):
    """C, and the sums of its clusters."""

    def __init__(self, settings: Settings) -> None:
        assert isinstance(settings.graph, (Clique, Explicit))
        self.graph = settings.graph
        self.max_rows = settings.parameters.max_task_rows
        self.has_sums = isinstance(self.graph, Clique) and self.graph.off_diagonal != 0
        self.n = 0
        self.n_outputs = settings.n_outputs
        self.rows: dict[int, Row] = {}
        self.sums: dict[int, Row] = {}

    def ensure_row(self, task_id: int, cluster: int, stamp: int) -> None:
        """Add rows for the task and its cluster's sum if they are missing, and mark them as updated in this step."""
        self.rows.setdefault(task_id, self._blank(cluster, stamp)).stamp = stamp
        if self.has_sums:
            self.sums.setdefault(cluster, self._blank(cluster, stamp)).stamp = stamp
        while self.max_rows is not None and len(self.rows) + len(self.sums) > self.max_rows:
            older = [(row.stamp, kind, name) for kind, rows in enumerate((self.rows, self.sums))
                     for name, row in rows.items() if row.stamp < stamp]
            if not older:
                break  # the rows of the current example are never evicted
            _, kind, name = min(older)
            del (self.rows, self.sums)[kind][name]

    def forget(self, task_id: int) -> None:
        """Remove the task's row, and subtract it from its cluster's sum."""
        row = self.rows.pop(task_id, None)
        if row is not None and row.cluster in self.sums:
            total = self.sums[row.cluster]
            total.values = total.values - row.values

    def margins(self, k: Array, task_id: int, cluster: int, store: Store) -> Array:
        return self.of_task(task_id, cluster, store) @ k

    def of_task(self, task_id: int, cluster: int, store: Store) -> Array:
        """Return β_i."""
        if isinstance(self.graph, Explicit):
            task_ids = np.array(list(self.rows), dtype=np.int64)
            clusters = np.array([row.cluster for row in self.rows.values()], dtype=np.int64)
            A_i = self.graph.row(task_id, cluster, task_ids, clusters)
            return np.tensordot(A_i, self._stacked(self.rows), axes=1)
        d, o = self.graph.diagonal, self.graph.off_diagonal
        C_i = self.rows[task_id].values if task_id in self.rows else 0.0
        s = self.sums[cluster].values if cluster in self.sums else 0.0
        return (d - o) * C_i + o * s + np.zeros((self.n_outputs, self.n))

    def norms(self) -> Array:
        """Return ‖β_·j‖ for every slot j."""
        C = self._stacked(self.rows)
        if isinstance(self.graph, Explicit):
            task_ids = list(self.rows)
            A_2 = np.array([self.graph.square_column(task_id)[task_ids] for task_id in task_ids])
            squares = np.einsum("lcj,lm,mcj->j", C, A_2, C, optimize=True)
        else:
            d, o = self.graph.diagonal, self.graph.off_diagonal
            squares = (d - o) ** 2 * (C**2).sum(axis=(0, 1))
            for cluster, s in self.sums.items():
                n = self.graph.n_tasks or sum(row.cluster == cluster for row in self.rows.values())
                squares = squares + (2 * (d - o) * o + n * o**2) * (s.values**2).sum(axis=0)
        # The terms of a square may cancel. What remains is a rounding error, possibly negative; it counts as 0.
        rounding = 1e-14 * squares.max(initial=0.0)
        norms: Array = np.sqrt(np.where(squares > rounding, squares, 0.0))
        return norms

    def coef(self) -> Array:
        """Return Σ_l C_l over the task rows: y of each stored example, plus what projections have added since."""
        total: Array = self._stacked(self.rows).sum(axis=0)
        return total

    def append(self, task_id: int, cluster: int, y: Array) -> None:
        """Add a slot: y in C_i and in s, 0 in all other rows."""
        slot = np.zeros(self.n + 1)
        slot[self.n] = 1.0
        self.n += 1
        for row in self._all():
            row.values = np.column_stack([row.values, np.zeros(self.n_outputs)])
        self.add(task_id, cluster, y, slot)

    def remove(self, r: int) -> None:
        self.n -= 1
        for row in self._all():
            row.values = without(row.values, r)

    def add(self, task_id: int, cluster: int, y: Array, alpha: Array) -> None:
        """Add y α to C_i and to s, which is (β_l)_j += α_j y (A⁻¹)_li for all l."""
        for row in [self.rows[task_id]] + ([self.sums[cluster]] if self.has_sums else []):
            row.values = flushed(row.values + np.outer(y, alpha))

    def distribute(self, r: int, gamma: Array) -> None:
        """Add C_lr γ_j to C_lj for every l; since β is linear in C, this does the same to β."""
        for row in self._all():
            row.values = flushed(row.values + np.outer(row.values[:, r], gamma))

    def state(self) -> dict[str, Any]:
        rows, sums = list(self.rows.values()), list(self.sums.values())
        return {
            "table_key": np.array(list(self.rows), dtype=np.int64),
            "table_cluster": np.array([row.cluster for row in rows], dtype=np.int64),
            "table_stamp": np.array([row.stamp for row in rows], dtype=np.int64),
            "table": self._stacked(self.rows),
            "sum_cluster": np.array(list(self.sums), dtype=np.int64),
            "sum_stamp": np.array([row.stamp for row in sums], dtype=np.int64),
            "sum": self._stacked(self.sums),
        }

    def restore(self, state: dict[str, Any]) -> None:
        state = with_log_applied(state)
        self.n = len(state["key"])
        clusters = [int(cluster) for cluster in state["table_cluster"]]
        self.rows = _read(state["table_key"], state["table"], clusters, state["table_stamp"])
        clusters = [int(cluster) for cluster in state["sum_cluster"]]
        self.sums = _read(clusters, state["sum"], clusters, state["sum_stamp"])

    @property
    def nbytes(self) -> int:
        return sum(row.values.nbytes + 24 for row in self._all())  # 24 for task id, cluster and stamp

    def _all(self) -> list[Row]:
        return [*self.rows.values(), *self.sums.values()]

    def _blank(self, cluster: int, stamp: int) -> Row:
        return Row(np.zeros((self.n_outputs, self.n)), cluster, stamp)

    def _stacked(self, rows: dict[int, Row]) -> Array:
        """Return the values of all rows as one array (rows, n_outputs, n)."""
        return np.array([row.values for row in rows.values()]).reshape(len(rows), self.n_outputs, self.n)


def _read(names: Any, tables: Any, clusters: list[int], stamps: Any) -> dict[int, Row]:
    return {int(name): Row(np.array(values, dtype=np.float64), cluster, int(stamp))
            for name, values, cluster, stamp in zip(names, tables, clusters, stamps, strict=True)}


# ---- the core has one table for task rows and sums, and logs evictions before it applies them to all rows

_NUMPY_ONLY = frozenset({"sum", "sum_cluster", "sum_stamp", "table_place", "sum_place", "sum_current"})
_LOG = frozenset({"table_log", "table_log_slot", "table_current", "sum_current"})


def with_log_applied(state: dict[str, Any]) -> dict[str, Any]:
    """Apply the evictions that the core has logged; return a state with rows that are up to date, without a log.

    `table_log_slot` has the evicted slots, and `table_log` one row W_s for each such slot s. A row c of weights becomes
    c with 0 in these slots, plus Σ_s c_s W_s. Rows marked as current already include the evictions.
    """
    if "table_log" not in state:
        return dict(state)
    slots, shares = np.asarray(state["table_log_slot"]), np.asarray(state["table_log"])
    up_to_date = {}
    for name in ("table", "sum"):
        rows, behind = np.array(state[name], dtype=np.float64), np.asarray(state[f"{name}_current"]) == 0
        old = rows[behind]
        coefficients = old[..., slots]
        old[..., slots] = 0.0
        rows[behind] = old + coefficients @ shares
        up_to_date[name] = rows
    # The matrix of the norms includes all evictions, so it stays.
    return {name: values for name, values in state.items() if name not in _LOG} | up_to_date


def split_table(state: dict[str, Any]) -> dict[str, Any]:
    """Split the core's table into rows of tasks and sums of clusters, as in the NumPy engine's state."""
    common = state.pop("table_common").astype(bool)
    task_ids, clusters, stamps = (state.pop(name) for name in ("table_key", "table_cluster", "table_stamp"))
    table = state.pop("table")
    table = table.reshape(len(task_ids), table.size // max(len(task_ids), 1))
    rows = {
        "table": table[~common],
        "table_key": task_ids[~common],
        "table_cluster": clusters[~common],
        "table_stamp": stamps[~common],
        "table_place": np.flatnonzero(~common),
    }
    sums = {
        "sum": table[common],
        "sum_cluster": clusters[common],
        "sum_stamp": stamps[common],
        "sum_place": np.flatnonzero(common),
    }
    if "table_log" in state:
        current = state.pop("table_current")
        rows["table_current"], sums["sum_current"] = current[~common], current[common]
    return state | rows | sums


def merge_tables(state: dict[str, Any]) -> dict[str, Any]:
    """Merge rows of tasks and sums of clusters into the core's one table; the inverse of `split_table`.

    The core sums rows in the order of its table, and floating-point sums depend on that order. The core saves it as
    `table_place` and `sum_place`. States of the NumPy engine lack these; their rows are ordered by last update.
    """
    common = np.repeat([0, 1], [len(state["table_key"]), len(state["sum_cluster"])])
    stamps = np.concatenate([state["table_stamp"], state["sum_stamp"]])
    if "table_place" in state:
        order = np.argsort(np.concatenate([state["table_place"], state["sum_place"]]))
    else:
        order = np.lexsort((common, stamps))
    table = {
        "table": np.concatenate([state["table"], state["sum"]])[order],
        "table_key": np.concatenate([state["table_key"], state["sum_cluster"]])[order],
        "table_cluster": np.concatenate([state["table_cluster"], state["sum_cluster"]])[order],
        "table_stamp": stamps[order],
        "table_common": common[order],
    }
    if "table_log" in state:
        table["table_current"] = np.concatenate([state["table_current"], state["sum_current"]])[order]
    return {name: values for name, values in state.items() if name not in _NUMPY_ONLY} | table
