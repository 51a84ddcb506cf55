"""`budgetron predict`: predict the rows of a stream with a saved model. The output is CSV, or JSON lines."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import click

from budgetron.cli import INTERRUPTED, outputs
from budgetron.cli.decisions import decision_options, set_point, settings_from_options
from budgetron.cli.formatting import counted, rate
from budgetron.cli.options import (
    model_argument,
    overwrite_option,
    reading_arguments,
    reading_options,
    stream_argument,
)

WHO = "predict"


@click.command()
@model_argument
@stream_argument
@reading_options
@decision_options
@click.option("--output", "-o", metavar="FILE", help="Output file; standard output if left out.")
@click.option(
    "--to",
    type=click.Choice(["auto", "csv", "ndjson"]),
    default="auto",
    show_default=True,
    help="Output format; auto follows the name of --output.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --to ndjson.")
@overwrite_option
@click.option("--quiet", "-q", is_flag=True, help="Print no progress and no final line.")
@click.pass_context
def command(
    ctx: click.Context, /, model: str, stream: str, output: str | None, to: str, as_json: bool, **option_values: Any
) -> None:
    """Predict every row of a stream with a model from `budgetron run --save`, or the directory of `run --ray`.

    The model finds its columns by name and ignores all others, including the label. Each line of output has the line
    number in the file (in Parquet and Arrow files the row), the task, the predicted label, and the probability of each
    label. Learners without probabilities print the margin: above 0 means the second label, and a larger distance from 0
    means more confidence.

    If the model was saved with an operating point (`run --costs`), or one is set here, a further column has the
    decision: a label, or ask, where a person should be asked.
    """
    from budgetron import io
    from budgetron.cli import models, progress
    from budgetron.cli.signals import SignalGuard

    outputs.check(WHO, "--output", output, option_values["overwrite"], devices=True)
    settings = settings_from_options(WHO, option_values)
    learner, saved_columns = models.load(model)
    columns = models.known_columns(WHO, "MODEL", model, saved_columns)
    set_point(WHO, learner, settings)
    ndjson = as_json or to == "ndjson" or (to == "auto" and _is_ndjson(output))
    n_written = 0
    # On a terminal, a progress line would be mixed with the predictions.
    quiet = option_values["quiet"] or (output is None and sys.stdout.isatty())
    with (
        SignalGuard(stream) as guard,
        io.read(stream, columns=columns, labelled=False, **reading_arguments(option_values)) as source,
        outputs.text_file(output) as file,
        progress.progress_line(quiet, option_values["limit"]) as line,
    ):
        write = _writer(file, learner, ndjson, columns.task is not None)
        for block in guard.blocks(source):
            scores = {} if block.offsets is None else {"offset": block.offsets}
            write(block.rows, block.tasks, learner.decision_function(block.X, tasks=block.tasks, **scores))
            n_written += len(block.rows)
            if line.due():
                line.show(n_written, source)
        # `ctx.exit` raises, so `text_file` does not rename its temporary file: an incomplete output never appears.
        if guard.signal_name:
            unwritten = "" if output is None else f" {output} was not written."
            click.echo(f"Stopped by {guard.signal_name} after {counted(n_written, 'row')}.{unwritten}", err=True)
            ctx.exit(INTERRUPTED)
        file.flush()
    if not option_values["quiet"]:
        skipped = f"; {counted(source.n_bad, 'bad line')} skipped" if source.n_bad else ""
        where = "" if output is None else f" in {output}"
        message = f"{counted(n_written, 'row')} predicted{where}, {rate(n_written / line.seconds)} per second{skipped}."
        click.echo(message, err=True)


def _is_ndjson(output: str | None) -> bool:
    return output is not None and Path(output).suffix.lower() in (".ndjson", ".jsonl", ".json")


def _writer(file: IO[str], model: Any, ndjson: bool, with_tasks: bool) -> Callable[[Any, Any, Any], None]:
    """Return a function that writes one block, given its row numbers, tasks and margins."""
    from budgetron.learners.input.classes import label_text

    classes = model.classes_.tolist()
    probabilistic = hasattr(model, "predict_proba")
    names = ["line", *(["task"] if with_tasks else []), "prediction", *_score_names(classes, probabilistic)]
    if getattr(model, "operating_point", None) is not None:
        names.append("decision")
    # JSON has booleans; in CSV they are written as true and false.
    labels = classes if ndjson else [label_text(label) if isinstance(label, bool) else label for label in classes]
    rows_of = _row_function(model, labels, probabilistic, with_tasks)
    if ndjson:

        def write(numbers: Any, tasks: Any, margins: Any) -> None:
            file.writelines(
                json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n"
                for row in rows_of(numbers, tasks, margins)
            )

        return write
    table = csv.writer(file, lineterminator="\n")
    table.writerow(names)
    return lambda numbers, tasks, margins: table.writerows(rows_of(numbers, tasks, margins))


def _score_names(classes: list[Any], probabilistic: bool) -> list[str]:
    """Return the names of the output columns with margins or probabilities."""
    from budgetron.learners.input.classes import label_text

    if not probabilistic and len(classes) == 2:
        return ["margin"]
    word = "probability" if probabilistic else "margin"
    return [f"{word}_{label_text(label)}" for label in classes]


def _row_function(
    model: Any, labels: list[Any], probabilistic: bool, with_tasks: bool
) -> Callable[[Any, Any, Any], Iterator[tuple[Any, ...]]]:
    """Return a function that turns the row numbers, tasks and margins of a block into output rows."""
    import numpy as np

    from budgetron.learners.estimators.budgetron import probabilities

    point = getattr(model, "operating_point", None)

    def rows(numbers: Any, tasks: Any, margins: Any) -> Iterator[tuple[Any, ...]]:
        # The same rule as in the learner's `predict`. Labels, probabilities and decisions all follow from the margins.
        codes = (margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)
        scores = probabilities(margins) if probabilistic else margins.reshape(len(margins), -1)
        columns: list[Any] = [np.asarray(numbers).tolist()]
        if with_tasks:
            columns.append(tasks.tolist() if isinstance(tasks, np.ndarray) else tasks or [None] * len(margins))
        columns.append([labels[code] for code in codes.tolist()])
        # Six decimals are enough to sort and to compare with a threshold.
        columns += np.round(scores, 6).T.tolist()
        if point is not None:
            columns.append([*labels, "ask"][code] for code in point.decide_margins(margins).tolist())
        return zip(*columns, strict=True)

    return rows
