"""SharedProjectron: the Budget Projectron whose projection ignores tasks.

It is mtbprj-2 in Cavallanti and Cesa-Bianchi 2012.

    f_l(x) = Σ_j (β_l)_j K'(x_j, x)
    H = Gram matrix of S in K' alone,  k_t = values of K' of x_t with S,  α = H⁻¹k_t,  δ² = K'_tt − k_tᵀα
    on a mistake, δ ≤ η:   (β_l)_j ← (β_l)_j + α_j y_t (A⁻¹)_{l,i_t} for all l
    on a mistake, δ > η:   S ← S ∪ {t},  (β_l)_t = y_t (A⁻¹)_{l,i_t} for all l
        if |S| = B + 1, with P = H⁻¹ of the B + 1 instances:
            r = argmin over the old members of ‖(β_1)_j … (β_k)_j‖₂ / √P_jj,   γ_j = −P_jr / P_rr
            (β_l)_j ← (β_l)_j + γ_j (β_l)_r for every l and every j ≠ r, including t,   S ← S \\ {r}

(β_l)_j is the weight of x_j for task l, one of k tasks. `BudgetProjectron` implements the steps. Here, K' takes the
place of K, and this table of weights the place of β. The table is `SharedTable`, which stores C with β = A⁻¹C.
`reference.rule` explains the other symbols.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from budgetron.engine import memory
from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.examples.rows import Array, Integers
from budgetron.engine.reference.rule import Example
from budgetron.engine.reference.rules import budget_projectron
from budgetron.engine.reference.rules.budget_projectron import BudgetProjectron
from budgetron.engine.reference.shared_table import SharedTable, merge_tables, split_table
from budgetron.engine.saved_state import (
    Field,
    Layout,
    are_distinct_steps,
    counts_fields,
    gram_fields,
    length,
    optional,
    require,
    store_fields,
    triangle,
    verify_gram,
    verify_task_rows,
)
from budgetron.engine.settings import Settings
from budgetron.graphs import Clique, Explicit

# Limits of the core's log of evictions: the number of slots in it, and of rows that already include these evictions.
LOG_SLOTS, CURRENT_ROWS = 48, 128


class Parameters(budget_projectron.Parameters, frozen=True):
    max_task_rows: Annotated[int, Meta(ge=2, le=2**53)] | None = None


class SharedProjectron(BudgetProjectron):
    """All tasks share the stored examples; each task has its own weights over them."""

    name = "shared_projectron"
    Parameters = Parameters
    weights: SharedTable

    # ---- the declaration

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        n, outputs = length(arrays, "key"), settings.n_outputs
        r, s = length(arrays, "table_key"), length(arrays, "sum_cluster")
        rows, sums = Field("int64", (r,)), Field("int64", (s,))
        tables = {"table_key": rows, "table_cluster": rows, "table_stamp": rows, "sum_cluster": sums, "sum_stamp": sums,
                  "table": Field("float64", (r, outputs, n)), "sum": Field("float64", (s, outputs, n))}  # fmt: skip
        # The core also saves the position of each row in its table, and the norms of the weights in one of two forms:
        # `table_squares` or `table_gram`. With many rows, it saves a log of evictions that only the rows marked as
        # `current` include. (Earlier versions applied all evictions before saving, and saved only their number:
        # `table_evictions`.)
        fields = tables | optional({"table_place": rows, "sum_place": sums}, arrays) | gram_fields(arrays)
        norms = {"table_squares": Field("float64", (n,)), "table_gram": Field("float64", (triangle(n),)),
                 "table_evictions": Field("int64")}  # fmt: skip
        fields |= {name: field for name, field in norms.items() if name in arrays}
        if "table_log_slot" in arrays:
            m = length(arrays, "table_log_slot")
            fields |= {"table_log_slot": Field("int64", (m,)), "table_log": Field("float64", (m, n)),
                       "table_current": rows, "sum_current": sums}  # fmt: skip
        return counts_fields() | store_fields(settings, arrays) | fields

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        sums, graph, seen = arrays["sum_cluster"], settings.graph, int(arrays["n_seen"][0])
        verify_task_rows(settings, len(arrays["table_key"]) + len(sums), arrays, arrays["table_cluster"])
        has_sums = isinstance(graph, Clique) and graph.off_diagonal != 0
        require(len(sums) == 0 or has_sums, "state.sum", "empty for a graph without closed-form clusters")
        require(len(np.unique(sums)) == len(sums), "state.sum_cluster", "clusters, without duplicates")
        distinct = "distinct integers from 0 to n_seen − 1"
        require(are_distinct_steps(arrays["sum_stamp"], seen), "state.sum_stamp", distinct)
        if isinstance(graph, Clique) and graph.mapped is None and graph.coupling != 0:
            require((sums == 0).all(), "state.sum_cluster", "0, the only cluster")
        if "table_place" in arrays:
            positions = np.concatenate([arrays["table_place"], arrays["sum_place"]])
            in_order = all((np.diff(arrays[name]) > 0).all() for name in ("table_place", "sum_place"))
            each_once = np.array_equal(np.sort(positions), np.arange(len(positions)))
            require(each_once and in_order, "state.table_place", "the positions of all rows, each once, in order")
        if "table_evictions" in arrays:
            count = int(arrays["table_evictions"][0])
            require(0 <= count < LOG_SLOTS, "state.table_evictions", f"a count below {LOG_SLOTS}", str(count))
        if "table_log_slot" in arrays:
            slots, n = arrays["table_log_slot"], len(arrays["key"])
            require(isinstance(graph, Clique), "state.table_log_slot", "absent for an explicit graph")
            require(len(slots) < LOG_SLOTS, "state.table_log_slot", f"of fewer than {LOG_SLOTS} slots", str(len(slots)))
            valid = len(np.unique(slots)) == len(slots) and ((slots >= 0) & (slots < n)).all()
            require(valid, "state.table_log_slot", "slots of stored examples, each once")
            current = np.concatenate([arrays["table_current"], arrays["sum_current"]])
            flags = np.isin(current, [0, 1]).all() and current.sum() <= CURRENT_ROWS
            require(flags, "state.table_current", f"0 or 1, and 1 for at most {CURRENT_ROWS} rows")
        verify_gram(arrays)

    @classmethod
    def sized_for(cls, settings: Settings, arrays: Arrays) -> Settings:
        rows = len(arrays["table_key"]) + len(arrays["sum_cluster"])
        if "table_gram" in arrays:  # the matrix stays allocated, even if only few rows remain
            rows = max(rows, 4 * (settings.capacity or 0))
        return settings.with_parameters(max_task_rows=rows)

    @classmethod
    def to_core(cls, state: dict[str, Any]) -> dict[str, Any]:
        return merge_tables(state)

    @classmethod
    def from_core(cls, state: dict[str, Any]) -> dict[str, Any]:
        return split_table(state)

    @classmethod
    def is_bounded(cls, settings: Settings) -> bool:
        return settings.capacity is not None and settings.parameters.max_task_rows is not None

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        assert settings.capacity is not None and settings.parameters.max_task_rows is not None
        # The squared norms of the table's columns, and on an explicit graph a vector of working memory.
        squares = settings.capacity * 8 * (2 if isinstance(settings.graph, Explicit) else 1)
        rows: int = settings.parameters.max_task_rows * cls._row_bytes(settings)
        return memory.gram_bytes(settings.capacity, compiled) + squares + rows + cls._batch_bytes(settings)

    @classmethod
    def with_capacity(cls, settings: Settings, capacity: int, limit: int, nonzeros: float) -> Settings:
        settings = super().with_capacity(settings, capacity, limit, nonzeros)
        # Rows get half of the bytes, and the stored examples the other half.
        row, share = cls._row_bytes(settings), limit // 2
        settings = memory.with_task_rows(settings, row, share, limit)
        batch, rows = cls._batch_bytes(settings), settings.parameters.max_task_rows
        if batch and rows * row + batch > share:  # fewer rows, so that the matrix and the log of evictions fit too
            rows = max((share - batch) // row, 4 * capacity - 1)
        return settings.with_parameters(max_task_rows=rows)

    @classmethod
    def _batch_bytes(cls, settings: Settings) -> int:
        """Return the bytes of the core's Gram matrix of the weights and its log of evictions.

        The core has the matrix if there may be at least four times as many rows as slots and, on an explicit graph, at
        least as many tasks as slots. It has the log only in a clique.
        """
        capacity, tasks = settings.capacity, settings.graph.n_tasks
        assert capacity is not None and settings.parameters.max_task_rows is not None
        if settings.parameters.max_task_rows < 4 * capacity:
            return 0
        # The rows of the matrix and its three vectors are padded to whole registers of eight numbers.
        full, rest = divmod(capacity, 8)
        matrix = 64 * (4 * full + rest) * (full + 1) + 192 * -(-capacity // 8)
        if isinstance(settings.graph, Explicit):
            assert tasks is not None
            return matrix if tasks >= capacity else 0
        return matrix + 8 * LOG_SLOTS * capacity + 64 + 4 * (LOG_SLOTS + CURRENT_ROWS)

    @classmethod
    def _row_bytes(cls, settings: Settings) -> int:
        assert settings.capacity is not None
        return memory.task_row_bytes(settings.capacity * settings.n_outputs)

    # ---- learning

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, SharedTable(settings))

    def similarity(self, task_id: int, cluster: int, task_ids: Integers, clusters: Integers) -> Array:
        """Return ones, because the kernel of the projection is K' itself."""
        return np.ones(len(task_ids))

    def correct(self, t: Example, y: Array) -> Outcome:
        self.weights.ensure_row(t.task_id, t.cluster, t.arrival)
        return super().correct(t, y)

    def forget(self, task_id: int) -> None:
        """Remove the task's row, and project its examples on the others, so that other predictions change little."""
        self.weights.forget(task_id)
        while (slots := np.flatnonzero(self.store.task_id == task_id)).size:
            self.project_out(int(slots[0]), self.gram.inverse())
