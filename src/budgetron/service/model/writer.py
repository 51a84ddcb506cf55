"""The writer of a model: one thread that takes all waiting requests, commits them together, learns them, and answers.

No exception of the host or of an action ends the thread: the exception becomes the answer to the requests in progress.
If the thread ends nevertheless, `restart_if_ended` starts another one, and the requests that the old thread had taken
get the answer `WriterEnded`. The service calls `restart_if_ended` once per second and for /readyz. The writer calls it
before it queues a request and before it stops.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from budgetron.durable import Learned, ModelHost, Request
from budgetron.errors import Closed, OperationalError
from budgetron.service.logs import log
from budgetron.service.monitoring.statistics import LiveStatistics

_MAX_REQUESTS = 512  # per commit
_NO_REQUEST = Request(None, None)


class Busy(OperationalError):
    """Too many examples wait for the writer."""


class WriterEnded(OperationalError):
    """The writer thread ended while it processed the request."""


@dataclass(eq=False)
class _Item:
    """A request to learn, or an action that must not run while the model learns."""

    future: asyncio.Future[Any]
    request: Request = _NO_REQUEST
    n: int = 0  # examples
    action: Callable[[], Any] | None = None


class Writer:
    """Passes labelled examples to the host, several requests per commit. `submit` and `call` need the event loop."""

    def __init__(self, name: str, host: ModelHost, statistics: LiveStatistics, max_waiting: int) -> None:
        self._name, self._host, self._statistics, self._max_waiting = name, host, statistics, max_waiting
        self._listener: Callable[[list[Any]], None] | None = None
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._put_back: list[_Item | None] = []  # items taken from the queue too early; `_take` returns them first
        self._taken: list[_Item] = []  # being processed; `restart_if_ended` answers them if the thread ends
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        self.waiting = 0  # examples of all requests that have no answer yet
        # True while the model or the candidate learns. Predictions then wait for the lock of that model, so they must
        # not run on the event loop.
        self.busy = False
        self.restarts = 0
        self._thread = self._start_thread()

    def _start_thread(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name=f"writer of {self._name}", daemon=True)
        thread.start()
        return thread

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def restart_if_ended(self) -> bool:
        """Start another thread if the last one has ended. Returns whether it did. Call this on the event loop only."""
        if self._stopped or self.alive:
            return False
        lost, self._taken = self._taken, []
        self._deliver(lost, [_writer_ended()] * len(lost))
        self.busy = False
        self.restarts += 1
        self._thread = self._start_thread()
        log("writer", model=self._name, error="the writer thread had ended and was started again")
        return True

    # ---- requests

    def submit(self, request: Request, n: int) -> asyncio.Future[Learned]:
        """Queue a request of `n` examples. The future gets the answer once the examples are on disk and learned.

        Raises `Busy` if too many examples wait already.
        """
        if self.waiting and self.waiting + n > self._max_waiting:
            raise Busy(f"service: {self.waiting} examples are already waiting to be learned. Retry in a second.")
        return self._put(_Item(self._loop.create_future(), request, n))

    def call(self, action: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run `action` in the writer thread between two commits. The future gets its result."""
        return self._put(_Item(self._loop.create_future(), action=action))

    def _put(self, item: _Item) -> asyncio.Future[Any]:
        if self._stopped:
            raise Closed("service: the service is stopping. Retry after its restart.")
        self.restart_if_ended()
        self.waiting += item.n
        self._queue.put(item)
        return item.future

    def listen(self, listener: Callable[[list[Any]], None] | None) -> None:
        """Call `listener` in the writer thread after each commit, with the answers. None removes the listener.

        The listener must catch its own errors: an exception would end the thread.
        """
        self._listener = listener

    # ---- the thread

    def _run(self) -> None:
        while items := self._take():
            self._taken = items
            try:
                answers = self._process(items)
            except BaseException as error:  # The thread must survive anything, and every request needs an answer.
                answers = [error if isinstance(error, Exception) else _writer_ended()] * len(items)
            self._taken = []
            with suppress(RuntimeError):  # The loop is closed, so nothing waits for an answer.
                self._loop.call_soon_threadsafe(self._deliver, items, answers)
            if self._listener is not None and items[0].action is None:
                self.busy = True
                try:
                    self._listener(answers)
                finally:
                    self.busy = False

    def _take(self) -> list[_Item]:
        """Take the waiting requests up to the next action, or one action. An empty list means that the writer stops.

        At most `_MAX_REQUESTS` requests are taken at once.
        """
        items: list[_Item] = []
        while len(items) < _MAX_REQUESTS:
            try:
                item = self._put_back.pop() if self._put_back else self._queue.get(block=not items)
            except queue.Empty:
                break
            if item is None or item.action is not None:
                if items:
                    self._put_back.append(item)
                    break
                return [] if item is None else [item]
            items.append(item)
        return items

    def _process(self, items: list[_Item]) -> list[Any]:
        if items[0].action is not None:
            return [items[0].action()]
        self.busy = True
        try:
            answers = self._host.learn_many([item.request for item in items])
        finally:
            self.busy = False
        for item, answer in zip(items, answers, strict=True):
            try:
                self._statistics.learned(self._host.model, item.request, item.n, answer)
            except Exception as error:  # The statistics miss these examples; the model has learned them.
                log("fault", model=self._name, error=f"statistics: {error!r}"[:1000])
        return answers

    def _deliver(self, items: list[_Item], answers: list[Any]) -> None:
        for item, answer in zip(items, answers, strict=True):
            self.waiting -= item.n
            if item.future.done():  # cancelled, because the client has disconnected
                continue
            if isinstance(answer, Exception):
                item.future.set_exception(answer)
            else:
                item.future.set_result(answer)

    def stop(self) -> None:
        """Learn all waiting requests, then end the thread."""
        self.restart_if_ended()
        self._stopped = True
        self._queue.put(None)
        self._thread.join()


def _writer_ended() -> WriterEnded:
    return WriterEnded(
        "service: the writer thread was interrupted, so it is not known whether the examples were learned. Send them "
        "again with the same idempotency key, and they are learned exactly once."
    )
