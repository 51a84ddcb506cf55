"""Measure the limit of the machine: plain learners in one and in two processes, without shards, logs or messages.

`run.py` compares the rates of shards with these.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import quiet

ROWS = 128  # rows per block, as in a message to a shard


def measure(
    make: Callable[[], Any], stream: Callable[..., Any], learners: int, n: int, min_quiet: int, max_rounds: int
) -> dict[str, quiet.Rate]:
    """Rates of one process, and of two that learn at the same time. Each has `learners` learners, with full budgets."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for _ in range(2):
        parent_end, child_end = context.Pipe()
        arguments = (child_end, make, stream, learners, n, max_rounds)
        processes.append(context.Process(target=_work, args=arguments, daemon=True))
        processes[-1].start()
        pipes.append(parent_end)
    for pipe in pipes:
        pipe.recv()

    def contestant(count: int) -> Callable[[int], tuple[int, list[float]]]:
        """The first `count` processes learn a block each, at the same time."""

        def work(number: int) -> tuple[int, list[float]]:
            for pipe in pipes[:count]:
                pipe.send(True)
            return count * n, [pipe.recv() for pipe in pipes[:count]]

        return work

    contestants = {"plain, 1 process": contestant(1), "plain, 2 processes": contestant(2)}
    rates = quiet.rates(contestants, min_quiet, max_rounds)
    for pipe in pipes:
        pipe.send(False)
    for process in processes:
        process.join()
    return rates


def _work(
    pipe: Connection, make: Callable[[], Any], stream: Callable[..., Any], learners: int, n: int, max_rounds: int
) -> None:
    """Fill the budgets of the learners, report through the pipe, and then learn one block per request."""
    models = [make() for _ in range(learners)]
    for number, model in enumerate(models):
        X, y, tasks = stream(5000, number)
        model.partial_fit(X, y, tasks=tasks)
    # New examples in every round. The first process takes part in both contestants, so it needs twice as many blocks.
    blocks = iter([stream(n, learners + number) for number in range(2 * max_rounds)])
    pipe.send(True)
    while pipe.recv():
        X, y, tasks = next(blocks)
        begin = time.process_time()
        for i, start in enumerate(range(0, n, ROWS)):
            part = slice(start, start + ROWS)
            models[i % learners].partial_fit(X[part], y[part], tasks=tasks[part])
        pipe.send(time.process_time() - begin)
