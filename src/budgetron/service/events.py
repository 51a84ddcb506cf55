"""Server-sent events: the state of a model once a second, made once however many watch.

    event: live
    data: {…}        as in `watch`
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from budgetron.errors import refusal
from budgetron.service.exchange import Exchange
from budgetron.service.problems import Refused
from budgetron.service.wire import encode

if TYPE_CHECKING:
    from budgetron.service.hosted import Hosted

EVENTS = b"text/event-stream"
_EVERY = 1.0  # seconds


class Events:
    """Who watches what."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._watchers = 0
        self._latest: dict[str, tuple[int, bytes]] = {}
        self._turn = 0
        self._next = asyncio.Event()

    async def tick(self, models: Mapping[str, Hosted], stopping: Callable[[], bool]) -> None:
        """Runs as long as the service: notes the traffic and wakes the watchers."""
        while not stopping():
            await asyncio.sleep(_EVERY)
            self._turn += 1
            for hosted in models.values():
                hosted.watch.tick(time.time())
            woken, self._next = self._next, asyncio.Event()
            woken.set()

    def wake(self) -> None:
        self._next.set()

    async def events(self, hosted: Hosted, exchange: Exchange, stopping: Callable[[], bool]) -> None:
        """GET events."""
        if self._watchers >= self._most:
            message = refusal("events", "watchers", f"at most {self._most} at a time", "one more")
            raise Refused(503, "busy", message, [(b"retry-after", b"10")])
        self._watchers += 1
        try:
            await exchange.begin(EVENTS)
            while not stopping():
                await exchange.write(await self._event(hosted))
                await self._next.wait()
            await exchange.write(b"", more=False)
        finally:
            self._watchers -= 1

    async def _event(self, hosted: Hosted) -> bytes:
        turn, event = self._latest.get(hosted.name, (-1, b""))
        if turn != self._turn:
            turn = self._turn
            event = b"event: live\ndata: " + encode(await hosted.asked(hosted.state)) + b"\n\n"
            self._latest[hosted.name] = turn, event
        return event
