"""`budgetron inspect`: show a saved model and explain one prediction.

The command changes nothing. A run that uses the directory of the model (`run --ray`) can continue meanwhile.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from budgetron.cli import reasons
from budgetron.cli.formatting import console, counted, kernel_words, percent, plain, shorten, size, table
from budgetron.cli.options import READING_OPTIONS, json_option, model_argument, reading_arguments, reading_options
from budgetron.errors import input_error

if TYPE_CHECKING:
    from rich.console import Console

    from budgetron.decisions import OperatingPoint


@click.command()
@model_argument
@click.option("--example", metavar="JSON", help='Predict this example, as in \'{"age": 41, "city": "Oslo"}\'.')
@click.option("--task", help="Task of the example.")
@click.option("--nearest", type=click.IntRange(min=1), default=5, show_default=True, help="Stored examples to list.")
@click.option("--importance", metavar="FILE", help="Average the reasons for the rows of this file.")
@reading_options
@click.option("--tasks", "n_tasks", type=click.IntRange(min=0), default=10, show_default=True, help="Tasks to list.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, /, model: str, example: str | None, task: str | None, nearest: int, importance: str | None,
    n_tasks: int, as_json: bool, **option_values: Any,
) -> None:  # fmt: skip
    """Show a saved model: settings, memory, columns, and stored examples per task.

    MODEL is a file of `budgetron run --save`, or a directory of `run --ray`, which may continue learning meanwhile.

    With --example, the example is predicted, and the reasons are listed: what each feature adds to the margin. Each
    number is split by the weights that it comes from: shared by all tasks, the task's own, or those of related tasks.
    For learners that store examples, the most similar examples are listed: their position in the stream, their task,
    their kernel value (similarity), and what each adds to the margin (contribution). A contribution above 0 favours the
    second label, below 0 the first. With --json, similarity and contribution are called "alike" and "pull".

    With --importance, the reasons for all rows of a file are averaged: which features matter, and how much.
    --format, --encoding, --on-error and --limit say how this file is read.
    """
    from budgetron.cli import models
    from budgetron.cli.summary import point_record

    learner, columns = models.load(model)
    description: dict[str, Any] = {
        "file": model,
        **_settings(learner),
        "columns": [] if columns is None else [row._asdict() for row in columns.describe()],
        "budget_share": {str(name): share for name, share in learner.budget_share_.items()},
        "beliefs": [asdict(belief) | {"weight": weight} for belief, weight in getattr(learner, "beliefs_", [])],
        "operating_point": point_record(learner),
        "example": None,
        "importance": None,
    }
    if example is not None:
        description["example"] = reasons.explain_example(model, learner, columns, example, task, nearest)
    elif task is not None:
        raise input_error(
            reasons.WHO, "--task", "used with --example", "--task alone", "Add the example: --example JSON."
        )
    if importance is not None:
        reading = reading_arguments(option_values)
        description["importance"] = reasons.importance(model, learner, columns, importance, reading)
    else:
        _reject_reading_options(ctx)
    if as_json:
        click.echo(json.dumps(description))
    else:
        parts = "replicas" if hasattr(learner, "replicas") else "shards"
        _show(console(), description, n_tasks, getattr(learner, "operating_point", None), parts)


def _reject_reading_options(ctx: click.Context) -> None:
    """Reject options for reading a file if there is none to read."""
    for name in READING_OPTIONS:
        if ctx.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT):
            option = f"--{name.removeprefix('file_').replace('_', '-')}"
            remedy = "Add the file to read: --importance FILE."
            raise input_error(reasons.WHO, option, "used with --importance", f"{option} alone", remedy)


def _settings(model: Any) -> dict[str, Any]:
    from budgetron.cli.summary import model_record, used_kernel

    learner = getattr(model, "learner", model)  # a sharded model has one learner as the template of its shards
    others = {
        name: plain(value)
        for name, value in learner.get_params(deep=False).items()
        if name not in ("budget", "kernel", "graph", "task_column", "engine")
    }
    parameters = {name: value for name, value in others.items() if _is_json(value)}
    return model_record(model) | {"kernel_words": kernel_words(used_kernel(model)), "parameters": parameters}


def _is_json(value: Any) -> bool:
    # Parameters such as a random generator have no JSON form and are left out of the record.
    return value is None or isinstance(value, bool | int | float | str)


# ---- Terminal output


def _show(out: Console, description: dict[str, Any], n_tasks: int, point: OperatingPoint | None, parts: str) -> None:
    """Print the description. `parts` is "shards" or "replicas": the word for the parts of a model that has several.

    In JSON they are always called shards.
    """
    from budgetron.cli.summary import point_lines

    capacity = description["capacity"]
    limit = "no limit" if capacity is None else f"at most {capacity:,}"
    labels = ", ".join(shorten(label, 20) for label in description["classes"][:10])
    lines = [
        ("learner", description["learner"]),
        ("kernel", description["kernel_words"]),
        ("graph", shorten(description["graph"], 60)),
        ("budget", str(description["budget"])),
        ("others", ", ".join(f"{name}={value}" for name, value in _changed(description).items()) or "defaults"),
        ("labels", labels + (" …" if len(description["classes"]) > 10 else "")),
        ("seen", f"{counted(description['seen'], 'example')}, {counted(description['mistakes'], 'mistake')}"),
        *([("stored", f"{counted(description['stored'], 'example')}, {limit}")] if capacity != 0 else []),
        ("memory", size(description["memory_bytes"])),
        *point_lines(point),
    ]
    if description["shards"]:
        # A learner without stored examples has a capacity of 0.
        what = "seen" if capacity == 0 else "stored"
        each = [shard[what] for shard in description["shards"]]
        lines.append((parts, f"{len(each)}, with {min(each):,} to {max(each):,} examples {what} each"))
    for name, value in lines:
        out.print(f"{name:<9}{value}", soft_wrap=True)
    if description["columns"]:
        out.print("\nColumns")
        names = list(description["columns"][0])
        rows = table(names, left=names)
        for row in description["columns"][:100]:
            rows.add_row(*(shorten(value, 60) for value in row.values()))
        out.print(rows)
    if n_tasks and len(description["budget_share"]) > 1:
        out.print(f"\nStored examples by task ({counted(len(description['budget_share']), 'task')})")
        rows = table(["task", "stored %"], left=["task"])
        for name, share in list(description["budget_share"].items())[:n_tasks]:
            rows.add_row(shorten(name), percent(share, ""))
        out.print(rows)
    if description["beliefs"]:
        _show_beliefs(out, description["beliefs"])
    if description["example"] is not None:
        reasons.show_example(out, description["example"])
    if description["importance"] is not None:
        reasons.show_importance(out, description["importance"])


def _changed(description: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that differ from their defaults."""
    import budgetron

    # A learner with default parameters, to compare with.
    defaults = getattr(budgetron, description["learner"])().get_params(deep=False)
    return {name: value for name, value in description["parameters"].items() if defaults[name] != value}


def _show_beliefs(out: Console, beliefs: list[dict[str, Any]]) -> None:
    out.print("\nThe models that are mixed, by weight")
    rows = table(["weight %", "assumes"], left=["assumes"])
    for belief in sorted(beliefs, key=lambda belief: -belief["weight"]):
        rows.add_row(percent(belief["weight"], ""), belief["words"])
    out.print(rows)
