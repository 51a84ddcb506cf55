"""Turns a byte budget into the sizes of a Budgetron.

For dense rows, all bytes go to beliefs on the columns (`column_plan`). A model on sparse rows begins with a hashed
table of weights (`parts.table`), and keeps its first rows (`engine.first_rows`). Then it is planned again
(`begun_again`). If the first rows have frequent columns (`frequent_columns`), beliefs on these get up to three quarters
of the bytes, and the table gets the rest. Otherwise the table gets all bytes.
"""

from __future__ import annotations

from budgetron.engine.memory import bytes_of
from budgetron.engine.reference.rules.budgetron.parts.table import WAYS
from budgetron.engine.reference.rules.budgetron.sizes import belief_sets, column_plan, shapes
from budgetron.engine.settings import Settings
from budgetron.graphs import Explicit

MIN_TABLE_CELLS = 16
"""The smallest number of cells of a table."""
ENOUGH_CELLS = 2**14
"""A table with fewer cells than this has one belief, because more cells lower the error more than another belief."""
TABLE_SHARE = 4
"""The table gets at least 1/4 of the bytes if there are frequent columns."""
FIRST_CELLS = 4096
"""The most cells of the table while a model keeps its first rows. These rows have at most 2,048 entries."""
MIN_BYTES_FOR_ROWS = 48 * 1024
"""With fewer bytes, a model on sparse rows keeps no first rows, and has a table only."""
TABLE_BYTES = 4 * 2**20
"""If the budget is a number of examples: the most bytes of a model on sparse rows. Rows of tasks are not counted."""
UNLIMITED = 64 * 2**20
"""If there is no budget: the bytes of everything except the rows of tasks, whose number is then unlimited. If the
budget is a number of examples: the most bytes of a model on dense rows, counted in the same way as `TABLE_BYTES`."""


def smallest(settings: Settings) -> Settings:
    """Return the settings of the smallest possible model."""
    if settings.sparse:
        table = belief_sets.with_one_table_belief(belief_sets.with_table_only(settings))
        return table.with_parameters(cells=MIN_TABLE_CELLS)
    return column_plan.smallest(settings)


