"""NDJSON streams with one Idempotency-Key are learned once, wherever they are interrupted."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys

import pytest
from ndjson_client import SHARDED_MODEL, Stream, learn, seen
from running import Running, running, until

LOCAL = ("RandomBudgetPerceptron budget=30 kernel=gaussian:0.5",)


def lines(n, start=0):
    return [
        json.dumps({"features": [i % 13 / 13, i % 7 / 7], "label": i % 2, "task": f"t{i % 5}"}).encode() + b"\n"
        for i in range(start, start + n)
    ]


@pytest.mark.parametrize("arguments", [LOCAL, SHARDED_MODEL], ids=["one model", "shards"])
def test_a_stream_cut_by_a_clean_stop_is_learned_once(tmp_path, arguments):
    sent = lines(1500)
    service = Running(tmp_path, *arguments, "--grace", 120)
    stream = Stream(service.url, "the stream")
    stream.send(sent[:700])
    with service.client() as client:
        until(lambda: seen(client) > 0)
    service.process.send_signal(signal.SIGTERM)
    stream.send(sent[700:720])  # the service reads these lines after SIGTERM
    stream.read_until(b'"done":false')
    stream.close()
    assert service.stop() == 0
    with running(tmp_path) as service, service.client() as client:
        before = seen(client)
        assert 0 < before <= 720
        answers = learn(client, sent, "the stream")
        assert answers[-1] == {"done": True, "lines": 1500, "refused": 0}
        assert seen(client) == 1500
        assert sum(answer.get("learned", 0) for answer in answers) == 1500
        assert all(answer["repeated"] for answer in learn(client, sent, "the stream")[:-1])
        assert seen(client) == 1500


@pytest.mark.parametrize("arguments", [LOCAL, SHARDED_MODEL], ids=["one model", "shards"])
def test_a_stream_with_interruptions_and_refused_lines_is_learned_once(tmp_path, arguments):
    sent = lines(300)
    with running(tmp_path, *arguments) as service, service.client() as client:
        learn(client, sent[:77], "s")
        assert seen(client) == 77
        # The kill must lose nothing that was acknowledged, and nothing may be learned twice afterwards.
        service.kill()
    with running(tmp_path) as service, service.client() as client:
        with_invalid_lines = [*sent[:100], b"rubbish\n", sent[100].replace(b"0.", b"x0."), *sent[101:200]]
        with_invalid_lines[102] = b'{"features":[1.0],"label":1,"task":"t1"}\n'  # too short for the model
        answers = learn(client, with_invalid_lines, "s")
        assert [answer["line"] for answer in answers if "error" in answer] == [101, 102, 103]
        assert answers[-1]["done"] and seen(client) == 198
        again = learn(client, with_invalid_lines, "s")
        assert [answer["line"] for answer in again if "error" in answer] == [101, 102, 103]
        assert all("error" in answer or answer["repeated"] for answer in again[:-1]) and seen(client) == 198
        # Other content at the same position is rejected, and nothing after it is learned.
        other = learn(client, lines(400, start=1), "s")
        assert other[-1]["error"]["kind"] == "key_reused" and "done" not in other[-1]
        assert seen(client) == 198
        # The same content under another key, or under none, is new.
        assert learn(client, sent[:10], "t")[-1]["done"] and seen(client) == 208
        assert learn(client, sent[:10])[-1]["done"] and seen(client) == 218


def test_a_stream_sent_by_two_connections_at_once_is_learned_once(tmp_path):
    sent = lines(1000)
    with running(tmp_path, *LOCAL) as service, service.client() as client:
        streams = [Stream(service.url, "both") for _ in range(2)]
        for start in range(0, 1000, 50):
            for stream in streams:
                stream.send(sent[start : start + 50])
        for stream in streams:
            stream._connection.sendall(b"0\r\n\r\n")
            stream.read_until(b'"done":true')
            stream.close()
        assert seen(client) == 1000


# SQL that turns the database `requests.sqlite` into one of format 1.
JOURNAL_1 = """
CREATE TABLE request_1 (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE, digest BLOB, rows BLOB, margins BLOB)
    STRICT;
INSERT INTO request_1 SELECT number, key, digest, NULL, margins FROM answer;
INSERT INTO request_1 (number, rows) SELECT number, rows FROM request WHERE true
    ON CONFLICT (number) DO UPDATE SET rows = excluded.rows;
UPDATE sqlite_sequence SET seq = (SELECT seq FROM sqlite_sequence WHERE name = 'request') WHERE name = 'request_1';
DROP TABLE request;
ALTER TABLE request_1 RENAME TO request;
CREATE INDEX request_unfinished ON request (number) WHERE rows IS NOT NULL;
DROP TABLE answer;
DROP TABLE stream_block;
DROP TABLE stream_forgotten;
DROP TABLE point;
DROP TABLE IF EXISTS probe;
PRAGMA user_version=1;
"""


def test_a_journal_of_format_1_opens_and_its_keys_are_known(tmp_path):
    sent = [json.loads(line) for line in lines(60)]
    with running(tmp_path, *SHARDED_MODEL) as service, service.client() as client:
        for start in (0, 20):  # in format 1, the keys of a stream's blocks had this form
            body = {"examples": sent[start : start + 20], "key": f"s:{start + 1}-{start + 20}"}
            assert client.post("/v1/learn", json=body).status_code == 200
        first = client.post("/v1/learn", json={"examples": sent[40:45], "key": "k"}).json()
        client.post("/v1/learn", json={"examples": sent[45:50]})
    db = sqlite3.connect(tmp_path / "default" / "requests.sqlite")
    db.executescript(JOURNAL_1)
    db.close()
    with running(tmp_path) as service, service.client() as client:
        again = client.post("/v1/learn", json={"examples": sent[40:45], "key": "k"}).json()
        assert again == {**first, "repeated": True}
        assert learn(client, lines(60), "s")[-1]["done"]
        assert seen(client) == 50 + 20
        position = client.post("/v1/learn", json={"examples": sent[:1]}).json()["position"]
        assert position > first["position"] + 1  # no number is used twice


def test_a_full_disk_ends_a_stream_and_what_was_not_learned_is_learned_later(tmp_path):
    resource = pytest.importorskip("resource")
    if not hasattr(resource, "prlimit"):
        pytest.skip(f"no prlimit on {sys.platform}")
    sent = lines(3000)
    with running(tmp_path, *LOCAL) as service, service.client() as client:
        learn(client, sent[:600], "s")
        pid, unlimited = service.process.pid, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        cut = learn(client, sent, "s")
        assert cut[-1]["error"]["kind"] == "disk" and "done" not in cut[-1]
        acknowledged = max(line["lines"][1] for line in cut[:-1])
        assert cut[-1]["unacknowledged_from"] == acknowledged + 1 <= cut[-1]["lines"]
        assert 600 <= seen(client) < 3000
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
        assert learn(client, sent, "s")[-1] == {"done": True, "lines": 3000, "refused": 0}
        assert seen(client) == 3000
        until(lambda: client.get("/readyz").status_code == 200)
