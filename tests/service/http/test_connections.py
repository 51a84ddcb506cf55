"""Connections before a request is complete: large headers, many connections, and health checks in between."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
from urllib.parse import urlsplit

import httpx
import pytest
from running import limited_service, rss, running

from budgetron.service.http import api_keys
from budgetron.service.http.connections import RESERVED, Connections

REQUEST = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\n"


def connect(url):
    address = urlsplit(url)
    return socket.create_connection((address.hostname, address.port), timeout=300)


def send_headers(url, n_bytes, header_bytes):
    """Send `n_bytes` of headers, `header_bytes` each, until the connection is dropped.

    Returns the number of bytes sent, and the answer; empty if the connection was dropped without one.
    """
    headers = (b"X-%d: %s\r\n" % (number, b"a" * header_bytes) for number in range(n_bytes // header_bytes))
    with connect(url) as connection:
        n_sent = 0
        with contextlib.suppress(OSError):
            for content in itertools.chain([REQUEST], headers, [b"\r\n"]):
                for start in range(0, len(content), 65536):
                    connection.sendall(content[start : start + 65536])
                    n_sent += len(content[start : start + 65536])
        try:
            return n_sent, connection.recv(65536)
        except ConnectionResetError:
            return n_sent, b""


@pytest.mark.parametrize("header_bytes", [8_000, 26_000_000, 8], ids=["large", "huge", "tiny"])
def test_large_headers_are_rejected_cheaply_before_authentication(tmp_path, header_bytes):
    path = tmp_path / "keys"
    api_keys.add(path, "app", "predict")
    with running(tmp_path / "data", "--keys", path) as service:
        pid = service.process.pid
        send_headers(service.url, 100_000, 1000)
        memory, results = rss(pid), []
        threads = [
            threading.Thread(target=lambda: results.append(send_headers(service.url, 64_000_000, header_bytes)))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 3
        # The clients try to send more than 150 MB. The service must not read, store or parse most of it. The system's
        # buffers take some megabytes of each connection.
        for n_sent, answer in results:
            assert n_sent < 32_000_000 and (answer == b"" or answer.startswith(b"HTTP/1.1 400")), (n_sent, answer)
        assert rss(pid) - memory < 16 * 2**20
        with service.client() as client:
            assert client.get("/healthz").status_code == 200
            assert client.get("/v1/model", headers={"X-Large": "a" * 50_000}).status_code == 401


def test_idle_connections_do_not_keep_health_checks_out(tmp_path):
    with limited_service(tmp_path, connections=20) as url, contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connect(url))
        with httpx.Client(base_url=url, timeout=300) as client:
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").status_code == 200
            answer = client.get("/v1/model")
            assert answer.status_code == 503 and answer.json()["error"]["kind"] == "busy"
            assert answer.headers["connection"] == "close"
        for _ in range(RESERVED):
            stack.enter_context(connect(url))
        # A connection beyond the limit and the reserve is closed at once.
        with connect(url) as connection, contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_idle_connections_are_dropped_and_others_take_their_place(tmp_path):
    with limited_service(tmp_path, connections=5, seconds_to_send=1.0) as url, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(url)) for _ in range(5)]
        assert [connection.recv(1) for connection in idle] == [b""] * 5
        with httpx.Client(base_url=url, timeout=300) as client:
            assert client.get("/v1/model").status_code == 200


class FakeTransport(asyncio.Transport):
    """A transport with `n_unread` bytes that its client has not read."""

    def __init__(self, n_unread):
        super().__init__()
        self.n_unread, self.is_aborted = n_unread, False

    def get_write_buffer_size(self):
        return self.n_unread

    def abort(self):
        self.is_aborted = True


@pytest.mark.parametrize(("limit", "seconds"), [(10, 30), (0, 5)], ids=["within the limit", "reserved"])
@pytest.mark.parametrize(("rate", "is_aborted"), [(1000, False), (999, True)])
def test_a_response_must_be_read_at_one_kilobyte_per_second(limit, seconds, rate, is_aborted):
    async def read_until_deadline():
        connection, transport = Connections(limit, 30.0).protocol_class(asyncio.Protocol)(), FakeTransport(100_000)
        connection.connection_made(transport)
        connection.drop()  # at the first deadline after the response was written
        transport.n_unread -= rate * seconds
        connection.drop()
        return transport.is_aborted

    assert asyncio.run(read_until_deadline()) == is_aborted


def test_the_service_raises_its_limit_of_open_files_for_its_connections(tmp_path):
    with limited_service(tmp_path, connections=300) as url, contextlib.ExitStack() as stack:
        for _ in range(299):
            stack.enter_context(connect(url))
        with httpx.Client(base_url=url, timeout=300) as client:
            assert client.get("/v1/model").status_code == 200
