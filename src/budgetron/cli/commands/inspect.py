"""`budgetron inspect`: show a saved model and explain one prediction.

It only reads: a live directory of `run --ray` may continue learning meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from budgetron.cli.formatting import console, counted, kernel_words, percent, plain, shorten, size, table
from budgetron.cli.options import json_option, model_argument
from budgetron.errors import refuse, shown

if TYPE_CHECKING:
    from rich.console import Console

WHO = "inspect"


@click.command()
@model_argument
@click.option("--example", metavar="JSON", help='Predict this example, as in \'{"age": 41, "city": "Oslo"}\'.')
@click.option("--task", help="Task of the example.")
@click.option("--nearest", type=click.IntRange(min=1), default=5, show_default=True, help="Stored examples to list.")
@click.option("--tasks", "n_tasks", type=click.IntRange(min=0), default=10, show_default=True, help="Tasks to list.")
@json_option
def command(model: str, example: str | None, task: str | None, nearest: int, n_tasks: int, as_json: bool) -> None:
    """Show a saved model: settings, memory, columns, and stored examples per task.

    MODEL is a file of `budgetron run --save`, or a directory of `run --ray`, which may continue learning meanwhile.

    With --example, the example is predicted, and the most similar stored examples are listed: their position in the
    stream, their task, their kernel value (alike), and what each adds to the margin (pull). A pull above 0 favours the
    second label, one below 0 the first. A Budgetron stores no examples; its beliefs are listed, and how confident it
    is.
    """
    from budgetron.cli import models

    learner, columns = models.load(model)
    found: dict[str, Any] = {
        "file": model,
        **_settings(learner),
        "columns": [] if columns is None else [row._asdict() for row in columns.describe()],
        "budget_share": {str(name): share for name, share in learner.budget_share_.items()},
        "beliefs": [asdict(belief) | {"weight": weight} for belief, weight in getattr(learner, "beliefs_", [])],
        "example": None,
    }
    if example is not None:
        found["example"] = _explained(model, learner, columns, example, task, nearest)
    elif task is not None:
        raise refuse(WHO, "--task", "used with --example", "--task alone", "Add the example: --example JSON.")
    if as_json:
        click.echo(json.dumps(found))
    else:
        _show(console(), found, n_tasks)


def _settings(model: Any) -> dict[str, Any]:
    from budgetron.cli.summary import model_record, used_kernel

    learner = getattr(model, "learner", model)  # a sharded model has one learner as the template of its shards
    others = {
        name: plain(value)
        for name, value in learner.get_params(deep=False).items()
        if name not in ("budget", "kernel", "graph", "task_column", "engine")
    }
    record = model_record(model) | {"learner": type(learner).__name__, "kernel_words": kernel_words(used_kernel(model))}
    record["shards"] = [
        {"seen": one.n_seen, "mistakes": one.n_mistakes, "stored": one.n_stored, "capacity": one.capacity}
        for one in getattr(model, "shards_", [])
    ]
    return record | {"parameters": {name: value for name, value in others.items() if _is_json(value)}}


def _is_json(value: Any) -> bool:
    # Parameters such as a random generator have no JSON form and are left out of the record.
    return value is None or isinstance(value, bool | int | float | str)


# ---- Explaining one example


def _explained(path: str, model: Any, columns: Any, text: str, task: str | None, nearest: int) -> dict[str, Any]:
    import numpy as np

    from budgetron.cli.commands.run import known_columns

    columns = known_columns(WHO, "MODEL", path, columns)
    try:
        record = json.loads(text)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise refuse(WHO, "--example", 'a JSON object of columns, {"column": value}', shown(text))
    if columns.task is not None:
        if task is None and columns.task not in record:
            accepted = f"given, because the model has tasks (column {columns.task!r})"
            raise refuse(WHO, "--task", accepted, "none", "Add --task NAME; a new task is allowed.")
        record = record | ({} if task is None else {columns.task: task})
    elif task is not None:
        raise refuse(WHO, "--task", "left out for a model without tasks", shown(task))
    block = columns.block([record])
    row, tasks = block.X, block.tasks
    whose = None if tasks is None else plain(tasks[0])
    margins = model.decision_function(row, tasks=tasks)
    in_shards = hasattr(model, "learner_of")  # a sharded model predicts with the stored examples of one shard
    found: dict[str, Any] = {
        "task": whose,
        "missing": [name for name in columns.names if name not in record],
        "prediction": plain(model.predict(row, tasks=tasks)[0]),
        "margin": margins[0].tolist(),
        "nearest": list(_nearest(model.learner_of(whose) if in_shards else model, row, whose, nearest)),
    }
    if hasattr(model, "predict_std"):
        found["std"] = np.ravel(model.predict_std(row, tasks=tasks)).tolist()
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(row, tasks=tasks)[0].tolist()
        found["probability"] = {str(label): share for label, share in zip(model.classes_, shares, strict=True)}
    return found


def _nearest(model: Any, row: Any, task: Any, n: int) -> Iterator[dict[str, Any]]:
    """The stored examples with the largest kernel values, and what each adds to the margin of this task."""
    import numpy as np

    active, kernel = model.active_set_, model.kernel_
    if kernel is None or not len(active):
        return
    stored = active.rows
    dot = np.asarray((row @ stored.T).todense() if hasattr(row @ stored.T, "todense") else row @ stored.T).ravel()
    # Kernels are functions of inner products and squared norms, so sparse and dense rows take the same path.
    alike = kernel.row(dot, np.full(len(dot), _squares(row)[0]), _squares(stored))
    weights = model.task_weights(task).reshape(len(active), -1)
    # A margin is the sum over stored examples of weight times kernel value; each summand is the pull of one example.
    pulls = weights * alike[:, None]
    for place in np.argsort(-alike, kind="stable")[:n].tolist():
        yield {
            "arrival": int(active.arrival[place]),
            "task": plain(active.task[place]),
            "alike": float(alike[place]),
            "pull": pulls[place].tolist() if pulls.shape[1] > 1 else float(pulls[place, 0]),
        }


def _squares(rows: Any) -> Any:
    import numpy as np
    from scipy import sparse

    if sparse.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    return (np.asarray(rows, dtype=np.float64) ** 2).sum(axis=1)


# ---- Terminal output


def _show(out: Console, found: dict[str, Any], n_tasks: int) -> None:
    capacity = found["capacity"]
    limit = "no limit" if capacity is None else f"at most {capacity:,}"
    labels = ", ".join(shorten(label, 20) for label in found["classes"][:10])
    lines = [
        ("learner", found["learner"]),
        ("kernel", found["kernel_words"]),
        ("graph", shorten(found["graph"], 60)),
        ("budget", str(found["budget"])),
        ("others", ", ".join(f"{name}={value}" for name, value in _changed(found).items()) or "defaults"),
        ("labels", labels + (" …" if len(found["classes"]) > 10 else "")),
        ("seen", f"{counted(found['seen'], 'example')}, {counted(found['mistakes'], 'mistake')}"),
        *([("stored", f"{counted(found['stored'], 'example')}, {limit}")] if capacity != 0 else []),
        ("memory", size(found["memory_bytes"])),
    ]
    if found["shards"]:
        what = "seen" if capacity == 0 else "stored"
        each = [shard[what] for shard in found["shards"]]
        lines.append(("shards", f"{len(each)}, with {min(each):,} to {max(each):,} examples {what} each"))
    for name, value in lines:
        out.print(f"{name:<9}{value}")
    if found["columns"]:
        out.print("\nColumns")
        names = list(found["columns"][0])
        rows = table(names, left=names)
        for row in found["columns"][:100]:
            rows.add_row(*(shorten(value, 60) for value in row.values()))
        out.print(rows)
    if n_tasks and len(found["budget_share"]) > 1:
        out.print(f"\nStored examples by task ({counted(len(found['budget_share']), 'task')})")
        rows = table(["task", "stored %"], left=["task"])
        for name, share in list(found["budget_share"].items())[:n_tasks]:
            rows.add_row(shorten(name), percent(share, ""))
        out.print(rows)
    if found["beliefs"]:
        _beliefs(out, found["beliefs"])
    if found["example"] is not None:
        _example(out, found["example"])


def _changed(found: dict[str, Any]) -> dict[str, Any]:
    """The parameters that differ from their defaults."""
    import budgetron

    usual = getattr(budgetron, found["learner"])().get_params(deep=False)
    return {name: value for name, value in found["parameters"].items() if usual[name] != value}


def _beliefs(out: Console, beliefs: list[dict[str, Any]]) -> None:
    out.print("\nThe models that are mixed, by weight")
    rows = table(["weight %", "assumes"], left=["assumes"])
    for one in sorted(beliefs, key=lambda belief: -belief["weight"]):
        rows.add_row(percent(one["weight"], ""), one["words"])
    out.print(rows)


def _example(out: Console, found: dict[str, Any]) -> None:
    whose = "" if found["task"] is None else f" for task {shorten(found['task'])}"
    out.print(f"\nThe example{whose} is predicted as {shorten(found['prediction'])}")
    for label, share in found.get("probability", {}).items():
        out.print(f"  {shorten(label, 20)}: {percent(share)}")
    if found["missing"]:
        out.print(f"  not given: {', '.join(shorten(name, 20) for name in found['missing'][:10])}")
    if "std" in found:
        spread = ", ".join(f"{value:.2f}" for value in found["std"][:10])
        out.print(f"  standard deviation of the log odds: {spread}")
    elif not found["nearest"]:
        out.print("  no stored examples to compare it with")
    if not found["nearest"]:
        return
    one_pull = not isinstance(found["nearest"][0]["pull"], list)
    rows = table(["example no.", "task", "alike", *(["pull"] if one_pull else [])], left=["task"])
    for near in found["nearest"]:
        pull = [f"{near['pull']:+.3f}"] if one_pull else []
        rows.add_row(f"{near['arrival'] + 1:,}", shorten(near["task"]), f"{near['alike']:.3f}", *pull)
    out.print("The most similar stored examples:")
    out.print(rows)
