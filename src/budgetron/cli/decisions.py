"""Options of `run`, `calibrate` and `predict` that set an operating point: a threshold, costs or a limit on errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from budgetron.errors import InputError, input_error, shown

NAMES = ("threshold", "costs", "max_error", "confidence")


def decision_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that set an operating point."""
    between_0_and_1 = click.FloatRange(0, 1, min_open=True, max_open=True)
    options = [
        click.option("--threshold", type=float, metavar="P", help="Decide for the second label at P or above."),
        click.option(
            "--costs",
            metavar="fp=1,fn=20",
            help="Choose the threshold of least cost; with ask=C, two thresholds, and between them a person is asked.",
        ),
        click.option(
            "--max-error",
            type=between_0_and_1,
            metavar="SHARE",
            help="Largest share of wrong decisions; a person is asked about the other examples.",
        ),
        click.option(
            "--confidence",
            type=between_0_and_1,
            default=0.95,
            show_default=True,
            metavar="P",
            help="Probability that --max-error holds.",
        ),
    ]
    # Decorators are applied from the last to the first, so that --help lists the options in this order.
    for option in reversed(options):
        command = option(command)
    return command


def settings_from_options(who: str, option_values: dict[str, Any]) -> dict[str, Any] | None:
    """Take the options of `decision_options` out of `option_values`, and return the settings of an operating point.

    Returns None if no option that sets an operating point was given.
    """
    settings = {name: option_values.pop(name) for name in NAMES}
    if settings["costs"] is not None:
        settings["costs"] = _costs(who, settings["costs"])
    if settings["threshold"] is not None and settings["costs"] is not None:
        raise input_error(who, "--threshold and --costs", "given one at a time", "both", "Costs choose the threshold.")
    # --confidence always has a value; alone it sets nothing.
    return settings if any(settings[name] is not None for name in NAMES[:3]) else None


def _costs(who: str, text: str) -> dict[str, float]:
    """Parse costs such as fp=1,fn=20,ask=0.5."""
    accepted = "costs above 0 of a false positive and a false negative, and perhaps of asking: fp=1,fn=20,ask=0.5"
    costs = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        try:
            costs[name] = float(value)
        except ValueError:
            raise input_error(who, "--costs", accepted, shown(text)) from None
        is_allowed = costs[name] >= 0 if name == "ask" else costs[name] > 0
        if not is_allowed or costs[name] == float("inf"):
            raise input_error(who, "--costs", accepted, shown(text))
    if not {"fp", "fn"} <= costs.keys() <= {"fp", "fn", "ask"}:
        raise input_error(who, "--costs", accepted, shown(text))
    return costs


def set_point(who: str, model: Any, settings: dict[str, Any] | None) -> None:
    """Set the operating point of a model. Without settings the model keeps the operating point that it has."""
    if settings is not None:
        with _errors_name_options(who):
            model.change_operating_point(settings)


def check_labels(who: str, settings: dict[str, Any] | None, labels: Sequence[Any] | None) -> None:
    """Reject settings that do not fit the labels of a stream, before anything is learned."""
    if settings is not None and labels is not None:
        import numpy as np

        from budgetron.decisions import OperatingPoint

        with _errors_name_options(who):
            OperatingPoint(**settings, margins=True).check(np.asarray(labels))


@contextmanager
def _errors_name_options(who: str) -> Iterator[None]:
    """Replace argument names by option names in errors about an operating point."""
    try:
        yield
    except InputError as error:
        # "OperatingPoint: max_error must be …" becomes "run: --max-error must be …".
        text = re.sub(r"^OperatingPoint: (\w+)", lambda match: f"{who}: --{match[1].replace('_', '-')}", str(error))
        raise InputError(text.replace("Use max_error.", "Use --max-error.")) from None
