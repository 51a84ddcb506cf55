"""Malformed, huge, deeply nested, slow and random requests: no 5xx, no crash, no growth of memory."""

from __future__ import annotations

import contextlib
import json
import random
import select
import socket
import time
from urllib.parse import urlsplit

import pytest
from running import expect_error, limited_service, rss, running, with_longer_limits

from budgetron.service.settings import Limits

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
FIRST = {"examples": [{"features": [1.0, 2.0], "label": "spam", "task": "ann"},
                      {"features": [2.0, 1.0], "label": "ham", "task": "bob"}], "key": "first"}  # fmt: skip

BODIES = {
    "nothing": b"", "no JSON": b"{", "no object": b"[]", "null": b"null", "number": b"1e999",
    "not UTF-8": b'{"a":"\xff"}',
    "deep": b'{"features":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "deep objects": b'{"features":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
    "infinite": b'{"features":[1e400,1]}', "NaN": b'{"features":[NaN,1]}',
    "huge": b'{"features":[1e308,1e308],"task":"ann"}', "huge integer": b'{"features":[' + b"9" * 5000 + b",1]}",
    "huge task": b'{"features":[1,2],"task":' + b"9" * 400 + b"}",
    "long task": b'{"features":[1,2],"task":"' + b"x" * 5000 + b'"}', "empty features": b'{"features":[]}',
    "too many features": json.dumps({"features": [0.5] * 100_001}).encode(),
    "strings": b'{"features":["a","b"]}', "nested": b'{"features":[[1,2]]}', "dict in dense": b'{"features":{"a":1}}',
    "bad sparse": b'{"features":{"indices":[-1],"values":[1]}}',
    "uneven": b'{"features":{"indices":[0,1],"values":[1]}}',
    "unknown field": b'{"features":[1,2],"colour":"red"}', "both": b'{"features":[1,2],"examples":[]}',
    "no examples": b'{"examples":[]}', "mixed": b'{"examples":[{"features":[1,2]},{"features":{"a":1}}]}',
    "some tasks": b'{"examples":[{"features":[1,2]},{"features":[1,2],"task":"ann"}]}',
    "surrogate": b'{"features":[1,2],"task":"\\ud800"}', "NUL": b'{"features":[1,2],"task":"a\\u0000b"}',
}  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("hostile"), "RandomBudgetPerceptron budget=30 kernel=gaussian:0.5") as service:
        with service.client() as client:
            assert client.post("/v1/learn", json=FIRST).status_code == 200
        yield service
        assert service.events("fault") == []


@pytest.mark.parametrize("name", BODIES)
def test_a_bad_body_is_refused_with_a_message(client, name):
    before = client.get("/v1/snapshot").content
    for path in ("predict", "learn", "feedback"):
        answer = client.post(f"/v1/{path}", content=BODIES[name], headers=JSON)
        accepted = path == "predict" and name in ("NUL",)
        assert answer.status_code == 200 if accepted else 400 <= answer.status_code < 500, (path, answer.text)
        if not accepted:
            assert " must be " in answer.json()["error"]["message"]
    assert client.get("/v1/snapshot").content == before


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"features": [1, 2], "explain": "yes"}, 'request: "explain" must be true or false; got a string.'),
        ({"features": [1, 2], "task": ["ann"]}, 'request: "task" must be an integer or a string or null; got a list.'),
        ({"examples": [{"features": [1, 2], "weight": 1}]}, 'got the unknown field "weight" in "examples[0]".'),
        ({"examples": [{"task": "ann"}]}, 'request: "features" must be given in "examples[0]".'),
        ([1], "request: the body must be an object; got a list."),
    ],
)
def test_a_message_names_the_field_that_is_wrong(client, body, message):
    answer = client.post("/v1/predict", json=body)
    assert answer.status_code == 400 and message in answer.json()["error"]["message"], answer.text


@pytest.mark.parametrize(
    ("path", "body", "got"),
    [
        ("predict", {"examples": [], "task": "ann"}, '"task" beside "examples"'),
        ("predict", {"examples": [], "features": [1, 2], "offset": 0.5}, '"features" and "offset" beside "examples"'),
        ("learn", {"examples": [], "label": "ham", "weight": 2}, '"label" and "weight" beside "examples"'),
        ("feedback", {"feedback": [], "correct": True}, '"correct" beside "feedback"'),
    ],
)
def test_a_message_names_the_fields_beside_a_list(client, path, body, got):
    message = expect_error(client.post(f"/v1/{path}", json=body), 422, "refused")
    assert f"; got {got}. " in message


@pytest.mark.parametrize("path", ["predict", "learn"])
def test_only_too_many_examples_are_to_be_divided(client, path):
    example = {"features": [1, 2]} if path == "predict" else {"features": [1, 2], "label": "ham"}
    for examples in ([], [example] * (Limits().examples + 1)):
        message = expect_error(client.post(f"/v1/{path}", json={"examples": examples}), 422, "refused")
        assert ("Divide them among several requests" in message) == bool(examples), message


