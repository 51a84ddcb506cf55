"""The Starlette application: routes each request to its handler, authorizes it, and turns exceptions into responses.

    connections → Observe (metrics, log, slow readers) → Starlette's routing → Operation endpoint → handler → Response

Exceptions become responses in one place, `problems.problem_of`.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from typing import Any

import h11
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from budgetron.errors import error_message
from budgetron.service import live
from budgetron.service.http import docs_page, openapi
from budgetron.service.http.api_keys import ANONYMOUS, ApiKey, KeysUnreadable
from budgetron.service.http.authorization import KEY, authorize, read_headers, token_of
from budgetron.service.http.call import RECEIVED, Call, ServiceCall, header, too_many
from budgetron.service.http.operations import (
    DEFAULT,
    MODEL_OPERATIONS,
    NDJSON,
    PROBES,
    SERVICE_OPERATIONS,
    SERVICE_PATHS,
    Operation,
)
from budgetron.service.http.problems import CLOSE, REASONS, RETRY, STATUSES, HTTPProblem, fault, problem_of
from budgetron.service.http.wire import JSON, ModelsAnswer, encode, reply
from budgetron.service.lifecycle import Service
from budgetron.service.logs import log
from budgetron.service.monitoring.metrics import TEXT

HTML = "text/html; charset=utf-8"
# In the ASGI scope:
ROUTE = "budgetron.route"  # the name of the path in metrics and the log
ADDRESS = "budgetron.address"  # the address of the client
STREAM = "budgetron.stream"  # whether the request is a stream, which lasts as long as its client wants
LIMITS = "/v1/limits"
_WITH_BODY = ("POST", "PUT")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})  # all others are counted together, as "other"
_LARGE = 2**16  # bytes; sending a larger response may have to wait until the client reads


def create_app(service: Service) -> Starlette:
    """Create the application of a service. The caller opens and closes the service."""
    routes = []
    for prefix in ("/v1/", "/v1/models/{model}/"):
        for path, operations in _by_path(MODEL_OPERATIONS).items():
            # A task may contain a slash.
            pattern = prefix + path.replace("{task}", "{task:path}")
            routes.append(Route(pattern, ModelEndpoint(service, path, operations)))
    for path, operations in _by_path(SERVICE_OPERATIONS).items():
        routes.append(Route(f"/v1/{path}", ServiceEndpoint(service, path, operations)))
    routes += [Route(path, ServicePathEndpoint(service, path, role)) for path, (role, _) in SERVICE_PATHS.items()]
    errors = [*(kind for kind, _ in STATUSES if issubclass(kind, Exception)), HTTPProblem, OSError]
    errors += [HTTPException, UnicodeDecodeError, RecursionError, msgspec.DecodeError]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Observe, service=service)],
        exception_handlers={**dict.fromkeys(errors, _answer_error), Exception: _answer_fault},
    )
    app.router.redirect_slashes = False
    return app


def _by_path(operations: list[Operation]) -> dict[str, dict[str, Operation]]:
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    return by_path


async def _answer_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return _unknown_path(request).response()
    return (problem_of(error) or fault()).response()


async def _answer_fault(request: Request, error: Exception) -> Response:
    return fault().response()


class Observe:
    """Middleware around all requests: metrics, the log, and a timeout for clients that do not read their response.

    It rejects requests that exceed the rate of their address, use a reserved connection, lack the header Host, or
    repeat a header that may occur only once.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._seconds_to_read = service.settings.limits.seconds_to_read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        service, client = self._service, scope.get("client")
        began, status = time.perf_counter(), 0
        is_admitted = service.connections.request_began(client, scope["method"] in _WITH_BODY)

        async def observed_send(message: Message) -> None:
            nonlocal status
            try:
                if message["type"] == "http.response.start":
                    status = message["status"]
                    await send(message)
                elif message.get("more_body") or len(message.get("body", b"")) > _LARGE:
                    await self._send_in_time(message, send, client)
                else:
                    await send(message)
            except h11.LocalProtocolError:  # the request was not valid HTTP, and uvicorn has already said so
                raise ClientDisconnect from None

        try:
            problem = None
            if scope["path"] not in PROBES:  # health checks are always answered
                problem = self._problem(scope) if is_admitted else _too_many_connections()
            await (self._app if problem is None else problem.response())(scope, receive, observed_send)
        except ClientDisconnect:
            status = status or 499
        except Exception as error:
            status = 500
            log("fault", method=scope["method"], path=scope["path"][:200], error=repr(error)[:1000])
            raise
        finally:
            service.connections.request_ended(client)
            self._count(scope, status, time.perf_counter() - began)

    def _problem(self, scope: Scope) -> HTTPProblem | None:
        """Count a request against the rate of its address. Returns why it must be rejected; None if it is accepted."""
        scope[ADDRESS] = address = self._service.addresses.of(scope)
        problem = read_headers(scope)
        if (seconds := self._service.rates.admit(address)) and not self._may_set_limits(scope):
            return too_many(address, seconds)
        return problem

    def _may_set_limits(self, scope: Scope) -> bool:
        """Whether an administrator requests /v1/limits. No rate applies then, so that a wrong limit can be undone."""
        if scope["path"] != LIMITS:
            return False
        keys = self._service.api_keys
        try:
            key = ANONYMOUS if keys is None else keys.find(token_of(scope))
        except KeysUnreadable:
            return False
        return key is not None and key.may("admin")

    async def _send_in_time(self, message: Message, send: Send, client: Any) -> None:
        try:
            async with asyncio.timeout(self._seconds_to_read):
                await send(message)
        except TimeoutError:
            self._service.connections.abort(client)
            raise ClientDisconnect from None

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route, method = scope.get(ROUTE, "unknown"), scope["method"]
        if status == 405 or method not in _METHODS:  # clients can invent methods; each would add a label to the metrics
            method = "other"
        self._service.metrics.answered(route, method, status, seconds)
        if self._service.settings.log_requests:
            log("request", method=method, route=route, status=status, key=scope.get(KEY, ANONYMOUS.name),
                address=scope.get(ADDRESS), milliseconds=round(1000 * seconds, 2))  # fmt: skip
        received, model = scope.get(RECEIVED), scope.get("path_params", {}).get("model", DEFAULT)
        if self._service.traces is not None:
            self._service.traces.note(scope, route, status, seconds, received, model=model, key=scope.get(KEY))
        if seconds >= self._service.slow_log.seconds and not scope.get(STREAM):
            self._service.slow_log.note(
                seconds, method=method, route=route, model=model,
                status=status, key=scope.get(KEY, ANONYMOUS.name), address=scope.get(ADDRESS),
                # Milliseconds since the body was complete. Before that, the service waited for the client.
                of_service=None if received is None else round(1000 * (time.perf_counter() - received), 2),
            )  # fmt: skip


