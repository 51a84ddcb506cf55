"""Each task: a table of all, and small curves of the worst."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from budgetron.evaluate import Figures, TaskCurve, Validation
from budgetron.report.page import as_count, as_percent, name_of
from budgetron.report.parts import Section, named, paragraph, rounded
from budgetron.report.pictures import sparkline

MOST_ROWS = 10_000
MOST_CURVES = 24
FEWEST = 16  # examples below which a curve says nothing


def tasks(validation: Validation, model: Any) -> tuple[Section, dict[str, Any]]:
    """The section, and the table's data."""
    worst = validation.worst_first()
    parts = [paragraph(_sentence(validation, len(worst)))]
    parts.append('<div id="tasks-table"><noscript><p>The table of tasks needs JavaScript.</p></noscript></div>')
    curves = [(task, row) for task, row in worst if task in validation.task_curves and row.n >= FEWEST][:MOST_CURVES]
    if curves:
        shown = "all of them" if len(curves) == len(worst) else f"the {len(curves)} worst"
        scale = "The dashed line is the error of all tasks together. The scale is 0 to 100 % everywhere."
        parts.append(f"<h3>The tasks over time</h3>{paragraph(f'Error over time, {shown}. {scale}', 'note')}")
        parts.append(f'<ul class="multiples">{"".join(_multiple(task, row, validation) for task, row in curves)}</ul>')
    return Section("tasks", "Tasks", "".join(parts)), _table(worst, model)


def _sentence(validation: Validation, n_tasks: int) -> str:
    text = (
        "Worst first: by the error that the counts leave little doubt of, so that three errors in three examples do "
        "not come before forty in a hundred."
    )
    if validation.others is not None:
        text += (
            f" The first {as_count(n_tasks)} tasks that appeared are counted one by one; all later ones together: "
            f"{as_count(validation.others.n)} examples, error {as_percent(validation.others.error)}."
        )
    if n_tasks > MOST_ROWS:
        text += f" The {as_count(MOST_ROWS)} worst are shown."
    return text


def _table(worst: list[tuple[Hashable, Figures]], model: Any) -> dict[str, Any]:
    share = getattr(model, "budget_share_", {})
    has_loss = any(row.log_loss is not None for _, row in worst)
    columns = [
        {"label": "Task"},
        {"label": "Error", "format": "percent", "bar": True},
        {"label": "At least", "format": "percent", "hint": "What the counts leave little doubt of"},
        {"label": "Examples", "format": "count"},
        {"label": "Mistakes", "format": "count"},
        {"label": "F", "format": "percent"},
        {"label": "Precision", "format": "percent"},
        {"label": "Recall", "format": "percent"},
        *([{"label": "Log loss", "format": "number"}] if has_loss else []),
        {"label": "Of the store", "format": "percent", "hint": "Its share of the stored examples at the end"},
    ]
    rows = [
        [
            name_of(task), rounded(row.error), rounded(row.error_at_least), row.n, row.mistakes, rounded(row.f_measure),
            rounded(row.precision), rounded(row.recall), *([rounded(row.log_loss)] if has_loss else []),
            rounded(share.get(task, 0.0)),
        ]
        for task, row in worst[:MOST_ROWS]
    ]  # fmt: skip
    return {"columns": columns, "rows": rows, "sort": [2, -1]}


def _multiple(task: Hashable, row: Figures, validation: Validation) -> str:
    curve: TaskCurve = validation.task_curves[task]
    says = f"{as_percent(row.error)} of {as_count(row.n)}"
    alternative = f"Error of {name_of(task)} over time: {says} in all"
    svg = sparkline(_points(curve), validation.overall.error or 0.0, alternative)
    return f"<li><strong>{named(task)}</strong><small>{says} wrong</small>{svg}</li>"


def _points(curve: TaskCurve) -> list[tuple[float, float]]:
    """The error over time in windows with so many of the task's examples that it says something."""
    fewest = max(8, int(curve.n[-1]) // 16)
    points, seen, wrong = [], 0, 0
    for position, n, errors in zip(curve.position.tolist(), curve.n.tolist(), curve.errors.tolist(), strict=True):
        if n - seen >= fewest or (position == curve.position[-1] and n > seen):
            points.append((position / int(curve.position[-1]), (errors - wrong) / (n - seen)))
            seen, wrong = n, errors
    return points
