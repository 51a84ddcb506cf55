"""Explain one prediction, or average the reasons over a file. Called by `budgetron inspect`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from budgetron.cli.formatting import counted, percent, plain, shorten, table
from budgetron.errors import InputError, input_error, shown

if TYPE_CHECKING:
    from rich.console import Console

WHO = "inspect"
_REASONS = 12  # how many terms are printed; --json has all of them


def explain_example(path: str, model: Any, columns: Any, text: str, task: str | None, nearest: int) -> dict[str, Any]:
    """Predict the example in `text` (JSON) and explain the prediction. Returns values for JSON."""
    import numpy as np

    from budgetron.cli import models
    from budgetron.learners.input.classes import label_text

    columns = models.known_columns(WHO, "MODEL", path, columns)
    try:
        record = json.loads(text)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise input_error(WHO, "--example", 'a JSON object of columns, {"column": value}', shown(text))
    record = dict(columns.checked([record], WHO, "--example")[0])
    if columns.task is not None:
        if task is None and columns.task not in record:
            accepted = f"given, because the model has tasks (column {columns.task!r})"
            raise input_error(WHO, "--task", accepted, "none", "Add --task NAME; a new task is allowed.")
        # --task overrides a task in the example.
        record = record | ({} if task is None else {columns.task: task})
    elif task is not None:
        raise input_error(WHO, "--task", "left out for a model without tasks", shown(task))
    try:
        block = columns.block([record])
    except InputError as error:
        raise InputError(str(error).replace("Columns.encode: record 0:", f"{WHO}: --example:")) from None
    warning = columns.doubt(record)
    if warning is not None:
        logging.getLogger("budgetron.cli").warning("%s", warning)
    row, tasks, scores = block.X, block.tasks, block.offsets
    row_task = None if tasks is None else plain(tasks[0])
    arguments = {"tasks": tasks} | ({} if scores is None else {"offset": scores})
    margins = model.decision_function(row, **arguments)
    # A sharded model has one learner per shard.
    learner = model.learner_of(row_task) if hasattr(model, "learner_of") else model
    # `explain` takes a single row: a sparse matrix of one row, or a vector.
    vector = row if hasattr(row, "indptr") else row[0]
    score = None if scores is None else scores[0]
    reasons = learner.explain(vector, task=row_task, offset=score, nearest=nearest, names=columns.names_of([record]))
    explained: dict[str, Any] = {
        "task": row_task,
        "missing": [name for name in columns.names if name not in record],
        "prediction": plain(model.predict(row, **arguments)[0]),
        "margin": margins[0].tolist(),
        "reasons": reasons.to_dict(),
        "nearest": list(_nearest_examples(reasons, learner, vector, row_task, nearest)),
    }
    if getattr(model, "operating_point", None) is not None:
        explained["decision"] = plain(model.decide(row, **arguments)[0])
    if hasattr(model, "predict_std"):
        explained["std"] = np.ravel(model.predict_std(row, **arguments)).tolist()
    if hasattr(model, "predict_proba"):
        probabilities = model.predict_proba(row, **arguments)[0].tolist()
        explained["probability"] = dict(zip(map(label_text, model.classes_), probabilities, strict=True))
    return explained


def _nearest_examples(reasons: Any, model: Any, row: Any, task: Any, n: int) -> Iterator[dict[str, Any]]:
    """Yield the stored examples with the largest kernel values, and what each of them adds to the margin."""
    classes = model.classes_.tolist()
    # The keys of the JSON are those of version 0.1: "alike" is the kernel value, "pull" is what the example adds to the
    # margin. With two classes, "pull" is one number, for the margin of the second class. Otherwise it is a list with
    # one number per class.
    if len(classes) == 2:
        explanations = [reasons]
    else:
        explanations = [model.explain(row, task=task, label=label, nearest=n) for label in classes]
    for i, near in enumerate(reasons.nearest):
        contributions = [explanation.nearest[i].contribution for explanation in explanations]
        pull = contributions[0] if len(contributions) == 1 else contributions
        yield {"arrival": near.arrival, "task": plain(near.task), "alike": near.similarity, "pull": pull}


def importance(path: str, model: Any, columns: Any, stream: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Explain the prediction of every row of a file, and average the terms per feature.

    `arguments` are further arguments of `io.read`. Returns values for JSON, with the 100 features whose terms are
    largest.
    """
    from budgetron import evaluate, io
    from budgetron.cli import models

    columns = models.known_columns(WHO, "MODEL", path, columns)
    if hasattr(model, "learner_of"):
        raise input_error(WHO, "--importance", "used with a model in one file", "a model in shards")
    total = evaluate.FeatureImportance()
    with io.read(stream, columns=columns, labelled=False, **arguments) as source:
        for block in source:
            names = block.names() if block.names is not None else {}
            for i in range(len(block)):
                row = block.X[i]
                task = None if block.tasks is None else plain(block.tasks[i])
                score = None if block.offsets is None else block.offsets[i]
                total.add(model.explain(row, task=task, offset=score, names=names, nearest=0))
    if source.n_bad:
        click.echo(f"{counted(source.n_bad, 'bad line')} skipped.", err=True)
    return {"examples": total.n, "features": [asdict(feature) for feature in total.top(100)]}


