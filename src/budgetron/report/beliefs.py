"""The section about a Budgetron's beliefs: how related the tasks are, and whether a linear model is enough."""

from __future__ import annotations

from typing import Any

from budgetron.evaluate import Validation
from budgetron.learners import Belief
from budgetron.report.page import as_percent
from budgetron.report.parts import Chart, Section, chart, paragraph, rounded, table


def beliefs(validation: Validation, model: Any) -> Section | None:
    """Return the section, with the final weights and a chart over time; None for a model without beliefs."""
    held: list[tuple[Belief, float]] = getattr(model, "beliefs_", [])
    if not held:
        return None
    ranked = sorted(held, key=lambda pair: -pair[1])
    rows = [
        (described(belief), as_percent(weight), f"{belief.linear:g}", f"{belief.linear_own:g}", f"{belief.kernel:g}",
         f"{belief.kernel_own:g}", f"{belief.floor:g}")
        for belief, weight in ranked
    ]  # fmt: skip
    heads = ("Belief", "Weight", "Linear", "own ×", "Kernel", "own ×", "Floor")
    markup = paragraph(found(held)) + table(heads, rows)
    points = [point for point in validation.curve if point.beliefs]
    if len(points) < 2:
        return Section("beliefs", "Beliefs", markup)
    series = [
        {
            "label": described(belief),
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
    says = f"The weights of the beliefs over time; at the end “{described(best)}” has {as_percent(weight)}."
    return Section("beliefs", "Beliefs", markup + chart("beliefs", "Weights over time", says), {"beliefs": weights})


def described(belief: Belief) -> str:
    """Describe a belief in a few words.

    >>> described(Belief(linear=1, linear_own=10)), described(Belief(kernel=10))
    ('linear, tasks differ', 'kernel, bold, tasks alike')
    """
    parts = [name for name in ("linear", "kernel") if getattr(belief, name) > 0]
    words = [" + ".join(parts)]
    if max(belief.linear, belief.kernel) >= 10:
        words.append("bold")
    words.append("tasks differ" if _apart(belief) else "tasks alike")
    if belief.floor:
        words.append("ever adapting")
    return ", ".join(words)


def found(held: list[tuple[Belief, float]]) -> str:
    """Summarize the weights in a sentence."""
    apart = sum(weight for belief, weight in held if _apart(belief))
    curved = sum(weight for belief, weight in held if belief.kernel > 0)
    moving = sum(weight for belief, weight in held if belief.floor > 0)
    related = (
        f"that tasks are alike ({as_percent(1 - apart, 0)})"
        if apart < 0.5
        else f"that tasks differ ({as_percent(apart, 0)})"
    )
    shape = (
        f"that the kernel part is needed ({as_percent(curved, 0)})"
        if curved >= 0.5
        else f"that a linear part is enough ({as_percent(1 - curved, 0)})"
    )
    text = (
        "A belief is an assumption about the tasks; the model weighs several by how well each predicts. "
        f"The weights say {related}, and {shape}."
    )
    changing = f" {as_percent(moving, 0)} of the weight is on beliefs that expect the stream to keep changing."
    return text + (changing if moving > 0.2 else "")


def _apart(belief: Belief) -> bool:
    own = belief.linear_own * belief.linear + belief.kernel_own * belief.kernel
    return own > belief.linear + belief.kernel
