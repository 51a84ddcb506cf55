"""GET events: the state of a model once per second as server-sent events, computed once for all subscribers.

event: drift
data: {…}        an alarm since the last event: position, task, overall, before, after, n, loss

event: live
data: {…}        see `monitoring.statistics`
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse

from budgetron.service.http.problems import HTTPProblem
from budgetron.service.http.wire import SAFE_HEADERS, encode

if TYPE_CHECKING:
    from budgetron.service.http.call import Call
    from budgetron.service.model.served_model import ServedModel


class Events:
    """The subscribers of all models, and the latest event of each model."""

    interval = 1.0  # seconds between two events

    def __init__(self, max_subscribers: int) -> None:
        self._max_subscribers = max_subscribers
        self._subscribers = 0
        self._latest: dict[str, tuple[int, asyncio.Task[bytes]]] = {}  # the turn and the event of each model
        self._alarms: dict[str, int] = {}  # how many alarms of each model were sent
        self._turn = 0
        self._next = asyncio.Event()

    def next_turn(self) -> None:
        """Let every subscriber send the next event."""
        self._turn += 1
        self.wake()

    def wake(self) -> None:
        woken, self._next = self._next, asyncio.Event()
        woken.set()

    async def subscribe(self, call: Call) -> Response:
        if self._subscribers >= self._max_subscribers:
            message = f"events: {self._max_subscribers} clients are subscribed, the maximum. Retry in ten seconds."
            raise HTTPProblem(503, "busy", message, {"retry-after": "10"})
        # Set as a header, because Starlette would add a charset to `media_type`.
        headers = SAFE_HEADERS | {"content-type": "text/event-stream"}
        return StreamingResponse(self._events(call), headers=headers)

    async def _events(self, call: Call) -> AsyncIterator[bytes]:
        self._subscribers += 1
        try:
            while not call.is_stopping():
                upcoming = self._next
                yield await self._event(call.model)
                await upcoming.wait()
        finally:
            self._subscribers -= 1

    async def _event(self, model: ServedModel) -> bytes:
        """Return the event of this turn. The first subscriber starts a task to compute it; all others share it."""
        latest = self._latest.get(model.name)
        if latest is None or latest[0] != self._turn:
            latest = self._turn, asyncio.create_task(self._compute(model))
            self._latest[model.name] = latest
        # A subscriber that disconnects must not cancel the task of the others.
        return await asyncio.shield(latest[1])

    async def _compute(self, model: ServedModel) -> bytes:
        total, alarms = model.statistics.alarms_after(self._alarms.get(model.name, 0))
        self._alarms[model.name] = total
        event = b"".join(b"event: drift\ndata: " + encode(alarm) + b"\n\n" for alarm in alarms)
        return event + b"event: live\ndata: " + encode(await model.shown()) + b"\n\n"