def test_invalid_labels_are_refused(client):
    before = client.get("/v1/snapshot").content
    for label in ("never", None, 1.5, [1], {"a": 1}, 10**30, "x" * 2000, ""):
        answer = client.post("/v1/learn", json={"features": [1, 2], "label": label, "task": "ann"})
        assert answer.status_code in (400, 422), (label, answer.text)
    assert client.get("/v1/snapshot").content == before


def test_bodies_and_lines_that_are_too_long_are_refused(client):
    answer = client.post("/v1/predict", content=b" " * (9 * 2**20), headers=JSON)
    assert answer.status_code == 413 and "bytes" in answer.json()["error"]["message"]

    def pieces():
        for _ in range(20):
            yield b" " * 2**20

    try:
        assert client.post("/v1/learn", content=pieces(), headers=JSON).status_code == 413
    except Exception as error:  # the service need not read on after it has rejected the request
        assert "Write" in type(error).__name__ or "Protocol" in type(error).__name__, error
    many = {"examples": [{"features": [1, 2]}] * 10_001}
    assert client.post("/v1/predict", json=many).status_code == 422
    long_line = client.post("/v1/learn", content=b'{"features":[' + b"1," * 600_000 + b"1]}", headers=NDJSON)
    assert "too_long" in long_line.text


def test_invented_methods_do_not_add_metrics(client):
    """Otherwise a client could fill the memory of the service with new labels of metrics."""
    assert client.request("INVENTED", "/nowhere").status_code == 404
    text = client.get("/metrics").text
    assert 'method="other",route="unknown",status="404"' in text and "INVENTED" not in text


