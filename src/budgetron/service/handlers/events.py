"""GET events: the state of a model once per second as server-sent events, computed once for all subscribers.

event: drift
data: {…}        a drift alarm since the last event: position, task, overall, before, after, n, loss

event: live
data: {…}        see `monitoring.statistics`

Alarms that were raised while nobody was subscribed are sent to the next subscriber, at most the latest 100 of each
model. A subscriber that reads too slowly misses some events, and the alarms in them. The latest alarms are also in
`live`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from budgetron.service.http.problems import HTTPProblem
from budgetron.service.http.wire import SAFE_HEADERS, encode

if TYPE_CHECKING:
    from budgetron.service.http.call import Call
    from budgetron.service.model.served_model import ServedModel


class _Subscription(StreamingResponse):
    """The response to one subscriber. `at_end` is called when it ends, even if no event was sent."""

    def __init__(self, events: AsyncIterator[bytes], at_end: Callable[[], None]) -> None:
        # Set as a header, because Starlette would add a charset to `media_type`.
        super().__init__(events, headers=SAFE_HEADERS | {"content-type": "text/event-stream"})
        self._at_end = at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._at_end()


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
        """Send the next event to every subscriber."""
        self._turn += 1
        self.wake()

    def wake(self) -> None:
        """Wake the streams of all subscribers, which then send an event, or end if the service stops."""
        woken, self._next = self._next, asyncio.Event()
        woken.set()

    async def subscribe(self, call: Call) -> Response:
        if self._subscribers >= self._max_subscribers:
            message = f"events: {self._max_subscribers} clients are subscribed, the maximum. Retry in ten seconds."
            raise HTTPProblem(503, "busy", message, {"retry-after": "10"})
        # Counted here, because other requests may be checked before the stream starts.
        self._subscribers += 1
        return _Subscription(self._events(call), self._unsubscribe)

    def _unsubscribe(self) -> None:
        self._subscribers -= 1

    async def _events(self, call: Call) -> AsyncIterator[bytes]:
        while not call.is_stopping():
            upcoming = self._next
            yield await self._event(call.model)
            await upcoming.wait()

    async def _event(self, model: ServedModel) -> bytes:
        """Return the event of this turn. One task computes it; the first subscriber starts the task."""
        latest = self._latest.get(model.name)
        if latest is None or latest[0] != self._turn:
            latest = self._turn, asyncio.create_task(self._compute(model))
            self._latest[model.name] = latest
        # A subscriber that disconnects must not cancel the task of the others.
        return await asyncio.shield(latest[1])

    async def _compute(self, model: ServedModel) -> bytes:
        n_sent = self._alarms.get(model.name, 0)
        self._alarms[model.name], alarms = model.statistics.alarms_after(n_sent)
        try:
            state = await model.shown()
        except BaseException:
            self._alarms[model.name] = n_sent  # these alarms are sent with the next event
            raise
        event = b"".join(b"event: drift\ndata: " + encode(alarm) + b"\n\n" for alarm in alarms)
        return event + b"event: live\ndata: " + encode(state) + b"\n\n"
