"""The one thread that writes: it takes all that waits, commits it once, learns it, and answers."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any

from budgetron.durable import Host, Learned, Request
from budgetron.errors import refusal
from budgetron.service.problems import Refused
from budgetron.service.shards import ShardedHost
from budgetron.service.watch import Watch

_MOST = 512  # requests in one commit
_Item = tuple[Request, int, "asyncio.Future[Learned]"]


class Writer:
    """Labelled examples to the host, several requests a commit. `submit` is called on the event loop only."""

    def __init__(self, name: str, host: Host | ShardedHost, watch: Watch, most_waiting: int) -> None:
        self._host, self._watch, self._most_waiting = host, watch, most_waiting
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        self.waiting = 0  # examples
        self.busy = False  # while it learns: predictions then better wait in another thread than on the loop
        self._thread = threading.Thread(target=self._run, name=f"writer of {name}", daemon=True)
        self._thread.start()

    def submit(self, request: Request, n: int) -> asyncio.Future[Learned]:
        """The acknowledgement, when it is one."""
        if self._stopped:
            raise Refused(503, "stopping", refusal("service", "it", "running", "one that is stopping"))
        if self.waiting and self.waiting + n > self._most_waiting:
            message = refusal("service", "what waits for the writer", f"at most {self._most_waiting} examples", "more",
                              "Send it again in a second.")  # fmt: skip
            raise Refused(503, "busy", message, [(b"retry-after", b"1")])
        future: asyncio.Future[Learned] = self._loop.create_future()
        self.waiting += n
        self._queue.put((request, n, future))
        return future

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            items, more = [first], True
            while more and len(items) < _MOST:
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
                more = item is not None
                if item is not None:
                    items.append(item)
            self._write(items)
            if not more:
                return

    def _write(self, items: list[_Item]) -> None:
        self.busy = True
        try:
            answers = self._host.learn_many([request for request, _, _ in items])
        except Exception as error:  # a fault of ours: the request must still be answered
            answers = [error] * len(items)
        finally:
            self.busy = False
        for (request, n, _), answer in zip(items, answers, strict=True):
            self._watch.learned(self._host.model, request, n, answer)
        self._loop.call_soon_threadsafe(self._deliver, items, answers)

    def _deliver(self, items: list[_Item], answers: list[Any]) -> None:
        for (_, n, future), answer in zip(items, answers, strict=True):
            self.waiting -= n
            if future.done():  # whoever asked is gone
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def stop(self) -> None:
        """Write what waits, and end."""
        self._stopped = True
        self._queue.put(None)
        self._thread.join()
