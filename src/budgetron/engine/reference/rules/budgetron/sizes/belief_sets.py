"""Which beliefs a Budgetron has: the set of all beliefs, and smaller sets for smaller budgets.

The functions change only the beliefs in the settings of a model. `plan` and `column_plan` choose a set and divide the
bytes.
"""

from __future__ import annotations

from dataclasses import replace

from budgetron.engine.reference.rules.budgetron.parts.table import WAYS
from budgetron.engine.reference.rules.budgetron.sizes import shapes
from budgetron.engine.settings import Settings
from budgetron.graphs import Explicit

# (prior, own, floor, rate, lapse) of each `FilterBelief`. Features have unit size, so a variance means the same on
# every stream. A belief that tasks are alike has own variances of a tenth of the shared ones. The belief that tasks
# differ has own variances ten times as large as the shared ones. Two beliefs keep adapting, for streams that drift. One
# of them is Bayesian with a floor, which is better where columns are correlated. The other has a rate, so it learns by
# AdaGrad. Its own weights move as fast as its shared weights, so that tasks may drift apart, and its floor lets it
# adapt even after millions of examples. The belief with a lapse rate assumes that 5 % of the labels are random. It has
# a large prior, because a wrong label cannot pull its weights far.
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
"""γ·d of two more filters that see Fourier features. γ is the parameter of the Gaussian kernel, and d the number of
columns. The first is for smooth functions, the second for functions with fine detail, which are common on streams with
few columns."""
PLAIN = (1.0, 10.0, 0.0, 0.0, 0.0)
"""One more filter on an explicit graph, which ignores the graph."""
SMALL_BUDGET_FILTERS = ((3.0, 0.1, 0.0), (1.0, 10.0, 0.0))
"""The filters of a small budget: the first sees Fourier features."""
MEDIUM_BUDGET_FILTERS = (*SMALL_BUDGET_FILTERS, (1.0, 0.1, 0.0))
"""The filters of a medium budget with tasks. The last one is linear and expects tasks to be alike. It is cheap, and the
best belief on many streams."""
LATENT = 6
"""Dimensions of the points of tasks in `Latent`."""
FOURIER_RATES, FOURIER_OWNS = (0.1, 0.3, 1.0), (0.1, 1.0, 0.1)
"""Step size and own share of each AdaGrad belief over Fourier features."""
TABLE_RATES, TABLE_KEEPS, TABLE_SIGNS = (0.3, 0.8), (0.98, 1.0), (0.0, 1.0)
"""For each belief of a table: its step size, the share of its sums of squared gradients that it keeps at a step, and 1
if it sees only the signs of the features. The first belief follows a stream that drifts, and the second converges."""
TABLE_PAIRS = 16
"""Rows with more features than this have no pairs. The time of an example grows with the square of this number."""
FEW_RATES, FEW_KEEPS, FEW_SIGNS = (0.4,), (1.0,), (0.0,)
"""The same for a small table, which has one belief. It keeps all squares and so converges: where clicks are rare,
keeping only 98 % of the squares would raise the log loss by 2 %."""
MAX_FULL_COVARIANCE = 128
"""Filters on at most this many columns have a full covariance matrix."""
NO_TASKS = 2
"""Task rows of a model for a stream without tasks."""


def with_all_beliefs(settings: Settings, kernel: bool) -> Settings:
    """Return the settings with all beliefs, before the sizes are planned. With `kernel`, some have Fourier features."""
    settings = replace(settings, kernel=None, capacity=1)
    if settings.sparse:  # all beliefs below are for frequent columns, if there will be any
        settings = with_table(settings)
    parameters = settings.parameters
    full_covariance = settings.sparse or settings.n_features <= MAX_FULL_COVARIANCE
    two_classes = settings.n_outputs == 1
    filters: list[tuple[float, ...]] = [
        belief
        for k, belief in enumerate(FILTERS)
        if (kernel or k != FOURIER_FILTER) and (two_classes or not belief[-1])  # lapse rates are for two classes
    ]
    tasks = has_tasks(settings)
    if not tasks:  # without tasks, beliefs that differ only in own weights would be equal
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
        latent=LATENT if parameters.shared and tasks else 0, short_rows=1 if tasks else 0,
        max_filter_frequencies=most_filter_frequencies(settings) if kernel else 0,
    )  # fmt: skip


