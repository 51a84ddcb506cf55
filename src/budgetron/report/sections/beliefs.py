"""The section about a Budgetron's beliefs, the models that it mixes.

Their weights show how related the tasks are, and whether a linear model is enough.
"""

from __future__ import annotations

from typing import Any

from budgetron.evaluate import Validation
from budgetron.learners import Belief
from budgetron.report.page import as_percent
from budgetron.report.parts import Chart, Section, chart, paragraph, rounded, table


def beliefs(validation: Validation, model: Any) -> Section | None:
    """Return the section with the final weights and a chart over time; None for a model without beliefs."""
    weighted: list[tuple[Belief, float]] = getattr(model, "beliefs_", [])
    if not weighted:
        return None
    ranked = sorted(weighted, key=lambda pair: -pair[1])
    rows = [(str(belief), as_percent(weight)) for belief, weight in ranked]
    heads = ("Belief", "Weight")
    markup = paragraph(summary(weighted, len(validation.per_task))) + table(heads, rows)
    points = [point for point in validation.curve if point.beliefs]
    if len(points) < 2:
        return Section("beliefs", "Beliefs", markup)
    series = [
        {
            "label": str(belief),
            # A belief that was dropped has the weight 0 from then on.
            "values": [rounded(dict(point.beliefs).get(belief, 0.0)) for point in points],
        }
        for belief, _ in ranked[:8]
    ]
    weights: Chart = {
        "x": [point.position for point in points],
        "xLabel": "examples",
        "format": "percent",
        "stacked": True,
        "series": series,
    }
    best, weight = ranked[0]
    caption = f"The weights of the beliefs over time; at the end “{best}” has {as_percent(weight)}."
    return Section("beliefs", "Beliefs", markup + chart("beliefs", "Weights over time", caption), {"beliefs": weights})


def summary(weighted: list[tuple[Belief, float]], n_tasks: int) -> str:
    """Summarize the weights of the beliefs in a few sentences."""
    # The total weight of the beliefs with a property is the probability that the model gives to this property.
    different = sum(weight for belief, weight in weighted if belief.apart)
    kinds = sum(weight for belief, weight in weighted if belief.learned)
    curved = sum(weight for belief, weight in weighted if belief.curved)
    moving = sum(weight for belief, weight in weighted if belief.adapting)
    about_tasks = sum(weight for belief, weight in weighted if "tasks" in belief.words)
    related = ""
    if n_tasks > 1 and about_tasks >= 0.5:
        shares = {
            "that there are kinds of tasks": kinds,
            "that tasks differ": different,
            "that tasks are alike": about_tasks - kinds - different,
        }
        most = max(shares, key=lambda words: shares[words])
        related = f"{most} ({as_percent(shares[most], 0)}), and "
    # Beliefs whose words contain "of features" are about hashed sparse rows. They assume nothing about tasks or about
    # the shape of the boundary.
    of_table = sum(weight for belief, weight in weighted if "of features" in belief.words)
    shape = (
        f"that the boundary is curved ({as_percent(curved, 0)})"
        if curved >= 0.5
        else f"that a linear model is enough ({as_percent(1 - curved, 0)})"
    )
    text = "A belief is a model with certain assumptions. Several beliefs are weighted by how well each predicts."
    if of_table < 0.5:
        text += f" The weights say {related}{shape}."
        if n_tasks < 2:
            text += " They say nothing about tasks, since there is only one."
    changing = f" {as_percent(moving, 0)} of the weight is on beliefs that expect the stream to keep changing."
    return text + (changing if moving > 0.2 else "")
