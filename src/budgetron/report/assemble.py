"""Assemble the sections into a page, and write the file."""

from __future__ import annotations

import os
from importlib.resources import files
from typing import Any

from budgetron.errors import input_type_error, shown
from budgetron.evaluate import Validation
from budgetron.persist import replace_file
from budgetron.report import page
from budgetron.report.context import Context
from budgetron.report.page import escape
from budgetron.report.sections.beliefs import beliefs
from budgetron.report.sections.budget import budget
from budgetron.report.sections.curves import curves
from budgetron.report.sections.decisions import decisions
from budgetron.report.sections.drift import drift
from budgetron.report.sections.headline import headline
from budgetron.report.sections.quality import calibration, confusion, ranking
from budgetron.report.sections.relations import relations
from budgetron.report.sections.reproduction import reproduce, settings
from budgetron.report.sections.tasks import tasks


def write(
    path: str | os.PathLike[str], *, validation: Validation, model: Any = None, context: Context | None = None
) -> None:
    """Write the report of a run to one HTML file; an existing file is replaced.

    Parameters
    ----------
    path : the file to write.
    validation : the result of `evaluate.progressive`.
    model : the learner of the run; without it, what only the model knows is left out.
    context : facts about the run, such as its input; unknown parts are left out.

    >>> from budgetron import evaluate, Forgetron
    >>> result = evaluate.progressive(Forgetron(budget=3), ([[0.0], [1.0]] * 20, [0, 1] * 20))
    >>> write("report.html", validation="0.3 wrong")
    Traceback (most recent call last):
    ...
    budgetron.errors.InputTypeError: report.write: validation must be a result of evaluate.progressive; got \
'0.3 wrong'.
    """
    replace_file(path, rendered(validation=validation, model=model, context=context).encode(errors="replace"))


def rendered(*, validation: Validation, model: Any = None, context: Context | None = None) -> str:
    """Return the page as text; see `write`."""
    if not isinstance(validation, Validation):
        raise input_type_error("report.write", "validation", "a result of evaluate.progressive", shown(validation))
    if context is not None and not isinstance(context, Context):
        raise input_type_error("report.write", "context", "a report.Context", shown(context))
    context = context or Context()
    task_section, task_table = tasks(validation, model)
    possible = [
        curves(validation),
        task_section,
        decisions(model),
        drift(validation),
        budget(validation, model),
        relations(validation, model),
        beliefs(validation, model),
        ranking(validation),
        confusion(validation),
        calibration(validation),
        settings(model, context),
        reproduce(model, context),
    ]
    # A section is None if the run has no data for it.
    sections = [section for section in possible if section is not None]
    contents = "".join(f'<li><a href="#{section.name}">{escape(section.title)}</a></li>' for section in sections)
    body = (
        f'<a class="skip" href="#main">Skip to the results</a>'
        f"<header>{headline(validation, model, context)}</header>"
        f'<nav class="contents" aria-label="Contents"><ul>{contents}</ul></nav>'
        f'<main id="main">{"".join(section.html() for section in sections)}</main>'
        f"<footer>{_footer()}</footer>"
    )
    # All data are embedded once, as JSON; report.js draws the charts.
    charts = {name: chart for section in sections for name, chart in section.charts.items()}
    script = files("budgetron.report").joinpath("report.js").read_text(encoding="utf-8")
    return page.document(context.title, body, data={"charts": charts, "tasks": task_table}, own_script=script).html


def _footer() -> str:
    return "Made by Budgetron. This page is self-contained and makes no requests. Charts: uPlot, © Leon Sorokin, MIT."
