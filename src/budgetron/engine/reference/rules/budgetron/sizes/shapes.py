"""The sizes of every part, computed from the settings: beliefs, numbers per task, arrays of the state, and bytes.

Nothing is allocated. The sizes must agree with the parts of both engines: the tests compare them with the arrays of a
model and with the compiled core's own count of bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from budgetron.engine import first_rows
from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.rules.budgetron.features.fourier_features import first_frequencies
from budgetron.engine.reference.rules.budgetron.parts import filters
from budgetron.engine.reference.rules.budgetron.parts.bins import COARSE, n_pairs
from budgetron.engine.reference.rules.budgetron.parts.pairs import most_pairs
from budgetron.engine.reference.rules.budgetron.parts.short_rows import SLOT_OVERHEAD
from budgetron.engine.reference.rules.budgetron.parts.table import WAYS
from budgetron.engine.reference.rules.budgetron.parts.task_rows import ROW_OVERHEAD
from budgetron.engine.saved_state import Field, Layout, require, triangle
from budgetron.engine.settings import Settings
from budgetron.graphs import Explicit
from budgetron.graphs.factor import ENTRIES

OBJECT_BYTES = 768
"""Bytes of a part's object, its small arrays and the allocator's overhead."""
COMBINATION_BYTES = 288
"""Bytes of the object of the combination, besides its arrays."""
RESERVED_ENTRIES = 65  # working memory has at least 64 non-zeros of a sparse row, and the constant
ENTRY_BYTES, PAIR_BYTES = 40, 16  # working memory per entry, and per pair of entries


@dataclass(frozen=True)
class Shape:
    """The sizes of one part of the model."""

    count: int  # number of beliefs
    row_width: int  # how many numbers the part has in the row of a task
    fields: Callable[[Arrays], Layout]  # returns the fields of the part's state, given the arrays of a saved model
    nbytes: int  # bytes of the part's own arrays, without rows of tasks


def dense_columns(settings: Settings) -> int:
    """Return how many columns the parts for dense rows see: all of them, or the frequent ones of sparse rows."""
    return len(settings.parameters.frequent_columns) if settings.sparse else settings.n_features


def has_columns(settings: Settings) -> bool:
    """Whether there are parts for dense rows."""
    return not settings.sparse or bool(settings.parameters.frequent_columns)


def bank_of(parameters: Any, k: int) -> int | None:
    """Return the bank of Fourier features that filter k sees; None if it sees none."""
    if parameters.fourier_filter is None or not 0 <= k - parameters.fourier_filter <= len(parameters.bandwidths):
        return None
    return int(k - parameters.fourier_filter)


def filter_frequencies(settings: Settings, k: int) -> int:
    """Return the planned number of frequencies of filter k."""
    parameters, bank = settings.parameters, bank_of(settings.parameters, k)
    if bank is None or not parameters.shared:
        return 0
    return int(parameters.bank_frequencies if bank else parameters.filter_frequencies)


def short_rows(settings: Settings, k: int) -> int:
    """Return the number of short rows of filter k.

    Linear filters that expect tasks to differ have short rows, except the one that ignores the graph.
    """
    parameters = settings.parameters
    expects_different_tasks = parameters.filters[k][1] > 1 and k != parameters.plain_filter
    has_short_rows = parameters.own and expects_different_tasks and bank_of(parameters, k) is None
    return int(parameters.short_rows) if has_short_rows else 0


def filter_rate(parameters: Any, k: int) -> float:
    """Return the step size of filter k if it learns by AdaGrad, and 0 if it is Bayesian."""
    return float(parameters.filter_rates[k]) if parameters.filter_rates else 0.0


def filter_lapse(parameters: Any, k: int) -> float:
    """Return the share of labels that part k assumes to be random. It is 0 for all parts that are not filters."""
    return float(parameters.filter_lapses[k]) if k < len(parameters.filter_lapses) else 0.0


def has_full_covariance(parameters: Any, k: int) -> bool:
    """Whether filter k stores a full covariance matrix. A filter that learns by AdaGrad has a diagonal instead."""
    return bool(parameters.full_covariance) and not filter_rate(parameters, k)


def fourier_width(settings: Settings) -> int:
    """Return the number of features that AdaGrad sees: the linear ones, and two per frequency."""
    return dense_columns(settings) + 1 + 2 * int(settings.parameters.frequencies)


def shapes_of(settings: Settings) -> list[Shape]:
    """Return the shapes of the parts, in the order in which `make_parts` makes them."""
    return (_dense_shapes(settings) if has_columns(settings) else []) + [_table(settings)] * settings.sparse


def _dense_shapes(settings: Settings) -> list[Shape]:
    parameters = settings.parameters
    shapes = [_filter(settings, k) for k in range(len(parameters.filters))]
    if parameters.latent and parameters.shared and parameters.own:
        shapes.append(_latent(settings))
    shapes += [_adagrad(settings, k) for k in range(len(parameters.rates))]
    return shapes + [bins_shape(settings)] * (parameters.bins > 0)


def part_overhead(outputs: int) -> int:
    """Return the planned bytes of a part in addition to its arrays. `Steps` in the core takes 32 bytes per output."""
    return OBJECT_BYTES + 32 * outputs


def rows_together(graph: Explicit) -> int:
    """Return the largest number of task rows that one example updates: its own, and those of the related tasks."""
    return min(ENTRIES + 1, graph.n_tasks)


def row_bytes(settings: Settings) -> int:
    """Return the bytes of a task's row; 0 if tasks have none."""
    width = sum(shape.row_width for shape in shapes_of(settings))
    return 8 * width + ROW_OVERHEAD if width else 0


