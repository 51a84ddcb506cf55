"""`budgetron calibrate`: choose the operating point of a saved model on examples that it has not learned from.

The model does not learn meanwhile: the guarantee of --max-error holds only for the model that was measured.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from budgetron.cli import INTERRUPTED, outputs
from budgetron.cli.decisions import decision_options, set_point, settings_from_options
from budgetron.cli.formatting import counted
from budgetron.cli.options import (
    StreamOptions,
    json_option,
    model_argument,
    overwrite_option,
    reading_options,
    stream_argument,
)
from budgetron.errors import input_error

WHO = "calibrate"


@click.command()
@model_argument
@stream_argument
@decision_options
@reading_options
@click.option("--save", metavar="MODEL", required=True, help="Save the model with its operating point to this file.")
@overwrite_option
@json_option
def command(model: str, stream: str, save: str, overwrite: bool, as_json: bool, **option_values: Any) -> None:
    """Choose how a saved model decides, on labelled examples that it has not seen.

    The model predicts the examples and does not learn from them. --max-error limits the share of wrong decisions for
    each label. If future examples have the same distribution as these, the limit holds with the probability
    --confidence. The model asks a person about examples on which it cannot decide within this limit. Ctrl-C stops the
    command, and nothing is saved.

    \b
    budgetron calibrate mail.budgetron later.csv --max-error 0.01 --save mail.budgetron
    budgetron calibrate mail.budgetron later.csv --costs fp=1,fn=20 --save mail.budgetron
    """
    from budgetron import io
    from budgetron.cli import models
    from budgetron.cli.labelled_stream import LabelledStream
    from budgetron.cli.signals import SignalGuard
    from budgetron.cli.summary import point_lines, skipped_lines

    settings = settings_from_options(WHO, option_values)
    if settings is None:
        raise input_error(WHO, "--threshold, --costs or --max-error", "given", "none of them")
    if models.in_shards(model):
        remedy = "Its operating point can be set while it learns: run --ray, with the same options."
        raise input_error(WHO, "MODEL", "a model in one file", f"{model!r}, a model in shards", remedy)
    outputs.check(WHO, "--save", save, overwrite, own=model)
    learner, columns = models.load(model)
    columns = models.known_columns(WHO, "MODEL", model, columns)
    learner.operating_point = None  # forget the examples that it counted while it learned
    set_point(WHO, learner, settings)
    options = StreamOptions(stream, **option_values)
    classes = learner.classes_.tolist()
    with SignalGuard(stream) as guard, LabelledStream(WHO, options, columns, classes) as labelled:
        for rows in labelled.blocks(guard):
            margins = learner.decision_function(rows.X, tasks=rows.tasks, offset=rows.offsets)
            learner._count_decisions(margins, learner._classes.codes(WHO, rows.y))
    point = learner.operating_point
    for line in skipped_lines(labelled):
        click.echo(line, err=True)
    if guard.signal_name:  # the user asked for the point of all examples, not of a part
        click.echo(f"Stopped by {guard.signal_name} after {counted(point.n, 'example')}. Nothing was saved.", err=True)
        sys.exit(INTERRUPTED)
    if not point.n:
        raise input_error(WHO, "STREAM", "a stream with labelled examples", f"{stream!r}, which has none or too few")
    io.save_model(save, learner, columns)
    if as_json:
        click.echo(json.dumps({"source": stream, "saved": save, "operating_point": point.to_dict()}, default=str))
        return
    click.echo(f"{counted(point.n, 'example')} counted; the model did not learn from them.")
    for name, value in point_lines(point):
        if name != "so far":  # no decision was made yet: the examples only served to choose the point
            click.echo(f"{name:<9}{value}")
    click.echo(f"Saved in {save}.")