class Endpoint(ABC):
    """One path below /v1.

    Endpoints are objects, because Starlette passes requests of all HTTP methods to an object. To a function it passes
    only the methods that the route lists.
    """

    def __init__(self, service: Service, path: str, operations: dict[str, Operation]) -> None:
        self._service, self._path, self._operations = service, path, operations
        self._audited = {method for method, operation in operations.items() if operation.is_audited}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        operation = self._operations.get(request.method)
        if operation is None:
            raise _wrong_method(request, self._operations)
        scope[ROUTE] = self._path
        response = await self._respond(request, operation)
        await response(scope, receive, send)

    @abstractmethod
    async def _respond(self, request: Request, operation: Operation) -> Response:
        """Authorize the request and call the handler of its operation."""

    def _fields(self, request: Request, key: ApiKey) -> dict[str, Any]:
        """The fields that every call has."""
        service = self._service
        return {
            "request": request, "api_key": key, "address": request.scope.get(ADDRESS, ""), "rates": service.rates,
            "limits": service.settings.limits, "connections": service.connections, "is_stopping": service.is_stopping,
            "audit": service.audit,
        }  # fmt: skip


class ModelEndpoint(Endpoint):
    """One path below /v1 that belongs to a model."""

    async def _respond(self, request: Request, operation: Operation) -> Response:
        service, name, scope = self._service, request.path_params.get("model", DEFAULT), request.scope
        key = authorize(service, request, operation.role)
        if not key.may_use(name):
            models = ", ".join(key.models or ())
            message = f"API key: {key.name!r} may not use the model {name[:80]!r}, only {models}."
            raise HTTPProblem(403, "not_allowed", message)
        model = service.models.get(name)
        if model is None:
            raise _no_model(service, name)
        call = Call(model=model, **self._fields(request, key))
        call.charge_request()
        handler = operation.handler
        if operation.request is not None:
            content_type = _content_type(request)
            if content_type == NDJSON and operation.stream_handler is not None:
                handler = operation.stream_handler
            elif content_type != JSON:
                raise _wrong_content_type(operation, content_type)
        scope[STREAM] = handler is None or handler is operation.stream_handler
        if operation.method in self._audited and handler is not None:
            action, required = f"{operation.method} {operation.path}", operation.method != "GET"
            async with call.record_action(action, name, required):
                return await handler(call)
        return await (service.events.subscribe(call) if handler is None else handler(call))


