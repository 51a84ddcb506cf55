"""The declaration of the rule `Budgetron`: its parameters, its parts, the arrays of a saved model, and its memory.

A Budgetron is a mixture of beliefs. Beliefs that share arrays form a part. The memory planner and the loader of model
files read this declaration, and the rule creates its parts with `make_parts`. Nothing here learns.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, field

from budgetron.engine import first_rows, memory
from budgetron.engine.first_rows import FirstRows
from budgetron.engine.reference.declaration import Arrays, RuleParameters
from budgetron.engine.reference.rule import Rule
from budgetron.engine.reference.rules.budgetron import calibration, combination, verification
from budgetron.engine.reference.rules.budgetron.parts.adagrad import FourierAdaGrad
from budgetron.engine.reference.rules.budgetron.parts.bins import CELLS_PER_BIAS, BinnedColumns
from budgetron.engine.reference.rules.budgetron.parts.filters import Filter, FilterBelief
from budgetron.engine.reference.rules.budgetron.parts.latent import Latent
from budgetron.engine.reference.rules.budgetron.parts.part import Part
from budgetron.engine.reference.rules.budgetron.parts.table import WAYS, HashedTable
from budgetron.engine.reference.rules.budgetron.sizes import plan, shapes
from budgetron.engine.reference.rules.budgetron.sizes.frequent_columns import frequent_columns
from budgetron.engine.reference.rules.budgetron.sizes.resize import resized_state
from budgetron.engine.saved_state import Field, Layout, length, require
from budgetron.engine.settings import Settings
from budgetron.errors import input_error
from budgetron.graphs import Clique, Explicit

NotNegative = Annotated[float, Meta(ge=0.0, le=1e6)]
Share = Annotated[float, Meta(gt=0.0, le=1.0)]
Count = Annotated[int, Meta(ge=0, le=2**40)]
FilterVariances = tuple[NotNegative, NotNegative, NotNegative]


class Parameters(RuleParameters, frozen=True):
    """The parameters that a model file stores.

    A *bank* is the set of Fourier features of one bandwidth. Each frequency has two features, a cosine and a sine.
    Numbers of frequencies are planned ones: a part may begin with fewer, and `max_…` limits how many it may get later.
    """

    shared: bool = True  # whether there are weights that all tasks share
    own: bool = True  # whether tasks have own weights
    clustered: bool = False  # whether clusters of tasks have weights
    cluster_share: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.5  # share of own variance that a cluster has in common
    # `prior`, `own` and `floor` of each filter, as in `FilterBelief`.
    filters: Annotated[list[FilterVariances], Meta(max_length=64)] = []  # noqa: RUF012
    # The step size λ of each filter: above 0 if it learns by AdaGrad, 0 if it is Bayesian. Empty: all are Bayesian.
    filter_rates: Annotated[list[NotNegative], Meta(max_length=64)] = []  # noqa: RUF012
    # The share of labels that each filter assumes to be random, with two classes. Empty: no filter does.
    filter_lapses: Annotated[list[Annotated[float, Meta(ge=0.0, lt=1.0)]], Meta(max_length=64)] = []  # noqa: RUF012
    fourier_filter: Count | None = None  # index of the filter that sees the Fourier features of bank 0
    # γ·d of banks 1, 2, … The filters directly after `fourier_filter` see one of these banks each.
    bandwidths: Annotated[list[NotNegative], Meta(max_length=64)] = []  # noqa: RUF012
    # Hashed cells for the own biases of tasks, in each filter on Fourier features. 0: own weights are in task rows.
    fourier_cells: Count = 0
    # The number of short rows in each linear filter that expects tasks to differ, except `plain_filter`. Short rows
    # store own weights of tasks without a row.
    short_rows: Count = 0
    plain_filter: Count | None = None  # index of the filter that ignores the graph
    full_covariance: bool = field(default=True, name="whole")  # whether filters store a full covariance matrix
    filter_frequencies: Annotated[int, Meta(ge=0, le=2**16)] = 0  # frequencies of `fourier_filter`
    bank_frequencies: Annotated[int, Meta(ge=0, le=2**16)] = 0  # frequencies of each filter on another bank
    frequencies: Annotated[int, Meta(ge=0, le=2**20)] = 0  # frequencies of each AdaGrad belief
    bandwidth: Annotated[float, Meta(gt=0.0, le=1e6)] = 1.0  # multiplies γ of all Fourier features
    latent: Annotated[int, Meta(ge=0, le=64)] = 0  # dimensions of the points of tasks in `Latent`; 0: no such part
    # The step size λ and the own share ρ of each AdaGrad belief.
    rates: Annotated[list[NotNegative], Meta(max_length=64)] = []  # noqa: RUF012
    owns: Annotated[list[NotNegative], Meta(max_length=64)] = []  # noqa: RUF012
    # Sparse rows: the columns that the beliefs on dense rows see. Without any, there are no such beliefs.
    frequent_columns: Annotated[list[Annotated[int, Meta(ge=0, lt=2**31)]], Meta(max_length=64)] = []  # noqa: RUF012
    first_rows: bool = False  # sparse rows: whether the first rows are kept, to plan the model again
    limit: Count = 0  # with `first_rows`: the bytes of the model after it is planned again
    rows_beyond_limit: bool = False  # whether the rows of tasks come in addition to `limit`
    # Step size of each belief of the hashed table, for sparse rows.
    table_rates: Annotated[list[NotNegative], Meta(max_length=64)] = []  # noqa: RUF012
    # 1 for each belief of the hashed table that sees only the signs of values, otherwise 0.
    signs: Annotated[list[NotNegative], Meta(max_length=64)] = []  # noqa: RUF012
    # The share of its sums of squared gradients that each belief of the hashed table keeps at a step; 1 in AdaGrad.
    keeps: Annotated[list[Share], Meta(max_length=64)] = []  # noqa: RUF012
    own_cells: Count = 0  # own weights of all tasks in each AdaGrad belief on dense rows
    cells: Annotated[int, Meta(ge=0, le=2**31)] = 0  # cells of the hashed table, for sparse rows
    pairs: Annotated[int, Meta(ge=0, le=64)] = 0  # the longest row with pairs of features; 0: no belief on pairs
    max_task_rows: Annotated[int, Meta(ge=2, le=2**53)] | None = None  # None: no limit
    max_frequencies: Annotated[int, Meta(ge=0, le=2**20)] = 0  # limit of AdaGrad, if other parts have freed memory
    max_filter_frequencies: Annotated[int, Meta(ge=0, le=2**16)] = 0  # the same for filters on Fourier features
    rows_may_grow: bool = False  # whether freed memory may be used for more task rows
    bins: Annotated[int, Meta(ge=0, le=128)] = 0  # edges of the bins of each column; 0: no beliefs on bins
    bin_pairs: bool = False  # whether there is a belief on pairs of bins
    bin_cells: Annotated[int, Meta(ge=0, le=2**31)] = 0  # own weights of all tasks for bins; 0: tasks have none


def make_parts(settings: Settings) -> list[Part]:
    """Return the parts of a new model, with all weights at their priors."""
    return (_dense_parts(settings) if shapes.has_columns(settings) else []) + [_table(settings)] * settings.sparse


def _table(settings: Settings) -> Part:
    parameters, signs = settings.parameters, [sign != 0 for sign in settings.parameters.signs]
    sizes = (settings.n_outputs, parameters.cells, parameters.pairs)
    return HashedTable(parameters.table_rates, parameters.keeps, signs, *sizes, parameters.shared, parameters.own)


def _dense_parts(settings: Settings) -> list[Part]:
    """Return the parts for dense rows, or for the frequent columns of sparse rows."""
    parameters, outputs, columns = settings.parameters, settings.n_outputs, shapes.dense_columns(settings) + 1
    shared, own = parameters.shared, parameters.own
    parts: list[Part] = []
    for k, (prior, own_prior, floor) in enumerate(parameters.filters):
        bank, frequencies = shapes.bank_of(parameters, k), shapes.filter_frequencies(settings, k)
        cells = parameters.fourier_cells if bank is not None and own else 0
        plain = k == parameters.plain_filter
        limit = parameters.max_filter_frequencies if frequencies else 0
        sizes = (outputs, columns, frequencies, limit)
        covariance = shapes.has_full_covariance(parameters, k)
        rate, lapse = shapes.filter_rate(parameters, k), shapes.filter_lapse(parameters, k)
        assumed = FilterBelief(prior, own_prior, floor, rate, lapse)
        short_rows = shapes.short_rows(settings, k)
        parts.append(Filter(k, assumed, *sizes, covariance, shared, own, cells, plain, bank or 0, short_rows))
    if parameters.latent and shared and own:
        parts.append(Latent(parameters.latent, outputs, columns, parameters.full_covariance))
    cells, sizes = (
        parameters.own_cells if own else 0,
        (outputs, columns, parameters.frequencies, parameters.max_frequencies),
    )
    for k, (rate, share) in enumerate(zip(parameters.rates, parameters.owns, strict=True)):
        parts.append(FourierAdaGrad(k, rate, share, *sizes, shared, cells))
    if parameters.bins:
        pairs, cells = parameters.bin_pairs, parameters.bin_cells
        parts.append(BinnedColumns(columns - 1, outputs, parameters.bins, pairs, cells))
    return parts


class BudgetronDeclaration(Rule):
    """The class methods of `Budgetron`, which describe a model by its settings and its saved arrays."""

    Parameters = Parameters
    needs_kernel = False
    follows_factor = True
    fixed_bytes = 5 * 1024  # less than for other rules, which have a store of examples

    @classmethod
    def check(cls, settings: Settings) -> None:
        graph, parameters = settings.graph, settings.parameters
        require(settings.kernel is None, "kernel", "null: a Budgetron stores no examples")
        if isinstance(graph, Clique):
            # With coupling 0, tasks share nothing. With infinite coupling, tasks have no weights of their own.
            implied = (graph.coupling != 0, graph.coupling != float("inf"), graph.mapped is not None)
            agrees = implied == (parameters.shared, parameters.own, parameters.clustered)
            require(agrees, "shared, own and clustered", "as the graph implies")
        else:
            require(
                parameters.shared and parameters.own and not parameters.clustered,
                "shared and own",
                "true, and clustered false, on an explicit graph",
            )
        cells_are_valid = parameters.cells % WAYS == 0 and (parameters.cells > 0) == settings.sparse
        accepted = f"a multiple of {WAYS} for sparse rows, and 0 for dense rows"
        require(cells_are_valid, "cells", accepted, str(parameters.cells))
        pairs_are_valid = parameters.pairs != 1 and (parameters.pairs == 0 or (settings.sparse and parameters.shared))
        accepted = "0 without shared weights and for dense rows, and never 1"
        require(pairs_are_valid, "pairs", accepted, str(parameters.pairs))
        can_have_bins = parameters.shared and shapes.has_columns(settings)
        bins_are_valid = parameters.bins % 8 == 0 and (parameters.bins == 0 or can_have_bins)
        accepted = "a multiple of 8, and 0 without shared weights or frequent columns of sparse rows"
        require(bins_are_valid, "bins", accepted, str(parameters.bins))
        require(parameters.bins > 0 or not parameters.bin_pairs, "bin_pairs", "false without bins")
        cells_agree = parameters.bin_cells == 0 or (
            parameters.bins > 0 and parameters.own and parameters.bin_cells >= 2 * CELLS_PER_BIAS
        )
        require(cells_agree, "bin_cells", f"0, or at least {2 * CELLS_PER_BIAS} with bins and own weights of tasks",
                str(parameters.bin_cells))  # fmt: skip
        for name in ("signs", "keeps"):
            as_many = len(getattr(parameters, name)) == len(parameters.table_rates) > 0
            require(not settings.sparse or as_many, name, "as many as table_rates")
        has_columns, frequent = shapes.has_columns(settings), parameters.frequent_columns
        are_columns = all(a < b for a, b in pairwise([-1, *frequent, settings.n_features]))
        plans_again = parameters.first_rows and parameters.limit > 0 and settings.sparse and not frequent
        require(plans_again or not parameters.first_rows, "first_rows",
                "false without a limit, with frequent columns, and for dense rows")  # fmt: skip
        accepted = "ascending numbers of columns of sparse rows"
        require(are_columns and (settings.sparse or not frequent), "frequent_columns", accepted)
        require(not has_columns or bool(parameters.filters) or bool(parameters.rates), "filters", "at least one belief")
        if isinstance(graph, Explicit) and parameters.max_task_rows is not None and has_columns:
            rows_per_example = shapes.rows_together(graph)
            require(parameters.max_task_rows >= rows_per_example, "max_task_rows",
                    f"at least {rows_per_example}, the rows of one example", str(parameters.max_task_rows))  # fmt: skip
        of_filters = max(parameters.filter_frequencies, parameters.bank_frequencies)
        require(of_filters <= parameters.frequencies, "filter_frequencies", "at most frequencies", str(of_filters))
        last = (parameters.fourier_filter or 0) + len(parameters.bandwidths)
        bandwidths_are_valid = not parameters.bandwidths or (
            parameters.fourier_filter is not None and last < len(parameters.filters)
        )
        accepted = "one for each filter after fourier_filter that sees Fourier features"
        require(bandwidths_are_valid, "bandwidths", accepted)
        for name in ("filter_rates", "filter_lapses"):
            as_many = len(getattr(parameters, name)) in (0, len(parameters.filters))
            require(as_many, name, "as many as filters, or none")
        has_lapses = any(parameters.filter_lapses)
        require(not has_lapses or settings.n_outputs == 1, "filter_lapses", "0 with more than two classes")
        are_bayesian = not any(
            rate for k, rate in enumerate(parameters.filter_rates) if shapes.bank_of(parameters, k) is not None
        )
        require(are_bayesian, "filter_rates", "0 for filters that see Fourier features")
        can_filter = parameters.full_covariance or not of_filters
        require(can_filter, "whole", "true where a filter sees Fourier features")
        require(len(parameters.owns) == len(parameters.rates), "owns", "as many as rates")
        width = shapes.fourier_width(settings)
        has_room = not has_columns or parameters.own_cells == 0 or parameters.own_cells >= width
        accepted = f"0, or at least {width}, the own weights of one task"
        require(has_room, "own_cells", accepted, str(parameters.own_cells))

    # ---- state

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        parts = _remaining_parts(settings, arrays)
        beliefs, width = sum(part.count for part in parts), sum(part.row_width for part in parts)
        rows = length(arrays, "row_id")
        fields = {"part_index": Field("int64", (len(parts),)), "part_idle": Field("int64", (len(parts),)),
                  "belief_weight": Field("float64", (beliefs,)), "row_id": Field("int64", (rows,)),
                  "row_common": Field("int64", (rows,)), "row_count": Field("int64", (rows,)),
                  "row_values": Field("float64", (rows, width)),
                  "row_limit": Field("int64"), "spare_bytes": Field("int64"),
                  **combination.fields(beliefs), **calibration.fields(settings.n_outputs)}  # fmt: skip
        if shapes.has_columns(settings):
            fields |= {f"scaler_{name}": Field("float64", (shapes.dense_columns(settings),))
                       for name in ("centre", "spread", "mean", "variance")}  # fmt: skip
            fields["scaler_count"] = Field("int64")
        for part in parts:
            fields |= part.fields(arrays)
        if settings.parameters.first_rows:
            fields |= first_rows.layout(settings, arrays)
        return super().layout(settings, arrays) | fields

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        verification.verify(settings, arrays)

    @classmethod
    def sized_for(cls, settings: Settings, arrays: Arrays) -> Settings:
        return plan.largest(settings.with_parameters(max_task_rows=max(2, len(arrays["row_id"]))), compiled=True)

    @classmethod
    def resized(
        cls, who: str, settings: Settings, state: dict[str, Any], budget: memory.Budget, compiled: bool
    ) -> tuple[Settings, dict[str, Any]]:
        if budget.bytes is not None:
            resized = _resized_to_bytes(settings, budget.bytes, compiled)
        elif budget.examples is not None:
            resized = plan.resized_to_count(settings, budget.examples)
        else:
            raise input_error(who, "budget", "a number of examples, or a size in bytes", "None")
        if resized is None:
            needed = _sufficient(settings, budget, compiled)
            got = f"{budget.examples}" if budget.bytes is None else f"{budget.bytes} bytes"
            raise input_error(who, "budget", f"{needed} for the beliefs that the model has", got,
                              "Or train a new model with this budget: it begins with fewer beliefs.")  # fmt: skip
        return resized, resized_state(state, settings, resized)

    # ---- a model on sparse rows is planned from its first rows

    @classmethod
    def keeps_first_rows(cls, settings: Settings) -> bool:
        return bool(settings.parameters.first_rows)

    @classmethod
    def planned_from(cls, settings: Settings, first_rows: FirstRows, compiled: bool) -> Settings:
        return plan.begun_again(settings, frequent_columns(first_rows), compiled)

    # ---- memory

    @classmethod
    def is_bounded(cls, settings: Settings) -> bool:
        # Without beliefs on columns, there are no rows of tasks.
        return settings.parameters.max_task_rows is not None or not shapes.has_columns(settings)

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        return shapes.bytes_beyond(settings, compiled)

    @classmethod
    def planned(cls, settings: Settings, limit: int, nonzeros: float, compiled: bool) -> Settings | None:
        return plan.planned(settings, limit, compiled)

    @classmethod
    def with_capacity(cls, settings: Settings, capacity: int, limit: int, nonzeros: float) -> Settings:
        return plan.smallest(settings)


def _resized_to_bytes(settings: Settings, budget: int, compiled: bool) -> Settings | None:
    """Return settings for another budget in bytes, less the share of task names; None if the budget is too small."""
    return plan.resized(settings, budget - memory.name_bytes(budget), compiled)


def _sufficient(settings: Settings, budget: memory.Budget, compiled: bool) -> str:
    """Return the words for a budget that is large enough, in examples or in whole KiB. `budget` is too small."""

    def suffices(size: int) -> bool:
        if budget.bytes is None:
            return plan.resized_to_count(settings, size) is not None
        return _resized_to_bytes(settings, size * 2**10, compiled) is not None

    # `low` does not suffice, and `high` does.
    low = (budget.examples or 0) if budget.bytes is None else budget.bytes // 2**10
    high = low + 1
    while not suffices(high):
        if high > memory.LARGEST // 2**11:
            return "larger"
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return f"at least {high}" if budget.bytes is None else f'at least "{high} KiB"'


def _remaining_parts(settings: Settings, arrays: Arrays) -> list[shapes.Shape]:
    """Return the shapes of the parts that a saved model still has. Learning drops parts that stay idle."""
    length(arrays, "part_index")
    index, parts = arrays["part_index"], shapes.shapes_of(settings)
    require(index.dtype.kind == "i" and len(index) >= 1 and (np.diff(index) > 0).all() and index[0] >= 0
            and index[-1] < len(parts), "state.part_index", f"ascending numbers of the {len(parts)} parts")  # fmt: skip
    return [parts[k] for k in index.tolist()]
