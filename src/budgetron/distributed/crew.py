"""The workers as the coordinator sees them: hired, called, revived, dismissed.

`LocalCrew` runs each worker in a thread of this process: the engines release the GIL, so two workers use two cores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from budgetron.distributed.worker import NotTheOwner, Worker
from budgetron.errors import WorkerError


class Lost(WorkerError):
    """A worker did not answer, or no longer knows the shard: whatever was sent to it must be sent again."""


class Crew(ABC):
    """Workers by name."""

    @abstractmethod
    def hire(self, name: str) -> None:
        """Start a worker; returns when it answers."""

    @abstractmethod
    def dismiss(self, name: str) -> None:
        """Stop a worker whose shards are elsewhere."""

    @abstractmethod
    def send(self, name: str, method: str, *arguments: Any) -> Any:
        """Call a method of a worker; a ticket for its answer. Calls to one worker are answered in order."""

    @abstractmethod
    def answer(self, ticket: Any) -> Any:
        """Wait for the answer; `Lost` where there will be none."""

    @abstractmethod
    def revive(self, name: str, alone: bool) -> bool:
        """Make a lost worker answer again, empty-handed or not; False where there is no place for one.

        One that is not `alone` is not waited for long: the others can have its shards.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop all workers."""

    def ask(self, name: str, method: str, *arguments: Any) -> Any:
        return self.answer(self.send(name, method, *arguments))


class LocalCrew(Crew):
    """Workers in threads."""

    def __init__(self, directory: str | None, snapshot_every: int) -> None:
        self._directory, self._snapshot_every = directory, snapshot_every
        self._workers: dict[str, tuple[Worker, ThreadPoolExecutor]] = {}

    def hire(self, name: str) -> None:
        worker = Worker(name, self._directory, self._snapshot_every)
        self._workers[name] = worker, ThreadPoolExecutor(1, thread_name_prefix=name)

    def dismiss(self, name: str) -> None:
        worker, thread = self._workers.pop(name)
        try:
            thread.submit(worker.close).result()
        finally:
            thread.shutdown()

    def send(self, name: str, method: str, *arguments: Any) -> Future[Any]:
        worker, thread = self._workers[name]
        return thread.submit(getattr(worker, method), *arguments)

    def answer(self, ticket: Any) -> Any:
        try:
            return ticket.result()
        except NotTheOwner as error:
            raise Lost(str(error)) from error

    def revive(self, name: str, alone: bool) -> bool:
        return name in self._workers

    def close(self) -> None:
        for name in list(self._workers):
            self.dismiss(name)
