"""`budgetron compare`: run several settings over one stream in one pass, and recommend one.

A setting is a learner with a budget, a kernel and a graph. All models are in memory together, so the number of settings
is limited. `tune` uses some functions of this module.
"""

from __future__ import annotations

import itertools
import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from budgetron.cli import INTERRUPTED
from budgetron.cli.formatting import console, counted, decimal, percent, plain, rate, shorten, size, source_words, table
from budgetron.cli.learner_spec import LearnerSpec, has_parameter, learner_named, works_without_kernel
from budgetron.cli.options import StreamOptions, json_option, stream_argument, stream_options
from budgetron.cli.summary import constant_words, most_frequent_class, rare_words
from budgetron.errors import BudgetronError, input_error, shown
from budgetron.learners.registry import learner_names

if TYPE_CHECKING:
    from budgetron.evaluate import ComparedModel, Comparison, Validation

WHO = "compare"
_SIMILAR_MEMORY = 1.25  # the ratio up to which two amounts of memory count as about the same
_MAX_SETTINGS = 100


@click.command()
@stream_argument
@stream_options
@click.option(
    "--learners",
    metavar="NAMES",
    help="Learners, separated by commas, or all.  [default: all that have a budget]",
)
@click.option(
    "--budgets",
    default="64KiB,1MiB",
    show_default=True,
    metavar="LIST",
    help="Budgets, separated by commas: a number of examples, a size, or none; for example 100,64KiB,none.",
)
@click.option("--graphs", default="complete", show_default=True, metavar="LIST", help="Graphs, separated by commas.")
@click.option(
    "--kernel",
    help="Kernel of every learner that has one.  [default: gaussian; a Budgetron runs with gaussian and with none]",
)
@json_option
def command(
    stream: str, learners: str | None, budgets: str, graphs: str, kernel: str | None, as_json: bool,
    **option_values: Any,
) -> None:
    """Compare learners on one stream, in one pass, and recommend one.

    Every learner runs with every budget and every graph, on the same examples in the same order. A learner that
    has no budget runs once instead of once per budget. A learner that takes no graph runs once instead of once per
    graph. A Budgetron also runs without a kernel, which takes less time and memory.

    Only settings whose error is not significantly higher than the lowest are recommended. Among them, the setting
    with the least memory is chosen; if several take about as little memory, the one with the lowest error. If a label
    is rare, the AUC decides instead of the error. A Budgetron with a kernel is replaced by the same setting without a
    kernel, if that is not significantly worse than the best setting either and does not take much more memory.

    \b
    budgetron compare mail.csv --task user --budgets 100,1000,64KiB --graphs complete,disconnected
    """
    from budgetron.cli import progress
    from budgetron.cli.labelled_stream import LabelledStream
    from budgetron.cli.signals import SignalGuard
    from budgetron.evaluate import Comparison

    options = StreamOptions.from_options(stream, option_values)
    entries = {_name(entry, graphs, kernel): entry for entry in _entries(learners, budgets, graphs, kernel)}
    models = {name: entry.build(WHO) for name, entry in entries.items()}
    comparison: Comparison | None = None
    error: BudgetronError | None = None
    with (
        SignalGuard(options.source) as guard,
        LabelledStream(WHO, options) as labelled,
        progress.progress_line(as_json, options.limit) as line,
    ):
        if labelled.stream.columns.sparse and kernel is None:
            # On sparse rows a Budgetron never uses a kernel, so the runs without a kernel would be duplicates.
            entries = {name: entry for name, entry in entries.items() if entry.kernel != "none"}
            models = {name: models[name] for name in entries}
        labelled.expect_tasks_of(models.values())
        try:
            for rows in labelled.blocks(guard):
                if comparison is None:
                    comparison = Comparison(models, classes=labelled.classes)
                comparison.add(*rows)
                if line.due():
                    line.show(comparison.n, labelled.stream, note=counted(len(entries), "setting"))
        except BudgetronError as problem:
            if comparison is None or not comparison.n:
                raise
            error = problem  # raised below, after the results so far are printed
        if comparison is None:
            guard.exit_if_stopped()
            raise input_error(WHO, "STREAM", "a stream with at least one example", f"{stream!r}, which has none")
    results, chosen = comparison.results(), recommend(comparison, entries)
    if as_json:
        click.echo(json.dumps(_record(options, entries, comparison, chosen)))
    else:
        _show(options, entries, comparison, chosen)
    if labelled.n_bad:
        click.echo(f"{counted(labelled.n_bad, 'bad line')} skipped.", err=True)
    if guard.signal_name or error is not None:
        why, n = guard.signal_name or "an error", next(iter(results.values())).validation.overall.n
        click.echo(f"Stopped by {why} after {counted(n, 'example')}; the results cover these.", err=True)
    if error is not None:
        raise error
    if guard.signal_name:
        sys.exit(INTERRUPTED)


