"""Requests that two parsers may read differently are rejected: repeated names in JSON, repeated headers, no Host."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import running

from budgetron.service.http import admin_wire, api_keys, wire
from budgetron.service.http.wire import StrictDecoder

JSON = {"Content-Type": "application/json"}
REPEATED_NAMES = {
    "a field": b'{"features":[1,2],"features":[2,1],"task":"ann"}',
    "of an example": b'{"examples":[{"features":[1,2],"task":"ann","task":"bob"}]}',
    "escaped": b'{"features":[1,2],"t\\u0061sk":"ann","task":"bob"}',
    "hidden by an escaped colon": b'{"features":[1,2],"task":"a\\u003ab","task":"a\\u003ab"}',
    "hidden by a colon": b'{"features":[1,2],"task":"a:b","task":"bob"}',
}


@pytest.mark.parametrize("name", REPEATED_NAMES)
def test_a_json_object_with_a_repeated_name_is_malformed(trained, name):
    answer = trained.post("/v1/predict", content=REPEATED_NAMES[name], headers=JSON)
    assert answer.status_code == 400 and "twice" in answer.json()["error"]["message"]


def test_a_repeated_name_in_a_line_or_in_features_is_malformed(trained):
    good = b'{"features":[1,2],"label":"ham","task":"ann"}'
    lines = good + b"\n" + good.replace(b'"task"', b'"label":"spam","task"')
    answers = trained.post("/v1/learn", content=lines, headers={"Content-Type": "application/x-ndjson"}).text
    first, second, last = map(json.loads, answers.splitlines())
    assert {first.get("line"), second.get("line")} == {2, None} and last["refused"] == 1
    features = b'{"features":{"a":1,"a":2},"label":"ham"}'
    assert trained.post("/v1/learn", content=features, headers=JSON).status_code == 400


def test_tasks_with_colons_and_escapes_are_accepted(trained):
    for task in ("user:17", 'say "a:b"', "\\:\\", "{:}", "a\nb"):
        answer = trained.post("/v1/predict", json={"features": [1, 2], "task": task})
        assert answer.status_code == 200, answer.text


# The shortest valid body of each kind of request: all fields that are not required are missing.
SHORTEST_BODIES = {
    "predict_request": b'{"features":[1]}', "learn_request": b'{"label":1}', "feedback_request": b'{"id":"a"}',
    "example_line": b'{"features":[1]}', "labelled_line": b'{"features":[1],"label":1}',
    "candidate_request": b'{"version":"a"}', "correction_request": b'{"position":1}', "limits_request": b'{"rate":1}',
    "operating_point_request": b'{"threshold":1}',
}  # fmt: skip


@pytest.mark.parametrize("module", [wire, admin_wire])
def test_missing_fields_do_not_hide_a_repeated_name(module):
    decoders = {name: value for name, value in vars(module).items() if isinstance(value, StrictDecoder)}
    for name, decoder in decoders.items():
        body = SHORTEST_BODIES[name]
        decoder.decode(body)
        with pytest.raises(ValueError, match="twice"):
            decoder.decode(b"{" + body[1:-1] + b"," + body[1:])


VALUES = st.recursive(
    st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.text(':\\"ab'),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(st.text(":\\ab", max_size=2), inner), max_size=4),
    max_leaves=8,
)


def as_json(value):
    """The JSON text of a value, and whether an object in it has a name twice. A list of pairs becomes an object."""
    if isinstance(value, list) and value and all(isinstance(pair, tuple) for pair in value):
        parts = [(json.dumps(name), *as_json(inner)) for name, inner in value]
        twice = len({name for name, _ in value}) < len(value) or any(inner for _, _, inner in parts)
        return "{" + ",".join(f"{name}:{text}" for name, text, _ in parts) + "}", twice
    if isinstance(value, list):
        parts = [as_json(inner) for inner in value]
        return "[" + ",".join(text for text, _ in parts) + "]", any(inner for _, inner in parts)
    return json.dumps(value), False


@given(VALUES)
@settings(max_examples=300, deadline=None)
def test_texts_are_rejected_if_and_only_if_a_name_is_repeated(value):
    text, twice = as_json(value)
    decoder = StrictDecoder(object)
    if twice:
        with pytest.raises(ValueError, match="twice"):
            decoder.decode(text.encode())
    else:
        assert decoder.decode(text.encode()) == json.loads(text)


@pytest.mark.parametrize("body", [
    {"features": [0.0, 1.0], "label": 0, "task": "user:17"}, {"features": {"a:b": 1.0, "c": "d:e"}, "label": False},
    {"examples": [{"features": [0.5], "label": 0, "weight": 0}] * 3, "key": "a:b", "classes": ["x:y", "z"]},
    {"features": [1.0], "label": "a", "task": None},
], ids=str)  # fmt: skip
def test_usual_bodies_are_recognised_without_a_second_parser(body, monkeypatch):
    calls = []
    monkeypatch.setattr(wire.json, "loads", lambda *_, **__: calls.append(1))
    content = json.dumps(body).encode()
    wire.learn_request.decode(content)
    # The decoder parses a body again if it has more colons than the decoded value needs. A field that is decoded as
    # None may be missing in the body, so it needs no colon. A body with a null has that colon, so it is parsed again.
    assert len(calls) == (body.get("task", "") is None)
    monkeypatch.undo()
    name = next(iter(body))
    with pytest.raises(ValueError, match="twice"):
        wire.learn_request.decode(content[:-1] + b"," + json.dumps({name: body[name]}).encode()[1:])


def status_of(url, *headers, version="1.1"):
    """Send a request with exactly these headers, and return the status."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=300) as connection:
        lines = [f"GET /v1/model HTTP/{version}", *headers, "Connection: close", "", ""]
        connection.sendall("\r\n".join(lines).encode())
        return int(connection.recv(65536).split()[1])


def test_repeated_and_missing_headers_are_rejected(tmp_path):
    path = tmp_path / "keys"
    key = f"Authorization: Bearer {api_keys.add(path, 'app', 'predict')}"
    with running(tmp_path / "data", "--keys", path) as service:
        assert status_of(service.url, "Host: localhost", key) == 200
        assert status_of(service.url, "Host: localhost", key, version="1.0") == 200
        for headers in ([key], ["Host: localhost", "Host: localhost", key], ["Host: localhost", key, key],
                        ["Host: localhost", "Authorization: Bearer x", key],
                        ["Host: localhost", key, "Content-Type: a", "Content-Type: b"],
                        ["Host: localhost", key, "Idempotency-Key: a", "Idempotency-Key: a"]):  # fmt: skip
            assert status_of(service.url, *headers) == 400, headers
            assert status_of(service.url, *headers, version="1.0") == 400, headers
        with socket.create_connection(urlsplit(service.url).netloc.split(":"), timeout=300) as connection:
            connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")  # as simple load balancers do
            assert b" 200 " in connection.recv(65536)
