"""`budgetron compare`: learners × budgets × graphs over one stream, side by side in one pass, and which to take."""

from __future__ import annotations

import itertools
import json
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from budgetron.cli import INTERRUPTED
from budgetron.cli.options import StreamText, json_option, stream_argument, stream_options
from budgetron.cli.settings import LEARNERS, LearnerText, has_budget, learner_named
from budgetron.cli.summary import commonest, constant_words
from budgetron.cli.wording import console, counted, cut, percent, plain, rate, size, source_words, table
from budgetron.errors import refuse, shown

if TYPE_CHECKING:
    from budgetron.evaluate import ComparedModel, Comparison

WHO = "compare"
_MOST = 100  # learners at once: all are in memory together


@click.command()
@stream_argument
@stream_options
@click.option(
    "--learners",
    default=",".join(name for name in LEARNERS if name != "Perceptron"),
    metavar="NAMES",
    help="By comma; all.  [default: all but Perceptron, which has no budget]",
)
@click.option("--budgets", default="100,500", show_default=True, metavar="LIST", help="By comma: 100,64KiB,none.")
@click.option("--graphs", default="complete", show_default=True, metavar="LIST", help="By comma.")
@click.option("--kernel", default="gaussian", show_default=True, help="The same for all.")
@json_option
def command(stream: str, learners: str, budgets: str, graphs: str, kernel: str, as_json: bool, **given: Any) -> None:
    """Run several learners over one stream, in one pass and the same order, and say which to take.

    Every learner is tried with every budget and every graph. The smallest in memory is recommended among those that
    err no more than the best by more than chance explains.

    \b
    budgetron compare mail.csv --task user --budgets 100,1000,64KiB --graphs complete,disconnected
    """
    from budgetron.cli import progress
    from budgetron.cli.reading import Labelled
    from budgetron.cli.stopping import Stopping
    from budgetron.evaluate import Comparison

    text = StreamText.taken(stream, given)
    entries = {_name(entry, graphs): entry for entry in _entries(learners, budgets, graphs, kernel)}
    models = {name: entry.made(WHO) for name, entry in entries.items()}
    comparison: Comparison | None = None
    with (
        Stopping(text.source) as stopping,
        Labelled(WHO, text) as labelled,
        progress.shown(as_json, text.limit) as line,
    ):
        labelled.keep_to_graphs(models.values())
        for rows in labelled.blocks(stopping):
            if comparison is None:
                comparison = Comparison(models, classes=labelled.classes)
            comparison.add(*rows)
            if line.due():
                line.show(comparison.n, labelled.stream, full=counted(len(entries), "learner"))
        if comparison is None:
            raise refuse(WHO, "the stream", "one with at least one example", f"{stream!r} with none")
    found, chosen = comparison.results(), recommended(comparison)
    if as_json:
        click.echo(json.dumps(_record(text, entries, comparison, chosen)))
    else:
        _show(text, labelled, entries, comparison, chosen)
    if labelled.n_bad:
        click.echo(f"{counted(labelled.n_bad, 'bad line')} left out.", err=True)
    if stopping.asked:
        n = next(iter(found.values())).validation.overall.n
        click.echo(f"Stopped by {stopping.asked} after {counted(n, 'example')}; the figures are of these.", err=True)
        sys.exit(INTERRUPTED)


def _entries(learners: str, budgets: str, graphs: str, kernel: str) -> Iterator[LearnerText]:
    names = list(LEARNERS) if learners.strip() == "all" else [learner_named(WHO, name) for name in _listed(learners)]
    made = []
    for name in dict.fromkeys(names):
        allowed = _listed(budgets) if has_budget(name) else [None]
        made += [
            LearnerText(name, budget, kernel, graph)
            for budget, graph in itertools.product(allowed, _listed(graphs))
        ]
    if not 1 <= len(made) <= _MOST:
        raise refuse(WHO, "learners × budgets × graphs", f"1 to {_MOST}", shown(len(made)))
    yield from (entry.checked(WHO) for entry in made)


