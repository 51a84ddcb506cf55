"""Generate HTTP requests from one thread over several connections, each of which has one open request at a time.

The bytes are prepared in advance, so that the generator costs less than the service that it measures. It connects to
this machine only. `run.py` uses it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Measured:
    """The number of requests, the seconds in which they were answered, and the duration of each in milliseconds."""

    requests: int
    seconds: float
    milliseconds: np.ndarray

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    def percentile(self, share: float) -> float:
        return float(np.percentile(self.milliseconds, share))


class Connection(asyncio.Protocol):
    """Sends the same request again after each answer. With `turns`, it waits for an item of that queue before each."""

    def __init__(self, request: bytes, times: list[float], turns: asyncio.Queue[None] | None) -> None:
        self._request, self._times, self._turns = request, times, turns
        self._sent, self._missing_bytes, self._head = 0.0, 0, b""
        self._running = True
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        if not self._running:
            return
        if self._turns is None:
            self._send()
        else:
            self._task = asyncio.ensure_future(self._in_turn(self._turns))

    async def _in_turn(self, turns: asyncio.Queue[None]) -> None:
        await turns.get()
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if self._missing_bytes == 0:
            self._head += data
            head, separator, body = self._head.partition(b"\r\n\r\n")
            if not separator:
                return
            if not head.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"the service rejected the request: {(head + body)[:500]!r}")
            start = head.lower().index(b"content-length:") + 15
            self._missing_bytes = int(head[start:].split(b"\r\n")[0]) - len(body)
            self._head = b""
        else:
            self._missing_bytes -= len(data)
        if self._missing_bytes == 0:
            self._times.append(time.perf_counter() - self._sent)
            self._next()

    def stop(self) -> None:
        self._running = False
        if self._task is not None:
            self._task.cancel()
        self._transport.close()


def measured(port: int, request: bytes, seconds: float, connections: int = 32, rate: float | None = None) -> Measured:
    """Send requests as fast as they are answered, or `rate` per second."""
    return asyncio.run(_measured(port, request, seconds, connections, rate))


async def _measured(port: int, request: bytes, seconds: float, connections: int, rate: float | None) -> Measured:
    loop = asyncio.get_running_loop()
    times: list[float] = []
    turns: asyncio.Queue[None] | None = None if rate is None else asyncio.Queue()
    opened = [
        (await loop.create_connection(lambda: Connection(request, times, turns), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    begin = time.perf_counter()
    n_sent = 0
    while (passed := time.perf_counter() - begin) < seconds:
        if turns is not None and rate is not None:
            while n_sent < passed * rate:
                turns.put_nowait(None)
                n_sent += 1
        await asyncio.sleep(0.001 if rate is not None else 0.05)
    took = time.perf_counter() - begin
    n = len(times)
    for connection in opened:
        connection.stop()
    return Measured(n, took, 1000 * np.array(times[:n]))


def post(path: str, body: bytes, kind: str = "application/json") -> bytes:
    """The bytes of a POST."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
