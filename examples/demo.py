"""Compare six learners on real data under the same memory budget, with an unlimited baseline.

Chem97 has 31,022 students in 2,410 British schools. The label is a grade A or B in A-level chemistry. Each school is a
task with few students. Features are standardised first. Then every student is predicted and learned, in one pass.
Every learner with a budget runs twice: with a number of stored examples, and with a number of bytes for the whole
model. The Perceptron runs twice without a limit: for all schools together, and for each school alone.

    python examples/demo.py [--examples 200] [--bytes "64 KiB"] [--orders 3]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from threadpoolctl import threadpool_limits

import budgetron
from budgetron import data, graphs, kernels
from budgetron.engine import native

BLOCK = 2048  # examples per call of the learner
SLOW_EXAMPLES = 2000  # examples if there is only the NumPy engine, which is about a hundred times slower
LEARNERS = ("RandomBudgetPerceptron", "Forgetron", "BudgetProjectron", "SharedProjectron", "Budgetron")
NO_LIMIT = "No limit"


@dataclass(frozen=True)
class Entry:
    """One line of the table: a learner with a budget."""

    section: str
    name: str
    make: Callable[[], Any]


@dataclass(frozen=True)
class Result:
    """Figures of one entry, averaged over the random orders of the stream."""

    entry: Entry
    error: float  # share of wrong predictions
    f: float  # F-measure of the positive class
    stored: float
    memory: float  # bytes, at the end
    speed: float  # examples per second, for predicting and learning


@click.command(help=__doc__.splitlines()[0])
@click.option("--examples", default=200, show_default=True, help="The budget as a number of stored examples.")
@click.option("--bytes", "size", default="64 KiB", show_default=True, help="The budget as bytes for the whole model.")
@click.option("--orders", default=3, show_default=True, help="Random orders of the stream to average over.")
def main(examples: int, size: str, orders: int) -> None:
    console = Console()
    chem = data.load("chem97")
    streams = [chem.shuffled(seed=seed) for seed in range(orders)]
    if not native.available:
        console.print(f"No compiled core: the slow NumPy engine runs on one order of {SLOW_EXAMPLES:,} students.\n")
        streams = [streams[0].take(SLOW_EXAMPLES)]
    always_no = f"{chem.y.mean():.1%}"
    console.print(
        f"[bold]Grade A or B in A-level chemistry?[/bold] {chem.n:,} students; {chem.k:,} schools are the tasks.\n"
        f"One pass, predict then learn; {len(streams)} × random order. Always predicting no: {always_no} wrong.\n",
        highlight=False,
    )
    entries = list(_entries(examples, size))
    results = []
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    quiet = not console.is_terminal
    with threadpool_limits(1), Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        bar = progress.add_task("", total=len(entries) * sum(stream.n for stream in streams))
        for entry in entries:
            progress.update(bar, description=f"{entry.name:<28}")
            results.append(_run(entry, streams, lambda n: progress.advance(bar, n)))
    console.print(_table(results))
    console.print()
    bullets = Table.grid(padding=(0, 1))
    for sentence in _conclusions(results):
        bullets.add_row("•", sentence)
    console.print(bullets)


def _entries(examples: int, size: str) -> Iterator[Entry]:
    kernel = kernels.Gaussian(gamma=1 / 3)  # three features of variance 1
    budgets = {f"{examples:,} stored examples at most": examples, f"{size} each, for the whole model": size}
    for section, budget in budgets.items():
        for name in LEARNERS:
            if hasattr(budgetron, name):
                learner = getattr(budgetron, name)
                yield Entry(section, name, lambda learner=learner, budget=budget: learner(budget=budget, kernel=kernel))
    yield Entry(NO_LIMIT, "Perceptron", lambda: budgetron.Perceptron(kernel=kernel))
    no_edges = graphs.disconnected()
    yield Entry(NO_LIMIT, "Perceptron per school", lambda: budgetron.Perceptron(kernel=kernel, graph=no_edges))


def _run(entry: Entry, streams: list[data.DataSet], advance: Callable[[int], object]) -> Result:
    rows = []
    for stream in streams:
        X, y, schools = data.standardized(stream.X), stream.y, stream.tasks
        model, margins, seconds = entry.make(), np.empty(stream.n), 0.0
        for start in range(0, stream.n, BLOCK):
            part = slice(start, start + BLOCK)
            begin = time.perf_counter()
            margins[part] = model.predict_then_learn(X[part], y[part], tasks=schools[part], classes=[0, 1])
            seconds += time.perf_counter() - begin
            advance(len(y[part]))
        predicted = margins > 0
        f = 2 * np.sum(predicted & (y == 1)) / (np.sum(predicted) + np.sum(y == 1))
        rows.append((np.mean(predicted != y), f, model.n_stored_, model.memory_bytes_, stream.n / seconds))
    return Result(entry, *(float(mean) for mean in np.mean(rows, axis=0)))


def _table(results: list[Result]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("", "error %", "F %", "stored", "memory", "examples/s"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    section = None
    for result in results:
        if result.entry.section != section:
            section = result.entry.section
            table.add_row(f"[bold cyan]{section}[/]" if table.row_count == 0 else f"\n[bold cyan]{section}[/]")
        style = "bold green" if section != NO_LIMIT and result is _best(results, section) else ""
        table.add_row(
            f"  {result.entry.name}", f"{100 * result.error:.1f}", f"{100 * result.f:.1f}", f"{result.stored:,.0f}",
            _size(result.memory), f"{_two_digits(result.speed):,}", style=style,
        )  # fmt: skip
    return table


def _conclusions(results: list[Result]) -> Iterator[str]:
    """Sentences that state the result, derived from the figures."""
    sections = list(dict.fromkeys(result.entry.section for result in results if result.entry.section != NO_LIMIT))
    for section in sections:
        best = _best(results, section)
        yield f"{section}: {best.entry.name} has the lowest error, {best.error:.1%}, in {_size(best.memory)}."
    best = _best(results, sections[-1])
    for result in results:
        if result.entry.section == NO_LIMIT:
            yield (
                f"{result.entry.name}, no limit: {result.error:.1%}, {_points(result, best)} than {best.entry.name} in "
                f"{_size(best.memory)}. It takes {_times(result.memory / best.memory)} the memory, for "
                f"{result.stored:,.0f} stored examples."
            )


def _best(results: list[Result], section: str) -> Result:
    return min((result for result in results if result.entry.section == section), key=lambda result: result.error)


def _points(theirs: Result, ours: Result) -> str:
    points = 100 * (theirs.error - ours.error)
    return f"{abs(points):.1f} points {'more' if points >= 0 else 'less'}"


def _times(ratio: float) -> str:
    return f"{ratio:.0f} times" if ratio >= 2 else f"{ratio:.1f} times"


def _size(count: float) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"


def _two_digits(speed: float) -> int:
    return int(float(f"{speed:.2g}"))


if __name__ == "__main__":
    main()
