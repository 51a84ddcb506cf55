"""All runs of a table on several processes, in waves: what others wait for comes first.

Ctrl-C stops between two cells. Runs that were finished are kept, and the same command goes on from there.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from budgetron.errors import BudgetronError
from budgetron.experiments.algorithms import algorithm_named
from budgetron.experiments.runs import Run, perform

_stop: Any = None  # in a worker: the event that says that no more cells are wanted


def perform_all(
    runs: Iterable[Run], out: Path, folder: str | None, jobs: int, done: Callable[[Run], None]
) -> dict[Run, str]:
    """Perform every run; `done` hears of each as it ends. KeyboardInterrupt passes through.

    What a learner refuses leaves a gap in the table, not an end to it: returned are those runs, and why.
    """
    refused: dict[Run, str] = {}
    context = multiprocessing.get_context(
        "spawn"
    )  # forking a process that draws a progress display is unsafe
    stop = context.Event()
    with ProcessPoolExecutor(jobs, context, _begin_worker, (stop,)) as pool:
        try:
            for _, wave in groupby(runs, key=lambda run: len(algorithm_named(run.algorithm).after)):
                with _interrupts_held():
                    futures = {pool.submit(_perform, run, out, folder): run for run in wave}
                for future in as_completed(futures):
                    run = futures[future]
                    try:
                        future.result()
                    except BudgetronError as refusal:
                        refused[run] = str(refusal)
                    done(run)
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return refused


def _begin_worker(stop: Any) -> None:
    global _stop
    _stop = stop
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group; the parent says when to stop


def _perform(run: Run, out: Path, folder: str | None) -> None:
    perform(run, out, folder, stopped=_stop.is_set)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes started inside inherit the block, so Ctrl-C cannot hit them before they are ready for it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