def planned(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    """Return the settings of a new model with `bytes_of` within the limit; None if every model needs more."""
    if not settings.sparse:
        return column_plan.planned(settings, _compiled(limit, compiled))
    plan = None
    if limit >= MIN_BYTES_FOR_ROWS and settings.parameters.frequencies:  # `kernel=None` asks for a fast model
        plan = _with_first_rows(belief_sets.with_one_table_belief(settings), limit, compiled)
    return plan or _with_table(belief_sets.with_table_only(settings), limit, compiled)


def _with_first_rows(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    """Return the settings of a model that keeps its first rows. The plan after these rows has the bytes `limit`."""
    plan = _with_most_cells(settings.with_parameters(first_rows=True, limit=limit), limit, compiled)
    return None if plan is None else plan.with_parameters(cells=min(plan.parameters.cells, FIRST_CELLS))


def largest(settings: Settings, compiled: bool) -> Settings:
    """Return settings with as many bytes as the model may have later. While it keeps its first rows, it has fewer."""
    if not settings.parameters.first_rows:
        return settings
    return _with_most_cells(settings, settings.parameters.limit, compiled) or settings


def begun_again(settings: Settings, frequent_columns: list[int], compiled: bool) -> Settings:
    """Return the settings with which a model on sparse rows begins again after its first rows, within its limit."""
    limit, wanted = settings.parameters.limit, settings.parameters.max_task_rows
    beyond = settings.parameters.rows_beyond_limit and belief_sets.has_tasks(settings)
    settings = belief_sets.with_table(settings).with_parameters(first_rows=False, limit=0, rows_beyond_limit=False)
    plan = None
    if frequent_columns:
        if isinstance(settings.graph, Explicit) and wanted is not None:
            wanted = max(wanted, shapes.rows_together(settings.graph))
        # If the rows of tasks come in addition to the limit, they are added after the plan, as in `of_count`.
        columns = belief_sets.on_frequent_columns(settings, frequent_columns)
        plan = _with_columns_and_table(columns.with_parameters(max_task_rows=16 if beyond else wanted), limit, compiled)
        if plan is not None and beyond:
            plan = plan.with_parameters(max_task_rows=wanted)
    plan = plan or _with_table(belief_sets.with_table_only(settings), limit, compiled)
    assert plan is not None  # the limit was enough for a table and the first rows
    return plan


def _with_columns_and_table(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    """Divide the bytes between beliefs on frequent columns and the table."""
    limit = _compiled(limit, compiled)
    plan = column_plan.planned(settings.with_parameters(cells=WAYS), limit - limit // TABLE_SHARE)
    return None if plan is None else _with_table(plan, limit, compiled=True)


def _with_table(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    """Give the remaining bytes to the table: with all of its beliefs if it is large, and with one if it is small."""
    plan = _with_most_cells(settings, limit, compiled)
    if plan is not None and plan.parameters.cells >= ENOUGH_CELLS:
        return plan
    return _with_most_cells(belief_sets.with_one_table_belief(settings), limit, compiled)


def _with_most_cells(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    """Return the settings with the largest table that the bytes allow; None if the limit is too small for a table."""
    cells = shapes.whole_buckets(settings, limit - bytes_of(settings.with_parameters(cells=0), compiled))
    return settings.with_parameters(cells=cells) if cells >= MIN_TABLE_CELLS else None


def resized(settings: Settings, limit: int, compiled: bool) -> Settings | None:
    """Return settings with the beliefs of a model in use, sized for another limit; None if the limit is too small."""
    if not settings.sparse:
        return column_plan.resized(settings, _compiled(limit, compiled))
    if settings.parameters.first_rows:
        return _with_first_rows(settings, limit, compiled)
    if not settings.parameters.frequent_columns:
        return _with_most_cells(settings, limit, compiled)
    limit = _compiled(limit, compiled)
    plan = column_plan.resized(settings.with_parameters(cells=WAYS), limit - limit // TABLE_SHARE)
    return None if plan is None else _with_most_cells(plan, limit, compiled=True)


def _compiled(limit: int, compiled: bool) -> int:
    """Convert a limit to bytes of the compiled core. NumPy needs twice as many: it stores full covariance matrices."""
    return limit if compiled else limit // 2


def of_count(settings: Settings, count: int | None, rows: int | None) -> Settings:
    """Return the settings for a budget of `count` examples, or without a limit if `count` is None.

    The model gets `limit_of_count` bytes of the compiled core: what `count` rows and two count × count matrices need in
    float64. It has the same sizes in either engine. The rows of tasks, at most `rows` of them, are not counted.
    """
    wanted = settings.parameters.max_task_rows
    tasks = belief_sets.has_tasks(settings)
    if tasks:  # nearly all tasks will have rows, so there are no short rows for tasks without a row
        settings = settings.with_parameters(max_task_rows=16, short_rows=0)
    plan = planned(settings, limit_of_count(settings, count), compiled=True) or smallest(settings)
    if not tasks or not _may_have_rows(plan):
        return plan
    plan = plan.with_parameters(max_task_rows=wanted if wanted is not None else rows)
    return plan.with_parameters(rows_beyond_limit=True) if plan.parameters.first_rows else plan


def _may_have_rows(settings: Settings) -> bool:
    """Whether tasks have rows, or may have them after the first rows of the stream."""
    return shapes.has_columns(settings) or bool(settings.parameters.first_rows)


def limit_of_count(settings: Settings, count: int | None) -> int:
    """Return the bytes of a budget of `count` examples, for everything except the rows of tasks.

    It is never less than the smallest possible model needs, so every count is enough for a model.
    """
    limit = UNLIMITED
    if count is not None:
        limit = min(TABLE_BYTES if settings.sparse else UNLIMITED, 8 * count * (settings.n_features + 2 * count))
    return max(limit, bytes_of(smallest(settings), compiled=True))


def resized_to_count(settings: Settings, count: int) -> Settings | None:
    """Return settings with the beliefs and task rows of a model in use, sized for a budget of `count` examples."""
    rows = settings.parameters.max_task_rows
    if belief_sets.has_tasks(settings) and shapes.has_columns(settings):
        settings = settings.with_parameters(max_task_rows=16)
    plan = resized(settings, limit_of_count(settings, count), compiled=True)
    return None if plan is None else plan.with_parameters(max_task_rows=rows)