def bytes_beyond(settings: Settings, compiled: bool) -> int:
    """Return an upper bound of the bytes of the parts, the task rows and their working memory."""
    parameters, d, outputs = settings.parameters, dense_columns(settings), settings.n_outputs
    shapes = shapes_of(settings)
    # Working memory for each belief: its index, its margins and the logarithms of its probabilities.
    beliefs, classes = sum(shape.count for shape in shapes), max(2, outputs)
    total = sum(shape.nbytes + part_overhead(outputs) for shape in shapes) + 8 * (outputs + classes + 1) * (beliefs + 1)
    # The calibration and the combination, each with its working memory.
    total += 8 * (4 * outputs + 3 * classes + 4)
    total += 8 * (beliefs * (beliefs + 3 + outputs) + 3 * outputs + 2 * classes + 4)
    total += COMBINATION_BYTES
    if settings.sparse:
        # The table also has eight numbers per belief and output, two per belief, and one per class.
        total += RESERVED_ENTRIES * ENTRY_BYTES + 8 * (8 * outputs + 2) * beliefs + 8 * classes
        total += most_pairs(parameters.pairs) * PAIR_BYTES
        total += (4 + 8) * d  # the frequent columns, and their values in one row
        total += first_rows.most_bytes(settings) if parameters.first_rows else 0
    if has_columns(settings):
        # Four estimates per column; one byte per column and frequency; the columns and the linear features of one
        # example; and in float32 its rounded columns, its phases, and the two Fourier features of each frequency.
        frequencies = parameters.frequencies
        total += 4 * 8 * d + d * frequencies + 8 * (2 * d + 1) + 4 * (d + 3 * frequencies)
    related = ENTRIES if isinstance(settings.graph, Explicit) else 2  # working memory for rows of related tasks
    total += (related + 1) * 8 * sum(shape.row_width for shape in shapes)
    total += (parameters.max_task_rows or 0) * row_bytes(settings)
    # NumPy stores both triangles of a covariance.
    return int(total) if compiled or not has_columns(settings) else 2 * int(total)


def _shared_bytes(settings: Settings, n: int, full_covariance: bool, single: bool = False) -> int:
    return filters.shared_bytes(n, settings.n_outputs, full_covariance, single) if settings.parameters.shared else 0


def _shared_fields(settings: Settings, name: str, n: int, full_covariance: bool, single: bool = False) -> Layout:
    if not settings.parameters.shared:
        n = 0
    covariance = triangle(n) if full_covariance else n
    return {f"{name}_weights": Field("float64", (settings.n_outputs, n)),
            f"{name}_covariance": Field("float32" if single else "float64", (covariance,))}  # fmt: skip


def _used_frequencies(arrays: Arrays, name: str, planned: int, limit: int, bank: int = 0) -> int:
    """Return how many frequencies a saved part uses. Reject saved numbers (used, granted) that are impossible."""
    require(name in arrays and arrays[name].size == 2, f"state.{name}", "two numbers")
    used, granted = (int(count) for count in arrays[name].ravel())
    first, max_granted = min(planned, first_frequencies(bank)), max(planned, limit)
    is_consistent = first <= used <= granted <= max_granted
    require(is_consistent, f"state.{name}", f"{first} ≤ used ≤ granted ≤ {max_granted}", f"{used} and {granted}")
    return used


def _filter(settings: Settings, k: int) -> Shape:
    """Return the shape of filter k."""
    parameters, columns, name = settings.parameters, dense_columns(settings) + 1, f"filter{k}"
    frequencies, bank = filter_frequencies(settings, k), bank_of(parameters, k)
    limit = parameters.max_filter_frequencies if frequencies else 0
    cells = parameters.fourier_cells if bank is not None and parameters.own else 0
    own, full_covariance = settings.n_outputs + 1, has_full_covariance(parameters, k)
    width, slots = own * columns if parameters.own and not cells else 0, short_rows(settings, k)

    def fields(arrays: Arrays) -> Layout:
        used = _used_frequencies(arrays, f"{name}_frequencies", frequencies, limit, bank or 0)
        return _shared_fields(settings, name, columns + 2 * used, full_covariance, frequencies > 0) | {
            f"{name}_cells": Field("float32", (cells, own)), f"{name}_frequencies": Field("int64", (2,)),
            f"{name}_short": Field("float32", (slots, width)), f"{name}_short_owner": Field("int64", (slots,)),
            f"{name}_short_count": Field("int64", (slots,)),
        }  # fmt: skip

    n = columns + 2 * frequencies
    # The Fourier features of one example. Those of bank 0 are not counted here, because all parts share them.
    features = 4 * 2 * frequencies if bank and parameters.shared else 0
    nbytes = _shared_bytes(settings, n, full_covariance, frequencies > 0) + features + 4 * own * cells
    return Shape(1, width, fields, nbytes + slots * short_row_bytes(settings))


