"""The ASGI application: who asks, for what, and may they; then the handler, and words for whatever was refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from budgetron.errors import refusal
from budgetron.service import bulk, live, openapi
from budgetron.service.events import Events
from budgetron.service.exchange import JSON, NDJSON, Exchange, Gone, Receive, Scope, Send
from budgetron.service.hosted import Hosted
from budgetron.service.keys import NOBODY, Key, Keys
from budgetron.service.logs import log
from budgetron.service.metrics import TEXT, Metrics
from budgetron.service.problems import REASONS, Refused, refused_of
from budgetron.service.rates import Rates
from budgetron.service.routes import BY_PATH, METHODS, OWN_ROUTES, Route, place
from budgetron.service.settings import Settings, is_loopback
from budgetron.service.wire import ModelsAnswer, encode

HTML = b"text/html; charset=utf-8"
_REFRESH = 2.0  # seconds between looks at the key file
_LOOK = 1.0  # seconds between looks at whether a model can learn
_STREAMS = {"predict": bulk.predict_stream, "learn": bulk.learn_stream}


class Service:
    """All models of one process behind HTTP. `make_models` names them; each is opened when the service starts."""

    def __init__(self, settings: Settings, make_models: Mapping[str, Callable[[], Any] | None]) -> None:
        self.settings, self._make_models = settings.checked(), make_models
        self.models: dict[str, Hosted] = {}
        self.keys = Keys(settings.keys) if settings.keys else None
        self.stopping = False
        self._rates = Rates(settings.limits.rate)
        self._metrics = Metrics(self.models)
        self._document: dict[bool, bytes] = {}
        self._ticking: list[asyncio.Task[None]] = []
        self._looking = asyncio.Lock()
        self._looked, self._found = -_LOOK, dict[str, str]()

    # ---- from start to stop

    async def open(self) -> None:
        """Recover every model. Nothing is answered before that."""
        self.events = Events(self.settings.limits.watchers)
        for name, make_model in self._make_models.items():
            began = time.perf_counter()
            hosted = await Hosted.open(name, self.settings.data / name, make_model, self.settings)
            self.models[name] = hosted
            log("model", model=name, learner=type(hosted.host.model).__name__, position=hosted.host.position,
                replayed=hosted.replayed, seconds=round(time.perf_counter() - began, 3))  # fmt: skip
        self._ticking = [
            asyncio.create_task(self.events.tick(self.models, lambda: self.stopping)),
            asyncio.create_task(self._refresh_keys()),
            asyncio.create_task(self._revive_writers()),
        ]

    async def close(self) -> None:
        """Write what waits, leave snapshots, give the directories up."""
        self.stop()
        for task in self._ticking:
            task.cancel()
        for name, hosted in self.models.items():
            hosted.close()
            log("closed", model=name, position=hosted.host.position)

    def stop(self) -> None:
        """Begin to stop: streams end after their block, watchers are let go."""
        self.stopping = True
        if self.models:
            self.events.wake()

    async def _refresh_keys(self) -> None:
        while self.keys is not None:
            await asyncio.sleep(_REFRESH)
            before = self.keys.error
            self.keys.refresh()
            if self.keys.error and self.keys.error != before:
                log("keys", error=self.keys.error)

    async def _revive_writers(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            for hosted in self.models.values():
                hosted.writer.revive()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(Exchange(scope, receive, send, self.settings.limits, self._rates))
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.open()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    # ---- one request

    async def _answer(self, exchange: Exchange) -> None:
        name = "unknown"
        try:
            path = exchange.scope["raw_path"].decode("latin-1").split("?")[0]
            own = OWN_ROUTES.get(path)
            if own is not None:
                name = path
                await self._own(exchange, path, own[0])
            else:
                model, relative = place(path)
                wanted = "tasks/{task}" if relative.startswith("tasks/") else relative
                route = BY_PATH.get((exchange.method, wanted)) if path.startswith("/v1/") else None
                if route is None:
                    raise _not_found(path, exchange.method, METHODS.get(wanted, []))
                name = wanted
                await self._of_model(exchange, route, unquote(model), unquote(relative.removeprefix("tasks/")))
        except Gone:
            exchange.status = exchange.status or 499
        except Exception as error:
            await self._refuse(exchange, error)
        seconds = time.perf_counter() - exchange.began
        self._metrics.answered(name, exchange.method if exchange.status != 405 else "other", exchange.status, seconds)
        if self.settings.log_requests:
            log("request", method=exchange.method, route=name, status=exchange.status, key=exchange.key.name,
                milliseconds=round(1000 * seconds, 2))  # fmt: skip

    async def _of_model(self, exchange: Exchange, route: Route, model: str, task: str) -> None:
        self._admit(exchange, route.role)
        hosted = self.models.get(model)
        if hosted is None:
            message = refusal("model", "its name", f"one of {', '.join(self.models)}", repr(model)[:80])
            raise Refused(404, "unknown_model", message)
        kind = exchange.content_type()
        if route.streams and kind == NDJSON:
            await _STREAMS[route.path](hosted, exchange, lambda: self.stopping)
            return
        if route.request is not None and kind != JSON:
            accepted = "application/json" + (" or application/x-ndjson" if route.streams else "")
            message = refusal("body", "its Content-Type", accepted, repr(kind.decode("latin-1"))[:80])
            raise Refused(415, "content_type", message)
        if route.handler is None:
            await self.events.events(hosted, exchange, lambda: self.stopping)
        elif route.path == "tasks/{task}":
            await route.handler(hosted, exchange, task)
        else:
            await route.handler(hosted, exchange)

    def _admit(self, exchange: Exchange, role: str) -> None:
        """Whether the key may; and the price of a request."""
        exchange.key = self._key_of(exchange)
        if not exchange.key.may(role):
            message = refusal("key", f"the role of {exchange.key.name!r}", role, exchange.key.role)
            raise Refused(403, "not_allowed", message)
        exchange.pay(1)

    def _key_of(self, exchange: Exchange) -> Key:
        if self.keys is None:
            self._check_host(exchange)
            return NOBODY
        given = exchange.headers.get(b"authorization", b"")
        if given[:7].lower() == b"bearer ":
            key = self.keys.find(given[7:].strip().decode("latin-1"))
            if key is not None:
                return key
        message = refusal("key", "Authorization", "Bearer and a key that this service knows", "none, or another")
        raise Refused(401, "no_key", message, [(b"www-authenticate", b"Bearer")])

    def _check_host(self, exchange: Exchange) -> None:
        """Without keys on this machine: a web page elsewhere must not reach us under a name of its own."""
        if self.settings.without_keys:
            return
        host = exchange.headers.get(b"host", b"localhost").decode("latin-1")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if not is_loopback(name.strip("[]")):
            raise Refused(421, "host", refusal("request", "Host", "localhost, 127.0.0.1 or [::1]", repr(host)[:80]))

    # ---- the service's own paths

    async def _own(self, exchange: Exchange, path: str, role: str | None) -> None:
        if exchange.method not in ("GET", "HEAD"):
            raise _not_found(path, exchange.method, ["GET", "HEAD"])
        if role is not None:
            self._admit(exchange, role)
        if path == "/healthz":
            await exchange.reply(b'{"status":"alive"}')
        elif path == "/readyz":
            await self._ready(exchange)
        elif path == "/metrics":
            await exchange.reply(await asyncio.to_thread(self._metrics.text), kind=TEXT)
        elif path == "/v1/models":
            await exchange.reply(encode(ModelsAnswer(list(self.models))))
        elif path == "/openapi.json":
            await exchange.reply(openapi.document(self.keys is not None))
        elif path == "/docs":
            await exchange.reply(openapi.page(), kind=HTML, headers=openapi.POLICY)
        else:
            await exchange.reply(live.page(), kind=HTML, headers=live.POLICY)

    async def _ready(self, exchange: Exchange) -> None:
        failing: dict[str, str] = {} if self.stopping else await self._failing()
        ready = not self.stopping and not failing
        status = "ready" if ready else "stopping" if self.stopping else "cannot write"
        answer = {"status": status, "failing": list(failing), "reasons": failing}
        await exchange.reply(encode(answer), 200 if ready else 503)

    async def _failing(self) -> dict[str, str]:
        """The models that cannot learn now, and why. Anyone may ask, so it is found out once a second at most."""
        async with self._looking:
            if time.monotonic() >= self._looked + _LOOK:
                found = {name: await hosted.not_ready() for name, hosted in self.models.items()}
                # The words of an error may name paths of this machine, which are not for everyone.
                self._found = {name: REASONS.get(why.kind, why.kind) for name, why in found.items() if why is not None}
                self._looked = time.monotonic()
            return self._found

    # ---- refusing

    async def _refuse(self, exchange: Exchange, error: Exception) -> None:
        refused = refused_of(error)
        if refused is None:
            log("fault", method=exchange.method, path=exchange.scope["path"][:200], error=repr(error)[:1000])
            message = "service: internal error; details are in the server log."
            refused = Refused(500, "fault", message)
        if exchange.sent:  # too late for a status: a stream says it in its last line
            exchange.status = refused.status
            await exchange.write(refused.body() + b"\n", more=False)
        else:
            await exchange.reply(refused.body(), refused.status, JSON, refused.headers)


def _not_found(path: str, method: str, methods: list[str]) -> Refused:
    if methods:
        message = refusal("request", f"the method of {path[:100]!r}", " or ".join(methods), method[:20])
        return Refused(405, "method", message, [(b"allow", ", ".join(methods).encode())])
    return Refused(404, "unknown_path", refusal("request", "the path", "one that /docs shows", repr(path)[:120]))
