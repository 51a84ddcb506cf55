"""Operating points on the command line: the options that set one, and its description.

`run`, `calibrate` and `predict` take the options; `inspect` describes the point of a saved model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from budgetron.cli.formatting import NOTHING, decimal, percent, shorten
from budgetron.errors import refuse, shown

if TYPE_CHECKING:
    from budgetron.decisions import OperatingPoint

NAMES = ("threshold", "costs", "max_error", "confidence")


def decision_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that set an operating point."""
    between = click.FloatRange(0, 1, min_open=True, max_open=True)
    options = [
        click.option("--threshold", type=float, metavar="P", help="Decide for the second label from P on."),
        click.option("--costs", metavar="fp=1,fn=20", help="Choose the cheapest threshold; with ask=C, two of them."),
        click.option("--max-error", type=between, metavar="SHARE", help="Ask a person unless so few are wrong."),
        click.option(
            "--confidence", type=between, default=0.95, show_default=True, metavar="SHARE", help="Of --max-error."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def settings_from_options(who: str, given: dict[str, Any]) -> dict[str, Any] | None:
    """Take the options out of `given` and return the settings of a point; None if there are none."""
    taken = {name: given.pop(name) for name in NAMES}
    if taken["costs"] is not None:
        taken["costs"] = _costs(who, taken["costs"])
    if taken["threshold"] is not None and taken["costs"] is not None:
        raise refuse(who, "--threshold and --costs", "given one at a time", "both", "Costs choose the threshold.")
    return taken if any(taken[name] is not None for name in NAMES[:3]) else None


def _costs(who: str, text: str) -> dict[str, float]:
    """The costs in a text such as fp=1,fn=20,ask=0.5."""
    accepted = "costs above 0 of a false positive and a false negative, and perhaps of asking: fp=1,fn=20,ask=0.5"
    costs = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        try:
            costs[name] = float(value)
        except ValueError:
            raise refuse(who, "--costs", accepted, shown(text)) from None
        positive = costs[name] >= 0 if name == "ask" else costs[name] > 0
        if not positive or costs[name] == float("inf"):
            raise refuse(who, "--costs", accepted, shown(text))
    if not {"fp", "fn"} <= costs.keys() <= {"fp", "fn", "ask"}:
        raise refuse(who, "--costs", accepted, shown(text))
    return costs


def set_point(who: str, model: Any, settings: dict[str, Any] | None) -> None:
    """Give the model an operating point with these settings; without settings it keeps the one it has."""
    if settings is None:
        return
    from budgetron.decisions import OperatingPoint

    if not hasattr(type(model), "operating_point"):
        named = next(f"--{name.replace('_', '-')}" for name in NAMES if settings[name] is not None)
        raise refuse(who, named, "left out for a model in shards", "it", "Decide on its probabilities in your program.")
    before = model.operating_point
    model.operating_point = OperatingPoint(**settings) if before is None else before.changed(**settings)


def point_words(point: OperatingPoint | None) -> Iterator[tuple[str, str]]:
    """Describe a point: names and values, for a terminal."""
    if point is None or point.labels is None:
        return
    found = point.to_dict()
    labels = [shorten(label, 20) for label in found["labels"]]
    yield "decides", _rule(found, labels)
    if found["expected_cost"] is not None:
        yield ("cost" if found["costs"] else "wrong"), _expected(point, found, labels)
    so_far = found["so_far"]
    if so_far["decided"] + so_far["asked"]:
        yield "so far", _so_far(so_far)


def _rule(found: dict[str, Any], labels: list[str]) -> str:
    """When which label is decided."""
    if found["cuts"] is not None:
        parts = [
            f"{label} from {_number(cut)} on" if cut is not None else f"{label} never"
            for label, cut in zip(labels, found["cuts"], strict=True)
        ]
        shown_parts = ", ".join(parts[:6]) + (", …" if len(parts) > 6 else "")
        return f"by {found['of']}: {shown_parts}; otherwise asks a person"
    low, high = found["low"], found["high"]
    what = f"{found['of']} of {labels[1]}"
    if low == high and low is not None:
        return f"{labels[1]} from a {what} of {_number(high)} on, otherwise {labels[0]}"
    below = "never" if low is None else f"below {_number(low)}"
    above = "never" if high is None else f"from {_number(high)} on"
    return f"{labels[0]} {below}, {labels[1]} {above} ({what}); otherwise asks a person"


def _expected(point: OperatingPoint, found: dict[str, Any], labels: list[str]) -> str:
    asked = f"; asks about {percent(found['expected_asked'])}" if found["expected_asked"] else ""
    constant = point.constant_costs()
    if constant is None:
        limit = f" (at most {percent(found['max_error'])} per label)" if found["max_error"] is not None else ""
        return f"{percent(found['expected_cost'])} of all examples{limit}{asked}"
    always = ", ".join(f"always {label}: {decimal(cost)}" for label, cost in zip(labels, constant, strict=True))
    return f"{decimal(found['expected_cost'])} per example{asked}; {always}"


def _so_far(so_far: dict[str, Any]) -> str:
    share = so_far["wrong"] / so_far["decided"] if so_far["decided"] else None
    cost = "" if so_far["cost"] is None else f", cost {decimal(so_far['cost'])} per example"
    return f"{so_far['decided']:,} decided, {percent(share)} of them wrong; {so_far['asked']:,} asked{cost}"


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g}"