def short_row_bytes(settings: Settings) -> int:
    """Return the bytes of a short row."""
    return 4 * (settings.n_outputs + 1) * (dense_columns(settings) + 1) + SLOT_OVERHEAD


def _latent(settings: Settings) -> Shape:
    """Return the shape of `Latent`."""
    rank, outputs, columns = settings.parameters.latent, settings.n_outputs, dense_columns(settings) + 1

    def fields(arrays: Arrays) -> Layout:
        return _shared_fields(settings, "latent", columns, settings.parameters.full_covariance) | {
            "latent_dimensions": Field("float64", (rank, outputs, columns)),
            "latent_variances": Field("float64", (rank, columns)),
        }

    nbytes = _shared_bytes(settings, columns, settings.parameters.full_covariance) + 8 * rank * (outputs + 1) * columns
    return Shape(1, rank + rank * rank + (outputs + 1) * columns, fields, nbytes)


def _adagrad(settings: Settings, k: int) -> Shape:
    """Return the shape of AdaGrad belief k."""
    parameters, outputs, width, name = settings.parameters, settings.n_outputs, fourier_width(settings), f"adagrad{k}"
    cells, shared = parameters.own_cells if parameters.own else 0, width if parameters.shared else 0

    def fields(arrays: Arrays) -> Layout:
        used = _used_frequencies(arrays, f"{name}_frequencies", parameters.frequencies, parameters.max_frequencies)
        features = (dense_columns(settings) + 1 + 2 * used) if parameters.shared else 0
        own, common = Field("float32", (outputs, cells)), Field("float32", (outputs, features))
        return {f"{name}_frequencies": Field("int64", (2,)), f"{name}_weights": common, f"{name}_squares": common,
                f"{name}_own_weights": own, f"{name}_own_squares": own}  # fmt: skip

    return Shape(1, 0, fields, 2 * 4 * outputs * (shared + cells))


def bins_shape(settings: Settings) -> Shape:
    """Return the shape of the beliefs on binned columns."""
    parameters, d, outputs = settings.parameters, dense_columns(settings), settings.n_outputs
    classes, edges = max(2, outputs), parameters.bins
    beliefs = 1 + (parameters.bin_cells > 0) + parameters.bin_pairs
    slots, pairs = d * (edges + 1 + COARSE), n_pairs(d) * COARSE**2 * parameters.bin_pairs

    def fields(arrays: Arrays) -> Layout:
        return {"bins_rows": Field("int64"), "bins_edges": Field("float64", (d, edges)),
                "bins_slots": Field("float32", (slots, classes + 2 * outputs)),
                "bins_own": Field("float32", (parameters.bin_cells, 2 * outputs)),
                "bins_pairs": Field("float32", (pairs, 2 * outputs)),
                "bins_total": Field("float64", (classes,)), "bins_bias": Field("float64", (outputs,)),
                "bins_bias_squares": Field("float64", (outputs,)), "bins_bayes": Field("float64", (2,)),
                "bins_mean_squares": Field("float64", (beliefs, outputs))}  # fmt: skip

    small = classes + 2 * outputs + 2 + 2 * beliefs * outputs  # numbers that do not grow with the columns
    numbers = slots * (classes + 2 * outputs) + (parameters.bin_cells + pairs) * 2 * outputs
    return Shape(beliefs, 0, fields, 8 * (d * edges + small) + 4 * numbers + d)  # working memory: a byte per column


def _table(settings: Settings) -> Shape:
    """Return the shape of the hashed table."""
    parameters, outputs = settings.parameters, settings.n_outputs
    count, classes, cells = len(parameters.table_rates), max(2, outputs), parameters.cells

    beliefs = count + (parameters.pairs > 0)

    def fields(arrays: Arrays) -> Layout:
        per_belief = Field("float64", (count, outputs))
        return {"table_cells": Field("float32", (cells, 1 + classes + 2 * count * outputs)),
                "table_tags": Field("int64", (cells,)),
                "table_total": Field("float64", (classes,)),
                "table_bias": per_belief, "table_bias_squares": per_belief,
                "table_mean_squares": Field("float64", (beliefs, outputs)),
                **dict.fromkeys(("table_bayes", "table_bayes_squares"), Field("float64", (count,)))}  # fmt: skip

    return Shape(beliefs, 0, fields, cells * cell_bytes(settings))


def cell_bytes(settings: Settings) -> int:
    """Return the bytes of a cell of the table: typical size, masses, weights with their squares, tag and count."""
    outputs = settings.n_outputs
    return 4 * (1 + max(2, outputs) + 2 * len(settings.parameters.table_rates) * outputs) + 2


def whole_buckets(settings: Settings, available: int) -> int:
    """Return how many cells of the table fit into the available bytes, in whole buckets."""
    buckets = max(0, available) // (WAYS * cell_bytes(settings))
    return int(min(WAYS * buckets, 2**31))
