"""Divides bytes among the beliefs on the columns of dense rows, or on the frequent columns of sparse rows.

First every belief gets the bytes of its smallest size. (Bins have only one size.) The rest is divided in this order:
hashed biases of tasks, short rows, the frequencies of AdaGrad and its own weights, own weights for bins, rows of tasks,
and finally filters over Fourier features. If only few tasks would have rows, the model gets fewer beliefs, because a
row for one more task is worth more than one more belief.

All bytes are those of the compiled core. On sparse rows, the settings also have a table, whose size does not change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from budgetron.engine.memory import bytes_of
from budgetron.engine.reference.rules.budgetron.features.fourier_features import first_frequencies, useful_frequencies
from budgetron.engine.reference.rules.budgetron.parts.bins import CELLS_PER_BIAS
from budgetron.engine.reference.rules.budgetron.sizes import belief_sets, shapes
from budgetron.engine.settings import Settings
from budgetron.graphs import Explicit

BANK_SHARE = 8
"""Filters with bandwidths of their own are left out if they would need more than 1/8 of the bytes before they grow."""
BARE_SHARE, BARE_SHARE_OF_FEW = 0.4, 0.6
"""Beliefs are left out if, at their smallest sizes, they would need more than this share of the bytes. The second share
is for the smallest model whose tasks have rows, because rows are worth more than Fourier features."""
ENOUGH_ROWS, ENOUGH_ROWS_OF_LATENT = 200, 80
"""A plan with rows for fewer tasks than this is replaced by one with fewer beliefs. The second number is for three
filters and `Latent` (above `SMALL_BUDGET`): where there are kinds of tasks, `Latent` is worth more than rows for other
tasks."""
MIN_ROWS, MIN_ROWS_ON_GRAPH = 4, 16
"""The smallest number of task rows. On an explicit graph, one example updates up to ten rows."""
SHORT_SHARE = 8
"""Short rows take 1/8 of the bytes that are divided."""
MIN_CELLS, MAX_CELLS = 16, 2**16
"""Limits of the number of hashed biases of a filter. The second also limits the own weights for bins."""
SMALL_BUDGET = 96 * 1024
"""Up to this many bytes, AdaGrad over Fourier features is a better use of memory than a filter over them, and rows of
tasks are a better use than bins."""
SCARCE = 2**20
MULTIPLE, SCARCE_MULTIPLE = 2, 24
"""AdaGrad may have this multiple of the useful frequencies. With a budget of up to `SCARCE` bytes the multiple is
larger, so that all bytes are used. With a larger budget, more frequencies would cost more time than they are worth."""
BINS = (64, 32, 16)
"""Edges of the bins of each column: the largest of these numbers that `BIN_SHARE` allows."""
BIN_SHARE, BIN_CELL_SHARE = 8, 8
"""Binned columns with their pairs may take 1/8 of the bytes, and the own weights of tasks for bins another 1/8."""


@dataclass(frozen=True)
class _Candidate:
    """Settings from which a plan may be made, and what the plan must fulfil."""

    settings: Settings
    rows: int = ENOUGH_ROWS  # the least number of task rows
    bare_share: float = BARE_SHARE


def planned(settings: Settings, limit: int) -> Settings | None:
    """Return settings with `bytes_of` within the limit; None if every model needs more."""
    has_fourier, columns = bool(settings.parameters.frequencies), shapes.dense_columns(settings)
    max_frequencies = (SCARCE_MULTIPLE if limit <= SCARCE else MULTIPLE) * useful_frequencies(columns)
    settings = settings.with_parameters(
        rows_may_grow=settings.parameters.max_task_rows is None, max_frequencies=max_frequencies if has_fourier else 0
    )
    for group in _candidates(settings, limit):
        binned = [replace(candidate, settings=_with_bins(candidate.settings, limit)) for candidate in group]
        for candidate in (*binned * has_fourier, *group):
            plan = _divided(candidate.settings, limit)
            if plan is not None and _is_balanced(plan, candidate, limit):
                return plan
    return _divided(smallest(settings), limit)


def _candidates(settings: Settings, limit: int) -> list[list[_Candidate]]:
    """Return groups of models, from the largest to the smallest. Each group is tried with bins and then without.

    `kernel=None` asks for linear models, which have no bins.
    """
    tasks = belief_sets.has_tasks(settings)
    latent_rows = ENOUGH_ROWS_OF_LATENT if limit > SMALL_BUDGET else ENOUGH_ROWS
    few_share = BARE_SHARE_OF_FEW if tasks else BARE_SHARE
    with_three = [
        _Candidate(belief_sets.with_three_filters(settings, latent=True), latent_rows),
        _Candidate(belief_sets.with_three_filters(settings, latent=False)),
    ]
    return [
        [_Candidate(several) for several in belief_sets.with_several_filters(settings)],
        with_three if tasks else [],
        [_Candidate(belief_sets.with_few_filters(settings), _min_rows(settings), few_share)],
        [_Candidate(belief_sets.with_hashed_biases_only(settings))],
        [_Candidate(belief_sets.with_diagonal_covariance(settings))],
    ]


def smallest(settings: Settings) -> Settings:
    """Return the settings with the fewest beliefs and the smallest sizes."""
    return belief_sets.with_hashed_biases_only(settings).with_parameters(
        max_task_rows=_min_rows(settings), frequencies=0, filter_frequencies=0, rates=[], owns=[],
        full_covariance=False, fourier_cells=MIN_CELLS, bins=0, bin_pairs=False, bin_cells=0,
    )  # fmt: skip


def resized(settings: Settings, limit: int) -> Settings | None:
    """Return settings with the beliefs of a model in use, sized for another limit; None if the limit is too small."""
    if settings.parameters.rows_may_grow:  # the number of rows was planned, and is planned again
        settings = settings.with_parameters(max_task_rows=None)
    return _divided(settings, limit)


def _is_balanced(plan: Settings, candidate: _Candidate, limit: int) -> bool:
    """Whether a plan has enough task rows, and beliefs that leave enough bytes for rows and frequencies."""
    settings = candidate.settings
    if settings.parameters.bandwidths and _bank_bytes(settings) > limit // BANK_SHARE:
        return False
    if shapes.row_bytes(plan) and plan.parameters.max_task_rows < min(candidate.rows, _wanted_rows(settings)):
        return False
    # Many bytes should remain for frequencies, rows and cells. Not counted are the bytes that every model needs, and
    # the overhead of AdaGrad's beliefs after the first one. Otherwise the smallest models would have no Fourier
    # features.
    fixed = bytes_of(smallest(settings))
    overhead = max(0, len(settings.parameters.rates) - 1) * shapes.part_overhead(settings.n_outputs)
    return bytes_of(_bare(settings)) - fixed - overhead <= candidate.bare_share * (limit - fixed)


def _with_bins(settings: Settings, limit: int) -> Settings:
    """Return the settings with as many bins as their share of the bytes allows, and with pairs of bins if they fit too.

    With few bytes, rows for more tasks are worth more than bins.
    """
    columns = shapes.dense_columns(settings)
    rows_come_first = belief_sets.has_tasks(settings) and limit <= SMALL_BUDGET
    if not settings.parameters.shared or not columns or rows_come_first:
        return settings
    for edges in BINS:
        binned = settings.with_parameters(bins=edges)
        if shapes.bins_shape(binned).nbytes <= limit // BIN_SHARE:
            paired = binned.with_parameters(bin_pairs=columns > 1)
            return paired if shapes.bins_shape(paired).nbytes <= limit // BIN_SHARE else binned
    return settings


def _bank_bytes(settings: Settings) -> int:
    """Return the bytes that filters with bandwidths of their own add to a model before they grow."""
    return bytes_of(_bare(settings)) - bytes_of(_bare(belief_sets.with_one_bandwidth(settings)))


def _wanted_rows(settings: Settings) -> int:
    parameters = settings.parameters
    if not belief_sets.has_tasks(settings):
        return belief_sets.NO_TASKS
    n_tasks = settings.graph.n_tasks
    wanted = 10**9 if n_tasks is None else 2 * n_tasks + 2
    return min(wanted, parameters.max_task_rows or wanted)


def _divided(settings: Settings, limit: int) -> Settings | None:
    """Divide the bytes among the beliefs of the settings; None if these beliefs do not fit."""
    parameters, d = settings.parameters, shapes.dense_columns(settings)
    bare = _bare(settings)
    available = limit - bytes_of(bare)
    if available < 0:
        return None
    tasks, has_fourier = belief_sets.has_tasks(settings), bool(parameters.frequencies)
    sized = bare
    if tasks and parameters.fourier_filter is not None:
        # Hashed biases get more bytes if tasks have fewer other own weights.
        share = available // (8 if parameters.latent else 5 if shapes.row_bytes(sized) else 3)
        cells = max(MIN_CELLS, share // (4 * (settings.n_outputs + 1) * (1 + len(parameters.bandwidths))))
        sized = sized.with_parameters(fourier_cells=min(cells, MAX_CELLS))
    short_rows = available // SHORT_SHARE if parameters.short_rows else 0
    sized = sized.with_parameters(short_rows=short_rows // shapes.short_row_bytes(settings))
    if has_fourier:
        # A frequency costs a byte per column, two features with two numbers per rate and output, and working memory.
        bytes_each = d + 2 * 8 * len(parameters.rates) * settings.n_outputs + 3 * 4
        # With few bytes, most go to AdaGrad over Fourier features; with many, a filter over these features is better.
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
        # The own weights for bins get a part of the bytes for rows, but leave enough for `ENOUGH_ROWS` rows.
        cells = min(available // BIN_CELL_SHARE, share - ENOUGH_ROWS * row) // (8 * settings.n_outputs)
        sized = sized.with_parameters(bin_cells=min(cells, MAX_CELLS) if cells >= 2 * CELLS_PER_BIAS else 0)
        share -= 8 * settings.n_outputs * sized.parameters.bin_cells
    if row and tasks:
        fewest = _min_rows(settings)
        rows = min(_wanted_rows(settings), share // row, (limit - bytes_of(sized)) // row + fewest)
        sized = sized.with_parameters(max_task_rows=int(max(fewest, rows)))
        if settings.graph.n_tasks is not None and rows == _wanted_rows(settings):  # every task will have a row
            sized = sized.with_parameters(short_rows=0)
    if parameters.fourier_filter is not None and parameters.full_covariance and has_fourier:
        sized = _with_most(sized, "filter_frequencies", limit)
        if parameters.bandwidths:
            sized = _with_most(sized, "bank_frequencies", limit)
    return sized if bytes_of(sized) <= limit else None


def _bare(settings: Settings) -> Settings:
    """Return the settings with the smallest sizes that these beliefs can have, before bytes are divided among them."""
    frequencies = min(settings.parameters.frequencies, 1)
    return settings.with_parameters(
        max_task_rows=_min_rows(settings), frequencies=frequencies, filter_frequencies=0, own_cells=0, bin_cells=0,
        bank_frequencies=first_frequencies(1) if settings.parameters.bandwidths else 0, fourier_cells=MIN_CELLS,
        short_rows=0,
    )  # fmt: skip


def _min_rows(settings: Settings) -> int:
    """Return the smallest number of task rows: at least as many as one example updates."""
    if not belief_sets.has_tasks(settings):
        return belief_sets.NO_TASKS
    return MIN_ROWS_ON_GRAPH if isinstance(settings.graph, Explicit) else MIN_ROWS


def _with_most(settings: Settings, name: str, limit: int) -> Settings:
    """Return the settings with the parameter `name`, a number of frequencies, as large as the bytes allow."""
    max_frequencies = min(belief_sets.most_filter_frequencies(settings), int(settings.parameters.frequencies))
    low, high = min(getattr(settings.parameters, name), max_frequencies), max_frequencies + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = bytes_of(settings.with_parameters(**{name: middle})) <= limit
        low, high = (middle, high) if fits else (low, middle)
    return settings.with_parameters(**{name: low})
