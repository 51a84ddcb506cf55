"""The section about single tasks: a table of all tasks, and small charts of the worst ones."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from budgetron.evaluate import Figures, TaskCurve, Validation
from budgetron.report.page import as_count, as_percent, name_of
from budgetron.report.parts import Chart, Section, chart_element, named, paragraph, rounded

MAX_ROWS = 10_000  # rows of the table
MAX_CURVES = 24
MIN_EXAMPLES = 16  # with fewer examples, a curve would only show noise


def tasks(validation: Validation, model: Any) -> tuple[Section, dict[str, Any]]:
    """Return the section, and the data of the table for table.js."""
    worst = validation.worst_first()
    parts = [paragraph(_sentence(validation, len(worst)))]
    parts.append('<div id="tasks-table"><noscript><p>The table of tasks needs JavaScript.</p></noscript></div>')
    curves = [
        (task, figures)
        for task, figures in worst
        if task in validation.task_curves and figures.n >= MIN_EXAMPLES
    ][:MAX_CURVES]
    charts: dict[str, Chart] = {}
    if curves:
        shown = "all tasks" if len(curves) == len(worst) else f"the {len(curves)} worst tasks"
        points = {task: _points(validation.task_curves[task]) for task, _ in curves}
        # With rare labels all errors are small. On a scale from 0 to 100 % their curves would be flat.
        largest = max(error for curve in points.values() for _, error in curve)
        top = next(limit for limit in (0.05, 0.1, 0.25, 0.5, 1.0) if largest <= limit)
        scale = f"The dashed line is the error of all tasks together. All charts show 0 to {100 * top:g} %."
        parts.append(f"<h3>The tasks over time</h3>{paragraph(f'Error over time of {shown}. {scale}', 'note')}")
        items = []
        for number, (task, figures) in enumerate(curves):
            name = f"task-{number}"
            charts[name] = _small_chart(validation, points[task], top)
            items.append(_item(name, task, figures))
        parts.append(f'<ul class="multiples">{"".join(items)}</ul>')
    return Section("tasks", "Tasks", "".join(parts), charts), _table(worst, model)


def _sentence(validation: Validation, n_tasks: int) -> str:
    text = (
        "The worst tasks come first. They are sorted by the lower confidence limit of their error, so that three "
        "errors in three examples do not come before forty errors in a hundred."
    )
    if validation.others is not None:
        text += (
            f" The first {as_count(n_tasks)} tasks that appeared are counted separately. All later ones together have "
            f"{as_count(validation.others.n)} examples and an error of {as_percent(validation.others.error)}."
        )
    if n_tasks > MAX_ROWS:
        text += f" The {as_count(MAX_ROWS)} worst are shown."
    return text


def _table(worst: list[tuple[Hashable, Figures]], model: Any) -> dict[str, Any]:
    share = getattr(model, "budget_share_", {})
    stores = getattr(model, "capacity_", None) != 0
    has_auc = any(row.auc is not None for _, row in worst)
    has_loss = any(row.log_loss is not None for _, row in worst)
    columns = [
        {"label": "Task"},
        {"label": "Error", "format": "percent", "bar": True},
        {"label": "At least", "format": "percent", "hint": "Lower confidence limit of the error"},
        {"label": "Examples", "format": "count"},
        {"label": "Mistakes", "format": "count"},
        *([{"label": "AUC", "format": "number"}] if has_auc else []),
        {"label": "F", "format": "percent"},
        {"label": "Precision", "format": "percent"},
        {"label": "Recall", "format": "percent"},
        *([{"label": "Log loss", "format": "number"}] if has_loss else []),
    ]
    if stores:
        hint = "The task's share of the stored examples at the end"
        columns.append({"label": "Stored share", "format": "percent", "hint": hint})
    rows = [
        [
            name_of(task), rounded(row.error), rounded(row.error_at_least), row.n, row.mistakes,
            *([rounded(row.auc)] if has_auc else []), rounded(row.f_measure), rounded(row.precision),
            rounded(row.recall), *([rounded(row.log_loss)] if has_loss else []),
            *([rounded(share.get(task, 0.0))] if stores else []),
        ]
        for task, row in worst[:MAX_ROWS]
    ]  # fmt: skip
    # Sorted by column 2, the lower confidence limit of the error; −1 means descending.
    return {"columns": columns, "rows": rows, "sort": [2, -1]}


def _item(chart: str, task: Hashable, figures: Figures) -> str:
    errors = f"{as_percent(figures.error)} of {as_count(figures.n)}"
    element = chart_element(chart, f"Error of {name_of(task)} over time: {errors} in all", small=True)
    return f"<li><strong>{named(task)}</strong><small>{errors} wrong</small>{element}</li>"


def _small_chart(validation: Validation, points: list[tuple[float, float]], top: float) -> Chart:
    series = [{"label": "error", "values": [rounded(error) for _, error in points]}]
    mark = {"value": rounded(validation.overall.error or 0.0)}
    x = [rounded(x) for x, _ in points]
    return {"x": x, "small": True, "format": "percent", "range": [0, top], "series": series, "mark": mark}


def _points(curve: TaskCurve) -> list[tuple[float, float]]:
    """Return the error over time, in windows with enough examples of the task to show more than noise."""
    min_examples = max(8, int(curve.n[-1]) // 16)  # so about 16 points at most; only the last may have fewer examples
    points, seen, wrong = [], 0, 0
    for position, n, errors in zip(curve.position.tolist(), curve.n.tolist(), curve.errors.tolist(), strict=True):
        if n - seen >= min_examples or (position == curve.position[-1] and n > seen):
            points.append((position / int(curve.position[-1]), (errors - wrong) / (n - seen)))
            seen, wrong = n, errors
    return points
