"""`budgetron run`: one pass over a stream; each example is predicted, counted, then learned."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from budgetron.cli import INTERRUPTED, models, outputs
from budgetron.cli.options import (
    StreamText,
    json_option,
    learner_options,
    learner_text,
    overwrite_option,
    stream_argument,
    stream_options,
)
from budgetron.cli.settings import LearnerText
from budgetron.cli.wording import counted, source_words
from budgetron.errors import refuse

if TYPE_CHECKING:
    from budgetron.cli.reading import Labelled
    from budgetron.io import Columns

WHO = "run"
_MOST_NOTES = 40
_BLOCK = 4096  # rows that a stream gives at once


@dataclass
class Ended:
    """What a pass came to."""

    source: str
    model: Any
    columns: Any
    validation: Any
    seconds: float
    rows: int  # of the stream, behind us
    n_bad: int
    bad: list[str]
    stopped: str | None  # by which signal
    bytes_read: int = 0
    saved: str | None = None
    kept: str | None = None  # the directory of a model in shards
    notes: list[str] = field(default_factory=list)


@click.command()
@stream_argument
@stream_options
@learner_options
@click.option("--save", metavar="MODEL", help="Write the model to this file; to a folder, where it is in shards.")
@click.option("--resume", metavar="MODEL", help="Go on from a saved model; its settings and columns hold.")
@click.option("--skip", type=click.IntRange(min=0), default=0, help="Leave out this many rows at the beginning.")
@click.option("--report", metavar="FILE.html", help="Write a report: one page, readable offline.")
@click.option("--delay", type=click.IntRange(min=0), default=0, help="Labels come after so many further examples.")
@click.option("--window", type=click.IntRange(min=1), help="Examples to a point of the curves.  [default: by length]")
@click.option("--tasks", "n_tasks", type=click.IntRange(min=0), default=10, show_default=True, help="Tasks to list.")
@click.option(
    "--max-tasks",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Tasks to count one by one, the first that come; the rest together.",
)
@click.option("--ray", metavar="DIRECTORY", help="Learn in shards on Ray, with their logs there; or go on there.")
@click.option("--shards", type=click.IntRange(min=1), default=8, show_default=True, help="They divide the budget.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Ray actors, or threads.")
@overwrite_option
@click.option("--quiet", "-q", is_flag=True, help="No progress, no summary.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, stream: str, **given: Any) -> None:
    """Learn from a stream in one pass, and tell how well each example was predicted before.

    STREAM is a file (CSV, TSV, Parquet, Arrow, NDJSON, svmlight, Vowpal Wabbit; gzip or zstd) or - for standard
    input. Ctrl-C ends the pass and saves what was learned.

    \b
    budgetron run mail.csv --task user --label spam --save mail.budgetron
    budgetron run more.csv --resume mail.budgetron --save mail.budgetron
    """
    text = StreamText.taken(stream, given)
    if given["resume"] is None and models.in_shards(given["ray"]):
        given["resume"] = given["ray"]
    if given["resume"] is not None:
        _refuse_settings(ctx, "--ray" if given["resume"] == given["ray"] else "--resume")
        learner: LearnerText | None = None
        for name in ("learner", "budget", "kernel", "graph", "others"):
            given.pop(name)
    else:
        learner = learner_text(WHO, given)
    sharded = given["ray"] is not None or models.in_shards(given["resume"])
    check = outputs.check_folder if sharded else outputs.check
    check(WHO, "--save", given["save"], given["overwrite"], own=given["resume"])
    outputs.check(WHO, "--report", given["report"], given["overwrite"])
    if given["ray"] is not None and given["resume"] is not None and not models.in_shards(given["resume"]):
        raise refuse(WHO, "--resume", "a model in shards, with --ray", repr(given["resume"]),
                     "What one learner has stored cannot be divided: begin anew, or go on without --ray.")  # fmt: skip

    ended = _pass(text, learner, given)
    try:
        if given["save"] is not None:
            _save(ended, given["save"])
        if given["report"] is not None:
            _report(ended, given["report"])
    finally:  # a full disk must not take the figures along
        _tell(ended, given)
    if sharded:
        ended.model.close()
    if ended.stopped:
        sys.exit(INTERRUPTED)


def _pass(text: StreamText, learner: LearnerText | None, given: dict[str, Any]) -> Ended:
    from budgetron import io
    from budgetron.cli import progress
    from budgetron.cli.reading import Labelled
    from budgetron.cli.stopping import Stopping
    from budgetron.evaluate import Validator

    model, columns, classes = None, None, None
    if given["resume"] is not None:
        if models.in_shards(given["resume"]):
            model = models.resumed(WHO, given["resume"], given["ray"], given["workers"])
            columns = io.columns_of(model)
        else:
            model, columns = io.load_model(given["resume"])
        columns = known_columns(WHO, "--resume", given["resume"], columns)
        classes = model.classes_.tolist()
    validator, kept = None, False
    with (
        Stopping(text.source) as stopping,
        Labelled(WHO, text, columns, classes, given["skip"]) as labelled,
        progress.shown(given["quiet"] or given["as_json"], text.limit) as line,
    ):
        if learner is not None:
            made = learner.made(WHO)
            if given["ray"] is None:
                model = made
            else:
                model = models.begun(made, given["ray"], given["shards"], given["workers"])
        directory = getattr(model, "directory", None)
        labelled.keep_to_graphs([model])
        for rows in labelled.blocks(stopping):
            if validator is None:
                window = given["window"] or _window(len(rows.y))
                options = {"delay": given["delay"], "window": window, "max_tasks": given["max_tasks"]}
                validator = Validator(model, classes=labelled.classes, who=WHO, **options)
            validator.add(*rows)
            if directory is not None and not kept:
                kept = _kept(model, labelled)
            if line.due():
                full = progress.full_words(model) if hasattr(model, "n_seen_") else ""
                line.show(validator.position, labelled.stream, validator.so_far, full)
        if validator is None:
            came = f"{text.source!r} with none"
            if stopping.asked:
                came = f"{text.source!r}, stopped by {stopping.asked} before the first"
            elif labelled.n_bad:
                came += f", and {counted(labelled.n_bad, 'bad line')}"
            raise refuse(WHO, "the stream", "one with at least one example", came)
        validation = validator.finish()
        if directory is not None:
            _kept(model, labelled)
        return Ended(
            source=text.source,
            model=model,
            columns=labelled.stream.columns,
            validation=validation,
            seconds=line.seconds,
            rows=labelled.taken,
            n_bad=labelled.n_bad,
            bad=labelled.bad,
            stopped=stopping.asked,
            bytes_read=labelled.stream.bytes_read,
            kept=directory,
        )


def _kept(model: Any, labelled: Labelled) -> bool:
    """The columns with the shards, at first and at last: their means go on while the stream does."""
    model.keep_columns(labelled.stream.columns)
    return True


def _window(first_rows: int) -> int:
    """A thousand examples to a point; where the first block is all there is, so many that a curve has 40 points."""
    return 1000 if first_rows >= _BLOCK else max(50, first_rows // 40)


def known_columns(who: str, option: str, path: str, columns: Columns | None) -> Columns:
    """The columns of a model; only one that has them can read a stream."""
    if columns is None:
        raise refuse(
            who,
            option,
            "a model that was learned from a file, which knows its columns",
            f"{path!r}, saved from Python without them",
            "Use it from Python, or save it with budgetron.io.save_model.",
        )
    return columns


def _refuse_settings(ctx: click.Context, going_on: str) -> None:
    """A model that goes on keeps what it began with."""
    of_learner = ("learner", "budget", "kernel", "graph", "others", "shards")
    for name in (*of_learner, "label", "task", "drop", "text", "categorical"):
        if ctx.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT):
            option = "--set" if name == "others" else f"--{name}"
            accepted = "left out with --resume" if going_on == "--resume" else "left out where --ray has a model"
            raise refuse(WHO, option, accepted, "both", "A saved model keeps what it began with.")


def _save(ended: Ended, path: str) -> None:
    from budgetron import io

    io.save_model(path, ended.model, ended.columns)
    ended.saved = path


def _report(ended: Ended, path: str) -> None:
    from budgetron import report

    context = report.Context(
        title=f"budgetron run {source_words(ended.source)}",
        command=shlex.join(["budgetron", *sys.argv[1:]]),
        source=ended.source,
        digest=report.digest_of(ended.source),
        seconds=ended.seconds,
        rows=ended.rows + ended.n_bad,
        bad_rows=ended.n_bad,
        interrupted=ended.stopped is not None,
        notes=tuple(_column_notes(ended.columns.describe())),
    )
    report.write(path, validation=ended.validation, model=ended.model, context=context)
    ended.notes.append(f"The report is in {path}.")


def _column_notes(rows: list[Any]) -> Iterator[str]:
    """What was made of the columns, of the first at least."""
    yield from (_column_words(row) for row in rows[:_MOST_NOTES])
    if len(rows) > _MOST_NOTES:
        yield f"And {len(rows) - _MOST_NOTES:,} more columns."


def _column_words(row: Any) -> str:
    name = f"Column {row.column}" if row.column else "The rows"
    parts = [row.role, row.kind, f"{row.makes} in X" if row.makes else "", row.note]
    return f"{name}: {', '.join(part for part in parts if part)}."


def _tell(ended: Ended, given: dict[str, Any]) -> None:
    from budgetron.cli import summary

    if given["as_json"]:
        click.echo(json.dumps(summary.record(ended)))
    elif not given["quiet"]:
        summary.show(ended, given["n_tasks"])
    for line in summary.warnings(ended):
        click.echo(line, err=True)
