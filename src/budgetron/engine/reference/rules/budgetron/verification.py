"""Verifies the numbers of a saved Budgetron, so that a damaged model file is rejected when it is loaded.

The declaration of the rule calls `verify`, after the names, types and shapes of the arrays were checked.
"""

from __future__ import annotations

import numpy as np

from budgetron.engine import first_rows
from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.examples.rows import Integers
from budgetron.engine.reference.rules.budgetron import calibration, combination
from budgetron.engine.reference.rules.budgetron.parts import short_rows, task_rows
from budgetron.engine.reference.rules.budgetron.parts.adagrad_and_bayes import TOTAL_MASS
from budgetron.engine.reference.rules.budgetron.parts.table import MAX_COUNT, TAGS
from budgetron.engine.reference.rules.budgetron.sizes import shapes
from budgetron.engine.saved_state import clusters_of, require, verify_tasks
from budgetron.engine.settings import Settings
from budgetron.graphs import Clique, Explicit

_MAX_MASS = 2**24  # a float32 mass (`parts.table`) stops growing here, because each example adds at most 1 to it


def verify(settings: Settings, arrays: Arrays) -> None:
    """Reject arrays with numbers that learning cannot produce. Their names and shapes are those of the layout."""
    parameters, seen = settings.parameters, int(arrays["n_seen"][0])
    weights, idle = arrays["belief_weight"], arrays["part_idle"]
    is_distribution = (weights > 0).all() and abs(weights.sum() - 1) < 1e-6
    require(is_distribution, "state.belief_weight", "positive weights that add up to 1")
    # The weights add up to 1, so at least one part is not idle.
    are_counts = ((idle >= 0) & (idle <= seen)).all() and (idle == 0).any()
    require(are_counts, "state.part_idle", "counts of at most n_seen, at least one of them 0")
    combination.verify(arrays)
    calibration.verify(arrays)
    ids, common = arrays["row_id"], arrays["row_common"].astype(bool)
    limit, spare = int(arrays["row_limit"][0]), int(arrays["spare_bytes"][0])
    planned = parameters.max_task_rows or 0
    require(limit >= planned if parameters.rows_may_grow else limit == planned, "state.row_limit",
            f"{'at least ' * parameters.rows_may_grow}{planned}", str(limit))  # fmt: skip
    require(spare >= 0, "state.spare_bytes", "not negative", str(spare))
    require(limit == 0 or len(ids) <= limit, "state.row_id", f"at most {limit} rows", str(len(ids)))
    require(np.isin(arrays["row_common"], (0, 1)).all() and (parameters.clustered or not common.any()),
            "state.row_common", "1 for rows of clusters, where there are clusters")  # fmt: skip
    are_counts = ((arrays["row_count"] >= 0) & (arrays["row_count"] <= task_rows.MAX_COUNT)).all()
    require(are_counts, "state.row_count", f"from 0 to {task_rows.MAX_COUNT}")
    keys = np.stack([ids, arrays["row_common"]])
    require(np.unique(keys, axis=1).shape[1] == len(ids), "state.row_id", "tasks, none of them twice")
    own = ids[~common]
    if isinstance(settings.graph, Explicit):
        in_range = ((own >= 0) & (own < settings.graph.n_tasks)).all()
        require(in_range, "state.row_id", "numbers of the graph's tasks")
        verify_tasks(settings, "state.row_id", own, settings.graph.component[own])
    else:
        assert isinstance(settings.graph, Clique)
        verify_tasks(settings, "state.row_id", own, clusters_of(settings.graph, own))
    if shapes.has_columns(settings):
        count = int(arrays["scaler_count"][0])
        require(0 <= count <= seen, "state.scaler_count", "a count of at most n_seen", str(count))
        require((arrays["scaler_variance"] >= 0).all(), "state.scaler_variance", "not negative")
    for name in arrays:
        if name.endswith(("_squares", "_variances")):
            require((arrays[name] >= 0).all(), f"state.{name}", "not negative")
    if settings.sparse:
        _verify_table(settings, arrays)
    if shapes.has_columns(settings):
        _verify_variances(settings, arrays)
    if "bins_rows" in arrays:
        _verify_bins(settings, arrays)
    if parameters.first_rows:
        first_rows.verify(settings, arrays)


