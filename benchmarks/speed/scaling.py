"""How time and memory grow: with tasks, with a sparse task graph, with the budget, with cores, with the stream."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from learners import GAUSSIAN, PerMistake
from measure import WALL_TIME, Row, compared, interleaved, ratio_row, seconds, spread
from streams import ModelOnStream, random_labels

from budgetron import BudgetProjectron, Forgetron, RandomBudgetPerceptron, graphs

BUDGET, BLOCK = 500, 2000


def full(graph: graphs.TaskGraph, n_tasks: int, budget: int = BUDGET, n: int = 5 * BLOCK) -> ModelOnStream:
    model = RandomBudgetPerceptron(budget=budget, kernel=GAUSSIAN, graph=graph)
    return ModelOnStream(model, random_labels(n, n_tasks=n_tasks), BLOCK).fill(budget)


def task_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """Time with a million tasks, relative to ten. It should be the same: A⁻¹ of these graphs is a formula."""
    many = 100_000 if quick else 1_000_000
    for name, graph_of in (
        ("complete", lambda k: graphs.complete()),
        ("disconnected", lambda k: graphs.disconnected()),
        ("clusters", lambda k: graphs.clusters({task: task % max(2, k // 10) for task in range(k)})),
    ):
        few, many_tasks = full(graph_of(10), 10), full(graph_of(many), many)
        row = Row(
            name=f"tasks-{name}",
            work=f"{many:,} tasks, {name}, mtrbp, B={BUDGET}",
            yardstick="itself, 10 tasks",
            unit="×",
            reach=1.2,
        )
        done = compared(row, many_tasks.learn, few.learn, BLOCK, BLOCK, repetitions)
        bytes_of = [runner.model.memory_bytes_ for runner in (few, many_tasks)]
        yield replace(done, detail={"bytes, 10 tasks": bytes_of[0], f"bytes, {many:,} tasks": bytes_of[1]})


def graph_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """A sparse random graph of 10⁵ tasks, of average degree 5."""
    k, used = 10_000 if quick else 100_000, 20
    edges = np.random.default_rng(0).integers(0, k, (k * 5 // 2, 2))
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    graph = graphs.from_edges(edges, tasks=range(k))
    on_graph, closed = full(graph, used), full(graphs.complete(), used)
    row = Row(
        name="graph-cached",
        work=f"mtrbp on a sparse random graph of {k:,} tasks, columns cached",
        yardstick="closed-form complete graph",
        unit="×",
        reach=2.0,
    )
    yield compared(row, on_graph.learn, closed.learn, BLOCK, BLOCK, repetitions)
    x, model = np.zeros((1, 28)), on_graph.model
    touches = np.array([seconds(partial(model.decision_function, x, tasks=[task])) for task in range(100, 130)])
    touch = Row(
        name="graph-first-touch",
        work=f"sparse random graph of {k:,} tasks, the first use of a task",
        yardstick="—",
        unit="ms",
        reach=5.0,
    )
    yield ratio_row(touch, touches * 1e3, touches, np.zeros(1))
    n_new, starts = 40, range(1000, 1000 + 40 * (2 if quick else 5), 40)
    rows = np.zeros((n_new, 28))
    calls = [partial(model.decision_function, rows, tasks=range(start, start + n_new)) for start in starts]
    touches = np.array([seconds(call) for call in calls]) / n_new
    touch = Row(
        name="graph-first-touch-block",
        work=f"sparse random graph of {k:,} tasks, each of {n_new} new tasks in one block",
        yardstick="—",
        unit="ms",
        reach=5.0,
    )
    yield ratio_row(touch, touches * 1e3, touches, np.zeros(1))


def core_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """The time to predict a block of 10,000 rows on two cores, compared with one."""
    model, stream = full(graphs.complete(), 8).model, random_labels(10_000)

    def predict(n_jobs: int) -> None:
        model.predict(stream.X, tasks=stream.tasks, n_jobs=n_jobs)

    row = Row(
        name="two-cores",
        work=f"prediction in blocks of 10,000 on 2 cores, B={BUDGET}",
        yardstick="one core",
        unit="×",
        reach=1.7,
        at_most=False,
    )
    yield compared(row, lambda: predict(2), lambda: predict(1), 10_000, 10_000, 2 * repetitions, WALL_TIME)


def growth_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """Fit the curve time = c · B^p to the measurements, and report the exponent p."""
    budgets = (100, 300, 1000) if quick else (100, 200, 500, 1000, 2000, 5000)
    for learner, reach in ((RandomBudgetPerceptron, 1.1), (Forgetron, 1.1)):
        works = []
        for budget in budgets:
            stream = random_labels(max(4000, 4 * budget))
            works.append(ModelOnStream(learner(budget=budget, kernel=GAUSSIAN), stream, 500).fill(budget).learn)
        times = interleaved(works, repetitions) / 500
        yield exponent(learner.__name__, "per example", reach, budgets, times)
    budgets = budgets[:3] if quick else budgets[:5]
    mistakes = []
    for budget in budgets:
        stream = random_labels(max(4000, 4 * budget))
        runner = ModelOnStream(BudgetProjectron(budget=budget, kernel=GAUSSIAN), stream, max(100, 50_000 // budget))
        mistakes.append(PerMistake(runner.fill(budget)))
    times = interleaved(mistakes, max(3, repetitions // 2))
    yield exponent("BudgetProjectron", "per mistake", 2.0, budgets, times)


def exponent(name: str, what: str, reach: float, budgets: tuple[int, ...], times: np.ndarray) -> Row:
    row = Row(
        name=f"growth-{name}",
        work=f"{name}, time {what} as a power of B, {budgets[0]} to {budgets[-1]:,}",
        yardstick="—",
        unit="exponent",
        reach=reach,
    )
    slopes = np.array([np.polyfit(np.log(budgets), np.log(seconds), 1)[0] for seconds in times])
    medians = np.median(times, axis=0) * 1e6
    points = {str(budget): float(time) for budget, time in zip(budgets, medians, strict=True)}
    return ratio_row(row, slopes, times[:, -1], times[:, 0], **{"µs by B": points})


STREAMING = """
import resource, sys
import numpy as np
from budgetron import {learner}
rng = np.random.default_rng(0)
model = {learner}(budget=200)
names = np.array([f"user {{i}}" for i in range(2000)])
for n in range(10_000, {n} + 1, 10_000):
    X = rng.standard_normal((10000, 8))
    model.partial_fit(X, (X[:, 0] > 0) ^ (rng.random(10000) < 0.1), tasks=names[rng.integers(0, 2000, 10000)])
    if n == {n} // 10:
        early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - early, model.memory_bytes_)
"""


def memory_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """Growth of the peak memory (RSS) from a tenth of the stream to its end; each learner has a process of its own."""
    n = 200_000 if quick else 1_000_000
    for learner in ("RandomBudgetPerceptron",) if quick else ("RandomBudgetPerceptron", "SharedProjectron"):
        row = Row(
            name=f"memory-{learner}",
            work=f"{learner}, growth of the peak RSS from {n // 10:,} to {n:,} examples",
            yardstick="memory_bytes_ + a constant",
            unit="MiB",
            reach=1.0,
        )
        code = STREAMING.format(learner=learner, n=n)
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        if run.returncode:
            yield replace(row, reason="the process failed: " + run.stderr.strip().splitlines()[-1])
            continue
        growth_kib, model_bytes = map(int, run.stdout.split())
        growth, quartiles = spread(np.array([growth_kib / 1024]))
        yield replace(row, ratio=growth, quartiles=quartiles, detail={"memory_bytes_": model_bytes})
