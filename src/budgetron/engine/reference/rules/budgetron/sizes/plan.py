"""Turns a byte budget into the sizes of a Budgetron.

For sparse rows, all bytes go to the table, or three quarters of them to beliefs on frequent columns. For dense rows, the bytes go first to models on linear features and on bins,
then to the frequencies of AdaGrad and to the rows of tasks, and the rest goes to filters over Fourier features. If only
few tasks would have rows, the model gets fewer beliefs, because a row for one more task is worth more than one more
belief.
"""

from __future__ import annotations

from dataclasses import replace

from budgetron.engine.memory import bytes_of
from budgetron.engine.reference.rules.budgetron.features.fourier_features import first_frequencies, useful_frequencies
from budgetron.engine.reference.rules.budgetron.parts.bins import CELLS_PER_BIAS
from budgetron.engine.reference.rules.budgetron.parts.table import WAYS
from budgetron.engine.reference.rules.budgetron.sizes import shapes
from budgetron.engine.settings import Settings
from budgetron.graphs import Explicit

# (prior, own, floor, rate, lapse) of each `FilterBelief`. Features have unit size, so a variance means the same on
# every stream. A belief that tasks are alike has own variances of a tenth of the shared ones; the belief that tasks
# differ has own variances ten times as large. Two beliefs keep adapting, for streams that drift. One is a filter with a
# floor, which is better where columns are correlated. The other has a rate, so it learns by AdaGrad. Its own weights
# move as fast as the shared ones, so that tasks may drift apart, and its floor lets it adapt even after millions of
# examples. The belief with a lapse rate assumes that 5 % of the labels are random. It has a large prior, because a
# wrong label cannot pull its weights far.
FILTERS = (
    (1.0, 0.1, 0.0, 0.0, 0.0),
    (10.0, 0.1, 0.0, 0.0, 0.0),
    (3.0, 0.3, 0.3, 0.0, 0.0),
    (3.0, 1.0, 0.02, 3.0, 0.0),
    (30.0, 0.3, 0.0, 0.0, 0.05),
    (1.0, 10.0, 0.0, 0.0, 0.0),
    (3.0, 0.1, 0.0, 0.0, 0.0),
)
FOURIER_FILTER = 6  # the index of the filter that sees Fourier features
BANDWIDTHS = (0.5, 8.0)
"""γ·d of two more filters that see Fourier features. The first is for smooth functions, the second for functions with
fine detail, which are common on streams with few columns."""
PLAIN = (1.0, 10.0, 0.0, 0.0, 0.0)
"""One more filter on an explicit graph, which ignores the graph."""
SMALL_BUDGET_FILTERS = ((3.0, 0.1, 0.0), (1.0, 10.0, 0.0))
"""The filters of a small budget: the first sees Fourier features."""
LATENT = 6
"""Dimensions of the points of tasks in `Latent`."""
FOURIER_RATES, FOURIER_OWNS = (0.1, 0.3, 1.0), (0.1, 1.0, 0.1)
"""Step size and own share of each AdaGrad belief over Fourier features."""
TABLE_RATES, TABLE_KEEPS, TABLE_SIGNS = (0.3, 0.8), (0.98, 1.0), (0.0, 1.0)
"""Step size of each belief of a table, the share of its sums of squared gradients that it keeps at a step, and 1 if it
sees only the signs of the features. The first belief follows a stream that drifts, and the second converges."""
TABLE_PAIRS = 16
"""Rows with more features than this have no pairs. The time of an example grows with the square of this number."""
FEW_RATES, FEW_KEEPS, FEW_SIGNS = (0.4,), (1.0,), (0.0,)
"""The same for a table with fewer than `ENOUGH_CELLS` cells, in which more cells are worth more than a second
belief. Its only belief converges: where clicks are rare, keeping 98 % would cost 2 % of the log loss."""
ENOUGH_CELLS = 2**14
MAX_FULL_COVARIANCE = 128
"""Filters on at most this many columns have a full covariance matrix."""
BANK_SHARE = 8
"""Filters with other bandwidths are left out if they would need more than 1/8 of the bytes before they grow."""
ENOUGH_ROWS = 200
"""A plan with rows for fewer tasks than this is replaced by one with fewer beliefs."""
ENOUGH_WEIGHTS, MIN_ROWS = 800, 32
"""The alternative to the smallest plan with task rows is a plan with only hashed biases. Task rows are better if there
are at least `MIN_ROWS` of them, with at least `ENOUGH_WEIGHTS` own weights in all. With more columns, fewer rows are
enough, because a bias then accounts for less of the difference between tasks."""
MIN_CELLS, MAX_CELLS = 16, 2**16
"""Limits of the number of hashed biases of a filter."""
SMALL_BUDGET = 96 * 1024
"""Up to this many bytes, AdaGrad over Fourier features is a better use of memory than a filter over them."""
SCARCE = 2**20
MULTIPLE, SCARCE_MULTIPLE = 4, 16
"""AdaGrad may have this multiple of the useful frequencies. With a budget of up to `SCARCE` bytes the multiple is
larger, so that all bytes are used. With a larger budget, more frequencies would cost more time than they are worth."""
BINS = (64, 32, 16)
"""Edges of the bins of each column: as many of these as `BIN_SHARE` allows."""
BIN_SHARE, BIN_CELL_SHARE = 8, 8
"""Binned columns with their pairs may take 1/8 of the bytes, and the own weights of tasks for bins another 1/8."""
TABLE_SHARE = 4
"""The table gets 1/4 of the bytes if there are beliefs on frequent columns too."""
FEWEST_BYTES = 48 * 1024
"""With fewer bytes, a model on sparse rows keeps no first rows, and has the table only."""
TABLE_BYTES = 4 * 2**20
"""The largest table of sparse rows if the budget is a number of examples."""
UNLIMITED = 64 * 2**20
"""Bytes for everything except the rows of tasks, if there is no budget. The number of rows is then unlimited."""
NO_TASKS = 2
"""Task rows of a model for a stream without tasks."""


