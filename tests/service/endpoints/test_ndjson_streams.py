"""NDJSON streams over HTTP: one answer per block of lines, invalid lines, and keys."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit


def test_invalid_lines_of_a_stream_are_reported_and_the_others_learned(trained):
    example = {"features": [0.2, 0.4], "label": "spam", "task": "cyd"}
    lines = [json.dumps(example)] * 700
    lines[300] = "rubbish"
    lines[400] = json.dumps({**example, "features": [1, 2, 3]})
    seen = trained.get("/v1/model").json()["seen"]
    headers = {"Content-Type": "application/x-ndjson"}
    answer = trained.post("/v1/learn", content="\n".join(lines), headers=headers)
    answers = [json.loads(line) for line in answer.text.splitlines()]
    assert [answer["line"] for answer in answers if "error" in answer] == [301, 401]
    assert answers[-1] == {"done": True, "lines": 700, "refused": 2}
    assert sum(answer.get("learned", 0) for answer in answers) == 698 == trained.get("/v1/model").json()["seen"] - seen
    lines = '{"features":[1,2],"task":"ann"}\n\n{"features":[1]}\n'
    predicted = trained.post("/v1/predict", content=lines, headers=headers)
    first, second, end = map(json.loads, predicted.text.splitlines())
    assert first["margin"] == trained.post("/v1/predict", json={"features": [1, 2], "task": "ann"}).json()["margin"]
    assert second["line"] == 2 and end == {"done": True, "lines": 2, "refused": 1}


def test_a_longer_stream_with_the_same_key_learns_only_the_new_lines(trained):
    lines = "\n".join(json.dumps({"features": [0.2, i / 1000], "label": "ham", "task": "dan"}) for i in range(1100))
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "stream 1"}
    cut = lines[: lines.index("\n", 60_000)]
    before = trained.get("/v1/model").json()["seen"]
    first = [json.loads(line) for line in trained.post("/v1/learn", content=cut, headers=headers).text.splitlines()]
    n = first[-1]["lines"]
    assert n % 512 and trained.get("/v1/model").json()["seen"] == before + n  # the last block has fewer than 512 lines
    again = [json.loads(line) for line in trained.post("/v1/learn", content=lines, headers=headers).text.splitlines()]
    assert again[0]["repeated"] and again[0]["lines"][0] == 1
    assert again[-1] == {"done": True, "lines": 1100, "refused": 0}
    assert trained.get("/v1/model").json()["seen"] == before + 1100


def test_responses_arrive_while_the_stream_continues(trained):
    url = urlsplit(str(trained.base_url))
    with socket.create_connection((url.hostname, url.port), timeout=300) as connection:
        connection.sendall(b"POST /v1/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n")  # fmt: skip
        line = b'{"features":[1,2],"label":"spam","task":"ann"}\n'
        for _ in range(3):
            connection.sendall(b"%x\r\n%s\r\n" % (len(line), line))
            received = b""
            while b'"position"' not in received:
                piece = connection.recv(65536)
                assert piece
                received += piece
        connection.sendall(b"0\r\n\r\n")
        while b'"done":true' not in received:
            piece = connection.recv(65536)
            assert piece, received
            received += piece
