"""SIGTERM under load: nothing acknowledged is lost, and the service stops with exit code 0."""

from __future__ import annotations

import contextlib
import json
import signal
import threading

import httpx
from running import Running, until

from budgetron.durable import Host


def test_sigterm_under_load_loses_nothing(tmp_path):
    service = Running(tmp_path, "RandomBudgetPerceptron budget=30", "--grace", 20)
    acknowledged, streamed, errors = [], [], []

    def learn(number):
        with service.client() as client:
            for turn in range(100_000):
                example = {"features": [float(number), turn % 7], "label": turn % 2, "task": number}
                try:
                    answer = client.post("/v1/learn", json=example)
                except httpx.TransportError:
                    return
                if answer.status_code == 200:
                    acknowledged.append(answer.json()["position"])
                elif answer.status_code != 503:
                    errors.append(answer.text)
                    return

    def stream():
        line = b'{"features":[1.0,2.0],"label":1,"task":"stream"}\n'
        endless = {"content": (line for _ in range(10**7)), "headers": {"Content-Type": "application/x-ndjson"}}
        with (
            contextlib.suppress(httpx.TransportError),  # the service stops reading
            service.client() as client,
            client.stream("POST", "/v1/learn", **endless) as answer,
        ):
            streamed.extend(json.loads(text) for text in answer.iter_lines())

    def watch():
        with service.client() as client, client.stream("GET", "/v1/events") as answer:
            for _ in answer.iter_lines():
                pass

    with service.client() as first:
        first.post("/v1/learn", json={"examples": [{"features": [1.0, 2.0], "label": 1, "task": 0},
                                                   {"features": [2.0, 1.0], "label": 0, "task": 0}]})  # fmt: skip
    threads = [threading.Thread(target=learn, args=(number,)) for number in range(3)]
    threads += [threading.Thread(target=watch), threading.Thread(target=stream)]
    for thread in threads:
        thread.start()
    until(lambda: errors or len(acknowledged) >= 100)
    assert not errors
    assert service.stop(signal.SIGTERM, within=300) == 0
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    assert not errors and service.events("stopped") and service.events("closed")
    in_stream = sum(line.get("learned", 0) for line in streamed)
    with Host.open(tmp_path / "default") as host:
        assert host.recovery.replayed_examples == 0  # a snapshot was written
        assert host.position >= max(acknowledged)
        assert host.model.n_seen_ >= len(acknowledged) + in_stream + 2
        assert len(set(acknowledged)) == len(acknowledged)


def test_ctrl_c_exits_with_code_130(tmp_path):
    service = Running(tmp_path)
    assert service.stop(signal.SIGINT) == 130