def with_all_beliefs(settings: Settings, kernel: bool) -> Settings:
    """Return the settings with all beliefs, before the sizes are planned. With `kernel`, some have Fourier features."""
    settings = replace(settings, kernel=None, capacity=1)
    if settings.sparse:  # the beliefs on dense rows are for frequent columns, which are not known yet
        settings = _with_table(settings)
    parameters = settings.parameters
    full_covariance = settings.sparse or settings.n_features <= MAX_FULL_COVARIANCE
    two_classes = settings.n_outputs == 1
    filters: list[tuple[float, ...]] = [
        belief
        for k, belief in enumerate(FILTERS)
        if (kernel or k != FOURIER_FILTER) and (two_classes or not belief[-1])  # lapse rates are for two classes
    ]
    tasks = has_tasks(settings)
    if not tasks:  # beliefs that differ only in own weights would be equal
        own = 0.1 if parameters.own else 0.0
        filters = list(dict.fromkeys((prior, own, *rest) for prior, _, *rest in filters[:-1])) + filters[-1:]
    fourier_filter = len(filters) - 1 if kernel and full_covariance else None
    bandwidths = list(BANDWIDTHS) if fourier_filter is not None and parameters.shared else []
    filters += [FILTERS[FOURIER_FILTER]] * len(bandwidths)
    plain_filter = None
    if isinstance(settings.graph, Explicit):
        plain_filter = len(filters)
        filters.append(PLAIN)
    return settings.with_parameters(
        filters=[belief[:3] for belief in filters], filter_rates=[belief[3] for belief in filters],
        filter_lapses=[belief[4] for belief in filters],
        fourier_filter=fourier_filter, bandwidths=bandwidths, plain_filter=plain_filter,
        full_covariance=full_covariance,
        frequencies=1 if kernel else 0, rates=list(FOURIER_RATES) if kernel else [],
        owns=list(FOURIER_OWNS) if kernel else [],
        latent=LATENT if parameters.shared and tasks else 0,
        max_filter_frequencies=most_filter_frequencies(settings) if kernel else 0,
    )  # fmt: skip


def most_filter_frequencies(settings: Settings) -> int:
    """Return the largest number of frequencies of a filter. Its time and bytes grow with the square of this number."""
    return min(256, 128 * max(1, shapes.dense_columns(settings)))


def has_tasks(settings: Settings) -> bool:
    """Whether tasks have own weights. A model for a stream without tasks has two rows, in case tasks come later."""
    return bool(settings.parameters.own) and settings.parameters.max_task_rows != NO_TASKS


def smallest(settings: Settings) -> Settings:
    """Return the settings of the smallest possible model."""
    if settings.sparse:
        return _with_small_table(_without_columns(settings)).with_parameters(cells=16)
    return _smallest_with_columns(settings)


