"""One request and its answer, over plain ASGI."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from budgetron.errors import BudgetronError, refusal
from budgetron.service.keys import NOBODY, Key
from budgetron.service.problems import Refused
from budgetron.service.rates import Rates
from budgetron.service.settings import Limits

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON = b"application/json"
NDJSON = b"application/x-ndjson"
ABORT = "budgetron.abort"  # in the scope: drops the connection at once
WHOLE = "budgetron.whole"  # in the scope: all of the body has come
_SAFE = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class Gone(BudgetronError):
    """The client went away."""


class Exchange:
    """What a handler reads from and answers to."""

    __slots__ = (
        "_rates", "_receive", "_send", "began", "headers", "key", "limits", "method", "scope", "sent", "status",
    )  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: Limits, rates: Rates) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self.limits, self._rates = limits, rates
        self.method: str = scope["method"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.began = time.perf_counter()
        self.status = 0
        self.sent = False
        self.key: Key = NOBODY

    # ---- paying

    def pay(self, cost: int) -> None:
        """Take from what the key may ask for, or refuse."""
        seconds = self._rates.wait_for(self.key, cost)
        if seconds:
            message = refusal("key", f"the rate of {self.key.name!r}", "within its limit", "more",
                              f"Come again in {seconds:.1f} seconds.")  # fmt: skip
            raise Refused(429, "too_many", message, [(b"retry-after", b"%d" % (int(seconds) + 1))])

    async def wait_to_pay(self, cost: int) -> None:
        """The same for a stream, which is slowed down instead."""
        while seconds := self._rates.wait_for(self.key, cost):
            await asyncio.sleep(seconds)

    # ---- reading

    @property
    def query(self) -> dict[str, str]:
        """The parameters after the question mark, each once."""
        try:
            text = self.scope["query_string"].decode("ascii")
            return {name: values[-1] for name, values in parse_qs(text, max_num_fields=20).items()}
        except ValueError:
            raise Refused(400, "malformed", refusal("query", "it", "at most 20 ASCII parameters", "another")) from None

    def content_type(self) -> bytes:
        return self.headers.get(b"content-type", b"").split(b";")[0].strip().lower()

    async def body(self, limit: int | None = None) -> bytes:
        """The whole body, refused where it is too long or too slow."""
        limit = self.limits.body_bytes if limit is None else limit
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > limit:
            raise _too_long(limit)
        if WHOLE in self.scope:
            return await self._rest(limit)
        try:
            async with asyncio.timeout(self.limits.seconds_to_send):
                return await self._rest(limit)
        except TimeoutError:
            raise _too_slow(self.limits.seconds_to_send) from None

    async def _rest(self, limit: int) -> bytes:
        message = await self._receive()
        body: bytes = message.get("body", b"")
        pieces = [body]
        size = len(body)
        while message.get("more_body") and size <= limit:
            message = await self._receive()
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
        if message["type"] == "http.disconnect":
            raise Gone
        if size > limit:
            raise _too_long(limit)
        return body if len(pieces) == 1 else b"".join(pieces)

    async def pieces(self, pause: float | None = None) -> AsyncIterator[bytes | None]:
        """The body as it comes; None where nothing came for `pause` seconds."""
        waiting: asyncio.Task[MutableMapping[str, Any]] | None = None
        try:
            while True:
                waiting = asyncio.ensure_future(self._receive())
                if pause is not None:
                    done, _ = await asyncio.wait({waiting}, timeout=pause)
                    if not done:
                        yield None
                done, _ = await asyncio.wait({waiting}, timeout=self.limits.seconds_to_send)
                if not done:
                    raise _too_slow(self.limits.seconds_to_send)
                message = waiting.result()
                if message["type"] == "http.disconnect":
                    raise Gone
                if message.get("body"):
                    yield message["body"]
                if not message.get("more_body"):
                    return
        finally:
            if waiting is not None and not waiting.done():
                waiting.cancel()

    # ---- answering

    async def reply(
        self, body: bytes, status: int = 200, kind: bytes = JSON, headers: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        """The whole answer."""
        self.status, self.sent = status, True
        head = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *_SAFE, *(headers or [])]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        content = b"" if self.method == "HEAD" else body
        await self._send({"type": "http.response.body", "body": content})

    async def begin(self, kind: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """An answer that comes in pieces."""
        self.status, self.sent = 200, True
        head = [(b"content-type", kind), *_SAFE, *(headers or [])]
        await self._send({"type": "http.response.start", "status": 200, "headers": head})

    async def write(self, piece: bytes, more: bool = True) -> None:
        """One piece; a client that does not read it in time is left."""
        try:
            async with asyncio.timeout(self.limits.seconds_to_read):
                await self._send({"type": "http.response.body", "body": piece, "more_body": more})
        except TimeoutError:
            abort = self.scope.get(ABORT)
            if abort is not None:
                abort()
            raise Gone from None


def _too_long(limit: int) -> Refused:
    message = refusal("body", "it", f"of at most {limit} bytes", "more", "Send less at a time, or a stream of NDJSON.")
    return Refused(413, "too_long", message, [(b"connection", b"close")])


def _too_slow(seconds: float) -> Refused:
    message = refusal("body", "it", f"sent without a pause of {seconds:g} seconds", "a longer one")
    return Refused(408, "too_slow", message, [(b"connection", b"close")])
