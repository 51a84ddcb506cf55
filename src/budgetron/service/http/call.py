"""`Call`: one authorized request to one model, as a handler sees it. It reads the body within limits of size and time.
`ServiceCall` is the same for a request that concerns the service and not one model.

`TwoWayStream` is a response that is written while the request is still being read. Starlette has no such response.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from budgetron.errors import error_message
from budgetron.service.audit import AuditLog
from budgetron.service.http.api_keys import ApiKey
from budgetron.service.http.connections import Connections
from budgetron.service.http.problems import CLOSE, HTTPProblem
from budgetron.service.http.rates import Rates
from budgetron.service.http.wire import SAFE_HEADERS
from budgetron.service.settings import Limits

if TYPE_CHECKING:
    from budgetron.service.model.served_model import ServedModel

# A body may pause for `Limits.seconds_to_send`, and must arrive at this rate or faster. A fixed time for the whole body
# would not do, because a model file may have a gigabyte. Without this rate, a client that sends one byte now and then
# could occupy a connection for ever. The body of a stream may be slower.
_MIN_BYTES_PER_SECOND = 1_000
# In the ASGI scope:
RECEIVED = "budgetron.received"  # when the body was complete, for the slow log and traces
HEADERS = "budgetron.headers"  # the headers by name: Starlette's `Headers` scans all of them for every look-up
_POLL = 0.25  # seconds; a stream without lines has to notice that the service is stopping


@dataclass(slots=True, kw_only=True)
class ServiceCall:
    """A request that concerns the service, with its API key and client address. `Call` adds the model."""

    request: Request
    api_key: ApiKey
    address: str
    limits: Limits
    rates: Rates
    connections: Connections
    is_stopping: Callable[[], bool]
    audit: AuditLog
    details: dict[str, Any] = field(default_factory=dict)  # the handler's part of the audit record

    def record_action(self, action: str, model: str | None, required: bool = True) -> AbstractAsyncContextManager[None]:
        """Record the action of the `with` block in the audit log, with the `details` that a handler adds meanwhile."""
        return self.audit.record_action(self.api_key.name, self.address, action, model, self.details, required=required)

    # ---- rate limits

    def charge_request(self) -> None:
        """Count the request itself for its API key, or reject it. `app` has already counted it for its address."""
        if seconds := self.rates.seconds_to_wait(self.api_key, 1):
            raise too_many(repr(self.api_key.name), seconds)

    def charge(self, cost: int) -> None:
        """Count `cost` examples against the rates of the API key and of the address, or reject the request."""
        if seconds := self.rates.seconds_to_wait(self.api_key, cost, self.address):
            raise too_many(f"{self.api_key.name!r} and {self.address}", seconds)

    async def wait_and_charge(self, cost: int) -> None:
        """Like `charge`, but for a stream: wait until the rates allow the examples instead of rejecting them."""
        while seconds := self.rates.seconds_to_wait(self.api_key, cost, self.address):
            await asyncio.sleep(seconds)

    # ---- the body

    async def body(self, limit: int | None = None) -> bytes:
        """Read the complete body. Raises an error if it is longer than `limit` or arrives too slowly."""
        limit = self.limits.body_bytes if limit is None else limit
        declared = header(self.request.scope, b"content-length")
        if declared.isdigit() and int(declared) > limit:
            raise _too_long(limit)
        # Most bodies arrive in one piece. `connections` enforces the timeout for the first piece: a separate timer for
        # every request would cost as much as the prediction.
        message = await self.request.receive()
        self.connections.body_began(self.request.scope["client"])
        pieces: list[bytes] = [message.get("body", b"")]
        if message.get("more_body"):
            await self._read_rest(pieces, limit)
        elif message["type"] == "http.disconnect":
            raise ClientDisconnect
        if sum(map(len, pieces)) > limit:
            raise _too_long(limit)
        self.request.scope[RECEIVED] = time.perf_counter()
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
        """The body as it arrives. Yields None after `pause` seconds without data, and then every `_POLL` seconds."""
        # `request.stream()` cannot be used: a timeout would end that generator, and the next data would be lost.
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
                        raise _paused_too_long(self.limits.seconds_to_send)
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


@dataclass(slots=True, kw_only=True)
class Call(ServiceCall):
    """A request to one model."""

    model: ServedModel


class TwoWayStream(Response):
    """A response whose lines are written while the request is still being read.

    Starlette's `StreamingResponse` cannot do this. To notice a disconnect, it reads from the request itself, so lines
    would be lost.
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


def header(scope: Scope, name: bytes) -> str:
    """The value of a header; empty if the request does not have it. `name` is in lower case."""
    headers: dict[bytes, bytes] = scope[HEADERS]
    return headers.get(name, b"").decode("latin-1")


def too_many(client: str, seconds: float) -> HTTPProblem:
    """The response to a client that exceeds a rate."""
    message = f"request: {client} exceeded the limit of examples per second. Retry in {seconds:.1f} seconds."
    return HTTPProblem(429, "too_many", message, {"retry-after": str(int(seconds) + 1)})


def _too_long(limit: int) -> HTTPProblem:
    message = error_message("request", "the body", f"at most {limit} bytes long", "more bytes",
                            "Send fewer examples per request, or a stream of NDJSON.")  # fmt: skip
    return HTTPProblem(413, "too_long", message, CLOSE)


def _too_slow(seconds: float) -> HTTPProblem:
    message = (
        f"request: the body arrived too slowly. Send at least {_MIN_BYTES_PER_SECOND} bytes per second, without a "
        f"pause of {seconds:g} seconds."
    )
    return HTTPProblem(408, "too_slow", message, CLOSE)


def _paused_too_long(seconds: float) -> HTTPProblem:
    accepted = f"sent without a pause of more than {seconds:g} seconds"
    remedy = "Send a blank line during a pause, or send the later lines as a new stream."
    message = error_message("request", "the stream", accepted, "a longer pause", remedy)
    return HTTPProblem(408, "too_slow", message, CLOSE)
