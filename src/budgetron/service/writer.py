"""The writer of a model: one thread that takes all that waits, commits it once, learns it, and answers.

No exception ends the thread: whatever is raised is the answer to the requests it was raised for. Should the thread end
all the same, `revive` starts another and answers what the old one had in hand; the service calls it once a second, when
it is asked whether it is ready, and before each request.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from budgetron.durable import Host, Learned, Request
from budgetron.errors import refusal
from budgetron.service.logs import log
from budgetron.service.problems import Refused
from budgetron.service.shards import ShardedHost
from budgetron.service.watch import Watch

_MOST = 512  # requests in one commit
_NO_REQUEST = Request(None, None)


@dataclass(eq=False)
class _Item:
    """A request to learn, or something else that must not run beside learning."""

    future: asyncio.Future[Any]
    request: Request = _NO_REQUEST
    n: int = 0  # examples
    action: Callable[[], Any] | None = None


class Writer:
    """Labelled examples to the host, several requests per commit. `submit` is called on the event loop only."""

    def __init__(self, name: str, host: Host | ShardedHost, watch: Watch, most_waiting: int) -> None:
        self._name, self._host, self._watch, self._most_waiting = name, host, watch, most_waiting
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._put_back: list[_Item | None] = []  # taken from the queue and not part of the commit: comes next
        self._in_hand: list[_Item] = []
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        self.waiting = 0  # examples
        self.busy = False  # while it learns: predictions then better wait in another thread than on the loop
        self.restarts = 0
        self._thread = self._started()

    def _started(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name=f"writer of {self._name}", daemon=True)
        thread.start()
        return thread

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def revive(self) -> bool:
        """Start another thread where the last one has ended; whether that was so. On the event loop only."""
        if self._stopped or self.alive:
            return False
        lost, self._in_hand = self._in_hand, []
        self._deliver(lost, [_ended()] * len(lost))
        self.busy = False
        self.restarts += 1
        self._thread = self._started()
        log("writer", model=self._name, error="the writer thread had ended and was started again")
        return True

    # ---- asking

    def submit(self, request: Request, n: int) -> asyncio.Future[Learned]:
        """The acknowledgement of a request of `n` examples, when they are on disk and learned."""
        if self.waiting and self.waiting + n > self._most_waiting:
            message = refusal("service", "what waits for the writer", f"at most {self._most_waiting} examples", "more",
                              "Send it again in a second.")  # fmt: skip
            raise Refused(503, "busy", message, [(b"retry-after", b"1")])
        return self._put(_Item(self._loop.create_future(), request, n))

    def call(self, action: Callable[[], Any]) -> asyncio.Future[Any]:
        """What `action` returns, run in the writer's thread between two commits."""
        return self._put(_Item(self._loop.create_future(), action=action))

    def _put(self, item: _Item) -> asyncio.Future[Any]:
        if self._stopped:
            raise Refused(503, "stopping", "service: it is stopping.", [(b"retry-after", b"1")])
        self.revive()
        self.waiting += item.n
        self._queue.put(item)
        return item.future

    # ---- the thread

    def _run(self) -> None:
        while items := self._taken():
            self._in_hand = items
            try:
                answers = self._done(items)
            except BaseException as error:  # the thread must go on, and each request be answered, whatever this is
                answers = [error if isinstance(error, Exception) else _ended()] * len(items)
            self._in_hand = []
            with suppress(RuntimeError):  # the loop is closed: nobody waits for an answer any more
                self._loop.call_soon_threadsafe(self._deliver, items, answers)

    def _taken(self) -> list[_Item]:
        """All requests that wait, up to the next action; or one action; nothing at the end."""
        items: list[_Item] = []
        while len(items) < _MOST:
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

    def _done(self, items: list[_Item]) -> list[Any]:
        if items[0].action is not None:
            return [items[0].action()]
        self.busy = True
        try:
            answers = self._host.learn_many([item.request for item in items])
        finally:
            self.busy = False
        for item, answer in zip(items, answers, strict=True):
            try:
                self._watch.learned(self._host.model, item.request, item.n, answer)
            except Exception as error:  # the figures are off by these examples; what was learned is learned
                log("fault", model=self._name, error=f"statistics: {error!r}"[:1000])
        return answers

    def _deliver(self, items: list[_Item], answers: list[Any]) -> None:
        for item, answer in zip(items, answers, strict=True):
            self.waiting -= item.n
            if item.future.done():  # the client is gone
                continue
            if isinstance(answer, Exception):
                item.future.set_exception(answer)
            else:
                item.future.set_result(answer)

    def stop(self) -> None:
        """Write what waits, and end."""
        self.revive()
        self._stopped = True
        self._queue.put(None)
        self._thread.join()


def _ended() -> Refused:
    message = (
        "service: the writer was interrupted, and whether the examples were learned is not known here. Send them again "
        "with their idempotency key: then they are learned once."
    )
    return Refused(503, "writer", message, [(b"retry-after", b"1")])
