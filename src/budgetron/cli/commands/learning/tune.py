"""`budgetron tune`: search for a kernel, its bandwidth and a budget on the first rows of a stream.

There are up to three rounds. The first tries a Budgetron without a kernel. The second tunes the bandwidth at the given
budget. The third tunes the budget at the chosen bandwidth. A candidate replaces the default only if its error is
significantly lower, so that tuning does not fit noise; or if its error is not significantly higher and it is cheaper:
it has no kernel, or, if the complete stream was read, it takes less memory.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from typing import Any

import click

from budgetron.cli import INTERRUPTED
from budgetron.cli.commands.learning.compare import command_for, is_worse, leading, most_accurate
from budgetron.cli.formatting import console, counted, decimal, percent, rate, size, source_words, table
from budgetron.cli.learner_spec import LearnerSpec, budget_from, default_budget, has_parameter, works_without_kernel
from budgetron.cli.options import (
    StreamOptions,
    json_option,
    learner_options,
    learner_spec_from_options,
    stream_argument,
    stream_options,
)
from budgetron.errors import input_error

WHO = "tune"
# The candidates, as multiples of the default. 1 must be among them.
_BANDWIDTHS = (1 / 16, 1 / 4, 1, 4, 16)
_BUDGETS = (1 / 4, 1 / 2, 1, 2)


@dataclass(frozen=True)
class Round:
    """One tuned parameter: its candidates, their results, and the choice."""

    what: str
    candidates: dict[str, LearnerSpec]
    results: dict[str, Any]
    default: str
    best: str
    better: bool  # significantly better than the default
    smaller: str | None  # a candidate with less memory that is not significantly worse than the best
    refused: dict[str, str]  # candidates that could not run, and why
    close: list[str]  # candidates that are not significantly worse than the best
    cheaper: str | None = None  # one of `close` that is preferred because it is cheaper

    @property
    def chosen(self) -> str:
        return self.cheaper or (self.best if self.better else self.default)


@click.command()
@stream_argument
@stream_options
@learner_options
@click.option("--rows", type=click.IntRange(min=100), default=5000, show_default=True, help="Rows to tune on.")
@json_option
def command(stream: str, rows: int, as_json: bool, **option_values: Any) -> None:
    """Search for a better kernel bandwidth and budget on the first rows of a stream.

    This is seldom needed: the default bandwidth adapts to the data. The command also says if the default is as good.
    """
    options = StreamOptions.from_options(stream, option_values)
    learner = learner_spec_from_options(WHO, option_values)
    options = replace(options, limit=min(rows, options.limit or rows))
    first_rows = _FirstRows(options, learner)
    rounds = []
    if learner.kernel == "gaussian" and works_without_kernel(learner.learner) and not first_rows.is_sparse:
        rounds.append(_kernel(first_rows, learner))
        learner = rounds[-1].candidates[rounds[-1].chosen]
    # The kernel round may have chosen "none"; then there is no bandwidth to tune.
    scale = _scale(first_rows, learner) if learner.kernel == "gaussian" else None
    if scale is not None:
        rounds.append(_bandwidth(first_rows, learner, scale))
        learner = rounds[-1].candidates[rounds[-1].chosen]
    if has_parameter(learner.learner, "budget") and _sizes(learner):
        rounds.append(_budget(first_rows, learner))
        learner = rounds[-1].candidates[rounds[-1].chosen]
    if not rounds:
        raise input_error(
            WHO, "what to tune", "a Gaussian kernel without a gamma, or a budget", f"{learner.learner} with neither"
        )
    if as_json:
        click.echo(json.dumps(_record(options, first_rows, rounds, learner)))
        return
    _show(options, first_rows, rounds, learner)


class _FirstRows:
    """The first rows of the stream, held in memory because every candidate runs over them."""

    def __init__(self, options: StreamOptions, learner: LearnerSpec) -> None:
        from budgetron.cli import progress
        from budgetron.cli.labelled_stream import LabelledStream
        from budgetron.cli.signals import SignalGuard

        with SignalGuard(options.source) as guard, LabelledStream(WHO, options) as labelled:
            labelled.expect_tasks_of([learner.build(WHO)])
            self.blocks = list(labelled.blocks(guard))
            if guard.signal_name:
                click.echo(f"Stopped by {guard.signal_name}.", err=True)
                sys.exit(INTERRUPTED)
            self.classes = labelled.classes
        if not self.blocks:
            raise input_error(
                WHO, "STREAM", "a stream with at least one example", f"{options.source!r}, which has none"
            )
        self.n = sum(len(block.y) for block in self.blocks)
        # A stream that ended before the limit was read completely.
        self.is_complete = options.limit is None or self.n < options.limit
        self.is_sparse = labelled.stream.columns.sparse
        self._progress_line = progress.progress_line

    def comparison(self, candidates: dict[str, LearnerSpec]) -> Any:
        """Run all candidates over the rows."""
        from budgetron.evaluate import Comparison

        models = {name: candidate.build(WHO) for name, candidate in candidates.items()}
        comparison = Comparison(models, classes=self.classes)
        with self._progress_line(False, self.n) as line:
            for block in self.blocks:
                comparison.add(*block)
                line.show(comparison.n, None, full=counted(len(candidates), "candidate"))
        return comparison


def _kernel(first_rows: _FirstRows, learner: LearnerSpec) -> Round:
    """Try the learner without a kernel. It takes less time and memory, so it is chosen unless it is worse."""
    comparison = _round(first_rows, "kernel", {"gaussian": learner, "none": replace(learner, kernel="none")}, learner)
    return replace(comparison, cheaper="none" if "none" in comparison.close else None, smaller=None)


def _bandwidth(first_rows: _FirstRows, learner: LearnerSpec, scale: float) -> Round:
    """Try multiples of the default bandwidth, which is estimated from the data."""
    candidates = {}
    for times in _BANDWIDTHS:
        gamma = f"{scale * times:.3g}"
        name = f"scale ({gamma})" if times == 1 else gamma
        candidates[name] = learner if times == 1 else replace(learner, kernel=f"gaussian:{gamma}")
    return _round(first_rows, "gamma", candidates, learner)


def _scale(first_rows: _FirstRows, learner: LearnerSpec) -> float | None:
    """Return the gamma that the learner chooses for these rows by default; None if it has no gamma."""
    from scipy.sparse import issparse

    model = learner.build(WHO)
    first = first_rows.blocks[0]
    rows = slice(0, 1000)  # as many rows as `Comparison` learns first, so that gamma is the same
    model.partial_fit(first.X[rows], first.y[rows], tasks=None if first.tasks is None else first.tasks[rows],
                      classes=first_rows.classes)  # fmt: skip
    if model.kernel_ is not None:
        return float(model.kernel_.gamma)
    # A Budgetron scales columns to variance 1, so its default gamma is 1/d. On sparse rows it has no kernel.
    return None if issparse(first.X) else 1 / model.n_features_in_


def _budget(first_rows: _FirstRows, learner: LearnerSpec) -> Round:
    usual = default_budget(learner.learner)
    comparison = _round(
        first_rows, "budget", {candidate.budget or usual: candidate for candidate in _sizes(learner)}, learner
    )
    # The rest of a longer stream may contain more tasks, which need more memory than the first rows.
    return replace(comparison, cheaper=comparison.smaller if first_rows.is_complete else None)


def _sizes(learner: LearnerSpec) -> list[LearnerSpec]:
    """Return the learner with smaller and larger budgets; nothing if its budget is unlimited."""
    from budgetron.engine.memory import budget_of

    budget = budget_of(WHO, budget_from(WHO, learner.budget or default_budget(learner.learner)), "--budget")
    if budget.examples is not None:
        sizes = [str(max(1, round(budget.examples * times))) for times in _BUDGETS]
    elif budget.bytes is not None:
        sizes = [_size(round(budget.bytes * times)) for times in _BUDGETS]
    else:
        return []
    usual = _BUDGETS.index(1)
    return [learner if at == usual else replace(learner, budget=size) for at, size in enumerate(sizes)]


def _size(nbytes: int) -> str:
    """Format a size as people write it: 1MiB, 512KiB, or bytes."""
    for unit, times in (("MiB", 2**20), ("KiB", 2**10)):
        if nbytes % times == 0:
            return f"{nbytes // times}{unit}"
    return f"{nbytes}B"


def _round(first_rows: _FirstRows, what: str, candidates: dict[str, LearnerSpec], default: LearnerSpec) -> Round:
    comparison = first_rows.comparison(candidates)
    results = comparison.results()
    # The name of the default among the candidates.
    name = next(name for name, candidate in candidates.items() if candidate is default)
    if name not in results:
        raise input_error(WHO, what, "such that the learner accepts the stream", comparison.refused[name])
    best = most_accurate(results)
    # `name` is the default: the best candidate is better if the default is significantly worse.
    better = is_worse(comparison, name, best)
    memory = {candidate: finish.model.memory_bytes_ for candidate, finish in results.items()}
    close = [candidate for candidate in results if not is_worse(comparison, candidate, best)]
    smallest = min(close, key=lambda candidate: memory[candidate])
    # A smaller candidate is worth a line only if it saves at least a quarter of the memory.
    is_smaller = memory[smallest] < 0.75 * memory[best if better else name]
    return Round(
        what, candidates, results, name, best, better, smallest if is_smaller else None, comparison.refused, close
    )


def _show(options: StreamOptions, first_rows: _FirstRows, rounds: list[Round], learner: LearnerSpec) -> None:
    out = console()
    examples = f"the first {counted(first_rows.n, 'example')}, each predicted before it is learned"
    out.print(f"{source_words(options.source)}: {examples}\n")
    for comparison in rounds:
        rows = table([comparison.what, "error %", "F %", "AUC", "stored", "memory", "per s"], left=[])
        for name, finish in comparison.results.items():
            figures = finish.validation.overall
            rows.add_row(
                name, percent(figures.error, ""), percent(figures.f_measure, ""), decimal(figures.auc),
                f"{finish.model.n_stored_:,}", size(finish.model.memory_bytes_),
                rate(figures.n / max(finish.seconds, 1e-9)),
                style="bold" if name == comparison.chosen else "",
            )  # fmt: skip
        out.print(rows)
        for name, reason in comparison.refused.items():
            out.print(f"{comparison.what} {name} was not run: {reason}")
        out.print(_verdict(comparison))
        if comparison.smaller is not None:
            memory = size(comparison.results[comparison.smaller].model.memory_bytes_)
            more = "" if first_rows.is_complete else "; a longer stream may need more"
            out.print(
                f"{comparison.what} {comparison.smaller} is not significantly worse and takes only {memory}{more}."
            )
        out.print()
    if any(comparison.better for comparison in rounds):
        out.print("To train with the better setting:")
    elif any(comparison.cheaper for comparison in rounds):
        out.print("Nothing tried is better than the default. To train as well at less cost:")
    else:
        out.print("Nothing tried is better than the default, so there is nothing to change:")
    out.print(f"  {command_for(replace(options, limit=None), learner)}", soft_wrap=True)


def _verdict(comparison: Round) -> str:
    """Describe the outcome of a round in a sentence."""
    lead, error = leading(comparison.results[comparison.best].validation)
    usual = leading(comparison.results[comparison.default].validation)[1]
    if comparison.cheaper == "none" and comparison.best != "none":
        cheap = leading(comparison.results["none"].validation)[1]
        return f"kernel none is as good: {cheap} against {usual} is not significant. It takes less time and memory."
    if comparison.better:
        return f"{comparison.what} {comparison.best} is better: {error} against {usual}, a significant difference."
    if comparison.cheaper == "none":
        return f"kernel none has {lead}: {error} against {usual}. It takes less time and memory."
    if comparison.best == comparison.default:
        return f"{comparison.what} {comparison.default}, the default, has {lead}."
    as_good = f"{usual} against at best {error} is not significant"
    return f"{comparison.what} {comparison.default}, the default, is as good: {as_good}."


def _record(
    options: StreamOptions, first_rows: _FirstRows, rounds: list[Round], learner: LearnerSpec
) -> dict[str, Any]:
    return {
        "source": options.source,
        "examples": first_rows.n,
        "rounds": [
            {
                "what": comparison.what,
                "default": comparison.default,
                "best": comparison.best,
                "better_than_default": comparison.better,
                "smaller_and_as_good": comparison.smaller,
                "chosen": comparison.chosen,
                "refused": comparison.refused,
                "tried": [
                    {"value": name, **finish.validation.overall.to_dict(), "memory_bytes": finish.model.memory_bytes_}
                    for name, finish in comparison.results.items()
                ],
            }
            for comparison in rounds
        ],
        "default_is_as_good": not any(comparison.better for comparison in rounds),
        "command": command_for(replace(options, limit=None), learner),
    }
