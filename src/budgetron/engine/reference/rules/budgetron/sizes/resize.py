"""Changes the state of a Budgetron in use to another budget: the same beliefs, with other sizes. Only the belief with
the own weights of the bins may be added or removed.

    frequencies         The first ones stay. This is exact for filters: leaving out features of a covariance
                        marginalises them. AdaGrad's weights are scaled, as when the number of frequencies grows.
    rows of tasks       As many rows as fit stay, from the end of the queue (`task_rows`), where the rows updated last
                        are. Other rows become short rows, as far as their slots take them (`ShortRows.write`). Parts
                        that the model had dropped before stay dropped; their bytes are used for more rows.
    short rows          Each moves to its new slot. Of several rows for one slot, the row with the largest count stays.
    cells of the table  A bucket covers a range of hashes. A new bucket takes cells from the old buckets that cover the
                        same hashes: the cells with the largest counts, and among equal counts with the largest mass.
    hashed own weights  They begin at their prior, because it is not known which task a cell belonged to. (The hashed
                        biases of a filter stay if their number does not change.)

`learners.lifecycle.resize` calls this through the rule's `resized`. The old state is not changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron.engine.reference.rules.budgetron import combination
from budgetron.engine.reference.rules.budgetron.features.fourier_features import first_frequencies
from budgetron.engine.reference.rules.budgetron.parts.adagrad import FIRST_SQUARES
from budgetron.engine.reference.rules.budgetron.parts.filters import FOURIER_PRIOR
from budgetron.engine.reference.rules.budgetron.parts.short_rows import FREE, ShortRows, slots_of
from budgetron.engine.reference.rules.budgetron.parts.table import MAX_COUNT, TAGS, WAYS
from budgetron.engine.reference.rules.budgetron.parts.task_rows import ROW_OVERHEAD
from budgetron.engine.reference.rules.budgetron.sizes import shapes
from budgetron.engine.saved_state import triangle
from budgetron.engine.settings import Settings

State = dict[str, Any]


def resized_state(state: State, old: Settings, new: Settings) -> State:
    """Return the state of a model with the sizes of `new`."""
    state = dict(state)
    if old.sparse:
        _resize_table(state, old.parameters.cells, new.parameters.cells, classes=max(2, new.n_outputs))
    if shapes.has_columns(new):
        index = np.asarray(state["part_index"]).tolist()
        for k, _ in enumerate(new.parameters.filters):
            if k in index:
                _resize_filter(state, k, new)
        for k in range(len(new.parameters.rates)):
            if f"adagrad{k}_weights" in state:
                _resize_adagrad(state, f"adagrad{k}", new)
        if "bins_own" in state:
            _resize_bins(state, new)
    limit, spare = new.parameters.max_task_rows, _bytes_of_dropped(state, new)
    if limit is not None:
        limit, spare = _with_more_rows(state, new, limit, spare)
        _move_to_short_rows(state, new, len(state["row_id"]) - limit)
        for name in ("row_id", "row_common", "row_count", "row_values"):
            state[name] = np.asarray(state[name])[-limit:]
    state["row_limit"] = limit or 0
    state["spare_bytes"] = spare
    return state


def _with_more_rows(state: State, new: Settings, limit: int, spare: int) -> tuple[int, int]:
    """Use the bytes of dropped parts for rows that would not fit otherwise. Return the new limit and spare bytes."""
    shapes_of_all = shapes.shapes_of(new)
    width = sum(shapes_of_all[k].row_width for k in np.asarray(state["part_index"]).tolist())
    if not width or not new.parameters.rows_may_grow:
        return limit, spare
    more = min(max(0, len(state["row_id"]) - limit), spare // (8 * width + ROW_OVERHEAD))
    return limit + more, spare - more * (8 * width + ROW_OVERHEAD)


def _bytes_of_dropped(state: State, new: Settings) -> int:
    """Return the bytes that the dropped parts would have at the new sizes. The remaining parts may use them."""
    remaining, parameters = set(np.asarray(state["part_index"]).tolist()), new.parameters
    rows = (parameters.max_task_rows or 0) * parameters.rows_may_grow
    dropped = [shape for k, shape in enumerate(shapes.shapes_of(new)) if k not in remaining]
    overhead = shapes.part_overhead(new.n_outputs)
    return int(sum(shape.nbytes + overhead + 8 * shape.row_width * rows for shape in dropped))


def _set_frequencies(state: State, name: str, planned: int) -> tuple[int, int]:
    """Store how many frequencies a part uses from now on, at most `planned`; return this number and the old number."""
    before = int(np.ravel(state[name])[0])
    used = min(before, planned)
    state[name] = np.array([used, planned])
    return used, before


def _resize_filter(state: State, k: int, new: Settings) -> None:
    """Change filter k to the frequencies and hashed cells of the new settings."""
    parameters, name = new.parameters, f"filter{k}"
    bank, planned = shapes.bank_of(parameters, k), shapes.filter_frequencies(new, k)
    used, before = _set_frequencies(state, f"{name}_frequencies", planned)
    first = min(planned, first_frequencies(bank or 0))
    columns = shapes.dense_columns(new) + 1
    n = columns + 2 * max(used, first)
    if used < first:  # the old model used fewer frequencies than a model with the new sizes begins with
        _widen_filter(state, name, columns + 2 * before, n)
        state[f"{name}_frequencies"] = np.array([first, planned])
    elif used < before:
        state[f"{name}_weights"] = np.asarray(state[f"{name}_weights"]).reshape(new.n_outputs, -1)[:, :n]
        state[f"{name}_covariance"] = np.asarray(state[f"{name}_covariance"])[: triangle(n)]
    cells = parameters.fourier_cells if bank is not None and parameters.own else 0
    if len(state[f"{name}_cells"]) != cells:
        prior, own, _ = parameters.filters[k]
        prior_cells = np.zeros((cells, new.n_outputs + 1), dtype=np.float32)
        prior_cells[:, -1] = prior * (own if parameters.shared else 1.0)
        state[f"{name}_cells"] = prior_cells
    _resize_short_rows(state, name, shapes.short_rows(new, k))


def _resize_short_rows(state: State, part: str, n_slots: int) -> None:
    """Move every short row to the new slot of its owner. Of several in one slot, the largest count stays."""
    values, owners, counts = (np.asarray(state[f"{part}_short{name}"]) for name in ("", "_owner", "_count"))
    if len(owners) == n_slots:
        return
    state[f"{part}_short"] = np.zeros((n_slots, values.shape[1] if values.ndim == 2 else 0), np.float32)
    state[f"{part}_short_owner"], state[f"{part}_short_count"] = np.full(n_slots, FREE), np.zeros(n_slots, np.int64)
    used = np.flatnonzero(owners != FREE)
    if n_slots and len(used):
        used = used[np.argsort(counts[used], kind="stable")]  # of several rows for one slot, NumPy keeps the last
        slots = slots_of(owners[used], n_slots)
        for name, old in (("", values), ("_owner", owners), ("_count", counts)):
            state[f"{part}_short{name}"][slots] = old[used]


def _move_to_short_rows(state: State, new: Settings, n_rows: int) -> None:
    """Keep the numbers of the first rows of the queue in short rows."""
    if n_rows <= 0:
        return
    ids, values = np.asarray(state["row_id"])[:n_rows].tolist(), np.asarray(state["row_values"])
    first, shapes_of_all = 0, shapes.shapes_of(new)
    for k in np.asarray(state["part_index"]).tolist():
        width = shapes_of_all[k].row_width
        n_slots = shapes.short_rows(new, k) if k < len(new.parameters.filters) else 0
        if n_slots:
            short_rows = ShortRows(f"filter{k}", n_slots, width)
            short_rows.restore(state)
            for task_id, row in zip(ids, values, strict=False):
                short_rows.write(task_id, row[first : first + width])
            state |= short_rows.state()
        first += width


def _widen_filter(state: State, name: str, before: int, after: int) -> None:
    """Extend a filter from `before` to `after` weights per output. The new weights have their prior."""
    weights = np.asarray(state[f"{name}_weights"])
    state[f"{name}_weights"] = np.pad(weights, ((0, 0), (0, after - before)))
    covariance = np.zeros(triangle(after))
    covariance[: triangle(before)] = state[f"{name}_covariance"]
    for j in range(before, after):
        covariance[triangle(j) + j] = FOURIER_PRIOR
    state[f"{name}_covariance"] = covariance


def _resize_adagrad(state: State, part: str, new: Settings) -> None:
    """Change an AdaGrad part to the frequencies and own cells of the new settings."""
    parameters, columns = new.parameters, shapes.dense_columns(new) + 1
    used, before = _set_frequencies(state, f"{part}_frequencies", parameters.frequencies)
    used = max(used, min(parameters.frequencies, first_frequencies(0)))
    state[f"{part}_frequencies"] = np.array([used, parameters.frequencies])
    if parameters.shared and used != before:
        width = columns + 2 * used
        weights, squares = (
            np.asarray(state[f"{part}_{name}"]).reshape(new.n_outputs, -1)[:, :width] for name in ("weights", "squares")
        )
        scale = np.full(weights.shape[1], np.sqrt(used / max(before, 1)))
        scale[:columns] = 1.0
        squares, more = squares / scale**2, width - weights.shape[1]
        # New weights begin as in `FourierAdaGrad.set_frequencies`.
        new_squares = np.zeros((new.n_outputs, more))
        if before:
            new_squares += FIRST_SQUARES * squares[:, columns:].mean(axis=1, keepdims=True)
        state[f"{part}_weights"] = np.pad(weights * scale, ((0, 0), (0, more))).astype(np.float32)
        state[f"{part}_squares"] = np.hstack([squares, new_squares]).astype(np.float32)
    # Where the run of a task begins depends on the length of runs and on the number of cells. So they are all
    # reset, also in the rare case that neither number changes.
    cells = parameters.own_cells if parameters.own else 0
    for name in ("own_weights", "own_squares"):
        state[f"{part}_{name}"] = np.zeros((new.n_outputs, cells), np.float32)


def _resize_bins(state: State, new: Settings) -> None:
    """Change the own weights of tasks for bins. Without cells, there is no belief with own weights."""
    cells, had_cells = new.parameters.bin_cells, len(state["bins_own"]) > 0
    state["bins_own"] = np.zeros((cells, 2 * new.n_outputs), np.float32)
    if (cells > 0) == had_cells:
        return
    # Bins are the last part. Their first belief has the shared weights. The second adds own weights, which were set to
    # 0 above. So from now on the two predict the same, and splitting or adding up their weights changes no prediction
    # of the mixture.
    squares, weights = np.asarray(state["bins_mean_squares"]), np.array(state["belief_weight"])
    first = len(weights) - len(squares)
    if had_cells:
        combination.with_one_less(state, first)
        weights[first] += weights[first + 1]
        weights, squares = np.delete(weights, first + 1), np.delete(squares, 1, axis=0)
    else:
        combination.with_one_more(state, first)
        weights[first] /= 2
        weights, squares = np.insert(weights, first, weights[first]), np.insert(squares, 1, squares[0], axis=0)
    state["belief_weight"], state["bins_mean_squares"] = weights, squares


def _resize_table(state: State, old: int, new: int, classes: int) -> None:
    """Change the hashed table from `old` to `new` cells."""
    old_buckets, new_buckets = old // WAYS, new // WAYS
    # The old buckets first[k] … last[k] have hashes in common with the new bucket k. Their cells are its candidates.
    k = np.arange(new_buckets)
    first, last = k * old_buckets // new_buckets, ((k + 1) * old_buckets - 1) // new_buckets
    bucket = np.repeat(k, last - first + 1)
    candidates = np.arange(len(bucket)) - np.searchsorted(bucket, bucket) + first[bucket]
    source = (candidates[:, None] * WAYS + np.arange(WAYS)).ravel()
    target = np.repeat(bucket, WAYS)
    cells = np.asarray(state["table_cells"], dtype=np.float32).reshape(old, -1)
    tags = np.asarray(state["table_tags"], dtype=np.int64)
    order = np.lexsort((-cells[source, 1 : 1 + classes].sum(axis=1), -(tags[source] % (MAX_COUNT + 1)), target))
    # An earlier resize may have copied a cell to several buckets, which this one merges again. (A cell is copied unless
    # the old number of buckets is a multiple of the new one.) Of cells with the same tag in one bucket, only the first
    # would be found, so the later ones are left out.
    _, unique = np.unique(target[order] * TAGS + tags[source[order]] // (MAX_COUNT + 1), return_index=True)
    order = order[np.sort(unique)]
    source, target = source[order], target[order]
    rank = np.arange(len(target)) - np.searchsorted(target, target)
    kept = rank < WAYS
    place = target[kept] * WAYS + rank[kept]
    state["table_cells"], state["table_tags"] = np.zeros((new, cells.shape[1]), np.float32), np.zeros(new, np.int64)
    state["table_cells"][place], state["table_tags"][place] = cells[source[kept]], tags[source[kept]]
