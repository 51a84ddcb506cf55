"""The server: uvicorn, configured through its public parameters, from the first connection to a clean stop.

The server listens before the models are recovered, so that health checks are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from budgetron.errors import input_error
from budgetron.service.http.app import create_app
from budgetron.service.http.connections import RESERVED
from budgetron.service.lifecycle import Service
from budgetron.service.logs import log, log_library_warnings
from budgetron.service.settings import ServiceSettings

_OTHER_FILES = 512  # for databases, libraries and threads, in addition to connections
_POLL = 0.05  # seconds between two checks whether the server has started, or has been told to stop


def serve(settings: ServiceSettings, make_models: Mapping[str, Callable[[], Any] | None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish running requests within the grace period.

    `make_models` maps the name of each model to a function that creates it, for a directory without a model; or to None
    if the directory must contain the model.
    """
    log_library_warnings()
    listener = _bound_socket(settings)
    _allow_open_files(settings.limits.connections + RESERVED + _OTHER_FILES)
    factory = asyncio.new_event_loop if sys.platform == "win32" else _uvloop_factory()
    with _modules_not_scanned(), _signals_after_stop() as signals, asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(settings, make_models, listener))
    if signal.SIGINT in signals:
        raise KeyboardInterrupt


async def _serve(
    settings: ServiceSettings, make_models: Mapping[str, Callable[[], Any] | None], listener: socket.socket
) -> None:
    service = Service(settings, make_models)
    server = uvicorn.Server(_config(service, settings))
    service.start()
    opening = asyncio.create_task(_open(service, server, _address(settings, listener)))
    watching = asyncio.create_task(_stop_service_with_server(server, service))
    try:
        await server.serve(sockets=[listener])
    finally:
        watching.cancel()
        try:
            await opening  # a running recovery cannot be interrupted
        finally:
            await service.close()
            if server.started:
                log("stopped")


def _config(service: Service, settings: ServiceSettings) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(service),
        # uvicorn's other protocol, httptools, accepts headers of any size.
        http=service.connections.protocol_class(H11Protocol),
        h11_max_incomplete_event_size=settings.limits.header_bytes,
        lifespan="off",
        ws="none",
        log_config=None,
        log_level="critical",  # uvicorn would log every invalid request; errors are in our own log
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=1024,
        timeout_keep_alive=max(1, round(settings.limits.seconds_to_send)),
        timeout_graceful_shutdown=max(1, round(settings.grace)),
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )


async def _open(service: Service, server: uvicorn.Server, address: str) -> None:
    """Recover the models while the server answers health checks. If a recovery fails, stop the server and raise."""
    try:
        while not server.started and not server.should_exit:
            await asyncio.sleep(_POLL)
        log("listening", address=address, pid=os.getpid())
        await service.open()
        _set_handlers_again()
        log("serving", address=address, pid=os.getpid())
    except BaseException:
        server.should_exit = True
        raise


async def _stop_service_with_server(server: uvicorn.Server, service: Service) -> None:
    """Stop the service when the server is told to stop, so that open streams end by themselves."""
    while not server.should_exit:
        await asyncio.sleep(_POLL)
    service.stop()


def _set_handlers_again() -> None:
    """Install the handlers of SIGINT and SIGTERM once more, as the handlers of the process.

    If a model has started Ray, the operating system calls a handler of Ray's C++ code instead, although Python still
    reports the earlier handlers. Ray's handler aborts the process three seconds after the signal. This is too early for
    running requests and for the last snapshot.
    """
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.getsignal(number))


@contextmanager
def _modules_not_scanned() -> Iterator[None]:
    """Exempt everything that exists now from garbage collection.

    These are about 130,000 objects of the imported modules. A full collection would scan them all, which takes 0.1 s,
    and no request is answered meanwhile. Models are loaded later, so a replaced model is still collected.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _signals_after_stop() -> Iterator[list[int]]:
    """Collect the signals that uvicorn raises again after it has stopped because of them.

    By default these signals would end the process before the models are closed.
    """
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {sig: signal.signal(sig, lambda sig, _: signals.append(sig)) for sig in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)


def _allow_open_files(n: int) -> None:
    """Raise the limit of open files, usually 1,024, if the system allows it: every connection takes one."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = n if hard == resource.RLIM_INFINITY else min(n, hard)
        if soft != resource.RLIM_INFINITY and soft < limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _bound_socket(settings: ServiceSettings) -> socket.socket:
    """The listening socket. It is bound before anything else, so that a port in use is reported at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        got = f"{settings.host}:{settings.port}: {error.strerror or error}"
        raise input_error("serve", "--host and --port", "a free address of this machine", got,
                          "Choose another port, or 0 for a free one.") from None  # fmt: skip
    bound.set_inheritable(True)
    return bound


def _address(settings: ServiceSettings, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "https" if settings.tls_certificate else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def _uvloop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