# ---- Terminal output


def show_importance(out: Console, importance: dict[str, Any]) -> None:
    """Print the averaged terms per feature as a table."""
    out.print(f"\nWhat each feature adds to the margin, averaged over {counted(importance['examples'], 'example')}")
    rows = table(["feature", "mean size", "mean", "shared", "own", "related"], left=["feature"])
    for feature in importance["features"][:20]:
        parts = [f"{feature[part]:.3f}" if feature[part] else "" for part in ("shared", "own", "related")]
        rows.add_row(shorten(feature["name"]), f"{feature['mean']:.3f}", f"{feature['direction']:+.3f}", *parts)
    out.print(rows)


def _show_reasons(out: Console, reasons: dict[str, Any]) -> None:
    """Print the terms of an explanation as a table."""
    out.print(f"What speaks for {shorten(reasons['label'], 20)} (above 0) or against it (below 0):")
    rows = table(["reason", "adds", "shared", "own", "related"], left=["reason"])
    shown, others = reasons["terms"][:_REASONS], reasons["terms"][_REASONS:]
    for term in shown:
        parts = [f"{term[part]:+.3f}" if term[part] else "" for part in ("shared", "own", "related")]
        rows.add_row(shorten(term["name"]), f"{term['total']:+.3f}", *parts)
    if others:
        rows.add_row(f"{counted(len(others), 'other')}", f"{sum(term['total'] for term in others):+.3f}", "", "", "")
    if abs(reasons["remainder"]) >= 5e-4:
        rows.add_row("mixing of the models", f"{reasons['remainder']:+.3f}", "", "", "")
    rows.add_row("margin", f"{reasons['margin']:+.3f}", "", "", "")
    out.print(rows)


def show_example(out: Console, explained: dict[str, Any]) -> None:
    """Print the prediction of an example, its reasons and the nearest stored examples."""
    of_task = "" if explained["task"] is None else f" for task {shorten(explained['task'])}"
    out.print(f"\nThe example{of_task} is predicted as {shorten(explained['prediction'])}")
    if "decision" in explained:
        asks = explained["decision"] is None
        out.print(
            "  the decision is to ask a person" if asks else f"  the decision is {shorten(explained['decision'])}"
        )
    for label, probability in explained.get("probability", {}).items():
        out.print(f"  {shorten(label, 20)}: {percent(probability)}")
    if explained["missing"]:
        out.print(f"  not given: {', '.join(shorten(name, 20) for name in explained['missing'][:10])}")
    if "std" in explained:
        spread = ", ".join(f"{value:.2f}" for value in explained["std"][:10])
        out.print(f"  standard deviation of the log odds: {spread}")
    elif not explained["nearest"]:
        out.print("  no stored examples to compare it with")
    _show_reasons(out, explained["reasons"])
    if not explained["nearest"]:
        return
    two_classes = not isinstance(explained["nearest"][0]["pull"], list)
    rows = table(["example no.", "task", "similarity", *(["contribution"] if two_classes else [])], left=["task"])
    for near in explained["nearest"]:
        contribution = [f"{near['pull']:+.3f}"] if two_classes else []
        rows.add_row(f"{near['arrival'] + 1:,}", shorten(near["task"]), f"{near['alike']:.3f}", *contribution)
    out.print("The most similar stored examples:")
    out.print(rows)
