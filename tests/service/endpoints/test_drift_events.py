"""A service whose errors increase raises a drift alarm: in the live state, as an event, and in the metrics."""

from __future__ import annotations

import asyncio
import json
import re
import threading

import event_loops
import numpy as np
import pytest
from running import running

from budgetron import Perceptron
from budgetron.durable import Learned, Request
from budgetron.errors import WorkerError
from budgetron.service.handlers.events import Events
from budgetron.service.http.problems import HTTPProblem
from budgetron.service.monitoring.statistics import LiveStatistics


class SlowModel:
    """A model that takes a while to return its state, as a model in shards does."""

    name = "slow"

    def __init__(self) -> None:
        self.statistics = self

    def alarms_after(self, n: int) -> tuple[int, list[dict]]:
        return 1, [{"task": "ann"}][n:]

    async def shown(self) -> dict:
        await asyncio.sleep(0.01)
        return {}


def test_all_subscribers_get_an_alarm() -> None:
    async def main() -> tuple[bytes, bytes]:
        events, model = Events(2), SlowModel()
        first, second = await asyncio.gather(events._event(model), events._event(model))
        events.next_turn()
        assert b"drift" not in await events._event(model)
        return first, second

    first, second = event_loops.run(main())
    assert first == second and first.startswith(b"event: drift\n")


def test_an_alarm_is_sent_later_if_the_state_cannot_be_computed() -> None:
    class FailingOnce(SlowModel):
        async def shown(self) -> dict:
            if not hasattr(self, "failed"):
                self.failed = True
                raise WorkerError("a worker was lost")
            return {}

    async def main() -> bytes:
        events, model = Events(1), FailingOnce()
        with pytest.raises(WorkerError):
            await events._event(model)
        events.next_turn()
        return await events._event(model)

    assert event_loops.run(main()).startswith(b"event: drift\n")


def test_no_alarm_is_missed_when_the_model_is_replaced() -> None:
    """The alarms of both models are counted together, so an alarm of the second model always has a new number."""
    statistics = LiveStatistics()
    _raise_alarm(statistics)
    n_sent, sent = statistics.alarms_after(0)
    assert n_sent == len(sent) >= 1
    with statistics.replacing():
        pass
    assert statistics.alarms_after(n_sent) == (n_sent, [])
    _raise_alarm(statistics)
    total, new = statistics.alarms_after(n_sent)
    assert total == 2 * n_sent and new == sent
    assert statistics.alarms_after(0)[1] == sent + new
    with statistics.replacing():
        pass
    assert statistics.alarms_after(n_sent) == (total, new)  # raised before the replacement, but not sent yet


def _raise_alarm(statistics: LiveStatistics) -> None:
    """Count 3,000 correct predictions and then 3,000 wrong ones, in blocks of 100."""
    labels = np.ones(100, dtype=int)
    for margin in np.repeat([1.0, -1.0], 30):
        answer = Learned(1, np.full(100, margin), classes=np.array([0, 1]))
        statistics.learned(Perceptron(), Request(None, labels), len(labels), answer)


def test_no_more_clients_subscribe_than_allowed_even_if_no_stream_has_started() -> None:
    async def main() -> None:
        events = Events(1)
        first = await events.subscribe(StoppingCall())
        with pytest.raises(HTTPProblem, match="1 clients are subscribed"):
            await events.subscribe(StoppingCall())
        await first({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)
        await events.subscribe(StoppingCall())

    class StoppingCall:
        def is_stopping(self) -> bool:
            return True

    async def receive() -> dict:
        return {"type": "http.disconnect"}

    async def send(message: dict) -> None:
        pass

    event_loops.run(main())


def test_drift_alarms_are_sent_as_events(tmp_path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 2)).round(3)
    y = np.where(X[:, 0] > 0, "yes", "no")
    y[3000:] = np.where(rng.random(3000) < 0.5, "yes", "no")
    events: list[dict] = []
    with running(tmp_path / "state", "Budgetron budget=20") as service, service.client() as client:

        def listen() -> None:
            with service.client() as watcher, watcher.stream("GET", "/v1/events") as answer:
                kind = ""
                for line in answer.iter_lines():
                    kind = line[7:] if line.startswith("event: ") else kind
                    if kind == "drift" and line.startswith("data: "):
                        events.append(json.loads(line[6:]))
                        return

        watcher = threading.Thread(target=listen, daemon=True)
        watcher.start()
        for start in range(0, 6000, 500):
            part = slice(start, start + 500)
            rows = zip(X[part].tolist(), y[part].tolist(), strict=True)
            body = [{"features": row, "label": label, "task": "ann"} for row, label in rows]
            assert client.post("/v1/learn", json={"examples": body}).status_code == 200
        live = client.get("/v1/live").json()
        assert live["n_alarms"] >= 1 and live["alarms"][0]["position"] > 3000
        assert {alarm["task"] for alarm in live["alarms"]} == {None, "ann"}
        match = re.search(r'budgetron_drift_alarms_total\{model="default"\} (\S+)', client.get("/metrics").text)
        assert match is not None and float(match[1]) == live["n_alarms"]
        watcher.join(120)
    assert events and events[0]["loss"] == "log loss" and events[0]["after"] > events[0]["before"]