def _entries(learners: str | None, budgets: str, graphs: str, kernel: str | None) -> Iterator[LearnerSpec]:
    """Yield the settings to compare: learners × budgets × kernels × graphs.

    The settings of a learner without one of these parameters differ only in the other parameters.
    """
    if learners is None:
        names = [name for name in learner_names() if has_parameter(name, "budget")]
    elif learners.strip() == "all":
        names = list(learner_names())
    else:
        names = [learner_named(WHO, name, "--learners") for name in _split_list(learners)]
    specs = []
    for name in dict.fromkeys(names):  # without duplicates, in the order given
        learner_budgets = _split_list(budgets) if has_parameter(name, "budget") else [None]
        learner_graphs = _split_list(graphs) if has_parameter(name, "graph") else [LearnerSpec.graph]
        if kernel is None or not has_parameter(name, "kernel"):
            kernels = [LearnerSpec.kernel, *(["none"] if works_without_kernel(name) else [])]
        else:
            kernels = [kernel]
        specs += [
            LearnerSpec(name, budget, kernel_text, graph)
            for kernel_text, budget, graph in itertools.product(kernels, learner_budgets, learner_graphs)
        ]
    # Counted before anything is built: models of many settings would fill the memory.
    if not 1 <= len(specs) <= _MAX_SETTINGS:
        what = "the number of settings (learners × budgets × kernels × graphs)"
        remedy = "Change --learners, --budgets, --kernel or --graphs."
        raise input_error(WHO, what, f"1 to {_MAX_SETTINGS}", shown(len(specs)), remedy)
    yield from (entry.checked(WHO) for entry in specs)


