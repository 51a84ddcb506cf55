"""The first lines of a stream for a new model: string labels, bad lines, and lines that come slowly."""

from __future__ import annotations

import json
import signal

import pytest
from ndjson_client import NDJSON, SHARDED_MODEL, Stream, learn, seen
from running import Running, running

LOCAL = ("Forgetron budget=20",)
BOTH = pytest.mark.parametrize("arguments", [LOCAL, SHARDED_MODEL], ids=["one model", "shards"])


def line(number, label=None, width=2, **others):
    label = ("ham", "spam")[number % 2] if label is None else label
    features = [(number * index) % 7 / 7 for index in range(1, width + 1)]
    return json.dumps({"features": features, "label": label, "task": f"t{number % 3}", **others}).encode() + b"\n"


BAD = {
    "no JSON": b"{\n", "width": line(0, width=3), "number": line(0, label=7), "no task": line(0, task=None),
    "names": json.dumps({"features": {"a": 1.0}, "label": "ham", "task": "t0"}).encode() + b"\n",
    "huge": json.dumps({"features": [1e300, 1e300], "label": "ham", "task": "t0"}).encode() + b"\n",
}  # fmt: skip


@BOTH
def test_a_bad_line_among_the_first_is_the_only_one_that_is_rejected(tmp_path, arguments):
    sent = [line(number) for number in range(12)]
    cases = [(bad, index) for bad in BAD.values() for index in (0, 2)]
    learner, *options = arguments
    models = [f"m{number}={learner}" for number in range(len(cases))]
    with running(tmp_path, *models, *options) as service, service.client() as client:
        for number, (bad, index) in enumerate(cases):
            content = b"".join([*sent[:index], bad, *sent[index:]])
            path = f"/v1/models/m{number}"
            answers = client.post(f"{path}/learn", content=content, headers=NDJSON).text.splitlines()
            answers = [json.loads(answer) for answer in answers]
            rejected = [answer["line"] for answer in answers if "line" in answer]
            assert rejected == [index + 1] and answers[-1] == {"done": True, "lines": 13, "refused": 1}, answers
            model = client.get(f"{path}/model").json()
            assert model["seen"] == 12 and model["classes"] == ["ham", "spam"]


def send_and_wait_for_pause(stream, lines, rejected):
    """Send lines, then an invalid line with the number `rejected`, and wait until the service has reported this line.

    The service reports it when no line has come for a while. By then it has read all lines, and has begun to learn
    unless it needs a second label.
    """
    stream.send([*lines, b"{\n"])
    stream.read_until(b'"line":%d,' % rejected)


@BOTH
def test_lines_that_come_slowly_wait_for_a_second_label(tmp_path, arguments):
    with running(tmp_path, *arguments) as service, service.client() as client:
        stream = Stream(service.url, "the stream")
        for number in (0, 2, 4):
            send_and_wait_for_pause(stream, [line(number)], number + 2)
        assert seen(client) == 0
        stream.send([line(1)])
        stream.read_until(b'"lines":[1,7]')
        stream.send([line(6)])
        stream.read_until(b'"lines":[8,8]')  # from now on, lines are learned without waiting for others
        stream.close()
        assert seen(client) == 5


def test_a_stop_does_not_reject_lines_that_wait(tmp_path):
    service = Running(tmp_path, *LOCAL)
    stream = Stream(service.url, "the stream")
    send_and_wait_for_pause(stream, [line(0), line(2)], 3)  # both have the same label, so they wait for a second label
    service.process.send_signal(signal.SIGTERM)
    stream.read_until(b'"done":false')
    last = json.loads(stream.received[stream.received.index(b'{"done"') :].split(b"\n")[0])
    assert last["refused"] == 1 and last["unacknowledged_from"] == 1
    stream.close()
    service.stop()


def test_a_stream_with_one_label_is_told_what_to_do(tmp_path):
    with running(tmp_path, *LOCAL) as service, service.client() as client:
        answers = learn(client, [line(0), line(2)])
        message = answers[0]["error"]["message"]
        assert answers[-1]["refused"] == 2
        assert "labels of at least two classes" in message and "instead of NDJSON" in message
        assert seen(client) == 0
        learn(client, [line(0, label=0), line(1, label=0)])  # 0 implies that the other label is 1
        assert seen(client) == 2


def test_the_same_stream_again_is_learned_once(tmp_path):
    sent = [line(0, width=3), *(line(number) for number in range(12))]
    with running(tmp_path, *LOCAL) as service, service.client() as client:
        assert learn(client, sent, "key")[-1]["refused"] == 1
        assert learn(client, sent, "key")[-1]["refused"] == 1
        assert seen(client) == 12
