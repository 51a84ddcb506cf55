"""`budgetron run`: learn from a stream in one pass.

Each example is predicted, the prediction is scored, and then the example is learned (progressive validation). All
output paths are checked before the first example is learned.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from budgetron.cli import INTERRUPTED, models, outputs
from budgetron.cli.decisions import check_labels, decision_options, set_point, settings_from_options
from budgetron.cli.formatting import counted
from budgetron.cli.learner_spec import LearnerSpec
from budgetron.cli.options import (
    COLUMN_OPTIONS,
    StreamOptions,
    json_option,
    learner_options,
    learner_spec_from_options,
    overwrite_option,
    stream_argument,
    stream_options,
)
from budgetron.cli.run_result import RunResult, append_to_history, save_model, write_report
from budgetron.errors import BudgetronError, InputError, input_error

if TYPE_CHECKING:
    from budgetron.io import Columns

WHO = "run"


@click.command()
@stream_argument
@stream_options
@learner_options
@decision_options
@click.option("--save", metavar="MODEL", help="Save the model to this file; a model in shards to a folder.")
@click.option("--resume", metavar="MODEL", help="Continue with a saved model, its settings and columns.")
@click.option("--skip", type=click.IntRange(min=0), default=0, help="Skip this many rows at the beginning.")
@click.option("--report", metavar="FILE.html", help="Write a report as one offline HTML page.")
@click.option("--history", metavar="FILE", help="Append the results of this run to a file: see budgetron history.")
@click.option("--delay", type=click.IntRange(min=0), default=0, help="Learn a label this many examples late.")
@click.option("--window", type=click.IntRange(min=1), help="Examples per point of the curves.  [default: by length]")
@click.option("--tasks", "n_tasks", type=click.IntRange(min=0), default=10, show_default=True, help="Tasks to list.")
@click.option(
    "--max-tasks",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Tasks to score separately; later tasks are scored together.",
)
@click.option(
    "--at",
    "k",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    metavar="K",
    help="Precision among the K highest scores.",
)
@click.option("--ray", metavar="DIRECTORY", help="Learn in shards on Ray with logs in DIRECTORY, or continue there.")
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Number of shards, which share the budget.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Number of Ray actors or threads."
)
@overwrite_option
@click.option("--quiet", "-q", is_flag=True, help="Print no progress and no summary.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, stream: str, **option_values: Any) -> None:
    """Learn from a stream in one pass and report the error.

    Each example is predicted before it is learned, so the error is measured on unseen examples. STREAM is a file (CSV,
    TSV, Parquet, Arrow, NDJSON, svmlight, Vowpal Wabbit; also gzip or zstd) or - for standard input. Ctrl-C stops the
    run, and so does a bad line unless --on-error skip is given. Then, with --save, the model so far is saved, and the
    command to continue is printed.

    \b
    budgetron run mail.csv --task user --label spam --save mail.budgetron
    budgetron run more.csv --resume mail.budgetron --save mail.budgetron
    """
    options = StreamOptions.from_options(stream, option_values)
    option_values["point"] = settings_from_options(WHO, option_values)
    # --ray with a directory that holds a model means: continue that model.
    if option_values["resume"] is None and models.in_shards(option_values["ray"]):
        option_values["resume"] = option_values["ray"]
    if option_values["resume"] is not None:
        _reject_settings(ctx, "--ray" if option_values["resume"] == option_values["ray"] else "--resume")
        learner: LearnerSpec | None = None
        # The model has its own settings. `option_values` holds only the defaults of these options (`_reject_settings`
        # rejected any others), so they are dropped.
        for name in ("learner", "budget", "kernel", "graph", "others"):
            option_values.pop(name)
    else:
        learner = learner_spec_from_options(WHO, option_values)
    # All outputs are checked here: a run of hours must not fail at its end because of a wrong path.
    sharded = option_values["ray"] is not None or models.in_shards(option_values["resume"])
    # A sharded model is saved as a folder, any other model as a file.
    check = outputs.check_folder if sharded else outputs.check
    check(WHO, "--save", option_values["save"], option_values["overwrite"], own=option_values["resume"])
    outputs.check(WHO, "--report", option_values["report"], option_values["overwrite"])
    # `overwrite=True`: the history is appended to, so an existing file is fine.
    outputs.check(WHO, "--history", option_values["history"], overwrite=True)
    if (
        option_values["ray"] is not None
        and option_values["resume"] is not None
        and not models.in_shards(option_values["resume"])
    ):
        raise input_error(
            WHO,
            "--resume",
            "a model in shards if --ray is given",
            repr(option_values["resume"]),
            "A single model cannot be divided into shards: start a new one, or leave out --ray.",
        )

    result = _learn(options, learner, option_values)
    try:
        if option_values["save"] is not None:
            save_model(result, option_values["save"])
        if option_values["report"] is not None:
            write_report(result, option_values["report"])
        if option_values["history"] is not None:
            append_to_history(result, option_values["history"])
    finally:  # print the results even if saving fails, for instance on a full disk
        _print_result(result, option_values)
    if sharded:
        # Stop the workers. The files in the directory stay.
        result.model.close()
    if result.error is not None:
        raise result.error
    if result.stopped:
        sys.exit(INTERRUPTED)


def _learn(options: StreamOptions, learner: LearnerSpec | None, option_values: dict[str, Any]) -> RunResult:
    """Learn the stream until it ends, a signal arrives, or a line is bad (unless bad lines are skipped)."""
    from budgetron.cli import progress
    from budgetron.cli.labelled_stream import LabelledStream
    from budgetron.cli.signals import SignalGuard
    from budgetron.evaluate import Validator

    model: Any = None
    columns, classes = None, None
    if learner is None:
        model, columns, classes = _resumed_model(option_values)
    validator, columns_saved, error = None, False, None
    with (
        SignalGuard(options.source) as guard,
        LabelledStream(WHO, options, columns, classes, option_values["skip"]) as labelled,
        progress.progress_line(option_values["quiet"] or option_values["as_json"], options.limit) as line,
    ):
        if learner is not None:
            model = _new_model(learner, option_values)
        set_point(WHO, model, option_values["point"])
        directory = getattr(model, "directory", None)
        labelled.expect_tasks_of([model])
        try:
            for rows in labelled.blocks(guard):
                # The validator is created with the first rows, because the classes and the window depend on them.
                if validator is None:
                    check_labels(WHO, option_values["point"], labelled.classes)
                    window = option_values["window"] or _window(len(rows.y))
                    scoring = {name: option_values[name] for name in ("delay", "max_tasks", "k")} | {"window": window}
                    validator = Validator(model, classes=labelled.classes, who=WHO, **scoring)
                validator.add(*rows)
                # With --delay the model may have learned nothing yet. Until then a sharded model has no files in its
                # directory that could hold the columns, and the memory of any model is unknown.
                if directory is not None and not columns_saved and hasattr(model, "n_seen_"):
                    # Saved early, so that a killed run leaves a directory that can be continued.
                    model.keep_columns(labelled.stream.columns)
                    columns_saved = True
                if line.due():
                    used = progress.budget_words(model) if hasattr(model, "n_seen_") else ""
                    line.show(validator.position, labelled.stream, validator.so_far, used)
        except BudgetronError as problem:
            # A bad line after hours must not destroy the model: the model is saved before the error is raised.
            if validator is None or not hasattr(model, "n_seen_"):
                raise
            error = problem
        if validator is None:
            guard.exit_if_stopped()
            raise _no_example_error(options.source, labelled.n_bad)
        validation = validator.finish()
        if directory is not None:  # again: the running means of the columns have changed since the first block
            model.keep_columns(labelled.stream.columns)
        return RunResult(
            source=options.source,
            model=model,
            columns=labelled.stream.columns,
            validation=validation,
            seconds=line.seconds,
            # The number to pass to --skip in order to continue after the last learned row.
            rows=option_values["skip"] + validation.overall.n,
            n_bad=labelled.n_bad,
            bad=labelled.bad,
            stopped=guard.signal_name if error is None else "an error",
            options=options,
            error=error,
            directory=directory,
        )


def _resumed_model(option_values: dict[str, Any]) -> tuple[Any, Columns, list[Any]]:
    """Load the model of --resume. Returns the model, its columns and its classes."""
    from budgetron import io

    path = option_values["resume"]
    if models.in_shards(path):
        model = models.resume_sharded(WHO, path, option_values["ray"], option_values["workers"])
        columns = io.columns_of(model)
    else:
        model, columns = io.load_model(path)
    # The stream must use the classes of the model, even if its first rows show only some of them.
    return model, models.known_columns(WHO, "--resume", path, columns), model.classes_.tolist()


def _new_model(learner: LearnerSpec, option_values: dict[str, Any]) -> Any:
    model = learner.build(WHO)
    if option_values["ray"] is None:
        return model
    return models.start_sharded(model, option_values["ray"], option_values["shards"], option_values["workers"])


def _no_example_error(source: str, n_bad: int) -> InputError:
    """The error for a stream from which no example was read."""
    got = f"{source!r}, which has only {counted(n_bad, 'bad line')}" if n_bad else f"{source!r}, which has none"
    return input_error(WHO, "STREAM", "a stream with at least one example", got)


def _window(first_rows: int) -> int:
    """Return the examples per point of a curve: 1,000, or 1/40 of the first block (at least 50) if it is not full."""
    from budgetron.cli.labelled_stream import BLOCK_ROWS

    return 1000 if first_rows >= BLOCK_ROWS else max(50, first_rows // 40)


def _reject_settings(ctx: click.Context, source: str) -> None:
    """Reject options that a resumed model cannot change."""
    of_learner = ("learner", "budget", "kernel", "graph", "others", "shards")
    for name in (*of_learner, *COLUMN_OPTIONS):
        # Only options that the user wrote are rejected; defaults have no meaning for a resumed model.
        if ctx.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT):
            option = "--set" if name == "others" else f"--{name.replace('_', '-')}"
            accepted = "left out with --resume" if source == "--resume" else "left out if --ray names an existing model"
            raise input_error(WHO, option, accepted, "both options", "A saved model keeps its settings.")


def _print_result(result: RunResult, option_values: dict[str, Any]) -> None:
    """Print the result on standard output, as text or JSON, and warnings on standard error."""
    from budgetron.cli import summary

    if option_values["as_json"]:
        click.echo(json.dumps(summary.record(result)))
    elif not option_values["quiet"]:
        summary.show(result, option_values["n_tasks"])
    for line in summary.warnings(result):
        click.echo(line, err=True)
