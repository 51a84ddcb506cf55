"""`budgetron tune`: bandwidth and budget by progressive validation on the first rows of a stream.

First the bandwidth at the budget asked for, then the budget at the better bandwidth. What is not better by more than
chance explains is not better: then the default stays.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from typing import Any

import click

from budgetron.cli import INTERRUPTED
from budgetron.cli.compare import best_of, command_for
from budgetron.cli.options import (
    StreamText,
    json_option,
    learner_options,
    learner_text,
    stream_argument,
    stream_options,
)
from budgetron.cli.settings import LearnerText, budget_from, has_budget
from budgetron.cli.wording import console, counted, percent, rate, size, source_words, table
from budgetron.errors import refuse

WHO = "tune"
_BANDWIDTHS = (1 / 16, 1 / 4, 1, 4, 16)
_BUDGETS = (1 / 4, 1 / 2, 1, 2)


@dataclass(frozen=True)
class Round:
    """One question: the candidates by what is asked about, how they did, and which is to be used."""

    what: str
    texts: dict[str, LearnerText]
    results: dict[str, Any]
    default: str
    best: str
    better: bool  # than the default, by more than chance explains
    smaller: str | None  # a candidate that takes less memory and is as good as the best
    refused: dict[str, str]  # candidates that could not run, and why

    @property
    def chosen(self) -> str:
        return self.best if self.better else self.default


@click.command()
@stream_argument
@stream_options
@learner_options
@click.option("--rows", type=click.IntRange(min=100), default=5000, show_default=True, help="Rows to try them on.")
@json_option
def command(stream: str, rows: int, as_json: bool, **given: Any) -> None:
    """Look for a better bandwidth and budget on the first rows of a stream.

    Seldom needed: gamma="scale" follows the data, and a Budgetron weighs its beliefs by itself. The command says
    whether the default is as good.
    """
    text = StreamText.taken(stream, given)
    learner = learner_text(WHO, given)
    text = replace(text, limit=min(rows, text.limit or rows))
    prefix = _Prefix(text, learner)
    rounds = []
    if learner.kernel == "gaussian":
        rounds.append(_bandwidth(prefix, learner))
        learner = rounds[-1].texts[rounds[-1].chosen]
    if has_budget(learner.learner) and _sizes(learner):
        rounds.append(_budget(prefix, learner))
        learner = rounds[-1].texts[rounds[-1].chosen]
    if not rounds:
        raise refuse(
            WHO, "what to tune", "a Gaussian kernel without a gamma, or a budget", f"{learner.learner} with neither"
        )
    if as_json:
        click.echo(json.dumps(_record(text, prefix, rounds, learner)))
        return
    _show(text, prefix, rounds, learner)


class _Prefix:
    """The first rows, held in memory, to be run through again and again."""

    def __init__(self, text: StreamText, learner: LearnerText) -> None:
        from budgetron.cli import progress
        from budgetron.cli.reading import Labelled
        from budgetron.cli.stopping import Stopping

        with Stopping(text.source) as stopping, Labelled(WHO, text) as labelled:
            labelled.keep_to_graphs([learner.made(WHO)])
            self.blocks = list(labelled.blocks(stopping))
            if stopping.asked:
                click.echo(f"Stopped by {stopping.asked}.", err=True)
                sys.exit(INTERRUPTED)
            self.classes = labelled.classes
        if not self.blocks:
            raise refuse(WHO, "the stream", "one with at least one example", f"{text.source!r} with none")
        self.n = sum(len(block.y) for block in self.blocks)
        self._shown = progress.shown

    def comparison(self, texts: dict[str, LearnerText]) -> Any:
        """All candidates over the rows."""
        from budgetron.evaluate import Comparison

        comparison = Comparison({name: text.made(WHO) for name, text in texts.items()}, classes=self.classes)
        with self._shown(False, self.n) as line:
            for block in self.blocks:
                comparison.add(*block)
                line.show(comparison.n, None, full=counted(len(texts), "candidate"))
        return comparison


def _bandwidth(prefix: _Prefix, learner: LearnerText) -> Round:
    """Multiples of what the data suggest."""
    scale = _scale(prefix, learner)
    texts = {}
    for times in _BANDWIDTHS:
        gamma = f"{scale * times:.3g}"
        name = f"scale ({gamma})" if times == 1 else gamma
        texts[name] = learner if times == 1 else replace(learner, kernel=f"gaussian:{gamma}")
    return _round(prefix, "gamma", texts, learner)


def _scale(prefix: _Prefix, learner: LearnerText) -> float:
    model = learner.made(WHO)
    first = prefix.blocks[0]
    rows = slice(0, 1000)  # the first window of a validation
    model.partial_fit(first.X[rows], first.y[rows], tasks=None if first.tasks is None else first.tasks[rows],
                      classes=prefix.classes)  # fmt: skip
    if model.kernel_ is None:
        raise refuse(WHO, "--kernel", "one that the learner uses", "none: the budget leaves no room for it")
    return float(model.kernel_.gamma)


def _budget(prefix: _Prefix, learner: LearnerText) -> Round:
    return _round(prefix, "budget", {text.budget or "500": text for text in _sizes(learner)}, learner)


def _sizes(learner: LearnerText) -> list[LearnerText]:
    """The same learner with less and more."""
    from budgetron.engine.memory import budget_of

    budget = budget_of(WHO, budget_from(WHO, learner.budget or "500"), "--budget")
    if budget.examples is not None:
        sizes = [str(max(1, round(budget.examples * times))) for times in _BUDGETS]
    elif budget.bytes is not None:
        sizes = [f"{round(budget.bytes * times)}B" for times in _BUDGETS]
    else:
        return []
    place = _BUDGETS.index(1)
    return [learner if at == place else replace(learner, budget=size) for at, size in enumerate(sizes)]


def _round(prefix: _Prefix, what: str, texts: dict[str, LearnerText], default: LearnerText) -> Round:
    comparison = prefix.comparison(texts)
    results = comparison.results()
    name = next(name for name, text in texts.items() if text is default)
    if name not in results:
        raise refuse(WHO, what, "such that the learner takes the stream", comparison.refused[name])
    best = best_of(results)
    better = comparison.is_worse(name, best)
    memory = {candidate: finish.model.memory_bytes_ for candidate, finish in results.items()}
    close = [candidate for candidate in results if not comparison.is_worse(candidate, best)]
    smallest = min(close, key=lambda candidate: memory[candidate])
    is_smaller = memory[smallest] < 0.75 * memory[best if better else name]
    return Round(what, texts, results, name, best, better, smallest if is_smaller else None, comparison.refused)


def _show(text: StreamText, prefix: _Prefix, rounds: list[Round], learner: LearnerText) -> None:
    out = console()
    out.print(f"{source_words(text.source)}: the first {counted(prefix.n, 'example')}, each predicted, then learned\n")
    for one in rounds:
        rows = table([one.what, "error %", "F %", "stored", "memory", "per s"], left=[])
        for name, finish in one.results.items():
            figures = finish.validation.overall
            rows.add_row(
                name, percent(figures.error, ""), percent(figures.f_measure, ""), f"{finish.model.n_stored_:,}",
                size(finish.model.memory_bytes_), rate(figures.n / max(finish.seconds, 1e-9)),
                style="bold" if name == one.chosen else "",
            )  # fmt: skip
        out.print(rows)
        for name, reason in one.refused.items():
            out.print(f"{one.what} {name} is left out: {reason}")
        out.print(_verdict(one))
        if one.smaller is not None:
            memory = size(one.results[one.smaller].model.memory_bytes_)
            out.print(f"{one.what} {one.smaller} may do as well, in {memory}.")
        out.print()
    if any(one.better for one in rounds):
        out.print("To learn with what was found:")
    else:
        out.print("The default is as good as anything tried:")
    out.print(f"  {command_for(replace(text, limit=None), learner)}", soft_wrap=True)


def _verdict(one: Round) -> str:
    error = percent(one.results[one.best].validation.overall.error)
    usual = percent(one.results[one.default].validation.overall.error)
    if one.better:
        return f"{one.what} {one.best} is better: {error} wrong against {usual}, more than chance explains."
    if one.best == one.default:
        return f"{one.what} {one.default}, as it was, errs least."
    return f"{one.what} {one.default}, as it was, is as good: {usual} against {error} at best may be chance."


def _record(text: StreamText, prefix: _Prefix, rounds: list[Round], learner: LearnerText) -> dict[str, Any]:
    return {
        "source": text.source,
        "examples": prefix.n,
        "rounds": [
            {
                "what": one.what,
                "default": one.default,
                "best": one.best,
                "better_than_default": one.better,
                "smaller_and_as_good": one.smaller,
                "refused": one.refused,
                "tried": [
                    {"value": name, **finish.validation.overall.to_dict(), "memory_bytes": finish.model.memory_bytes_}
                    for name, finish in one.results.items()
                ],
            }
            for one in rounds
        ],
        "default_is_as_good": not any(one.better for one in rounds),
        "command": command_for(replace(text, limit=None), learner),
    }
