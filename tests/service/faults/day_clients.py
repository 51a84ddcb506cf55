"""The clients of `day`: senders of labels, a probe of /readyz, slow streams, and invalid requests."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import numpy as np

from budgetron.client import Client, ServiceFailed, ServiceRefused, Unreachable

TRANSIENT_STATUSES = (401, 503, 507)  # statuses while keys change, the service restarts, or the disk is full
# Seconds. The service reuses an answer of /readyz for one second, and another second is to spare. During a long commit,
# it answers with the outcome of the commit before. `Probe.oldest_state` therefore adds the time that requests take.
READY_AGE = 2.0


@dataclass
class Item:
    """One labelled example, and its acknowledgement."""

    key: str
    row: list[float]
    label: int
    task: str
    id: str | None = None  # of a remembered prediction: the label is sent as feedback
    position: int | None = None
    margin: float | None = None


class Sender(threading.Thread):
    """Sends examples one by one until the day is finished, and repeats each until it is acknowledged.

    After the operator has restored a backup, `send_again` queues the examples that the backup lacks, as a producer does
    that replays its source.
    """

    def __init__(self, day, number):
        super().__init__(daemon=True)
        self.day, self.number = day, number
        self.rng = np.random.default_rng(number)
        self.items, self._queue = [], []
        self.error = None
        self.is_paused = threading.Event()
        self._client, self._token = None, None
        self.attempts = deque(maxlen=1000)  # [begin, end] of the last requests; end is None while one is in progress

    def run(self):
        try:
            while not self.day.finished.is_set():
                if self.day.paused.is_set():
                    self.is_paused.set()
                    time.sleep(0.005)
                    continue
                self.is_paused.clear()
                self.step()
            while self._queue:
                self.send(self._queue[0])
                self._queue.pop(0)
        except BaseException as error:
            self.error = error
        finally:
            self.is_paused.set()
            if self._client is not None:
                self._client.close()

    def step(self):
        if self._queue:
            self.send(self._queue[0])
            self._queue.pop(0)
            return
        self.items.append(self.new_item())
        self.send(self.items[-1])

    def new_item(self):
        row = self.rng.normal(size=3).round(6).tolist()
        label, task = int(row[0] + 0.3 * self.rng.normal() > 0), f"task {self.rng.integers(5)}"
        item = Item(f"{self.number}-{len(self.items)}", row, label, task)
        if len(self.items) % 3 == 2:
            item.id = self.until_answered(lambda client: client.predict(row, task, remember=True)).id
        return item

    def send(self, item):
        self.until_answered(lambda client: self.send_once(client, item))

    def send_once(self, client, item):
        self.attempts.append([time.monotonic(), None])
        try:
            if item.id is None:
                answer = client.learn(item.row, item.label, item.task, key=item.key)
                item.position, item.margin = answer.position, answer.margins[0]
            else:
                answer = client.feedback(item.id, item.label)
                item.position, item.margin = answer["position"], answer["margin"]
        finally:
            self.attempts[-1][1] = time.monotonic()

    def send_again(self, after):
        """Forget the acknowledgements of records after this position, and send their examples again."""
        for item in self.items:
            if item.position is not None and item.position > after:
                item.position = item.margin = None
                self._queue.append(item)

    def client(self):
        if self._token != self.day.token or self._client is None:
            if self._client is not None:
                self._client.close()
            self._token = self.day.token
            self._client = Client(self.day.url, self._token, retries=0, timeout=60)
        return self._client

    def until_answered(self, send_once):
        for _ in range(20_000):
            try:
                return send_once(self.client())
            except Unreachable:
                pass
            except (ServiceFailed, ServiceRefused) as failed:
                if failed.status not in TRANSIENT_STATUSES:
                    raise
            time.sleep(0.01)
        raise AssertionError("no service for a long time")


class Probe(Sender):
    """Requests /readyz, and checks every answer against the state of the service at that time."""

    def __init__(self, day, number):
        super().__init__(day, number)
        self.answers = {200: 0, 503: 0}
        self.n_checked_by_label = 0  # answers that were also checked by sending a label right after them

    def step(self):
        time.sleep(0.02)
        asked, key_changes = time.monotonic(), self.day.key_changes
        try:
            answer = httpx.get(self.day.url + "/readyz", timeout=60)
        except httpx.TransportError:
            return
        states = self.day.history.between(self.oldest_state(asked), time.monotonic())
        self.answers[answer.status_code] += 1
        allowed = {"ready", "changing"} if answer.status_code == 200 else {"full", "changing"}
        assert states & allowed, (answer.text, states)
        if states == {"full"}:
            assert answer.json()["reasons"]["default"].startswith("disk: "), answer.text
        if self._queue:
            item = self._queue.pop(0)
        else:
            item = self.new_item()
            self.items.append(item)
        try:
            self.send_once(self.client(), item)
            learned = True
        except (ServiceFailed, ServiceRefused, Unreachable):
            learned = False
            self._queue.append(item)
        states = self.day.history.between(self.oldest_state(asked), time.monotonic())
        same_key = key_changes % 2 == 0 and key_changes == self.day.key_changes
        if states in ({"ready"}, {"full"}) and same_key:
            assert learned == (answer.status_code == 200), (learned, answer.text)
            self.n_checked_by_label += 1

    def oldest_state(self, asked):
        """The time of the oldest state that an answer may report.

        A commit that is in progress takes at most as long as the request that waits for it.
        """
        since, now = asked - READY_AGE, time.monotonic()
        attempts = [attempt for sender in (*self.day.senders, self) for attempt in list(sender.attempts)]
        return since - max((end or now) - begin for begin, end in [(now, now), *attempts] if (end or now) >= since)

    def new_item(self):
        row = self.rng.normal(size=3).round(6).tolist()
        return Item(f"probe-{len(self.items)}", row, int(row[0] > 0), "task 0")


class SlowStream(threading.Thread):
    """Sends a stream with an idempotency key slowly, and repeats it until it is acknowledged.

    The first attempt sends the first `first_lines` lines, and disconnects in the middle of the line after them.
    """

    def __init__(self, day, number, n=12):
        super().__init__(daemon=True)
        self.day, self.number, self.error = day, number, None
        rng = np.random.default_rng(number)
        self.lines = [
            json.dumps({"features": rng.normal(size=3).round(4).tolist(), "label": "ab"[int(rng.integers(2))],
                        "task": f"t{i % 4}"}).encode() + b"\n" for i in range(n)]  # fmt: skip
        self.first_lines = int(rng.integers(1, n))

    def run(self):
        try:
            self._attempt(self.first_lines, pause=0.03)
            for _ in range(2000):
                if self._attempt(len(self.lines), pause=0.002):
                    return
                time.sleep(0.1)
            raise AssertionError("a stream was not acknowledged for a long time")
        except BaseException as error:
            self.error = error

    def _attempt(self, n, pause):
        """Send the first n lines. Returns whether all lines of the stream are acknowledged."""
        url = urlsplit(self.day.url)
        try:
            with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
                head = ("POST /v1/models/streams/learn HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                        "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n"
                        f"Authorization: Bearer {self.day.token}\r\n"
                        f"Idempotency-Key: stream-{self.number}\r\n\r\n")  # fmt: skip
                connection.sendall(head.encode())
                for line in self.lines[:n]:
                    connection.sendall(b"%x\r\n%s\r\n" % (len(line), line))
                    time.sleep(pause)
                if n < len(self.lines):
                    connection.sendall(b'7\r\n{"feat')  # disconnects in the middle of a line
                    return False
                connection.sendall(b"0\r\n\r\n")
                answer = b""
                while piece := connection.recv(65536):
                    answer += piece
                return b'"done":true' in answer and b'"refused":0' in answer
        except OSError:
            return False


def send_invalid_request(day, rng):
    """Send an invalid request. It must be answered with 4xx or not at all."""
    url = urlsplit(day.url)
    bearer = b"Authorization: Bearer %s\r\n" % day.token.encode()
    post = b"POST /v1/learn HTTP/1.1\r\nHost: localhost\r\n"
    kind = b"Content-Type: application/json\r\n"
    content = rng.choice([
        rng.randbytes(500), b"GET / HTTP/9.9\r\n\r\n", post + b"X-Large: " + b"a" * 10**6 + b"\r\n\r\n",
        post + kind + b"Content-Length: 2\r\n\r\n{}", post + bearer + bearer + kind + b"Content-Length: 2\r\n\r\n{}",
        post + bearer + kind + b"Content-Length: 99999999999\r\n\r\n{",
        post + bearer + kind + b"Content-Length: 1\r\n\r\n{",
        b"GET /v1/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /v1/backup HTTP/1.1\r\nHost: a\r\n"
        + bearer + b"\r\n", b"DELETE /v1/tasks/ann HTTP/1.1\r\nHost: localhost\r\n" + bearer + b"\r\n",
        _json(post + bearer + kind, {"features": [1, 2, 3], "label": "never", "task": "ann"}),
        _json(post + bearer + kind, {"features": [1e308, 1e308, 1e308], "label": 1, "task": "ann"}),
        _json(post + bearer + kind, {"examples": [{"features": [1], "label": 1}] * 500}),
        _json(post.replace(b"learn", b"feedback") + bearer + kind, {"id": "f" * 24, "label": 1}),
    ])  # fmt: skip
    with contextlib.suppress(OSError), socket.create_connection((url.hostname, url.port), timeout=60) as connection:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(65536)
        assert not answer or answer.startswith(b"HTTP/1.1 4"), (content[:200], answer)


def _json(head, body):
    content = json.dumps(body).encode()
    return head + b"Content-Length: %d\r\n\r\n" % len(content) + content
