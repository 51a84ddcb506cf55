"""Print the result of `budgetron run`: a summary for the terminal, warnings, and JSON.

Other commands use parts of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from budgetron.cli.formatting import (
    console,
    counted,
    decimal,
    kernel_words,
    percent,
    plain,
    rate,
    shorten,
    size,
    source_words,
    table,
)
from budgetron.errors import BadLineError, is_integer

if TYPE_CHECKING:
    from budgetron.cli.labelled_stream import LabelledStream
    from budgetron.cli.run_result import RunResult
    from budgetron.evaluate import Figures, Validation

_MAX_LABELS = 6
_MAX_ALARMS = 5


def show(result: RunResult, n_tasks: int) -> None:
    """Print the stream, the model, its results and the worst tasks."""
    out = console()
    out.print(f"{source_words(result.source)}: {_stream_words(result)}")
    out.print(f"{model_words(result.model)}\n")
    for name, value, comment in _lines(result):
        out.print(f"{name:<9}{value:<10}{comment}".rstrip() if value else f"{name:<9}{comment}", soft_wrap=True)
    if n_tasks and len(result.validation.per_task) > 1:
        out.print()
        _show_tasks(out, result, n_tasks)
    out.print()
    for line in alarm_lines(result.validation):
        out.print(line, soft_wrap=True)
    if note := rare_words(result.validation):
        if result.model.operating_point is None:
            note += " To decide at other probabilities than one half, add for example --costs fp=1,fn=20."
        out.print(f"{note}\n", soft_wrap=True)
    for note in _notes(result):
        out.print(note, soft_wrap=True)


def _lines(result: RunResult) -> Iterator[tuple[str, str, str]]:
    """Yield the lines of the summary: a name, a value, and a comment on the value."""
    model, validation = result.model, result.validation
    overall = validation.overall
    errors = [
        ("error", percent(overall.error), constant_words(validation)),
        ("F", percent(overall.f_measure), _precision_words(model, overall)),
    ]
    ranking = list(_ranking_lines(model, validation))
    # If a label is rare, the error says little, because always predicting the other label has nearly the same error. So
    # the ranking comes first.
    yield from [*errors, *ranking] if validation.rare is None else [*ranking, *errors]
    if overall.log_loss is not None and validation.calibration is not None:
        off = f"probabilities are off by {percent(validation.calibration.ece)} on average"
        yield "log loss", f"{overall.log_loss:.3f}", f"Brier score {decimal(overall.brier)}; {off}"
    for name, value in point_lines(getattr(model, "operating_point", None)):
        yield name, "", value
    if model.capacity_ != 0:
        yield "stored", f"{model.n_stored_:,}", _stored_words(model)
    yield "memory", size(model.memory_bytes_), "of the whole model"
    seconds = f"{result.seconds:.2g}" if result.seconds < 1 else f"{result.seconds:.1f}"
    yield "speed", f"{rate(overall.n / result.seconds)}/s", f"{counted(overall.n, 'example')} in {seconds} s"


def _ranking_lines(model: Any, validation: Validation) -> Iterator[tuple[str, str, str]]:
    """Yield the lines about the ranking by score: AUC and average precision."""
    overall, classes = validation.overall, model.classes_.tolist()
    if overall.auc is None:
        return
    if len(classes) > 2:
        precision = decimal(overall.average_precision)
        yield "AUC", decimal(overall.auc), f"each class against the rest; average precision {precision}"
        return
    label = shorten(classes[1], 20)
    yield (
        "AUC",
        decimal(overall.auc),
        f"the chance that {label} is scored above {shorten(classes[0], 20)}; 0.5 is random",
    )
    share = decimal(validation.share_of_positives)
    top = ""
    if overall.precision_at_k is not None:
        # On long streams scores are counted in bins, and the number is an estimate.
        about = "" if validation.ranking is None or validation.ranking.exact else "about "
        top = f"; of the {validation.k:,} highest scores {about}{percent(overall.precision_at_k)} are {label}"
    yield "avg prec", decimal(overall.average_precision), f"random: {share}{top}"


def alarm_lines(validation: Validation) -> Iterator[str]:
    """Yield lines about drift: the latest alarm for all tasks together first, then the latest one of some tasks.

    At most five alarms are listed, and the other tasks are counted. A long stream may have more alarms than
    `validation.alarms` holds. The tasks of earlier alarms are not counted then, and the first line says so.
    """
    from budgetron.evaluate.drift import words

    if not validation.alarms:
        return
    # Alarms are in order of time, so a later alarm of a task replaces an earlier one.
    latest = {alarm.task: alarm for alarm in validation.alarms}
    ordered = sorted(latest.values(), key=lambda alarm: (not alarm.overall, -alarm.position))
    known = len(validation.alarms)
    which = f". The latest {known:,} are about" if validation.n_alarms > known else ""
    yield f"{counted(validation.n_alarms, 'drift alarm')}{which}:"
    for alarm in ordered[:_MAX_ALARMS]:
        yield f"  {'all tasks together' if alarm.overall else f'task {shorten(alarm.task)}'}: {words(alarm)}"
    if len(ordered) > _MAX_ALARMS:
        yield f"  and {counted(len(ordered) - _MAX_ALARMS, 'more task')}; see --report or --json"
    yield ""


def rare_words(validation: Validation) -> str:
    """Return advice on which metrics to read if one label is rare; empty if none is rare."""
    from budgetron.evaluate.metrics.confusion import rare_sentence

    return "" if validation.rare is None else rare_sentence(shorten(validation.rare[0], 20), validation.rare[1])


def _stream_words(result: RunResult) -> str:
    """Describe the stream: examples, tasks and labels."""
    validation = result.validation
    words = [counted(validation.overall.n, "example")]
    columns = result.columns
    if columns.task is not None:
        more = "" if validation.others is None else " and more"
        words.append(f"{counted(len(validation.per_task), 'task')}{more} (column {shorten(columns.task)})")
    else:
        words.append("one task (none named; see --task)")
    labels = [shorten(label, 12) for label in result.model.classes_.tolist()]
    shown = " or ".join(labels) if len(labels) <= _MAX_LABELS else counted(len(labels), "class", "classes")
    return ", ".join([*words, f"labels {shown} (column {shorten(columns.label)})"])


def model_words(model: Any) -> str:
    """Describe a model in one line: learner, budget, kernel and graph."""
    budget = getattr(model, "budget", None)
    words = "without limit" if budget is None else f"of budget {budget:,}" if is_integer(budget) else f"of {budget}"
    parts = "replicas" if hasattr(model, "replicas") else "shards"
    where = f" in {model.shards} {parts}" if hasattr(model, "shards") else ""
    name, kernel = _learner_name(model), kernel_words(used_kernel(model))
    return f"{name} {words}{where}, {kernel}, graph {shorten(model.graph, 60)}"


def _learner_name(model: Any) -> str:
    """Return the name of the learner; of a model in shards or replicas, that of the learner in each of them."""
    return type(getattr(model, "learner", model)).__name__


def used_kernel(model: Any) -> Any:
    """Return the kernel with its parameters; for a model without stored examples, the kernel of its random features."""
    if model.kernel_ is None and model.capacity_ == 0:
        return getattr(model, "learner", model).kernel
    return model.kernel_


def most_frequent_class(validation: Validation) -> tuple[Any, float] | None:
    """Return the most frequent class and the error of always predicting it; None if there are too many classes."""
    confusion = validation.confusion
    if confusion is None:
        return None
    by_class = confusion.counts.sum(axis=1)
    most_frequent = int(by_class.argmax())
    return confusion.classes[most_frequent], float(1 - by_class[most_frequent] / by_class.sum())


def constant_words(validation: Validation) -> str:
    """Describe the error of always predicting the most frequent class: the baseline without learning."""
    constant = most_frequent_class(validation)
    return "" if constant is None else f"always predicting {shorten(constant[0], 20)}: {percent(constant[1])}"


def _precision_words(model: Any, overall: Any) -> str:
    values = f"precision {percent(overall.precision)}, recall {percent(overall.recall)}"
    classes = model.classes_.tolist()
    return f"of {shorten(classes[1], 20)}: {values}" if len(classes) == 2 else f"mean over classes: {values}"


def _stored_words(model: Any) -> str:
    capacity = model.capacity_
    share = model.budget_share_
    stored = "examples, without limit" if capacity is None else f"of at most {capacity:,} examples"
    return f"{stored}, from {counted(len(share), 'task')}"


def _show_tasks(out: Any, result: RunResult, n_tasks: int) -> None:
    """Print a table of the worst tasks."""
    validation = result.validation
    worst = validation.worst_first()
    heading = f"The {n_tasks} worst of" if len(worst) > n_tasks else "The"
    out.print(f"{heading} {counted(len(worst), 'task')}, by the lower confidence limit of the error")
    share, stores = result.model.budget_share_, result.model.capacity_ != 0
    rows = table(["task", "examples", "error %", "F %", "AUC", *(["stored %"] if stores else [])], left=["task"])
    for task, figures in worst[:n_tasks]:
        stored = [percent(share.get(task, 0.0), "")] if stores else []
        rows.add_row(shorten(task), *_task_cells(figures), *stored)
    if validation.others is not None:
        rows.add_row("later tasks", *_task_cells(validation.others))
    out.print(rows)


def _task_cells(figures: Figures) -> list[str]:
    return [f"{figures.n:,}", percent(figures.error, ""), percent(figures.f_measure, ""), decimal(figures.auc)]


def _notes(result: RunResult) -> Iterator[str]:
    """Yield sentences that say where the outputs are."""
    if result.saved is not None:
        where = shlex.quote(result.saved)
        yield f"Saved in {result.saved}. To use it: budgetron predict {where} FILE"
    elif result.directory is not None:
        where = shlex.quote(str(result.directory))
        yield (
            f"The shards are in {result.directory}. To use them: budgetron predict {where} FILE; "
            f"to continue: --ray {where}"
        )
    elif result.stopped is None:
        yield "The model was not saved; use --save MODEL."
    yield from result.notes


def warnings(result: RunResult) -> Iterator[str]:
    """Yield warnings, which are printed on standard error even with --quiet and --json."""
    yield from skipped_lines(result)
    if result.stopped is not None:
        learned = counted(result.validation.overall.n, "example")
        yield f"Stopped by {result.stopped} after {learned}. " + _how_to_continue(result)


def skipped_lines(stream: RunResult | LabelledStream) -> Iterator[str]:
    """Yield a warning about the bad lines that were skipped, with the first of them; nothing if there were none."""
    if stream.n_bad:
        yield f"{counted(stream.n_bad, 'bad line')} skipped; the first:"
        yield from (f"  {line}" for line in stream.bad[:3])


def _how_to_continue(result: RunResult) -> str:
    """Say where the model of a stopped run is, and how to continue the run."""
    if result.directory is not None and result.saved is None:
        where = shlex.quote(str(result.directory))
        if result.source == "-":
            return f"The model so far is in {result.directory}. To continue: --ray {where}"
        return f"The model so far is in {result.directory}. {_to_continue(result, f'--ray {where}')}"
    if result.saved is None:
        return "Nothing was saved: --save MODEL was not given."
    where = shlex.quote(result.saved)
    if result.source == "-":
        return f"The model so far is saved in {result.saved}. To continue: --resume {where}"
    again = _to_continue(result, f"--resume {where}", f"--save {where}")
    return f"The model so far is saved in {result.saved}. {again}"


def _to_continue(result: RunResult, resume: str, save: str = "") -> str:
    """Return the command that continues a stopped run after the last row that was learned."""
    options = result.options
    # After a bad line, the command has to skip bad lines, or it would stop at the same line again.
    skips = options.on_error == "skip" or isinstance(result.error, BadLineError)
    words = [
        "budgetron run", shlex.quote(result.source), *options.words(columns=False), resume, f"--skip {result.rows}",
        "--on-error skip" if skips else "", save,
    ]  # fmt: skip
    how = "To continue without such lines:" if isinstance(result.error, BadLineError) else "To continue:"
    return f"{how}\n  {' '.join(filter(None, words))}"


def record(result: RunResult) -> dict[str, Any]:
    """Return the result as values for JSON."""
    return {
        "source": result.source,
        "rows": result.rows,
        "bad_lines": result.n_bad,
        "bad": result.bad,
        "seconds": result.seconds,
        "examples_per_second": result.validation.overall.n / result.seconds,
        "stopped": result.stopped,
        "error": None if result.error is None else str(result.error),
        "saved": result.saved,
        "directory": None if result.directory is None else str(result.directory),
        "label": result.columns.label,
        "task": result.columns.task,
        "model": model_record(result.model),
        "operating_point": point_record(result.model),
        "validation": result.validation.to_dict(),
    }


def point_lines(point: Any) -> list[tuple[str, str]]:
    """Describe an operating point: how it decides, the expected cost, and the cost of the decisions so far."""
    if point is None:
        return []
    from budgetron.decisions.words import point_words

    return list(point_words(point, lambda label: shorten(label, 20)))


def point_record(model: Any) -> dict[str, Any] | None:
    """Return the operating point of a model as values for JSON; None if it has none."""
    point = getattr(model, "operating_point", None)
    return None if point is None else point.to_dict()


def model_record(model: Any) -> dict[str, Any]:
    """Return the settings and the size of a model as values for JSON. Replicas are called shards too."""
    return {
        "learner": _learner_name(model),
        "budget": plain(getattr(model, "budget", None)),
        "kernel": None if model.kernel_ is None else str(model.kernel_),
        "graph": str(model.graph),
        "classes": [plain(label) for label in model.classes_.tolist()],
        "features": int(model.n_features_in_),
        "seen": model.n_seen_,
        "mistakes": model.n_mistakes_,
        "stored": model.n_stored_,
        "capacity": model.capacity_,
        "memory_bytes": model.memory_bytes_,
        "shards": [
            {"seen": shard.n_seen, "mistakes": shard.n_mistakes, "stored": shard.n_stored, "capacity": shard.capacity}
            for shard in getattr(model, "shards_", [])
        ],
    }
