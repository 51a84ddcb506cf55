"""`Call`: one authorized request to one model, as a handler sees it. It reads the body within limits of size and time.

Responses are Starlette's. `TwoWayStream` is the one that Starlette does not have: written while the request is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from budgetron.errors import refusal
from budgetron.service.http.api_keys import ApiKey
from budgetron.service.http.connections import Connections
from budgetron.service.http.problems import CLOSE, HTTPProblem
from budgetron.service.http.rates import Rates
from budgetron.service.http.wire import SAFE_HEADERS
from budgetron.service.settings import Limits

if TYPE_CHECKING:
    from budgetron.service.served_model import ServedModel

# A body may pause for `Limits.seconds_to_send`, and take as long as it needs at this rate: a model file may have a
# gigabyte, but a client that sends one byte now and then must not occupy a connection for ever.
_MIN_BYTES_PER_SECOND = 1_000
_POLL = 0.25  # seconds; a stream without lines has to notice that the service is stopping


@dataclass(slots=True)
class Call:
    """A request, the model that it is for, and the API key that it came with."""

    request: Request
    model: ServedModel
    api_key: ApiKey
    limits: Limits
    rates: Rates
    connections: Connections
    is_stopping: Callable[[], bool]

    # ---- rate limits

    def charge(self, cost: int) -> None:
        """Count `cost` examples against the rate of the API key, or reject the request."""
        seconds = self.rates.seconds_to_wait(self.api_key, cost)
        if seconds:
            message = refusal("API key", f"the rate of {self.api_key.name!r}", "within its limit", "a higher rate",
                              f"Retry in {seconds:.1f} seconds.")  # fmt: skip
            raise HTTPProblem(429, "too_many", message, {"retry-after": str(int(seconds) + 1)})

    async def wait_and_charge(self, cost: int) -> None:
        """The same for a stream, which is slowed down instead of rejected."""
        while seconds := self.rates.seconds_to_wait(self.api_key, cost):
            await asyncio.sleep(seconds)

    # ---- the body

    async def body(self, limit: int | None = None) -> bytes:
        """The whole body. Rejected if it is longer than `limit` or arrives too slowly."""
        limit = self.limits.body_bytes if limit is None else limit
        declared = self.request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            raise _too_long(limit)
        # Most bodies arrive in one piece. `connections` watches the clock until then: a timer of its own for every
        # request would cost as much as the prediction.
        message = await self.request.receive()
        self.connections.body_began(self.request.scope["client"])
        pieces: list[bytes] = [message.get("body", b"")]
        if message.get("more_body"):
            await self._read_rest(pieces, limit)
        elif message["type"] == "http.disconnect":
            raise ClientDisconnect
        if sum(map(len, pieces)) > limit:
            raise _too_long(limit)
        return b"".join(pieces)

    async def _read_rest(self, pieces: list[bytes], limit: int) -> None:
        loop, pause = asyncio.get_running_loop(), self.limits.seconds_to_send
        began, size = loop.time(), len(pieces[0])
        try:
            async with asyncio.timeout(pause) as timeout:
                async for piece in self.request.stream():
                    pieces.append(piece)
                    size += len(piece)
                    if size > limit:
                        raise _too_long(limit)
                    timeout.reschedule(pause + min(loop.time(), began + size / _MIN_BYTES_PER_SECOND))
        except TimeoutError:
            raise _too_slow(self.limits.seconds_to_send) from None

    async def pieces(self, pause: float) -> AsyncIterator[bytes | None]:
        """The body as it arrives. Yields None after `pause` seconds without any, and again while that lasts."""
        # Not `request.stream()`: a timeout would cancel that generator, and the data that arrive next would be lost.
        self.connections.body_began(self.request.scope["client"])
        loop = asyncio.get_running_loop()
        waiting: asyncio.Task[Any] | None = None
        try:
            while True:
                waiting = asyncio.ensure_future(self.request.receive())
                latest = loop.time() + self.limits.seconds_to_send
                done, _ = await asyncio.wait({waiting}, timeout=pause)
                while not done:
                    yield None
                    if loop.time() > latest:
                        raise _too_slow(self.limits.seconds_to_send)
                    done, _ = await asyncio.wait({waiting}, timeout=_POLL)
                message = waiting.result()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                if message.get("body"):
                    yield message["body"]
                if not message.get("more_body"):
                    return
        finally:
            if waiting is not None and not waiting.done():
                waiting.cancel()


class TwoWayStream(Response):
    """A response whose lines are written while the request is still being read.

    Starlette's `StreamingResponse` reads the request itself, to notice a client that goes away, and would lose lines.
    """

    def __init__(self, lines: AsyncIterator[bytes], media_type: str) -> None:
        self._lines = lines
        self.status_code, self.media_type, self.background = 200, media_type, None
        self.init_headers(SAFE_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for line in self._lines:
            await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _too_long(limit: int) -> HTTPProblem:
    message = refusal("request", "the body", f"at most {limit} bytes long", "more bytes",
                      "Send fewer examples per request, or a stream of NDJSON.")  # fmt: skip
    return HTTPProblem(413, "too_long", message, CLOSE)


def _too_slow(seconds: float) -> HTTPProblem:
    accepted = f"sent without a pause of {seconds:g} seconds, at {_MIN_BYTES_PER_SECOND} bytes per second or faster"
    message = refusal("request", "the body", accepted, "a slower one")
    return HTTPProblem(408, "too_slow", message, CLOSE)