def most_filter_frequencies(settings: Settings) -> int:
    """Return the largest number of frequencies of a filter. Its time and bytes grow with the square of this number."""
    return min(256, 128 * shapes.dense_columns(settings))


def has_tasks(settings: Settings) -> bool:
    """Whether the model has own weights for several tasks.

    A model for a stream without tasks has `NO_TASKS` rows, in case tasks come later.
    """
    return bool(settings.parameters.own) and settings.parameters.max_task_rows != NO_TASKS


def with_table(settings: Settings) -> Settings:
    """Return the settings with all beliefs of a table, for sparse rows."""
    return settings.with_parameters(
        table_rates=list(TABLE_RATES), keeps=list(TABLE_KEEPS), signs=list(TABLE_SIGNS), cells=WAYS,
        pairs=TABLE_PAIRS if settings.parameters.shared else 0,
    )  # fmt: skip


def with_one_table_belief(settings: Settings) -> Settings:
    """Return the settings with one belief of the table and no pairs."""
    return settings.with_parameters(table_rates=list(FEW_RATES), keeps=list(FEW_KEEPS), signs=list(FEW_SIGNS), pairs=0)


def with_table_only(settings: Settings) -> Settings:
    """Return the settings of sparse rows with the table only: no beliefs on frequent columns, now or later."""
    return settings.with_parameters(
        first_rows=False, limit=0, rows_beyond_limit=False, frequent_columns=[], filters=[], filter_rates=[],
        filter_lapses=[], fourier_filter=None, bandwidths=[], plain_filter=None, frequencies=0, rates=[], owns=[],
        latent=0, max_filter_frequencies=0, max_task_rows=NO_TASKS, short_rows=0,
    )  # fmt: skip


def on_frequent_columns(settings: Settings, frequent_columns: list[int]) -> Settings:
    """Return the settings of sparse rows with all beliefs: those of the table, and the others on these columns."""
    settings = settings.with_parameters(frequent_columns=frequent_columns)
    has_fourier = bool(settings.parameters.frequencies)
    return settings.with_parameters(max_filter_frequencies=most_filter_frequencies(settings) if has_fourier else 0)


def with_several_filters(settings: Settings) -> list[Settings]:
    """Return the settings with all beliefs, and three variants with fewer filters."""
    fewer = with_bayesian_filters(settings)
    return [settings, fewer, with_one_bandwidth(settings), with_one_bandwidth(fewer)]


def with_bayesian_filters(settings: Settings) -> Settings:
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


def with_one_bandwidth(settings: Settings) -> Settings:
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


def with_three_filters(settings: Settings, latent: bool) -> Settings:
    """Return the settings with three filters, for a stream with tasks. `latent` adds the part `Latent`."""
    few = _with_filters(settings, MEDIUM_BUDGET_FILTERS)
    return few.with_parameters(latent=settings.parameters.latent) if latent else few


def with_few_filters(settings: Settings) -> Settings:
    """Return the settings with two filters, or one if there are no tasks, and without `Latent`."""
    return _with_filters(settings, SMALL_BUDGET_FILTERS if has_tasks(settings) else SMALL_BUDGET_FILTERS[:1])


def _with_filters(settings: Settings, filters: tuple[tuple[float, float, float], ...]) -> Settings:
    """Return the settings with these filters, of which the first sees Fourier features, and without `Latent`."""
    settings = with_one_bandwidth(settings)
    parameters = settings.parameters
    return settings.with_parameters(
        filters=[(prior, own if parameters.own else 0.0, floor) for prior, own, floor in filters], filter_rates=[],
        filter_lapses=[], fourier_filter=None if parameters.fourier_filter is None else 0, plain_filter=None, latent=0,
    )  # fmt: skip


def with_hashed_biases_only(settings: Settings) -> Settings:
    """Return the settings with one filter, whose own weights are hashed biases: no task has a row."""
    prior, own, floor = SMALL_BUDGET_FILTERS[0]
    filters = [(prior, own if settings.parameters.own else 0.0, floor)]
    return with_one_bandwidth(settings).with_parameters(
        filters=filters, filter_rates=[], filter_lapses=[], fourier_filter=0, plain_filter=None, latent=0,
        short_rows=0,
    )


def with_diagonal_covariance(settings: Settings) -> Settings:
    """Return the settings of `with_hashed_biases_only`, with a diagonal covariance."""
    return with_hashed_biases_only(settings).with_parameters(full_covariance=False)
