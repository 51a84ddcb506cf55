"""Turns a byte budget into the sizes of a Budgetron.

Sparse rows: everything goes to the table. Dense rows: a model on linear features first; then waves for AdaGrad, rows for
tasks, and a filter over waves with what is left. Fewer beliefs if rows for tasks would otherwise be few: what one task
costs matters more than another belief about all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from budgetron.engine.memory import bytes_of
from budgetron.engine.reference.budgetron import shapes
from budgetron.engine.settings import Settings
from budgetron.graphs import Explicit

# Prior variance of shared weights, of own ones as a multiple, and the least share that variances keep. Features have unit
# size, so a number means the same on every stream: 1 is calm and 10 is bold; own parts are a tenth of the shared one
# where tasks are alike, ten times it where they are not; one belief goes on adapting, for streams that drift.
FILTERS = ((1.0, 0.1, 0.0), (10.0, 0.1, 0.0), (3.0, 0.1, 0.1), (1.0, 10.0, 0.0), (3.0, 0.1, 0.0))
WAVE_FILTER = 4
PLAIN = (1.0, 10.0, 0.0)
"""On an explicit graph, one more filter that ignores it."""
FEW = ((3.0, 0.1, 0.0), (1.0, 10.0, 0.0))
"""The filters where bytes are few: the first sees waves."""
LATENT = 6
WAVE_RATES, WAVE_OWNS = (0.1, 0.3, 1.0), (0.1, 1.0, 0.1)
TABLE_RATES, TABLE_SIGNS = (0.15, 0.4, 1.0), (0.0, 1.0, 1.0)
NONE = 2**20
"""The number of a filter that there is not."""
MOST_WHOLE = 128
"""Columns up to which filters have a whole covariance."""
MOST_WAVES, MOST_WHOLE_WAVES = 1024, 192
ENOUGH_ROWS = 200


def beginning(settings: Settings, kernel: bool) -> Settings:
    """Return the settings with all beliefs and no sizes; `kernel`: with waves."""
    given = settings.parameters
    settings = replace(settings, kernel=None, capacity=1)
    if settings.sparse:
        return settings.with_parameters(rates=list(TABLE_RATES), signs=list(TABLE_SIGNS), cells=1)
    whole = settings.n_features <= MOST_WHOLE
    filters = [belief for k, belief in enumerate(FILTERS) if kernel or k != WAVE_FILTER]
    if not given.own:
        filters = list({(prior, 0.0, floor): None for prior, _, floor in filters})
    wave_filter = len(filters) - 1 if kernel and whole else NONE
    plain_filter = NONE
    if isinstance(settings.graph, Explicit):
        plain_filter = len(filters)
        filters.append(PLAIN)
    return settings.with_parameters(
        filters=filters, wave_filter=wave_filter, plain_filter=plain_filter, whole=whole, waves=1 if kernel else 0,
        rates=list(WAVE_RATES) if kernel else [], owns=list(WAVE_OWNS) if kernel else [], latent=LATENT if given.shared and given.own else 0,
    )  # fmt: skip


def least(settings: Settings) -> Settings:
    """Return the smallest model that is still one."""
    if settings.sparse:
        return settings.with_parameters(cells=16)
    return _lean(settings).with_parameters(max_task_rows=16, waves=0, rates=[], owns=[], whole=False, wave_filter=NONE)


def planned(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    """Return settings whose `bytes_of` is within the limit; None if it is too small."""
    if settings.sparse:
        empty = bytes_of(settings.with_parameters(cells=0, max_task_rows=2), compiled)
        cells = (limit - empty) // shapes.cell_bytes(settings)
        return settings.with_parameters(cells=min(cells, 2**31), max_task_rows=2) if cells >= 16 else None
    for candidate in (settings, _lean(settings), _diagonal(settings), least(settings)):
        found = _dense(candidate, limit, compiled)
        if found is not None and (found.parameters.max_task_rows >= min(ENOUGH_ROWS, _wanted_rows(settings))):
            return found
    return _dense(_lean(settings), limit, compiled) or _dense(least(settings), limit, compiled)


def _lean(settings: Settings) -> Settings:
    given = settings.parameters
    filters = [(prior, own if given.own else 0.0, floor) for prior, own, floor in FEW][: 2 if given.own else 1]
    has_waves = given.wave_filter < NONE
    return settings.with_parameters(filters=filters, wave_filter=0 if has_waves else NONE, plain_filter=NONE, latent=0)


def _diagonal(settings: Settings) -> Settings:
    return _lean(settings).with_parameters(whole=False, wave_filter=NONE)


def _wanted_rows(settings: Settings) -> int:
    given = settings.parameters
    if not given.own:
        return 2
    known = settings.graph.n_tasks
    wanted = 10**9 if known is None else 2 * known + 2
    return min(wanted, given.max_task_rows or wanted)


def _dense(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    """Divide the bytes between waves, rows of tasks and the filter over waves."""
    given, d = settings.parameters, settings.n_features
    bare = settings.with_parameters(max_task_rows=16, waves=min(given.waves, 1), whole_waves=0, own_cells=0)
    left = limit - bytes_of(bare, compiled)
    if left < 0:
        return None
    tasks, has_waves = given.own and _wanted_rows(settings) > 16, bool(given.waves)
    sized = bare
    if tasks and given.wave_filter < NONE:
        cells = max(16, left // 8 // (4 * (settings.n_outputs + 1)))
        sized = sized.with_parameters(wave_cells=min(cells, 2**16, _wanted_rows(settings)))
    if has_waves:
        # A frequency costs a byte per column, two features with two numbers per rate and output, and work space.
        each = d + 2 * 8 * len(given.rates) * settings.n_outputs + 3 * 8
        waves = int(min(MOST_WAVES, 32 * d, left // (4 if tasks else 2) // each))
        sized = sized.with_parameters(waves=max(waves, 1))
        if tasks:
            cells = left // 8 // (8 * len(given.rates) * settings.n_outputs)
            sized = sized.with_parameters(own_cells=cells if cells >= shapes.wave_width(sized) else 0)
    row = shapes.row_bytes(sized)
    if row and tasks:
        share = left // 2 if has_waves else left
        rows = min(_wanted_rows(settings), max(16, share // row), (limit - bytes_of(sized, compiled)) // row + 16)
        sized = sized.with_parameters(max_task_rows=int(max(16, rows)))
    if given.wave_filter < NONE:
        sized = _with_whole_waves(sized, limit, compiled)
    return sized if bytes_of(sized, compiled) <= limit else None


def _with_whole_waves(settings: Settings, limit: int, compiled: bool) -> Settings:
    low, high = 0, min(MOST_WHOLE_WAVES, 8 + 16 * settings.n_features, int(settings.parameters.waves)) + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = bytes_of(settings.with_parameters(whole_waves=middle), compiled) <= limit
        low, high = (middle, high) if fits else (low, middle)
    return settings.with_parameters(whole_waves=low)


def of_count(settings: Settings, count: int | None, compiled: bool, most: int, rows: int | None) -> Settings:
    """Return the settings of a budget of `count` examples; None: no limit, up to `most` bytes for what tasks share.

    The bytes are those of `count` stored rows and two matrices of their size. Weights per task come in addition.
    """
    d = settings.n_features
    limit = most
    if count is not None:
        limit = min(most, 8 * count * (2 * d + 2 * count)) if not settings.sparse else min(4 * NONE, 8 * count * (d + 2 * count))
    wanted = settings.parameters.max_task_rows
    settings = settings.with_parameters(max_task_rows=16)
    limit += bytes_of(least(settings), compiled)
    found = planned(settings, limit, compiled) or least(settings)
    return found.with_parameters(max_task_rows=wanted if wanted is not None else rows)


@dataclass(frozen=True)
class Belief:
    """What one of the models assumes about the stream, for people."""

    words: str
    curved: bool = False  # it has waves, or a table
    apart: bool = False  # tasks have more of their own than they share
    learned: bool = False  # it learns which tasks resemble which
    adapting: bool = False  # it expects the stream to keep changing

    def __str__(self) -> str:
        return self.words


def beliefs_of(settings: Settings) -> list[list[Belief]]:
    """Return the beliefs of every part."""
    given = settings.parameters
    if settings.sparse:
        kinds = ("presence" if sign else "size" for sign in given.signs)
        return [[Belief(f"{kind} of features, rate {rate:g}") for kind, rate in zip(kinds, given.rates, strict=True)]]
    both = given.own and given.shared
    parts = []
    for k, (prior, own, floor) in enumerate(given.filters):
        curved, apart = k == given.wave_filter, both and own > 1
        words = ["linear and waves" if curved else "linear", {1.0: "calm", 10.0: "bold"}.get(prior, "")]
        words += ["tasks differ" if apart else "tasks alike"] * both + ["adapting"] * (floor > 0)
        parts.append([Belief(", ".join(filter(None, words)), curved, apart, adapting=floor > 0)])
    if given.latent and both:
        parts.append([Belief("linear, kinds of tasks", learned=True)])
    if given.rates:
        apart = [both and own >= 1 for own in given.owns]
        parts.append([
            Belief(f"waves, rate {rate:g}" + (", tasks differ" if own else ", tasks alike") * both, True, own)
            for rate, own in zip(given.rates, apart, strict=True)
        ])  # fmt: skip
    return parts
