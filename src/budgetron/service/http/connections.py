"""Limits on the number of connections, and on the time until the headers and the first bytes of the body have arrived.

uvicorn bounds the bytes of headers (`h11_max_incomplete_event_size`), but waits for ever for their end. With uvicorn's
own limit on connections, every request is answered with 503 once too many connections are open, health checks included.
uvicorn takes any `asyncio.Protocol` class as `http=`. The class here passes everything on to uvicorn's own protocol,
and adds only timeouts and a limit on the number of connections. It depends on no other part of uvicorn.

`http.app` reports when a request begins and ends, and `http.call` when its body begins. After that, `http.call`
enforces the timeouts of the body.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from budgetron.service.http.addresses import counted_name

RESERVED = 16  # connections beyond the limit; on these, only health checks get another answer than 503
_RESERVED_SECONDS = 5.0
_RESERVED_PER_ADDRESS = 2  # connections beyond the limit of an address; their requests get a 503 with the reason
_MAX_INTERVAL = 1.0  # seconds between two checks of the deadlines

Client = tuple[str, int]


class Connections:
    """All open connections of a server. `seconds` is the time for the headers and the first bytes of the body."""

    def __init__(
        self,
        limit: int,
        seconds: float,
        per_address: int = 0,
        is_trusted: Callable[[str], bool] = lambda address: False,
    ) -> None:
        self.limit, self.seconds, self.per_address = limit, seconds, per_address
        self._is_trusted = is_trusted  # whether an address is a proxy, whose connections belong to many clients
        self._open: dict[Client | int, Connection] = {}
        self._of_address: Counter[str] = Counter()

    def protocol_class(self, make_inner: Callable[..., Any]) -> type[asyncio.Protocol]:
        """The class for uvicorn's `http=`; `make_inner` is the protocol class that does the work."""

        class WatchedConnection(Connection):
            connections = self
            make_http = staticmethod(make_inner)

        return WatchedConnection

    def add(self, connection: Connection) -> bool:
        """Register a connection; False if there are too many."""
        if len(self._open) >= self.limit + RESERVED:
            return False
        address = connection.address
        too_many = 0 < self.per_address <= self._of_address[address] and not self._is_trusted(connection.peer)
        if too_many and self._of_address[address] >= self.per_address + _RESERVED_PER_ADDRESS:
            return False
        connection.is_reserved = too_many or len(self._open) >= self.limit
        self._open[connection.key] = connection
        self._of_address[address] += 1
        return True

    def remove(self, connection: Connection) -> None:
        if self._open.pop(connection.key, None) is not None:
            self._of_address[connection.address] -= 1
            if not self._of_address[connection.address]:
                del self._of_address[connection.address]

    def __len__(self) -> int:
        return len(self._open)

    # ---- called by the application, with the `client` of the ASGI scope

    def request_began(self, client: Client | None, has_body: bool) -> bool:
        """Note that the headers are complete. Returns False if this connection is only for health checks."""
        connection = self._open.get(client) if client else None
        if connection is None:
            return True
        if not has_body:
            connection.deadline = None
        return not connection.is_reserved

    def body_began(self, client: Client | None) -> None:
        """Note that a piece of the body has arrived, or that the handler enforces its own timeout from here on."""
        connection = self._open.get(client) if client else None
        if connection is not None:
            connection.deadline = None

    def request_ended(self, client: Client | None) -> None:
        """Note that the response is written. The deadline for the headers of the next request starts now."""
        connection = self._open.get(client) if client else None
        if connection is not None:
            connection.wait_for_headers()
            connection.forget_unread()

    def abort(self, client: Client | None) -> None:
        """Drop a connection at once. Closing it would wait until the client has read the whole response."""
        connection = self._open.get(client) if client else None
        if connection is not None:
            connection.transport.abort()

    async def watch(self) -> None:
        """Drop connections whose headers, or first bytes of a body, are overdue. Runs until it is cancelled.

        One pass over all connections per second is cheaper than one timer per request.
        """
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(_MAX_INTERVAL, self.seconds / 4))
            now = loop.time()
            for connection in list(self._open.values()):
                if connection.deadline is not None and now > connection.deadline:
                    connection.drop()


class Connection(asyncio.Protocol):
    """One connection: counted, timed, and otherwise passed on to the HTTP protocol."""

    connections: Connections
    make_http: Callable[..., Any]
    transport: asyncio.Transport

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._http: Any = None  # uvicorn's protocol; None for a connection beyond the limit
        self._loop = asyncio.get_running_loop()
        self.key: Client | int = id(self)
        self.peer, self.address = "unknown", "unknown"
        self.deadline: float | None = None  # for the headers and the start of the body; None while a request is handled
        self.is_reserved = False
        self._unread: float = float("inf")  # bytes of a response that the client had not read at the last deadline

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple) and len(peer) >= 2:
            self.key = (str(peer[0]), int(peer[1]))
            self.peer, self.address = self.key[0], counted_name(self.key[0])
        if not self.connections.add(self):
            transport.abort()
            return
        self.wait_for_headers()
        self._http = self.make_http(**self._options)
        self._http.connection_made(transport)

    @property
    def seconds(self) -> float:
        """The time between two deadlines."""
        return min(self.connections.seconds, _RESERVED_SECONDS) if self.is_reserved else self.connections.seconds

    def wait_for_headers(self) -> None:
        self.deadline = self._loop.time() + self.seconds

    def forget_unread(self) -> None:
        self._unread = float("inf")

    def drop(self) -> None:
        """Close the connection, unless the client is still reading a long response, at 1 kB/s or faster."""
        unread = self.transport.get_write_buffer_size()
        if 0 < unread <= self._unread - 1000 * self.seconds:
            self._unread = unread
            self.wait_for_headers()
        elif unread:
            self.transport.abort()  # `close` would wait until the client has read the rest of its response
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._http is not None:
            self._http.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._http is None else self._http.eof_received()

    def pause_writing(self) -> None:
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        if self._http is not None:
            self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.remove(self)
        if self._http is not None:
            self._http.connection_lost(exc)
