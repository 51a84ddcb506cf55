"""Send NDJSON streams to a service: in one request, or piece by piece over a socket."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

SHARDED_MODEL = ("Budgetron budget=30 graph=disconnected", "--shards", 2)
NDJSON = {"Content-Type": "application/x-ndjson"}


def learn(client, lines, key=None):
    """Send lines to be learned in one request, and return the answers."""
    headers = NDJSON if key is None else {**NDJSON, "Idempotency-Key": key}
    answer = client.post("/v1/learn", content=b"".join(lines), headers=headers)
    return [json.loads(line) for line in answer.text.splitlines()]


def seen(client):
    """The number of examples that the model has learned."""
    return client.get("/v1/model").json()["seen"]


class Stream:
    """A stream with an idempotency key over a socket, sent piece by piece."""

    def __init__(self, url, key):
        address = urlsplit(url)
        self._connection = socket.create_connection((address.hostname, address.port), timeout=300)
        self._connection.sendall(
            b"POST /v1/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
            b"Idempotency-Key: %s\r\nTransfer-Encoding: chunked\r\n\r\n" % key.encode()
        )
        self.received = b""

    def send(self, lines):
        for line in lines:
            self._connection.sendall(b"%x\r\n%s\r\n" % (len(line), line))

    def read_until(self, text):
        while text not in self.received:
            piece = self._connection.recv(65536)
            assert piece, f"ended without {text!r}: {self.received[-500:]!r}"
            self.received += piece

    def close(self):
        self._connection.close()
