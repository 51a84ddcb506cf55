"""SharedProjectron with many tasks (`shared_rows`, `shared_graph_rows`), and the Forgetron (`forgetron_rows`)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from learners import GAUSSIAN, PerMistake
from measure import Row, compared, interleaved, ratio_row
from streams import ModelOnStream, random_labels

from budgetron import Forgetron, RandomBudgetPerceptron, SharedProjectron, graphs

BLOCK = 500


def full(budget: int, n_tasks: int, n: int, repetitions: int) -> ModelOnStream:
    """A model that has learned n examples: its budget is full, and up to 10,000 of its tasks have rows.

    10,000 is the default of `max_task_rows`. No example is repeated. If one were, a task with weights of its own would
    predict it correctly the second time, so the number of mistakes, and with it the work, would depend on the number
    of tasks.
    """
    stream = random_labels(n + (repetitions + 2) * BLOCK, n_tasks=n_tasks)
    runner = ModelOnStream(SharedProjectron(budget=budget, kernel=GAUSSIAN), stream, BLOCK).fill(budget)
    while runner.start < n:
        runner.learn()
    return runner


def shared_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """The time of SharedProjectron with k tasks, compared with its time with four tasks."""
    for budget, n_tasks, n, reach, before in (
        (500, 139, 4000, 1.3, 1.29),
        (300, 1000, 8000, 2.0, 4.5),
        (500, 100_000, 30_000, 8.0, 48.0),
    ):
        budget, n = (200, 5000) if quick else (budget, n)
        row = Row(
            name=f"shared-k{n_tasks}",
            work=f"SharedProjectron, k={n_tasks:,} tasks, B={budget}",
            yardstick="itself, k=4",
            unit="×",
            reach=reach,
            in_0_1=before,
        )
        few, many = full(budget, 4, n, repetitions), full(budget, n_tasks, n, repetitions)
        yield compared(row, many.learn, few.learn, BLOCK, BLOCK, repetitions)


def shared_graph_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """A mistake of SharedProjectron on an explicit graph, compared with one product with A⁻¹."""
    k, budget = 1000, 100 if quick else 300
    edges = np.random.default_rng(0).integers(0, k, (k * 5 // 2, 2))
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    graph = graphs.from_edges(edges, tasks=range(k))
    model = SharedProjectron(budget=budget, kernel=GAUSSIAN, graph=graph)
    runner = ModelOnStream(model, random_labels(6000, n_tasks=k), 100).fill(budget)
    for _ in range(30):
        runner.learn()
    inverse, vector = np.asarray(graph.dense), np.ones(k)

    def multiply() -> None:
        for _ in range(20):
            inverse @ vector

    times = interleaved([PerMistake(runner), multiply], repetitions) / [1, 20]
    row = Row(
        name="shared-graph",
        work=f"SharedProjectron on an explicit graph of {k:,} tasks, B={budget}, per mistake on a full budget",
        yardstick=f"BLAS gemv over {k} × {k} doubles",
        unit="×",
        reach=3.0,
        in_0_1=8.5,
    )
    yield ratio_row(row, times[:, 0] / times[:, 1], times[:, 0], times[:, 1])


def forgetron_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """The Forgetron on the stream of RandomBudgetPerceptron: on a mistake it computes one more kernel row."""
    budget, stream = 1000, random_labels(8000)
    works = [
        ModelOnStream(learner(budget=budget, kernel=GAUSSIAN), stream, BLOCK).fill(budget).learn
        for learner in (Forgetron, RandomBudgetPerceptron)
    ]
    row = Row(
        name="forgetron",
        work=f"Forgetron, B={budget}, labels at random",
        yardstick="RandomBudgetPerceptron on the same stream",
        unit="×",
        reach=2.0,
        in_0_1=3.4,
    )
    yield compared(row, works[0], works[1], BLOCK, BLOCK, repetitions)
