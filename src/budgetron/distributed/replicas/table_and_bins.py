"""The hashed table and the binned columns of a Budgetron, as `KeyedWeights` that replicas exchange.

    table    Cells of features, and cells of pairs of features. Only a cell of a feature has a typical size (a mean of
             |x_j|, above 0). Only a cell of a pair has sums of squared gradients for the first belief (the first linear
             model of the table) and for no other. The key is the bucket and the tag. All other cells hold own weights
             of tasks, and stay in their replica.
    bins     Masses (sums per class) and weights of bins, and weights of pairs of bins; not the own weights of tasks.
             The key is the position in the array. Only replicas with the same edges of bins exchange them.

After an exchange, all replicas have the same cells of features and pairs, as far as their buckets have room. At most
eight cells per bucket are exchanged, those with the largest counts. In the bucket of a replica, the eight cells with
the largest counts remain, of the exchanged cells and the cells of its own tasks together.

`new_replica` gives new replicas the same plan and, if the first block has enough rows, the same edges of bins. On its
own, each replica would determine both from its first rows.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetron.distributed.replicas.keyed_weights import KeyedWeights
from budgetron.engine.first_rows import Block, FirstRows
from budgetron.engine.records import SparseRow
from budgetron.engine.reference.rules.budgetron.parts.bins import COARSE, n_pairs
from budgetron.engine.reference.rules.budgetron.parts.table import MAX_COUNT, TAGS, WAYS
from budgetron.engine.reference.rules.budgetron.sizes import shapes
from budgetron.engine.registry import rule_class
from budgetron.engine.settings import Settings

State = dict[str, Any]
TABLE, TABLE_VECTORS, BINS, BIN_PAIRS, BIN_VECTORS = "table", "table vectors", "bins", "bin pairs", "bin vectors"
# Arrays of a state with a few numbers per class, output or belief. The first of each tuple is the total mass per class.
OF_TABLE = ("table_total", "table_bias", "table_bias_squares", "table_bayes", "table_bayes_squares",
            "table_mean_squares")  # fmt: skip
OF_BINS = ("bins_total", "bins_bias", "bins_bias_squares", "bins_bayes", "bins_mean_squares")


# ---- the start of a replica


def common_settings(settings: Settings, rows: Any, compiled: bool) -> Settings:
    """The settings of all replicas. For sparse rows they are planned from the first block, without storing its rows."""
    rule = rule_class(settings.rule)
    if not rule.keeps_first_rows(settings):
        return settings
    n, zeros = rows.shape[0], np.zeros(rows.shape[0], dtype=np.int64)
    csr = SparseRow(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data)
    block = Block(csr, np.zeros(n, np.int32), zeros, zeros, None, None)
    first_rows = FirstRows.none(settings)
    first_rows = first_rows.plus(block.part(0, first_rows.room(block)))
    planned: Settings = rule.planned_from(settings, first_rows, compiled)
    return planned


def new_replica(engine: Any, rows: Any) -> Any:
    """An engine like a new one, with the settings of all replicas, and edges of bins from the rows of the first block.

    If there are fewer rows than edges, each replica finds its own edges, and the bins are not exchanged.
    """
    settings = common_settings(engine.settings, rows, engine._is_compiled())
    new, edges = type(engine)(settings), settings.parameters.bins
    if not edges or rows.shape[0] < edges:
        return new
    columns = rows[:edges]
    if sparse.issparse(columns):
        columns = columns[:, settings.parameters.frequent_columns].toarray()
    state = dict(new.state())
    state["bins_edges"], state["bins_rows"] = np.sort(np.asarray(columns, dtype=np.float64).T, axis=1), edges
    return type(engine).restore(settings, state)


# ---- from a state, and back


def extract(settings: Settings, state: State) -> dict[str, KeyedWeights]:
    """The shared weights of the table and of the bins, as far as the replica has them."""
    parts: dict[str, KeyedWeights] = {}
    if settings.sparse:
        parts |= {TABLE: _features(settings, state)[0], TABLE_VECTORS: _vectors(state, OF_TABLE)}
    if "bins_slots" in state and int(np.ravel(state["bins_rows"])[0]) == settings.parameters.bins:
        classes, outputs = max(2, settings.n_outputs), settings.n_outputs
        slots = np.asarray(state["bins_slots"]).reshape(-1, classes + 2 * outputs)
        pairs = np.asarray(state["bins_pairs"]).reshape(-1, 2 * outputs)
        edges = zlib.crc32(np.asarray(state["bins_edges"], dtype=np.float64).tobytes())
        of_bins = {
            BINS: _all_rows(slots[:, :classes], slots[:, classes:], outputs),
            BIN_PAIRS: _all_rows(pairs[:, :0], pairs, outputs),
            BIN_VECTORS: _vectors(state, OF_BINS),
        }
        # Replicas with other edges have other names here, so nothing is exchanged with them.
        parts |= {f"{name} {edges}": part for name, part in of_bins.items()}
    return parts


def insert(settings: Settings, state: State, parts: dict[str, KeyedWeights]) -> None:
    """Replace the shared weights of a state by the shared weights after an exchange."""
    for name, part in parts.items():
        if name == TABLE:
            _insert_features(settings, state, part)
        elif name == TABLE_VECTORS:
            _insert_vectors(state, OF_TABLE, part)
        elif name.startswith(BIN_VECTORS):
            _insert_vectors(state, OF_BINS, part)
        else:
            array = "bins_pairs" if name.startswith(BIN_PAIRS) else "bins_slots"
            numbers = np.array(state[array]).reshape(-1, part.sums.shape[1] + part.weights.shape[1])
            numbers[part.keys] = np.hstack([part.sums, part.weights])
            state[array] = numbers.reshape(np.shape(state[array]))


def most_per_bucket(part: KeyedWeights) -> KeyedWeights:
    """The cells of a table that are kept after an exchange: in each bucket the eight with the largest counts."""
    bucket = part.keys // TAGS
    order = np.lexsort((-part.amounts, -part.counts.astype(np.int64), bucket))
    return part.rows(np.sort(order[_rank(bucket[order]) < WAYS]))


def baseline_bytes(settings: Settings) -> int:
    """An upper bound of the bytes of a baseline."""
    parameters, outputs = settings.parameters, settings.n_outputs
    classes = max(2, outputs)
    total = 0
    if settings.sparse:
        beliefs = len(parameters.table_rates)
        # A key and a count take nine bytes here; a tag and a count take two in the table.
        total += parameters.cells * (9 - 2 + shapes.cell_bytes(settings))
        total += 9 + 8 * (classes + 5 * (beliefs + 1) * outputs)
    if parameters.bins:
        columns = shapes.dense_columns(settings)
        slots = columns * (parameters.bins + 1 + COARSE)
        pairs = n_pairs(columns) * COARSE**2 * parameters.bin_pairs
        total += slots * (9 + 4 * (classes + 2 * outputs)) + pairs * (9 + 8 * outputs)
        total += 9 + 8 * (classes + 2 + 5 * outputs)
    return int(total)


def _all_rows(sums: NDArray[Any], weights: NDArray[Any], outputs: int) -> KeyedWeights:
    """The rows of an array about which something has been learned. The key is the position."""
    n = len(weights)
    part = KeyedWeights(np.arange(n), np.zeros(n, np.int8), sums, weights, outputs)
    return part.rows(part.amounts > 0)


def _vectors(state: State, names: tuple[str, ...]) -> KeyedWeights:
    """Small arrays, as the numbers of one key. Their amount is the total mass of all classes."""
    total, *others = (np.ravel(np.asarray(state[name], dtype=np.float64)) for name in names)
    return KeyedWeights(np.zeros(1, np.int64), np.zeros(1, np.int8), total[None], np.concatenate(others)[None], 0)


def _insert_vectors(state: State, names: tuple[str, ...], part: KeyedWeights) -> None:
    numbers, first = np.concatenate([part.sums[0], part.weights[0]]), 0
    for name in names:
        shape = np.shape(state[name])
        last = first + int(np.prod(shape, dtype=np.int64))
        state[name], first = numbers[first:last].reshape(shape), last


def _features(settings: Settings, state: State) -> tuple[KeyedWeights, NDArray[np.int64]]:
    """The cells of features and of pairs, and the positions of all other cells in use."""
    parameters, classes = settings.parameters, max(2, settings.n_outputs)
    tags = np.asarray(state["table_tags"], dtype=np.int64)
    cells = np.asarray(state["table_cells"], dtype=np.float32).reshape(len(tags), -1)
    tag, count = np.divmod(tags, MAX_COUNT + 1)
    numbers = np.delete(cells, np.s_[1 : 1 + classes], axis=1)  # typical size, weights, sums of squared gradients
    squares = 1 + len(parameters.table_rates) * settings.n_outputs
    is_shared = cells[:, 0] > 0
    if parameters.pairs:
        first, others = np.split(numbers[:, squares:], [settings.n_outputs], axis=1)
        is_shared |= (first > 0).any(axis=1) & (others == 0).all(axis=1)
    keys = np.arange(len(tags)) // WAYS * TAGS + tag
    position = np.flatnonzero(is_shared & (tag > 0))
    position = position[np.argsort(keys[position])]
    part = KeyedWeights(keys[position], count[position].astype(np.int8), cells[position, 1 : 1 + classes],
                        numbers[position], squares)  # fmt: skip
    return part, np.flatnonzero(~is_shared & (tag > 0))


def _insert_features(settings: Settings, state: State, part: KeyedWeights) -> None:
    """Write cells of features and pairs into a table, beside the cells of tasks that it has."""
    before, others = _features(settings, state)
    cells = np.asarray(state["table_cells"], dtype=np.float32).reshape(len(state["table_tags"]), -1)
    tags = np.asarray(state["table_tags"], dtype=np.int64)[others]
    own_keys = others // WAYS * TAGS + tags // (MAX_COUNT + 1)
    # If a feature and a cell of a task have the same key, the task's cell stays: only one of the two could be found.
    part = part.rows(~np.isin(part.keys, own_keys))
    classes = part.sums.shape[1]
    keys, counts = np.concatenate([own_keys, part.keys]), np.concatenate([tags % (MAX_COUNT + 1), part.counts])
    numbers = np.concatenate([cells[others], np.insert(part.weights, [1] * classes, part.sums, axis=1)])
    # Among equal counts, cells that are already in the table stay. So a part that is received again changes nothing.
    is_new = np.concatenate([np.zeros(len(others), bool), ~np.isin(part.keys, before.keys)])
    bucket = keys // TAGS
    order = np.lexsort((keys, is_new, -counts, bucket))
    order = order[_rank(bucket[order]) < WAYS]
    order = order[np.argsort(keys[order])]
    place = bucket[order] * WAYS + _rank(bucket[order])
    new_cells, new_tags = np.zeros_like(cells), np.zeros(len(cells), dtype=np.int64)
    new_cells[place], new_tags[place] = numbers[order], keys[order] % TAGS * (MAX_COUNT + 1) + counts[order]
    state["table_cells"], state["table_tags"] = new_cells.reshape(np.shape(state["table_cells"])), new_tags


def _rank(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """The position of each element within its group. The groups are ascending."""
    return np.arange(len(groups)) - np.searchsorted(groups, groups)
