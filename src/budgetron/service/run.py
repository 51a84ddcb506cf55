"""The server around the application: uvicorn, with an eye on slow clients and a clean end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from budgetron.errors import refuse
from budgetron.service.app import Service
from budgetron.service.exchange import ABORT, WHOLE
from budgetron.service.logs import log
from budgetron.service.settings import Settings


def serve(settings: Settings, make_models: Mapping[str, Callable[[], Any] | None]) -> None:
    """Serve until SIGTERM or Ctrl-C; then finish what was begun, within the grace period.

    `make_models` gives for each name what to begin with where the directory is new: a learner.
    """
    service = Service(settings, make_models)
    server = Server(service, settings)
    try:
        server.run(sockets=[_bound(settings)])
    except SystemExit:  # uvicorn's way of not starting
        if server.failed is None:
            raise
        raise server.failed from None
    log("stopped")
    if server.interrupted:
        raise KeyboardInterrupt


class Server(uvicorn.Server):
    """Tells the service at once when it is to stop, so that its streams end by themselves."""

    def __init__(self, service: Service, settings: Settings) -> None:
        self.service = _Watched(service)
        self.interrupted = False
        slow = type("SlowHeaders", (_SlowHeaders,), {"seconds": settings.limits.seconds_to_send})
        super().__init__(
            uvicorn.Config(
                self.service, http=slow, loop=_loop(), lifespan="on", log_config=None, access_log=False,
                server_header=False, proxy_headers=False, limit_concurrency=settings.limits.connections, backlog=1024,
                timeout_keep_alive=30, timeout_graceful_shutdown=max(1, round(settings.grace)),
                ssl_certfile=settings.tls_certificate, ssl_keyfile=settings.tls_key, ws="none",
            )
        )  # fmt: skip

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A first signal asks for a clean end, which is no failure; a second Ctrl-C does not wait."""
        self.force_exit = self.interrupted and sig == signal.SIGINT
        self.interrupted = self.interrupted or sig == signal.SIGINT
        self.should_exit = True
        self.service.inner.stop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            log("serving", address=f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/", pid=os.getpid())

    @property
    def failed(self) -> Exception | None:
        return self.service.failed


class _Watched:
    """The application, remembering why it could not start: uvicorn would only log it."""

    def __init__(self, inner: Service) -> None:
        self.inner = inner
        self.failed: Exception | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await self.inner(scope, receive, send)
            return
        try:
            await self.inner(scope, receive, send)
        except Exception as error:
            self.failed = error
            raise


class _SlowHeaders(HttpToolsProtocol):
    """Drops a connection whose request does not come to its body in time. uvicorn waits for ever.

    It also tells the application when the whole request is there, so that it need not watch the clock for it, and lets
    it drop a connection that does not read: closing would wait for that.
    """

    seconds = 30.0
    _due: float | None = None  # when the headers that are awaited must have come
    _timer: asyncio.TimerHandle | None = None  # looks at _due now and then: a timer a request would cost too much

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_headers()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope: Any = self.scope
        scope[ABORT] = self.transport.abort
        if self._due is None:
            self._await_headers()

    def on_headers_complete(self) -> None:
        self._due = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        scope: Any = self.scope
        scope[WHOLE] = True

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._due = self.loop.time() + self.seconds
        if self._timer is None:
            self._timer = self.loop.call_at(self._due, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._due is None:
            return
        if self.loop.time() < self._due:
            self._timer = self.loop.call_at(self._due, self._look)
        elif not self.transport.is_closing():
            self.transport.close()


def _bound(settings: Settings) -> socket.socket:
    """The socket, bound before anything else: a port that is taken is said at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
    except OSError as error:
        made.close()
        came = f"{settings.host}:{settings.port}: {error.strerror or error}"
        raise refuse("serve", "--host and --port", "an address that is free here", came) from None
    made.set_inheritable(True)
    return made


def _loop() -> Any:
    return "asyncio" if sys.platform == "win32" else "uvloop"