def _verify_table(settings: Settings, arrays: Arrays) -> None:
    """Reject numbers of the hashed table that learning cannot produce."""
    # Weights may have any sign. Typical sizes, masses and sums of squares must not be negative: their square roots or
    # logarithms would be NaN.
    weights = len(settings.parameters.table_rates) * settings.n_outputs
    cells, first = arrays["table_cells"], 1 + max(2, settings.n_outputs)
    not_negative = (cells[:, :first] >= 0).all() and (cells[:, first + weights :] >= 0).all()
    require(not_negative, "state.table_cells", "sizes, masses and squares that are not negative")
    require((cells[:, 1:first] <= _MAX_MASS).all(), "state.table_cells", "masses of at most 2^24")
    tags, limit = arrays["table_tags"], TAGS * (MAX_COUNT + 1)
    require(((tags >= 0) & (tags < limit)).all(), "state.table_tags", f"not negative and below {limit}")
    require((arrays["table_total"] >= TOTAL_MASS).all(), "state.table_total", f"at least {TOTAL_MASS:g}")
    require((arrays["table_bayes_squares"] >= 1).all(), "state.table_bayes_squares", "at least 1")


def _verify_bins(settings: Settings, arrays: Arrays) -> None:
    """Reject numbers of binned columns that learning cannot produce."""
    rows, outputs = int(arrays["bins_rows"][0]), settings.n_outputs
    most = settings.parameters.bins
    if rows != most:  # a replica begins with all edges, see `distributed.replicas`
        most = min(most, int(arrays["n_seen"][0]))
    require(0 <= rows <= most, "state.bins_rows", f"a count of at most {most}", str(rows))
    is_sorted = rows < settings.parameters.bins or (np.diff(arrays["bins_edges"], axis=1) >= 0).all()
    require(is_sorted, "state.bins_edges", "ascending in every column")
    masses = arrays["bins_slots"][:, : max(2, outputs)]
    require(((masses >= 0) & (masses <= _MAX_MASS)).all(), "state.bins_slots", "masses from 0 to 2^24")
    for name in ("bins_slots", "bins_own", "bins_pairs"):
        require((arrays[name][:, -outputs:] >= 0).all(), f"state.{name}", "squares that are not negative")
    require((arrays["bins_total"] >= TOTAL_MASS).all(), "state.bins_total", f"at least {TOTAL_MASS:g}")
    require(arrays["bins_bayes"][1] >= 1, "state.bins_bayes", "a sum of squares of at least 1")


def _verify_variances(settings: Settings, arrays: Arrays) -> None:
    """Reject negative variances of the parts on dense rows."""
    part_indices = arrays["part_index"].tolist()
    diagonal = {f"filter{k}_covariance" for k, rate in enumerate(settings.parameters.filter_rates) if rate > 0}
    for name in (name for name in arrays if name.endswith("_covariance")):
        full_covariance = settings.parameters.full_covariance and name not in diagonal
        variances = arrays[name][_diagonal(len(arrays[name]))] if full_covariance else arrays[name]
        # Updates subtract from a full matrix, so rounding may make a tiny variance slightly negative.
        lowest = (-1e-6 if arrays[name].dtype == np.float32 else -1e-9) if full_covariance else 0.0
        require((variances >= lowest).all(), f"state.{name}", "with variances that are not negative")
    for name in (name for name in arrays if name.startswith("filter") and name.endswith("_cells")):
        require((arrays[name][:, -1] >= 0).all(), f"state.{name}", "with variances that are not negative")
    for name in (name for name in arrays if name.endswith("_short_count")):
        _verify_short_rows(settings, arrays, name.removesuffix("_count"))
    start, shapes_of_all = 0, shapes.shapes_of(settings)
    for k in part_indices:
        width, own = shapes_of_all[k].row_width, shapes.dense_columns(settings) + 1
        if width:  # the numbers of a part end with the variances of its own weights
            variances = arrays["row_values"][:, start + width - own : start + width]
            require((variances >= 0).all(), "state.row_values", "with variances that are not negative")
        start += width


def _verify_short_rows(settings: Settings, arrays: Arrays, name: str) -> None:
    """Reject short rows that learning cannot produce."""
    values, owners, counts = arrays[name], arrays[f"{name}_owner"], arrays[f"{name}_count"]
    are_counts = ((counts >= 0) & (counts <= short_rows.MAX_COUNT)).all()
    require(are_counts, f"state.{name}_count", f"counts from 0 to {short_rows.MAX_COUNT}")
    variances = values[:, values.shape[1] - shapes.dense_columns(settings) - 1 :]
    require((variances >= 0).all(), f"state.{name}", "with variances that are not negative")
    used = owners != short_rows.FREE
    if used.any():
        are_at_home = short_rows.slots_of(owners[used], len(owners)) == np.flatnonzero(used)
        require(are_at_home.all(), f"state.{name}_owner", "tasks, each in its slot")


def _diagonal(n: int) -> Integers:
    """Return the indices of the diagonal in a lower triangle of n numbers, stored row by row."""
    order = np.arange(int(np.sqrt(2 * n)))
    return np.asarray(order * (order + 3) // 2)
