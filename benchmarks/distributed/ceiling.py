"""The limit of the machine: plain learners in one and in two processes, without shards, logs or messages."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import quiet

ROWS = 128  # rows per block, as in a message to a shard


def measured(make: Callable[[], Any], stream: Callable[..., Any], learners: int, n: int, wanted: int, most: int) -> Any:
    """Examples per second of one process, and of two, with `learners` learners each whose budgets are full."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for _ in range(2):
        mine, other = context.Pipe()
        processes.append(context.Process(target=_work, args=(other, make, stream, learners, n, most), daemon=True))
        processes[-1].start()
        pipes.append(mine)
    for pipe in pipes:
        pipe.recv()

    def together(count: int) -> Callable[[int], tuple[int, list[float]]]:
        def work(number: int) -> tuple[int, list[float]]:
            for pipe in pipes[:count]:
                pipe.send(True)
            return count * n, [pipe.recv() for pipe in pipes[:count]]

        return work

    rates = quiet.rates({"plain, 1 process": together(1), "plain, 2 processes": together(2)}, wanted, most)
    for pipe in pipes:
        pipe.send(False)
    for process in processes:
        process.join()
    return rates


def _work(
    pipe: Connection, make: Callable[[], Any], stream: Callable[..., Any], learners: int, n: int, most: int
) -> None:
    models = [make() for _ in range(learners)]
    for number, model in enumerate(models):
        X, y, tasks = stream(5000, number)
        model.partial_fit(X, y, tasks=tasks)
    blocks = iter([stream(n, learners + number) for number in range(2 * most)])  # new examples in every round
    pipe.send(True)
    while pipe.recv():
        X, y, tasks = next(blocks)
        began = time.process_time()
        for place, start in enumerate(range(0, n, ROWS)):
            part = slice(start, start + ROWS)
            models[place % learners].partial_fit(X[part], y[part], tasks=tasks[part])
        pipe.send(time.process_time() - began)
