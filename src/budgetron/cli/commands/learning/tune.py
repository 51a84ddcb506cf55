"""`budgetron tune`: search for a kernel, its bandwidth and a budget on the first rows of a stream.

There are up to three rounds. The first tries a Budgetron without a kernel. The second tunes the bandwidth at the given
budget. The third tunes the budget at the chosen bandwidth. A candidate replaces the default only if its error is
significantly lower, so that tuning does not fit noise. For two kinds of candidates it is enough that the error is not
significantly higher than the lowest: a candidate without a kernel and, if the complete stream was read, one whose
budget saves more than a quarter of the memory. If a label is rare, AUC takes the place of the error.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from typing import Any

import click

from budgetron.cli import INTERRUPTED
from budgetron.cli.commands.learning.compare import command_for, is_worse, metric_words, most_accurate
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
from budgetron.errors import InputError, input_error

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
    better: bool  # whether `best` is significantly better than the default
    smaller: str | None  # one of `close` that saves more than a quarter of the memory
    refused: dict[str, str]  # candidates that could not run, and why
    close: list[str]  # candidates that are not significantly worse than `best`
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
        rounds.append(_kernel_round(first_rows, learner))
        learner = rounds[-1].candidates[rounds[-1].chosen]
    # The kernel round may have chosen "none"; then there is no bandwidth to tune. A learner without the parameter, such
    # as LinearPerceptron, has the option's default.
    has_gamma = learner.kernel == "gaussian" and has_parameter(learner.learner, "kernel")
    gamma = _default_gamma(first_rows, learner) if has_gamma else None
    if gamma is not None:
        rounds.append(_bandwidth_round(first_rows, learner, gamma))
        learner = rounds[-1].candidates[rounds[-1].chosen]
    if has_parameter(learner.learner, "budget") and _budget_candidates(learner):
        rounds.append(_budget_round(first_rows, learner))
        learner = rounds[-1].candidates[rounds[-1].chosen]
    if not rounds:
        raise InputError(
            f"{WHO}: there is nothing to tune, because {learner.learner} has neither a budget nor a Gaussian kernel "
            "whose gamma was left out."
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
        from budgetron.cli.summary import skipped_lines

        with SignalGuard(options.source) as guard, LabelledStream(WHO, options) as labelled:
            labelled.expect_tasks_of([learner.build(WHO)])
            self.blocks = list(labelled.blocks(guard))
            if guard.signal_name:
                click.echo(f"Stopped by {guard.signal_name}.", err=True)
                sys.exit(INTERRUPTED)
            self.classes = labelled.classes
        for warning in skipped_lines(labelled):
            click.echo(warning, err=True)
        if not self.blocks:
            raise input_error(
                WHO, "STREAM", "a stream with at least one example", f"{options.source!r}, which has none"
            )
        self.n = sum(len(block.y) for block in self.blocks)
        # If the stream ended before the limit, all of it was read.
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
                line.show(comparison.n, None, note=counted(len(candidates), "candidate"))
        return comparison


def _kernel_round(first_rows: _FirstRows, learner: LearnerSpec) -> Round:
    """Try the learner without a kernel. As it is cheaper, it is chosen unless its error is significantly higher."""
    tried = _round(first_rows, "kernel", {"gaussian": learner, "none": replace(learner, kernel="none")}, learner)
    return replace(tried, cheaper="none" if "none" in tried.close else None, smaller=None)


def _bandwidth_round(first_rows: _FirstRows, learner: LearnerSpec, default_gamma: float) -> Round:
    """Try multiples of the default bandwidth, which is estimated from the data."""
    candidates = {}
    for factor in _BANDWIDTHS:
        gamma = f"{default_gamma * factor:.3g}"
        name = f"scale ({gamma})" if factor == 1 else gamma  # kernels call their default gamma="scale"
        candidates[name] = learner if factor == 1 else replace(learner, kernel=f"gaussian:{gamma}")
    return _round(first_rows, "gamma", candidates, learner)


def _default_gamma(first_rows: _FirstRows, learner: LearnerSpec) -> float | None:
    """Return the gamma that the learner chooses for these rows by default; None if it has no gamma."""
    from scipy.sparse import issparse

    model = learner.build(WHO)
    first = first_rows.blocks[0]
    rows = slice(0, 1000)  # as many rows as `Comparison` learns first, so that gamma is the same
    model.partial_fit(first.X[rows], first.y[rows], tasks=None if first.tasks is None else first.tasks[rows],
                      classes=first_rows.classes)  # fmt: skip
    if model.kernel_ is not None:
        return float(model.kernel_.gamma)
    # A Budgetron stores no examples, so it has no `kernel_`. It scales columns to variance 1, so its default gamma is
    # 1/d. On sparse rows it has no kernel at all.
    return None if issparse(first.X) else 1 / model.n_features_in_


def _budget_round(first_rows: _FirstRows, learner: LearnerSpec) -> Round:
    """Try smaller and larger budgets. A smaller one is chosen only if the complete stream was read."""
    default = default_budget(learner.learner)
    candidates = {candidate.budget or default: candidate for candidate in _budget_candidates(learner)}
    tried = _round(first_rows, "budget", candidates, learner)
    # The rest of a longer stream may contain more tasks, which need more memory than the first rows.
    return replace(tried, cheaper=tried.smaller if first_rows.is_complete else None)


def _budget_candidates(learner: LearnerSpec) -> list[LearnerSpec]:
    """Return the learner with its own, smaller and larger budgets; an empty list if its budget is unlimited."""
    from budgetron.engine.memory import budget_of

    budget = budget_of(WHO, budget_from(WHO, learner.budget or default_budget(learner.learner)), "--budget")
    if budget.examples is not None:
        budgets = [str(max(1, round(budget.examples * factor))) for factor in _BUDGETS]
    elif budget.bytes is not None:
        budgets = [_size_words(round(budget.bytes * factor)) for factor in _BUDGETS]
    else:
        return []
    # For the factor 1, use the given learner, so that `_round` recognises it as the default.
    return [
        learner if factor == 1 else replace(learner, budget=text)
        for factor, text in zip(_BUDGETS, budgets, strict=True)
    ]


def _size_words(nbytes: int) -> str:
    """Format a size as people write it: 1MiB, 512KiB, or bytes."""
    for unit, unit_bytes in (("MiB", 2**20), ("KiB", 2**10)):
        if nbytes % unit_bytes == 0:
            return f"{nbytes // unit_bytes}{unit}"
    return f"{nbytes}B"


def _round(first_rows: _FirstRows, what: str, candidates: dict[str, LearnerSpec], default: LearnerSpec) -> Round:
    """Run the candidates for one parameter, and compare them with the default, which is one of them."""
    comparison = first_rows.comparison(candidates)
    results = comparison.results()
    default_name = next(name for name, candidate in candidates.items() if candidate is default)
    if default_name not in results:
        reason = comparison.refused[default_name]
        raise InputError(f"{WHO}: the learner with {what} {default_name} cannot learn this stream. {reason}")
    best = most_accurate(results, preferred=default_name)
    # The best candidate is better if the default is significantly worse.
    better = is_worse(comparison, default_name, best)
    memory = {candidate: result.model.memory_bytes_ for candidate, result in results.items()}
    close = [candidate for candidate in results if not is_worse(comparison, candidate, best)]
    smallest = min(close, key=lambda candidate: memory[candidate])
    # A smaller candidate is mentioned only if it saves more than a quarter of the memory.
    is_smaller = memory[smallest] < 0.75 * memory[best if better else default_name]
    return Round(
        what=what,
        candidates=candidates,
        results=results,
        default=default_name,
        best=best,
        better=better,
        smaller=smallest if is_smaller else None,
        refused=comparison.refused,
        close=close,
    )


def _show(options: StreamOptions, first_rows: _FirstRows, rounds: list[Round], learner: LearnerSpec) -> None:
    out = console()
    examples = f"the first {counted(first_rows.n, 'example')}, each predicted before it is learned"
    out.print(f"{source_words(options.source)}: {examples}\n")
    for tried in rounds:
        rows = table([tried.what, "error %", "F %", "AUC", "stored", "memory", "per s"], left=[])
        for name, result in tried.results.items():
            figures = result.validation.overall
            rows.add_row(
                name, percent(figures.error, ""), percent(figures.f_measure, ""), decimal(figures.auc),
                f"{result.model.n_stored_:,}", size(result.model.memory_bytes_),
                rate(figures.n / max(result.seconds, 1e-9)),
                style="bold" if name == tried.chosen else "",
            )  # fmt: skip
        out.print(rows)
        for name, reason in tried.refused.items():
            out.print(f"{tried.what} {name} was not run: {reason}")
        out.print(_verdict(tried))
        if tried.smaller is not None:
            memory = size(tried.results[tried.smaller].model.memory_bytes_)
            more = "" if first_rows.is_complete else "; a longer stream may need more"
            out.print(f"{tried.what} {tried.smaller} is not significantly worse and takes only {memory}{more}.")
        out.print()
    if any(tried.better for tried in rounds):
        out.print("To train with the better setting:")
    elif any(tried.cheaper for tried in rounds):
        out.print("Nothing tried is better than the default. A cheaper setting that is not significantly worse:")
    else:
        out.print("Nothing tried is better than the default, so there is nothing to change:")
    out.print(f"  {command_for(replace(options, limit=None), learner)}", soft_wrap=True)


def _verdict(tried: Round) -> str:
    """Describe the outcome of a round in a sentence."""
    best_value, of_best = metric_words(tried.results[tried.best].validation)
    of_default = metric_words(tried.results[tried.default].validation)[1]
    less = "It takes less time and memory."
    if tried.cheaper == "none" and tried.best != "none":
        without_kernel = metric_words(tried.results["none"].validation)[1]
        return f"kernel none is as good: {without_kernel} is not significantly worse than {of_default}. {less}"
    if tried.better:
        return f"{tried.what} {tried.best} is better: {of_best} against {of_default}, a significant difference."
    if tried.cheaper == "none":
        return f"kernel none has {best_value}: {of_best} against {of_default}. {less}"
    if tried.best == tried.default:
        return f"{tried.what} {tried.default}, the default, has {best_value}."
    as_good = f"{of_default} is not significantly worse than {of_best}"
    return f"{tried.what} {tried.default}, the default, is as good: {as_good}."


def _record(
    options: StreamOptions, first_rows: _FirstRows, rounds: list[Round], learner: LearnerSpec
) -> dict[str, Any]:
    return {
        "source": options.source,
        "examples": first_rows.n,
        "rounds": [
            {
                "what": tried.what,
                "default": tried.default,
                "best": tried.best,
                "better_than_default": tried.better,
                "smaller_and_as_good": tried.smaller,
                "chosen": tried.chosen,
                "refused": tried.refused,
                "tried": [
                    {"value": name, **result.validation.overall.to_dict(), "memory_bytes": result.model.memory_bytes_}
                    for name, result in tried.results.items()
                ],
            }
            for tried in rounds
        ],
        "default_is_as_good": not any(tried.better for tried in rounds),
        "command": command_for(replace(options, limit=None), learner),
    }
