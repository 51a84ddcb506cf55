"""The end of a run, in words, as a table of tasks, and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from budgetron.cli.wording import console, counted, cut, kernel_words, percent, plain, rate, size, source_words, table
from budgetron.errors import is_whole

if TYPE_CHECKING:
    from budgetron.cli.run import Ended
    from budgetron.evaluate import Validation

_MOST_LABELS = 6


def show(ended: Ended, n_tasks: int) -> None:
    """What was read, what learned it, how well, and for which tasks worst."""
    out = console()
    out.print(f"{source_words(ended.source)}: {_read(ended)}")
    out.print(f"{model_words(ended.model)}\n")
    for name, figure, more in _figures(ended):
        out.print(f"{name:<9}{figure:<10}{more}".rstrip())
    if n_tasks and len(ended.validation.per_task) > 1:
        out.print()
        _tasks(out, ended, n_tasks)
    out.print()
    for note in _notes(ended):
        out.print(note, soft_wrap=True)


def _figures(ended: Ended) -> Iterator[tuple[str, str, str]]:
    model, found = ended.model, ended.validation.overall
    yield "error", percent(found.error), constant_words(ended.validation)
    yield "F", percent(found.f_measure), _precision(model, found)
    if found.log_loss is not None and ended.validation.calibration is not None:
        calibration = percent(ended.validation.calibration.ece)
        yield "log loss", f"{found.log_loss:.3f}", f"probabilities are off by {calibration} on average"
    yield "stored", f"{model.n_stored_:,}", _stored(model)
    yield "memory", size(model.memory_bytes_), "all that the model holds"
    yield "speed", f"{rate(found.n / ended.seconds)}/s", f"{found.n:,} examples in {ended.seconds:.1f} s"


def _read(ended: Ended) -> str:
    found = ended.validation
    words = [counted(found.overall.n, "example")]
    columns = ended.columns
    if columns.task is not None:
        more = "" if found.others is None else " and more"
        words.append(f"{counted(len(found.per_task), 'task')}{more} (column {cut(columns.task)})")
    labels = [cut(label, 12) for label in ended.model.classes_.tolist()]
    said = " or ".join(labels) if len(labels) <= _MOST_LABELS else counted(len(labels), "class", "classes")
    return ", ".join([*words, f"labels {said} (column {cut(columns.label)})"])


def model_words(model: Any) -> str:
    """A model in one line."""
    budget = getattr(model, "budget", None)
    words = "without limit" if budget is None else f"of budget {budget:,}" if is_whole(budget) else f"of {budget}"
    return f"{type(model).__name__} {words}, {kernel_words(model.kernel_)}, {cut(model.graph, 60)}"


def commonest(validation: Validation) -> tuple[Any, float] | None:
    """The commonest label, and what always saying it would err; None where there are too many to count."""
    confusion = validation.confusion
    if confusion is None:
        return None
    by_class = confusion.counts.sum(axis=1)
    place = int(by_class.argmax())
    return confusion.classes[place], float(1 - by_class[place] / by_class.sum())


def constant_words(validation: Validation) -> str:
    """What one would get without learning anything."""
    found = commonest(validation)
    return "" if found is None else f"always saying {cut(found[0], 20)} errs {percent(found[1])}"


def _precision(model: Any, found: Any) -> str:
    said = f"precision {percent(found.precision)}, recall {percent(found.recall)}"
    classes = model.classes_.tolist()
    return f"of {cut(classes[1], 20)}: {said}" if len(classes) == 2 else f"mean over classes: {said}"


def _stored(model: Any) -> str:
    capacity = model.capacity_
    share = model.budget_share_
    room = "examples, without limit" if capacity is None else f"of at most {capacity:,} examples"
    return f"{room}, from {counted(len(share), 'task')}"


def _tasks(out: Any, ended: Ended, n_tasks: int) -> None:
    found = ended.validation
    worst = found.worst_first()
    more = f"The {n_tasks} worst of" if len(worst) > n_tasks else "Worst first,"
    out.print(f"{more} {counted(len(worst), 'task')}")
    share = ended.model.budget_share_
    rows = table(["task", "examples", "error %", "F %", "stored %"], left=["task"])
    for task, row in worst[:n_tasks]:
        stored = percent(share.get(task, 0.0), "")
        rows.add_row(cut(task), f"{row.n:,}", percent(row.error, ""), percent(row.f_measure, ""), stored)
    if found.others is not None:
        other = found.others
        rows.add_row("later tasks", f"{other.n:,}", percent(other.error, ""), percent(other.f_measure, ""), "")
    out.print(rows)


def _notes(ended: Ended) -> Iterator[str]:
    if ended.saved is not None:
        where = shlex.quote(ended.saved)
        yield f"Saved in {ended.saved}. To use it: budgetron predict {where} FILE"
    elif ended.kept is not None:
        where = shlex.quote(str(ended.kept))
        yield f"Kept in shards in {ended.kept}. To use it: budgetron predict {where} FILE; to go on: --ray {where}"
    elif ended.stopped is None:
        yield "Nothing was saved: --save MODEL keeps the model."
    yield from ended.notes


def warnings(ended: Ended) -> Iterator[str]:
    """What must be said even where nothing else is."""
    yield from ended.columns.warnings()
    if ended.n_bad:
        yield f"{counted(ended.n_bad, 'bad line')} left out; the first:"
        yield from (f"  {line}" for line in ended.bad[:3])
    if ended.stopped is not None:
        learned = counted(ended.validation.overall.n, "example")
        yield f"Stopped by {ended.stopped} after {learned}. " + _goes_on(ended)


def _goes_on(ended: Ended) -> str:
    if ended.kept is not None and ended.saved is None:
        where = shlex.quote(str(ended.kept))
        if ended.source == "-":
            return f"What was learned is in {ended.kept}. To go on: --ray {where}"
        again = f"budgetron run {shlex.quote(ended.source)} --ray {where} --skip {ended.rows}"
        return f"What was learned is in {ended.kept}. To go on:\n  {again}"
    if ended.saved is None:
        return "Nothing was saved: --save MODEL was not given."
    where = shlex.quote(ended.saved)
    if ended.source == "-":
        return f"What was learned is saved in {ended.saved}. To go on: --resume {where}"
    again = f"budgetron run {shlex.quote(ended.source)} --resume {where} --skip {ended.rows} --save {where}"
    return f"What was learned is saved in {ended.saved}. To go on:\n  {again}"


def record(ended: Ended) -> dict[str, Any]:
    """Everything, for JSON."""
    model = ended.model
    return {
        "source": ended.source,
        "rows": ended.rows,
        "bad_lines": ended.n_bad,
        "bad": ended.bad,
        "seconds": ended.seconds,
        "examples_per_second": ended.validation.overall.n / ended.seconds,
        "stopped": ended.stopped,
        "saved": ended.saved,
        "label": ended.columns.label,
        "task": ended.columns.task,
        "model": model_record(model),
        "validation": ended.validation.to_dict(),
    }


def model_record(model: Any) -> dict[str, Any]:
    """What a model is and holds, for JSON."""
    return {
        "learner": type(model).__name__,
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
    }