def _split_list(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _name(entry: LearnerSpec, graphs: str, kernel: str | None) -> str:
    """Return the name by which messages and JSON refer to a setting.

    The name has the learner and the budget. If settings may differ in graph or kernel, the name also has the graph, or
    says that there is no kernel.
    """
    graph = f", {entry.graph}" if len(_split_list(graphs)) > 1 and has_parameter(entry.learner, "graph") else ""
    without = ", no kernel" if kernel is None and entry.kernel == "none" else ""
    return f"{entry.learner}, {entry.budget or 'no limit'}{graph}{without}"


def recommend(comparison: Comparison, entries: dict[str, LearnerSpec]) -> str:
    """Return the name of the model with the least memory among those that are not significantly worse than the best.

    Among models with about as little memory, the most accurate one is taken: to save a few bytes is no reason for a
    higher error. The same learner without a kernel is faster. It is taken instead if it is not significantly worse than
    the best either, and does not take much more memory.
    """
    results = comparison.results()
    best = most_accurate(results)
    close = [name for name in results if not is_worse(comparison, name, best)]
    memory = {name: results[name].model.memory_bytes_ for name in results}
    least = min(memory[name] for name in close)
    smallest = [name for name in close if memory[name] <= _SIMILAR_MEMORY * least]
    # Break ties by memory, so that the order of the learners does not decide.
    chosen = min(smallest, key=lambda name: (_loss(results[name].validation), memory[name]))
    # The same learner, budget and graph, but without a kernel.
    without = [name for name in close if entries[name] == replace(entries[chosen], kernel="none")]
    return without[0] if without and memory[without[0]] <= _SIMILAR_MEMORY * memory[chosen] else chosen


def most_accurate(results: dict[str, ComparedModel], preferred: str | None = None) -> str:
    """Return the name of the model with the lowest error or, if a label is rare, with the highest AUC.

    Of equally good models, this is the preferred one, otherwise the first.
    """
    return min(results, key=lambda name: (_loss(results[name].validation), name != preferred))


def _loss(validation: Validation) -> float:
    """Return the value to minimise: the error or, if a label is rare, 1 − AUC, because then the error says little."""
    figures = validation.overall
    return (figures.error or 0.0) if validation.rare is None else 1.0 - (figures.auc or 0.0)


def is_worse(comparison: Comparison, name: str, than: str) -> bool:
    """Return whether one model is significantly worse than another, by error or, if a label is rare, by AUC."""
    rare = comparison.results()[than].validation.rare
    return comparison.is_worse(name, than, by="error" if rare is None else "auc")


def metric_words(validation: Validation) -> tuple[str, str]:
    """Describe the metric that the models are compared by: what its best value is called, and its value here."""
    if validation.rare is None:
        return "the lowest error", f"error {percent(validation.overall.error)}"
    return "the highest AUC", f"AUC {decimal(validation.overall.auc)}"


def _show(options: StreamOptions, entries: dict[str, LearnerSpec], comparison: Comparison, chosen: str) -> None:
    """Print the table of results and the recommendation."""
    out = console()
    results = comparison.results()
    # The number of examples, the tasks and the classes are the same for all models.
    best = results[most_accurate(results)].validation
    examples = f"{counted(best.overall.n, 'example')} of {counted(len(best.per_task), 'task')}"
    out.print(
        f"{source_words(options.source)}: {examples}, "
        f"each predicted before it is learned, by {counted(len(results), 'setting')};\n{constant_words(best)}\n"
    )
    if note := rare_words(best):
        out.print(f"{note} The settings are compared by AUC.\n", soft_wrap=True)
    graphs_differ = len({entry.graph for entry in entries.values()}) > 1
    kernels_differ = len({entry.kernel for entry in entries.values()}) > 1
    # The columns of kernels and graphs are left out if all settings have the same.
    optional = [*(["kernel"] if kernels_differ else []), *(["graph"] if graphs_differ else [])]
    names = ["learner", "budget", *optional, "error %", "F %", "AUC", "stored", "memory", "per s"]
    rows = table(names, left=["learner", "kernel", "graph"])
    for name in sorted(results, key=lambda name: _loss(results[name].validation)):
        result, entry, figures = results[name], entries[name], results[name].validation.overall
        kernel, graph = (
            str(getattr(entry, name)) if has_parameter(entry.learner, name) else "-" for name in ("kernel", "graph")
        )
        optional = [*([kernel] if kernels_differ else []), *([graph] if graphs_differ else [])]
        rows.add_row(
            entry.learner, entry.budget or "none", *optional,
            percent(figures.error, ""), percent(figures.f_measure, ""), decimal(figures.auc),
            f"{result.model.n_stored_:,}", size(result.model.memory_bytes_),
            rate(figures.n / max(result.seconds, 1e-9)),
            style="bold" if name == chosen else "",
        )  # fmt: skip
    out.print(rows)
    for name, reason in comparison.refused.items():
        out.print(f"\nNot run: {name}. {reason}")
    out.print(f"\n{explain(comparison, chosen)}")
    out.print(f"  {command_for(options, entries[chosen])}", soft_wrap=True)


def explain(comparison: Comparison, chosen: str) -> str:
    """Return the recommendation and its reason, in a few sentences."""
    results = comparison.results()
    best = most_accurate(results, preferred=chosen)
    # Compare with the majority class first: a learner that does not beat it has learned nothing useful.
    constant, rare = most_frequent_class(results[chosen].validation), results[chosen].validation.rare
    if rare is None and constant is not None and (results[chosen].validation.overall.error or 0.0) >= constant[1]:
        return f"{_below_constant(results, best, chosen, constant)}:"
    best_value, value = metric_words(results[chosen].validation)
    memory = size(results[chosen].model.memory_bytes_)
    if len(results) == 1:
        return f"Only {chosen} ran: {value}, memory {memory}."
    if chosen != best:
        other = results[best]
        return (
            f"Take {chosen}: {value}, memory {memory}. {best} has {best_value}, "
            f"{_metric(other.validation)} in {size(other.model.memory_bytes_)}, but the difference is "
            "not significant."
        )
    metric = _metric(results[chosen].validation)
    rivals = [name for name in results if name != best and not is_worse(comparison, name, best)]
    if not rivals:
        return f"Take {chosen}: it has {best_value}, {metric}, by a significant difference, in {memory}."
    others = "One other setting is" if len(rivals) == 1 else f"{len(rivals)} other settings are"
    uses = "uses" if len(rivals) == 1 else "use"
    return (
        f"Take {chosen}: it has {best_value}, {metric}, in {memory}. {others} not significantly worse, but "
        f"{uses} about as much memory or more."
    )


def _metric(validation: Validation) -> str:
    """Return the metric that the models are compared by: the error or, if a label is rare, the AUC."""
    return percent(validation.overall.error) if validation.rare is None else decimal(validation.overall.auc)


def _below_constant(results: dict[str, ComparedModel], best: str, chosen: str, constant: tuple[Any, float]) -> str:
    """Explain a recommendation that is no better than always predicting the most frequent class."""
    lowest = results[best].validation.overall.error or 0.0
    baseline = f"always predicting {shorten(constant[0], 20)} ({percent(constant[1])} wrong)"
    check = "Check --label and the columns, and shuffle the rows if they are sorted."
    smallest = f"The smallest setting that is not significantly worse than the best is {chosen}"
    if lowest < constant[1]:
        return (
            f"{best} has the lowest error, {percent(lowest)}, but the difference to {chosen} is not significant, and "
            f"{chosen} is no better than {baseline}. {check} {smallest}"
        )
    closest = f"The best of them is {chosen}" if chosen == best else smallest
    return f"None of them is better than {baseline}. {check} {closest}"


def command_for(options: StreamOptions, entry: LearnerSpec) -> str:
    """Return the `budgetron run` command that trains a model with this setting on the stream, and saves it."""
    arguments = ["budgetron run", shlex.quote(options.source), *options.words()]
    if options.on_error != "stop":
        arguments.append(f"--on-error {options.on_error}")
    return " ".join(word for word in [*arguments, entry.options(), "--save MODEL"] if word)


def _record(
    options: StreamOptions, entries: dict[str, LearnerSpec], comparison: Comparison, chosen: str
) -> dict[str, Any]:
    results = comparison.results()
    best = most_accurate(results, preferred=chosen)
    constant = most_frequent_class(results[best].validation)
    return {
        "source": options.source,
        "learners": [
            {
                "name": name,
                "learner": entries[name].learner,
                "budget": entries[name].budget,
                "graph": entries[name].graph,
                "kernel": entries[name].kernel,
                **result.validation.overall.to_dict(),
                "stored": result.model.n_stored_,
                "memory_bytes": result.model.memory_bytes_,
                "seconds": result.seconds,
                "worse_than_best": is_worse(comparison, name, best),
            }
            for name, result in results.items()
        ],
        "refused": comparison.refused,
        "constant": None if constant is None else {"label": plain(constant[0]), "error": constant[1]},
        "compared_by": "error" if results[best].validation.rare is None else "auc",
        "best": best,
        "recommended": chosen,
        "why": explain(comparison, chosen),
        "command": command_for(options, entries[chosen]),
    }
