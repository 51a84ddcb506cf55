"""Perform all runs of a table on several processes, in rounds: runs that others depend on come first.

Ctrl-C cancels the waiting runs. A run of Table 1 that has begun stops before its next cell; a run of another table is
finished. Finished runs stay on disk. The same command then performs only the runs that are missing.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeVar

from budgetron.errors import BudgetronError


class Scheduled(Protocol):
    """The interface of a run. Runs that it depends on are in an earlier round."""

    @property
    def round(self) -> int: ...

    def perform(self, out: Path, folder: str | None, stopped: Callable[[], bool]) -> None: ...


Run = TypeVar("Run", bound=Scheduled)

_stop: Any = None  # in a worker process: the event that is set to stop before the next cell


def perform_all(
    runs: Iterable[Run], out: Path, folder: str | None, jobs: int, done: Callable[[Run], None]
) -> dict[Run, str]:
    """Perform every run, and call `done` after each. Return the runs that failed, with the reasons.

    A run fails if a learner rejects its settings or data, or if the data are missing. It leaves a gap in the table, and
    the other runs continue. Ctrl-C raises KeyboardInterrupt after the workers have stopped.
    """
    failed: dict[Run, str] = {}
    context = multiprocessing.get_context("spawn")  # forking is unsafe while a thread draws the progress display
    stop = context.Event()
    with ProcessPoolExecutor(jobs, context, _begin_worker, (stop,)) as pool:
        try:
            # A round starts when all runs of the round before it have ended.
            for _, runs_of_round in groupby(runs, key=lambda run: run.round):
                with _interrupts_blocked():
                    futures = {pool.submit(_perform, run, out, folder): run for run in runs_of_round}
                for future in as_completed(futures):
                    run = futures[future]
                    try:
                        future.result()
                    except BudgetronError as error:
                        failed[run] = str(error)
                    done(run)
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return failed


def _begin_worker(stop: Any) -> None:
    global _stop
    _stop = stop
    # Ctrl-C reaches the whole process group; workers ignore it and stop when the parent sets the event.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _perform(run: Scheduled, out: Path, folder: str | None) -> None:
    run.perform(out, folder, _stop.is_set)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT while workers start. They inherit the block, so Ctrl-C cannot stop them before they ignore it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