class ServiceEndpoint(Endpoint):
    """One path below /v1 that concerns the service and not one model."""

    async def _respond(self, request: Request, operation: Operation) -> Response:
        service = self._service
        key = authorize(service, request, operation.role)
        if key.models is not None:
            models = ", ".join(key.models)
            message = f"API key: {key.name!r} may use {models} only, but this path concerns all models."
            raise HTTPProblem(403, "not_allowed", message)
        call = ServiceCall(**self._fields(request, key))
        if request.url.path != LIMITS:
            call.charge_request()
        content_type = _content_type(request)
        if operation.request is not None and content_type != JSON:
            raise _wrong_content_type(operation, content_type)
        assert operation.handler is not None
        if operation.method not in self._audited:
            return await operation.handler(service, call)
        async with call.record_action(f"{operation.method} {operation.path}", None):
            return await operation.handler(service, call)


class ServicePathEndpoint:
    """A page, a probe, or another path of `SERVICE_PATHS`."""

    def __init__(self, service: Service, path: str, role: str | None) -> None:
        self._service, self._path, self._role = service, path, role

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        scope[ROUTE] = self._path
        if request.method not in ("GET", "HEAD"):
            raise _wrong_method(request, ("GET", "HEAD"))
        if self._role is not None:
            authorize(self._service, request, self._role)
        response = await self._respond()
        await response(scope, receive, send)

    async def _respond(self) -> Response:
        service = self._service
        match self._path:
            case "/healthz":
                return reply(b'{"status":"alive"}')
            case "/readyz":
                return await self._readiness()
            case "/metrics":
                return reply(await asyncio.to_thread(service.metrics.text), media_type=TEXT)
            case "/v1/models":
                return reply(encode(ModelsAnswer(service.names)))
            case "/openapi.json":
                return reply(openapi.document(service.api_keys is not None))
            case "/docs":
                return reply(docs_page.page(), media_type=HTML, headers=docs_page.POLICY)
            case _:
                return reply(live.page(), media_type=HTML, headers=live.POLICY)

    async def _readiness(self) -> Response:
        stopping = self._service.stopping
        failing = {} if stopping else await self._service.failing()
        ready = not stopping and not failing
        recovering = len(self._service.models) < len(self._service.names)
        status = "ready" if ready else "stopping" if stopping else "recovering" if recovering else "cannot write"
        if failing and all(reason == REASONS["standby"] for reason in failing.values()):
            status = "standby"
        answer = {"status": status, "failing": list(failing), "reasons": failing}
        return reply(encode(answer), 200 if ready else 503)


def _content_type(request: Request) -> str:
    """The media type of the body, without parameters such as a charset."""
    return header(request.scope, b"content-type").partition(";")[0].strip().lower()


# ---- requests that no handler sees


def _unknown_path(request: Request) -> HTTPProblem:
    path = repr(request.url.path)[:120]
    return HTTPProblem(404, "unknown_path", f"request: there is no path {path}. All paths are listed at /docs.")


def _wrong_method(request: Request, methods: Any) -> HTTPProblem:
    message = error_message(
        "request", f"the method of {request.url.path[:100]!r}", " or ".join(methods), request.method[:20]
    )
    return HTTPProblem(405, "method", message, {"allow": ", ".join(methods)})


def _wrong_content_type(operation: Operation, content_type: str) -> HTTPProblem:
    accepted = JSON + (f" or {NDJSON}" if operation.stream_handler is not None else "")
    remedy = "With curl, add -H Content-Type:application/json."
    message = error_message("request", "Content-Type", accepted, repr(content_type)[:80], remedy)
    return HTTPProblem(415, "content_type", message)


def _no_model(service: Service, name: str) -> HTTPProblem:
    if name in service.names:
        message = f"service: the model {name!r} is being recovered from its log. Retry in a second."
        return HTTPProblem(503, "recovering", message, RETRY)
    accepted = f"one of {', '.join(service.names)}"
    return HTTPProblem(
        404, "unknown_model", error_message("request", "the name of the model", accepted, repr(name)[:80])
    )


def _too_many_connections() -> HTTPProblem:
    message = (
        "service: too many connections are open, in all or from this address. Only /healthz and /readyz are answered. "
        "Retry in a second."
    )
    return HTTPProblem(503, "busy", message, RETRY | CLOSE)
