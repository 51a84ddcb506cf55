"""Notice at once that the process of a worker has ended, by a TCP connection that it holds to the coordinator.

The coordinator is the process of the `ShardedModel`. Ray reports a killed actor after one to four seconds. The system
closes the connections of a process the moment it ends. So if the connection ends, the process has ended, or the network
between worker and coordinator was cut. `RayPool` replaces the worker in both cases. If the process still runs, the
shards' logs reject its old epoch, and it cannot write.

A worker sends its token, 32 random bytes, and neither side sends anything else. If no connection can be made, or a node
loses power without closing its connections, a lost worker is noticed by Ray's own report, or when a call times out.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field

TOKEN_BYTES = 32
TOKEN_TIMEOUT = 5.0  # seconds that a connection has to send its token
MAX_WITHOUT_TOKEN = 64  # connections at a time, so that other programs cannot use up the coordinator's file descriptors
RETRY_INTERVAL = 1.0  # seconds until a worker that has no connection tries again

_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Link:
    """The connections of one actor: how many are open, and how many have ended.

    Ray may restart an actor, so one actor can have several processes, one after the other.
    """

    token: bytes = field(default_factory=lambda: secrets.token_bytes(TOKEN_BYTES), repr=False)
    n_open: int = 0
    n_ended: int = 0
    n_survived: int = 0  # `n_ended` when the actor was last known to be alive; a later end means a lost process

    def note_opened(self) -> None:
        self.n_open += 1
        self.n_survived = self.n_ended

    def note_ended(self) -> None:
        self.n_open -= 1
        self.n_ended += 1
        if self.n_open:  # a new process has connected before the end of the old connection was noticed
            self.n_survived = self.n_ended


class Links:
    """Accepts the connections of workers, in its own thread. `address` is None if none can be accepted."""

    def __init__(self, host: str) -> None:
        self.address: tuple[str, int] | None = None
        self._links: dict[bytes, Link] = {}
        self._n_without_token = 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            server = socket.create_server((host, 0), family=family, backlog=128)
        except OSError as error:
            _logger.warning("Lost workers are noticed later: the coordinator cannot listen on %s: %s", host, error)
            return
        self.address = (host, server.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=[server], name="budgetron-links", daemon=True)
        self._thread.start()

    def new(self) -> Link:
        """The link of a new actor, whose worker must call `hold_connection` with its token."""
        link = Link()
        self._links[link.token] = link
        return link

    def forget(self, link: Link) -> None:
        """Accept no more connections for this actor."""
        self._links.pop(link.token, None)

    def close(self) -> None:
        """Close all connections and end the thread."""
        if self.address is not None:
            self.address = None
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def _run(self, server: socket.socket) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # cancels `_hold` of each connection at the end
            runner.run(self._accept_until_stopped(server))

    async def _accept_until_stopped(self, server: socket.socket) -> None:
        accepting = await asyncio.start_server(self._hold, sock=server, limit=TOKEN_BYTES)
        await self._stopping.wait()
        accepting.close()

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # `close` cancels this coroutine. Without `suppress`, asyncio of Python 3.11 would print the error.
        with closing(writer), suppress(asyncio.CancelledError):
            link = await self._link_of(reader)
            if link is not None:
                link.note_opened()
                try:
                    with suppress(OSError):  # a reset connection has ended too
                        await reader.read(1)
                finally:
                    link.note_ended()

    async def _link_of(self, reader: asyncio.StreamReader) -> Link | None:
        """The link whose token the connection sends; None if it sends a wrong token, or no token in time."""
        if self._n_without_token >= MAX_WITHOUT_TOKEN:
            return None
        self._n_without_token += 1
        try:
            token = await asyncio.wait_for(reader.readexactly(TOKEN_BYTES), TOKEN_TIMEOUT)
        except (OSError, EOFError, TimeoutError):
            return None
        finally:
            self._n_without_token -= 1
        return self._links.get(token)


def hold_connection(address: tuple[str, int], token: bytes) -> None:
    """Hold a connection to the coordinator until this process ends, in a daemon thread. Called in the worker."""
    threading.Thread(target=_hold_forever, args=[address, token], name="budgetron-link", daemon=True).start()


def _hold_forever(address: tuple[str, int], token: bytes) -> None:
    while True:
        with suppress(OSError), socket.create_connection(address, timeout=TOKEN_TIMEOUT) as connection:
            connection.settimeout(None)
            connection.sendall(token)
            connection.recv(1)  # the coordinator sends nothing, so this returns when it closes the connection
        time.sleep(RETRY_INTERVAL)