def _smallest_with_columns(settings: Settings) -> Settings:
    return _cells_only(settings).with_parameters(
        max_task_rows=_min_rows(settings), frequencies=0, filter_frequencies=0, rates=[], owns=[],
        full_covariance=False, fourier_cells=MIN_CELLS, bins=0, bin_pairs=False, bin_cells=0,
    )  # fmt: skip


def planned(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    """Return settings with `bytes_of` within the limit; None if the limit is too small for any model."""
    if not settings.sparse:
        return _with_columns(settings, _compiled(limit, compiled))
    begun = settings.with_parameters(first_rows=True, limit=limit)
    # With few bytes, there is no room for the first rows.
    plan = None if limit < FEWEST_BYTES else _table(begun, limit, compiled)
    return plan or _table(_without_columns(settings), limit, compiled)


def begun_again(settings: Settings, frequent_columns: list[int], compiled: bool) -> Settings:
    """Return the settings of a model on sparse rows after its first rows, with the bytes that were planned for it."""
    parameters = settings.parameters
    limit, wanted, graph = parameters.limit, parameters.max_task_rows, settings.graph
    settings = _with_table(settings).with_parameters(first_rows=False, limit=0, frequent_columns=frequent_columns)
    plan = None
    if frequent_columns:
        if parameters.frequencies:
            settings = settings.with_parameters(max_filter_frequencies=most_filter_frequencies(settings))
        if isinstance(graph, Explicit) and wanted is not None:
            wanted = max(wanted, shapes.rows_together(graph))
        beyond = parameters.rows_beyond_limit and has_tasks(settings)
        settings = settings.with_parameters(max_task_rows=16 if beyond else wanted)
        plan = _with_columns_and_table(settings, limit, compiled)
        if plan is not None and beyond:
            plan = plan.with_parameters(max_task_rows=wanted)
    if plan is None:
        plan = _table(_without_columns(settings), limit, compiled)
    assert plan is not None  # the limit was enough for a table and the first rows
    return plan


def _with_columns(settings: Settings, limit: int) -> Settings | None:
    """Return the settings with beliefs on dense rows within a limit, in bytes of the compiled core."""
    has_fourier = bool(settings.parameters.frequencies)
    columns = shapes.dense_columns(settings)
    max_frequencies = (SCARCE_MULTIPLE if limit <= SCARCE else MULTIPLE) * useful_frequencies(columns)
    settings = settings.with_parameters(
        rows_may_grow=settings.parameters.max_task_rows is None, max_frequencies=max_frequencies if has_fourier else 0
    )
    few_rows = max(MIN_ROWS, ENOUGH_WEIGHTS // (columns + 1))
    groups: list[tuple[list[Settings], int]] = [
        (_several(settings), ENOUGH_ROWS),
        ([_lean(settings)], few_rows),
        ([_cells_only(settings)], ENOUGH_ROWS),
        ([_diagonal(settings)], ENOUGH_ROWS),
    ]
    # From the largest models to the smallest. Each group is tried with bins and then without. `kernel=None` asks for
    # linear models, which have no bins.
    for group, rows in groups:
        binned = [_with_bins(candidate, limit) for candidate in group if has_fourier]
        for candidate in (*binned, *group):
            plan = _dense(candidate, limit, compiled=True)
            if plan is not None and _is_balanced(plan, candidate, min(rows, _wanted_rows(settings)), limit):
                return plan
    return _dense(_smallest_with_columns(settings), limit, compiled=True)


def _several(settings: Settings) -> list[Settings]:
    """Return the settings with all beliefs, and with fewer kinds of filters."""
    fewer = _bayesian(settings)
    return [settings, fewer, _one_bandwidth(settings), _one_bandwidth(fewer)]


def _is_balanced(plan: Settings, candidate: Settings, rows: int, limit: int) -> bool:
    """Whether a plan has this many rows for tasks, and leaves enough bytes for them and for frequencies."""
    if candidate.parameters.bandwidths and _bank_bytes(candidate, compiled=True) > limit // BANK_SHARE:
        return False
    if shapes.row_bytes(plan) and plan.parameters.max_task_rows < rows:
        return False
    # At least half of the bytes should remain for frequencies, rows and cells. The overhead of AdaGrad's beliefs after
    # the first is not counted, because otherwise the smallest models would have no Fourier features.
    not_counted = max(0, len(candidate.parameters.rates) - 1) * shapes.part_overhead(candidate.n_outputs)
    return bytes_of(_bare(candidate), compiled=True) - not_counted <= limit // 2


def _table(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    """Give the remaining bytes to the table, with two beliefs if it is large and with one if it is small."""

    def sized(candidate: Settings) -> Settings:
        available = limit - bytes_of(candidate.with_parameters(cells=0), compiled)
        return candidate.with_parameters(cells=shapes.whole_buckets(candidate, available))

    plan = sized(settings)
    if plan.parameters.cells < ENOUGH_CELLS:
        plan = sized(_with_small_table(settings))
    return plan if plan.parameters.cells >= 16 else None


def _with_columns_and_table(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    """Divide the bytes between beliefs on frequent columns and the table."""
    limit = _compiled(limit, compiled)
    plan = _with_columns(settings.with_parameters(cells=WAYS), limit - limit // TABLE_SHARE)
    return None if plan is None else _table(plan, limit, compiled=True)


def _with_table(settings: Settings) -> Settings:
    """Return the settings with all beliefs of the table."""
    return settings.with_parameters(
        table_rates=list(TABLE_RATES), keeps=list(TABLE_KEEPS), signs=list(TABLE_SIGNS), cells=WAYS,
        pairs=TABLE_PAIRS if settings.parameters.shared else 0,
    )  # fmt: skip


def _with_small_table(settings: Settings) -> Settings:
    """Return the settings with one belief of the table."""
    return settings.with_parameters(
        table_rates=list(FEW_RATES), keeps=list(FEW_KEEPS), signs=list(FEW_SIGNS), pairs=0
    )


def _without_columns(settings: Settings) -> Settings:
    """Return the settings of sparse rows with the table only."""
    return settings.with_parameters(
        first_rows=False, limit=0, rows_beyond_limit=False, frequent_columns=[], filters=[], filter_rates=[],
        filter_lapses=[], fourier_filter=None, bandwidths=[], plain_filter=None, frequencies=0, rates=[], owns=[],
        latent=0, max_filter_frequencies=0, max_task_rows=NO_TASKS,
    )  # fmt: skip


def _with_bins(settings: Settings, limit: int) -> Settings:
    """Return the settings with as many bins as their share of the bytes allows, and with pairs if they fit into it."""
    columns = shapes.dense_columns(settings)
    if not settings.parameters.shared or not columns:
        return settings
    for edges in BINS:
        binned = settings.with_parameters(bins=edges)
        if shapes.bins_shape(binned).nbytes <= limit // BIN_SHARE:
            paired = binned.with_parameters(bin_pairs=columns > 1)
            return paired if shapes.bins_shape(paired).nbytes <= limit // BIN_SHARE else binned
    return settings


def _bayesian(settings: Settings) -> Settings:
    """Return the settings without filters that learn by AdaGrad or have a lapse rate, so that task rows are shorter."""
    parameters = settings.parameters
    kept = [
        k
        for k in range(len(parameters.filters))
        if shapes.filter_rate(parameters, k) == 0 and shapes.filter_lapse(parameters, k) == 0
    ]
    fourier, plain = (
        None if k is None else kept.index(k) for k in (parameters.fourier_filter, parameters.plain_filter)
    )
    return settings.with_parameters(
        filters=[parameters.filters[k] for k in kept], filter_rates=[], filter_lapses=[], fourier_filter=fourier,
        plain_filter=plain,
    )  # fmt: skip


def _one_bandwidth(settings: Settings) -> Settings:
    """Return the settings with one filter over Fourier features."""
    parameters = settings.parameters
    after = (parameters.fourier_filter or 0) + 1
    filters, rates, lapses = (
        values[:after] + values[after + len(parameters.bandwidths) :]
        for values in (parameters.filters, parameters.filter_rates, parameters.filter_lapses)
    )
    plain = parameters.plain_filter
    return settings.with_parameters(
        filters=filters, filter_rates=rates, filter_lapses=lapses, bandwidths=[],
        plain_filter=plain if plain is None else plain - len(parameters.bandwidths),
    )


def _bank_bytes(settings: Settings, compiled: bool) -> int:
    """Return the bytes that filters with other bandwidths add to a model before they grow."""
    return bytes_of(_bare(settings), compiled) - bytes_of(_bare(_one_bandwidth(settings)), compiled)


def _lean(settings: Settings) -> Settings:
    """Return the settings with one or two filters, and no `Latent`."""
    parameters = settings.parameters
    few = SMALL_BUDGET_FILTERS if has_tasks(settings) else SMALL_BUDGET_FILTERS[:1]
    settings = _one_bandwidth(settings)
    filters = [(prior, own if parameters.own else 0.0, floor) for prior, own, floor in few]
    fourier_filter = None if parameters.fourier_filter is None else 0
    return settings.with_parameters(
        filters=filters, filter_rates=[], filter_lapses=[], fourier_filter=fourier_filter, plain_filter=None, latent=0
    )


def _cells_only(settings: Settings) -> Settings:
    """Return the settings with one filter, whose own weights are hashed biases: no task has a row."""
    prior, own, floor = SMALL_BUDGET_FILTERS[0]
    filters = [(prior, own if settings.parameters.own else 0.0, floor)]
    return _one_bandwidth(settings).with_parameters(
        filters=filters, filter_rates=[], filter_lapses=[], fourier_filter=0, plain_filter=None, latent=0
    )


def _diagonal(settings: Settings) -> Settings:
    """Return the settings with one filter whose covariance is diagonal."""
    return _cells_only(settings).with_parameters(full_covariance=False)


def _wanted_rows(settings: Settings) -> int:
    parameters = settings.parameters
    if not has_tasks(settings):
        return NO_TASKS
    n_tasks = settings.graph.n_tasks
    wanted = 10**9 if n_tasks is None else 2 * n_tasks + 2
    return min(wanted, parameters.max_task_rows or wanted)


def _dense(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    """Divide the bytes between frequencies, rows of tasks and the filter over Fourier features."""
    parameters, d = settings.parameters, shapes.dense_columns(settings)
    bare = _bare(settings)
    available = limit - bytes_of(bare, compiled)
    if available < 0:
        return None
    tasks, has_fourier = has_tasks(settings), bool(parameters.frequencies)
    sized = bare
    if tasks and parameters.fourier_filter is not None:
        # Hashed biases get twice as many bytes if tasks have no rows, because they are then their only own weights.
        share = available // (8 if shapes.row_bytes(sized) else 4)
        cells = max(MIN_CELLS, share // (4 * (settings.n_outputs + 1) * (1 + len(parameters.bandwidths))))
        sized = sized.with_parameters(fourier_cells=min(cells, MAX_CELLS))
    if has_fourier:
        # A frequency costs a byte per column, two features with two numbers per rate and output, and working memory.
        bytes_each = d + 2 * 8 * len(parameters.rates) * settings.n_outputs + 3 * 8
        # With few bytes, AdaGrad over Fourier features is the best use of them; with many, a filter over them is.
        share = available // 4 if tasks else max(available // 3, min(available * 3 // 4, SMALL_BUDGET))
        frequencies = int(min(useful_frequencies(d), share // bytes_each))
        if not tasks:  # with tasks, more frequencies would make own weights longer, so fewer tasks could have them
            more = min(MULTIPLE * useful_frequencies(d), (available - SMALL_BUDGET) // 3 // bytes_each)
            frequencies = max(frequencies, int(more))
        sized = sized.with_parameters(frequencies=max(frequencies, 1))
        if tasks:
            cells = available // 8 // (8 * len(parameters.rates) * settings.n_outputs)
            sized = sized.with_parameters(own_cells=cells if cells >= shapes.fourier_width(sized) else 0)
    row = shapes.row_bytes(sized)
    share = available // 2 if has_fourier else available
    if tasks and parameters.bins and limit > SMALL_BUDGET:
        # They get a part of the bytes for rows, after `ENOUGH_ROWS` of them.
        cells = min(available // BIN_CELL_SHARE, share - ENOUGH_ROWS * row) // (8 * settings.n_outputs)
        sized = sized.with_parameters(bin_cells=min(cells, MAX_CELLS) if cells >= 2 * CELLS_PER_BIAS else 0)
        share -= 8 * settings.n_outputs * sized.parameters.bin_cells
    if row and tasks:
        fewest = _min_rows(settings)
        rows = min(_wanted_rows(settings), share // row, (limit - bytes_of(sized, compiled)) // row + fewest)
        sized = sized.with_parameters(max_task_rows=int(max(fewest, rows)))
    if parameters.fourier_filter is not None and parameters.full_covariance and has_fourier:
        sized = _with_most(sized, "filter_frequencies", limit, compiled)
        if parameters.bandwidths:
            sized = _with_most(sized, "bank_frequencies", limit, compiled)
    return sized if bytes_of(sized, compiled) <= limit else None


def _bare(settings: Settings) -> Settings:
    """Return the settings with the smallest sizes that these beliefs can have, before bytes are divided among them."""
    frequencies = min(settings.parameters.frequencies, 1)
    return settings.with_parameters(
        max_task_rows=_min_rows(settings), frequencies=frequencies, filter_frequencies=0, own_cells=0, bin_cells=0,
        bank_frequencies=first_frequencies(1) if settings.parameters.bandwidths else 0, fourier_cells=MIN_CELLS,
    )  # fmt: skip


def _min_rows(settings: Settings) -> int:
    """Return the smallest number of task rows: at least as many as one example updates."""
    return 16 if has_tasks(settings) else NO_TASKS


def _with_most(settings: Settings, name: str, limit: int, compiled: bool) -> Settings:
    """Return the settings with the parameter `name`, a number of frequencies, as large as the bytes allow."""
    max_frequencies = min(most_filter_frequencies(settings), int(settings.parameters.frequencies))
    low, high = min(getattr(settings.parameters, name), max_frequencies), max_frequencies + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = bytes_of(settings.with_parameters(**{name: middle}), compiled) <= limit
        low, high = (middle, high) if fits else (low, middle)
    return settings.with_parameters(**{name: low})


def resized(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    """Return settings with the beliefs of a model in use, sized for another limit; None if the limit is too small."""
    if settings.sparse:
        return _resized_sparse(settings, limit, compiled)
    return _resized_columns(settings, _compiled(limit, compiled))


def _resized_sparse(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    if settings.parameters.first_rows:
        settings = settings.with_parameters(limit=limit)
    if settings.parameters.frequent_columns:
        limit, compiled = _compiled(limit, compiled), True
        plan = _resized_columns(settings.with_parameters(cells=WAYS), limit - limit // TABLE_SHARE)
        if plan is None:
            return None
        settings = plan
    available = limit - bytes_of(settings.with_parameters(cells=0), compiled)
    cells = shapes.whole_buckets(settings, available)
    return settings.with_parameters(cells=cells) if cells >= 16 else None


def _resized_columns(settings: Settings, limit: int) -> Settings | None:
    if settings.parameters.rows_may_grow:  # the number of rows was planned, and is planned again
        settings = settings.with_parameters(max_task_rows=None)
    return _dense(settings, limit, compiled=True)


def _compiled(limit: int, compiled: bool) -> int:
    """Convert a limit to bytes of the compiled core. NumPy needs twice as many: it stores full covariance matrices."""
    return limit if compiled else limit // 2


def of_count(settings: Settings, count: int | None, rows: int | None) -> Settings:
    """Return the settings for a budget of `count` examples, or without a limit if `count` is None.

    The model gets the bytes that the compiled core would need for `count` stored rows and two count × count matrices.
    It has the same sizes in either engine. The rows of tasks, at most `rows` of them, are not counted.
    """
    wanted = settings.parameters.max_task_rows
    tasks = has_tasks(settings)
    if tasks:
        settings = settings.with_parameters(max_task_rows=16)
    plan = planned(settings, limit_of_count(settings, count), compiled=True) or smallest(settings)
    if not tasks or not _counts_rows(plan):
        return plan
    plan = plan.with_parameters(max_task_rows=wanted if wanted is not None else rows)
    return plan.with_parameters(rows_beyond_limit=True) if plan.parameters.first_rows else plan


def _counts_rows(settings: Settings) -> bool:
    """Whether tasks have rows, or may have them after the first rows of the stream."""
    return shapes.has_columns(settings) or bool(settings.parameters.first_rows)


def limit_of_count(settings: Settings, count: int | None) -> int:
    """Return the bytes of a budget of `count` examples, for everything except the rows of tasks."""
    limit = UNLIMITED
    if count is not None:
        limit = min(TABLE_BYTES if settings.sparse else UNLIMITED, 8 * count * (2 * settings.n_features + 2 * count))
    return limit + bytes_of(smallest(settings), compiled=True)


def resized_to_count(settings: Settings, count: int) -> Settings | None:
    """Return settings with the beliefs and task rows of a model in use, sized for a budget of `count` examples."""
    rows = settings.parameters.max_task_rows
    if has_tasks(settings) and shapes.has_columns(settings):
        settings = settings.with_parameters(max_task_rows=16)
    plan = resized(settings, limit_of_count(settings, count), compiled=True)
    return None if plan is None else plan.with_parameters(max_task_rows=rows)