def _listed(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _name(entry: LearnerText, graphs: str) -> str:
    graph = f", {entry.graph}" if len(_listed(graphs)) > 1 else ""
    return f"{entry.learner}, {entry.budget or 'no limit'}{graph}"


def recommended(comparison: Comparison) -> str:
    """The smallest of those that chance may have kept from being the best."""
    found = comparison.results()
    best = best_of(found)
    close = [name for name in found if not comparison.is_worse(name, best)]
    return min(close, key=lambda name: (found[name].model.memory_bytes_, found[name].validation.overall.error))


def best_of(found: dict[str, ComparedModel]) -> str:
    """The one that errs least."""
    return min(found, key=lambda name: found[name].validation.overall.error or 0.0)


def _show(
    text: StreamText, labelled: Any, entries: dict[str, LearnerText], comparison: Comparison, chosen: str
) -> None:
    out = console()
    found = comparison.results()
    best = found[best_of(found)].validation
    out.print(
        f"{source_words(text.source)}: {counted(best.overall.n, 'example')} of {counted(len(best.per_task), 'task')}, "
        f"each predicted, then learned, by {counted(len(found), 'learner')};\n{constant_words(best)}\n"
    )
    several = len({entry.graph for entry in entries.values()}) > 1
    names = ["learner", "budget", *(["graph"] if several else []), "error %", "F %", "stored", "memory", "per s"]
    rows = table(names, left=["learner", "graph"])
    for name in sorted(found, key=lambda name: found[name].validation.overall.error or 0.0):
        one, entry, figures = found[name], entries[name], found[name].validation.overall
        graph = [entry.graph] if several else []
        rows.add_row(
            entry.learner, entry.budget or "none", *graph, percent(figures.error, ""), percent(figures.f_measure, ""),
            f"{one.model.n_stored_:,}", size(one.model.memory_bytes_), rate(figures.n / max(one.seconds, 1e-9)),
            style="bold" if name == chosen else "",
        )  # fmt: skip
    out.print(rows)
    for name, reason in comparison.refused.items():
        out.print(f"\nLeft out: {name}. {reason}")
    out.print(f"\n{why(comparison, chosen)}")
    out.print(f"  {command_for(text, entries[chosen])}", soft_wrap=True)


def why(comparison: Comparison, chosen: str) -> str:
    """The recommendation in words."""
    found = comparison.results()
    constant = commonest(found[chosen].validation)
    if constant is not None and (found[chosen].validation.overall.error or 0.0) >= constant[1]:
        return (
            f"None of them is better than always saying {cut(constant[0], 20)}, which errs {percent(constant[1])}: are "
            f"label and columns the right ones, and the rows in no order that hides them? The nearest is {chosen}:"
        )
    best = best_of(found)
    error = percent(found[chosen].validation.overall.error)
    memory = size(found[chosen].model.memory_bytes_)
    if len(found) == 1:
        return f"Only {chosen} ran: {error} wrong, in {memory}."
    if chosen != best:
        other = found[best]
        return (
            f"Take {chosen}: {error} wrong, in {memory}. {best} errs least, {percent(other.validation.overall.error)} "
            f"in {size(other.model.memory_bytes_)}, but the difference may be chance."
        )
    rivals = [name for name in found if name != best and not comparison.is_worse(name, best)]
    if not rivals:
        return f"Take {chosen}: it errs least, {error}, by more than chance explains, in {memory}."
    return (
        f"Take {chosen}: it errs least, {error}, in {memory}. {counted(len(rivals), 'other')} may be as good, "
        "and none of them is smaller."
    )


def command_for(text: StreamText, entry: LearnerText) -> str:
    """The command that learns and saves it."""
    words = ["budgetron run", shlex.quote(text.source)]
    words += [f"--{name} {shlex.quote(value)}" for name in ("label", "task") if (value := getattr(text, name))]
    for name in ("drop", "text", "categorical", "classes"):
        if getattr(text, name):
            words.append(f"--{name} {shlex.quote(','.join(getattr(text, name)))}")
    return " ".join(word for word in [*words, entry.options(), "--save MODEL"] if word)


def _record(text: StreamText, entries: dict[str, LearnerText], comparison: Comparison, chosen: str) -> dict[str, Any]:
    found = comparison.results()
    best = best_of(found)
    constant = commonest(found[best].validation)
    return {
        "source": text.source,
        "learners": [
            {
                "name": name,
                "learner": entries[name].learner,
                "budget": entries[name].budget,
                "graph": entries[name].graph,
                "kernel": entries[name].kernel,
                **one.validation.overall.to_dict(),
                "stored": one.model.n_stored_,
                "memory_bytes": one.model.memory_bytes_,
                "seconds": one.seconds,
                "worse_than_best": comparison.is_worse(name, best),
            }
            for name, one in found.items()
        ],
        "refused": comparison.refused,
        "constant": None if constant is None else {"label": plain(constant[0]), "error": constant[1]},
        "best": best,
        "recommended": chosen,
        "why": why(comparison, chosen),
        "command": command_for(text, entries[chosen]),
    }
