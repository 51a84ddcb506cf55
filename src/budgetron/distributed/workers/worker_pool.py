"""`WorkerPool`: starts, calls, restarts and stops workers. `LocalPool` runs them in threads.

`WorkerGroup` is the only caller. A pool does not know about shards and epochs. The compiled engine releases the GIL, so
two workers of a `LocalPool` use two cores. `ray_pool` has the pool of Ray actors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from budgetron.distributed.workers.worker import NotTheOwner, Worker
from budgetron.errors import WorkerError


class WorkerLost(WorkerError):
    """A worker did not answer, or does not own the shard. The caller must recover the shard and send the call again."""


class WorkerPool(ABC):
    """Workers, each with a name."""

    @abstractmethod
    def start_worker(self, name: str) -> None:
        """Start a worker and wait until it answers."""

    @abstractmethod
    def stop_worker(self, name: str) -> None:
        """Stop a worker, and close the shards that were not moved to others before."""

    @abstractmethod
    def send(self, name: str, method: str, *arguments: Any) -> Any:
        """Call a method of a worker without waiting; returns a future. Calls to one worker run in order."""

    @abstractmethod
    def result(self, future: Any) -> Any:
        """Wait for the result of a call. Raises `WorkerLost` if there will be none."""

    @abstractmethod
    def restart_worker(self, name: str, is_last: bool) -> bool:
        """Make a lost worker answer again, possibly without its shards. Returns False if it cannot be started.

        With `is_last` this waits longer, because no other worker can take the shards.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop all workers."""

    def call(self, name: str, method: str, *arguments: Any) -> Any:
        """Call a method of a worker and wait for the result."""
        return self.result(self.send(name, method, *arguments))


class LocalPool(WorkerPool):
    """A pool of workers in threads of this process, one thread per worker."""

    def __init__(self, directory: str | None, snapshot_every: int) -> None:
        self._directory, self._snapshot_every = directory, snapshot_every
        self._workers: dict[str, tuple[Worker, ThreadPoolExecutor]] = {}

    def start_worker(self, name: str) -> None:
        worker = Worker(name, self._directory, self._snapshot_every)
        self._workers[name] = worker, ThreadPoolExecutor(1, thread_name_prefix=name)

    def stop_worker(self, name: str) -> None:
        worker, thread = self._workers.pop(name)
        try:
            thread.submit(worker.close).result()
        finally:
            thread.shutdown()

    def send(self, name: str, method: str, *arguments: Any) -> Future[Any]:
        worker, thread = self._workers[name]
        return thread.submit(getattr(worker, method), *arguments)

    def result(self, future: Any) -> Any:
        try:
            return future.result()
        except NotTheOwner as error:
            raise WorkerLost(str(error)) from error

    def restart_worker(self, name: str, is_last: bool) -> bool:
        return name in self._workers

    def close(self) -> None:
        for name in list(self._workers):
            self.stop_worker(name)
