"""Describe an operating point in sentences, for the command line and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from budgetron.decisions.operating_point import OperatingPoint


def point_words(
    point: OperatingPoint | None, name_of: Callable[[Any], str] = str
) -> Iterator[tuple[str, str]]:
    """Yield the heading and the text of each line that describes a point; nothing until the point knows the labels.

    `name_of` turns a label into text that is short and safe to print.
    """
    if point is None or point.labels is None:
        return
    description = point.to_dict()
    labels = [name_of(label) for label in description["labels"]]
    yield "decides", _rule(point, description, labels)
    if description["costs"] is not None:
        yield "costs", _costs(description["costs"], labels)
    if description["expected_cost"] is not None:
        yield ("cost" if description["costs"] else "wrong"), _expected(point, description, labels)
    so_far = description["so_far"]
    if so_far["decided"] + so_far["asked"]:
        yield "so far", _so_far(so_far)


def _rule(point: OperatingPoint, description: dict[str, Any], labels: list[str]) -> str:
    """Say for which scores each label is decided, and whether a person is asked about the others."""
    if description["cuts"] is not None:
        parts = [
            f"{label} from {_number(cut)} on" if cut is not None else f"{label} never"
            for label, cut in zip(labels, description["cuts"], strict=True)
        ]
        shown_parts = ", ".join(parts[:6]) + (", …" if len(parts) > 6 else "")
        return f"by {description['of']}: {shown_parts}; otherwise asks a person"
    low, high = description["low"], description["high"]
    if point.threshold is not None and point.max_error is None:
        low = high = point.threshold  # a given threshold is not rounded to a cut
    elif point.cuts[0] == point.cuts[1] and None in (low, high):
        return f"always {labels[1] if low is None else labels[0]}"
    what = f"{description['of']} of {labels[1]}"
    if low == high and low is not None:
        return f"{labels[1]} if its {description['of']} is at least {_number(high)}, otherwise {labels[0]}"
    below = "never" if low is None else f"below {_number(low)}"
    above = "never" if high is None else f"from {_number(high)} on"
    return f"{labels[0]} {below}, {labels[1]} {above} ({what}); otherwise asks a person"


def _expected(point: OperatingPoint, description: dict[str, Any], labels: list[str]) -> str:
    """State the expected cost, and the cost of always deciding the same label; without costs, the share of errors."""
    asked = f"; asks about {percent(description['expected_asked'])}" if description["expected_asked"] else ""
    constant = point.constant_costs()
    if constant is None:
        max_error = description["max_error"]
        limit = f" (at most {percent(max_error)} per label)" if max_error is not None else ""
        return f"{percent(description['expected_cost'])} of all examples{limit}{asked}"
    always = ", ".join(f"always {label}: {decimal(cost)}" for label, cost in zip(labels, constant, strict=True))
    return f"{decimal(description['expected_cost'])} per example{asked}; {always}"


def _costs(costs: dict[str, float | None], labels: list[str]) -> str:
    """State the cost of each error by its two labels, because users cannot know which label is the positive one."""
    first, second = labels
    asking = "" if costs["ask"] is None else f"; asking a person: {costs['ask']:g}"
    return f"{first} decided as {second}: {costs['fp']:g}; {second} decided as {first}: {costs['fn']:g}{asking}"


def _so_far(so_far: dict[str, Any]) -> str:
    """Count the decisions that were made, each before its example was learned."""
    share = so_far["wrong"] / so_far["decided"] if so_far["decided"] else None
    cost = "" if so_far["cost"] is None else f", cost {decimal(so_far['cost'])} per example"
    return f"{so_far['decided']:,} decided, {percent(share)} of them wrong; {so_far['asked']:,} asked{cost}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def percent(share: float | None) -> str:
    """Format a share as a percentage; a dash if it is undefined."""
    return "–" if share is None else f"{100 * share:.1f} %"


def decimal(value: float | None) -> str:
    """Format a number with three decimals; a dash if it is undefined."""
    return "–" if value is None else f"{value:.3f}"