def test_unknown_paths_methods_and_content_types_get_4xx(client):
    assert client.get("/v1/predict").status_code == 405
    assert client.get("/v1/predict").headers["allow"] == "POST"
    assert client.post("/healthz").status_code == 405
    for path in ("/v1", "/v1/", "/v1/nothing", "/v1/models/none/predict", "/v1/models/default", "/../etc", "/v2/x"):
        assert client.get(path).status_code in (404, 405), path
    for path in ("/v1/models/none/model", "/v1/models/%2e%2e/model"):
        assert client.get(path).status_code == 404
    assert client.post("/v1/predict", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert client.request("PATCH", "/v1/predict").status_code == 405
    other_host = client.get("/v1/model", headers={"Host": "evil.example"})  # as after DNS rebinding
    assert other_host.status_code == 421 and "localhost" in other_host.json()["error"]["message"]


def _connect(service):
    address = urlsplit(service.url)
    return socket.create_connection((address.hostname, address.port), timeout=300)


def test_bytes_that_are_not_http_do_no_harm(service, client):
    rng = random.Random(0)
    for content in (b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01" + bytes(200), b"GET /" + b"a" * 100_000,
                    b"POST /v1/learn HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
                    b"POST /v1/learn HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                    *(rng.randbytes(500) for _ in range(20))):  # fmt: skip
        with _connect(service) as connection:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            try:
                answer = connection.recv(65536)
            except ConnectionResetError:
                answer = b""
            assert not answer.startswith(b"HTTP/1.1 5"), content[:50]
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("n", [1_500, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.timeout(3600)
def test_random_requests_crash_nothing_and_use_no_more_memory(service, client, n):
    """Send random requests, most of them nearly valid, some cut or changed.

    Memory is measured twice: after a third of the requests, when one-time allocations have been made, and at the end.
    """
    rng = random.Random(1)
    client.get("/v1/model")
    rss_before = None
    for number in range(n):
        if number == n // 3:
            rss_before = rss(service.process.pid)
        method, path, body, headers = _random_request(rng)
        answer = client.request(method, path, content=body, headers=headers)
        assert answer.status_code < 500, (method, path, body[:300], answer.text)
    assert rss(service.process.pid) - rss_before < 30 * 2**20
    assert client.get("/readyz").status_code == 200


def _random_request(rng):
    values = [0, 1, -1, 1.5, 1e308, -0.0, True, None, "", "spam", "ham", "é\u0000", [], [1, 2], {}, {"a": 1}, 2**64]
    names = ["features", "label", "task", "examples", "key", "weight", "classes", "id", "feedback", "remember", "x"]
    body = {rng.choice(names): rng.choice(values) for _ in range(rng.randint(0, 4))}
    if rng.random() < 0.6:
        body |= {"features": [rng.choice([0.5, 1, 2, -3, 1e10]) for _ in range(rng.choice([1, 2, 2, 2, 3]))]}
    if rng.random() < 0.4:
        body |= {"label": rng.choice(["spam", "ham"]), "task": rng.choice(["ann", "bob", 7])}
    content = json.dumps(body).encode()
    if rng.random() < 0.2:
        start = rng.randrange(len(content) + 1)
        content = content[:start] + rng.randbytes(rng.randint(0, 3)) + content[start + rng.randint(0, 5) :]
    paths = ["predict", "learn", "feedback", "model", "live", "snapshot", "tasks/ann", "tasks/%22", "tasks/-7"]
    path = rng.choice(paths)
    prefix = rng.choice(["/v1/", "/v1/", "/v1/models/default/", "/v1/models/x/"])
    method = rng.choice(["POST", "POST", "POST", "GET", "PUT", "HEAD"])
    headers = rng.choice([JSON, JSON, JSON, NDJSON, {}])
    return method, prefix + path, content, headers


HEAD = b"POST /v1/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_a_body_with_short_pauses_is_read_to_its_end(tmp_path):
    def send(max_pause):
        with (
            limited_service(tmp_path / f"data-{max_pause}", seconds_to_send=max_pause) as url,
            socket.create_connection(("127.0.0.1", urlsplit(url).port), timeout=300) as connection,
        ):
            connection.sendall(HEAD + b"Content-Length: 200000\r\n\r\n")
            for _ in range(10):
                connection.sendall(b" " * 20_000)  # more than the lowest accepted rate, 1,000 bytes per second
                time.sleep(max_pause / 4)
            assert connection.recv(65536).startswith(b"HTTP/1.1 400")  # it is not JSON

    with_longer_limits(send)


def test_a_stream_that_pauses_too_long_is_told_the_limit_that_it_exceeded(tmp_path):
    """A stream may be slow, so its error must not demand a rate, as that of a slow body does."""

    def pause(limit):
        with (
            limited_service(tmp_path / f"data-{limit}", seconds_to_send=limit) as url,
            socket.create_connection(("127.0.0.1", urlsplit(url).port), timeout=300) as connection,
        ):
            connection.sendall(HEAD.replace(b"/json", b"/x-ndjson") + b"Transfer-Encoding: chunked\r\n\r\n")
            line = b'{"features": [1.0, 2.0]}\n'
            connection.sendall(b"%x\r\n%s\r\n" % (len(line), line))
            with connection.makefile("rb") as answer:
                errors = [json.loads(line)["error"] for line in answer if b'"too_slow"' in line]
            assert len(errors) == 1
            assert f"without a pause of more than {limit:g} seconds" in errors[0]["message"]
            assert "bytes per second" not in errors[0]["message"]

    with_longer_limits(pause)


def test_slow_clients_are_dropped(tmp_path):
    """The time limit applies to unfinished headers, to an unfinished body, and to a response that is not read.

    The checks fail if this process pauses for longer than the limit, so longer limits are tried on a busy machine.
    """

    def send_slowly(limit):
        folder = tmp_path / f"data-{limit}"
        with limited_service(folder, seconds_to_send=limit, seconds_to_read=limit) as url:
            port = urlsplit(url).port
            _check_that_unfinished_requests_are_dropped(port)
            _check_that_a_body_with_few_bytes_per_second_is_dropped(port, limit)
            _check_that_a_client_that_does_not_read_is_dropped(port)

    with_longer_limits(send_slowly)


def _check_that_unfinished_requests_are_dropped(port):
    unfinished = (
        (b"", b""), (b"POST /v1/learn HT", b""), (HEAD, b""),
        (HEAD + b"Content-Length: 100\r\n\r\n{", b"HTTP/1.1 408"),
        # This client sends a megabyte at once, then nothing.
        (HEAD + b"Content-Length: 5000000\r\n\r\n" + b" " * 2**20, b"HTTP/1.1 408"),
    )  # fmt: skip
    with contextlib.ExitStack() as connections:  # all at the same time, because each is open until the limit
        sockets = [connections.enter_context(socket.create_connection(("127.0.0.1", port), timeout=300))
                 for _ in unfinished]  # fmt: skip
        for connection, (content, _) in zip(sockets, unfinished, strict=True):
            connection.sendall(content)
        for connection, (_, expected) in zip(sockets, unfinished, strict=True):
            assert connection.recv(65536).startswith(expected) and (expected or connection.recv(1) == b"")


def _check_that_a_body_with_few_bytes_per_second_is_dropped(port, limit):
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.sendall(HEAD + b"Content-Length: 10000\r\n\r\n")
        answer = b""
        for _ in range(20):
            if select.select([connection], [], [], limit / 4)[0]:
                answer = connection.recv(65536)
                break
            connection.sendall(b" ")
        assert answer.startswith(b"HTTP/1.1 408")


def _check_that_a_client_that_does_not_read_is_dropped(port):
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(HEAD.replace(b"learn", b"predict").replace(b"/json", b"/x-ndjson")
                     + b"Transfer-Encoding: chunked\r\n\r\n")  # fmt: skip
        lines = b'{"features":"rubbish that is answered at length"}\n' * 2000
        try:
            for _ in range(200):
                connection.sendall(b"%x\r\n%s\r\n" % (len(lines), lines))
            dropped = False
        except (BrokenPipeError, ConnectionResetError, TimeoutError) as error:
            dropped = not isinstance(error, TimeoutError)
        assert dropped
