"""A model learns each message of a NATS JetStream stream exactly once, even if the service is killed."""

from __future__ import annotations

import json
import socket
import subprocess

import event_loops
import numpy as np
import pytest
from child_signals import default_signals
from debian import tool
from running import free_port, running, until

from budgetron import RandomBudgetPerceptron, load
from budgetron.durable.requests import MAX_KEY_LENGTH
from budgetron.errors import InputError

nats = pytest.importorskip("nats", reason="the extra 'nats' is not installed")
LEARNER = "RandomBudgetPerceptron budget=40 kernel=gaussian:0.5 random_state=3"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """The address of a NATS server on this machine, with JetStream."""
    server, port = tool("nats-server", "nats-server"), free_port()
    folder = tmp_path_factory.mktemp("jetstream")
    with default_signals():
        command = [server, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def listens():
        with socket.socket() as connection:
            return process.poll() is not None or connection.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(listens)
        assert process.poll() is None
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def publish(broker, stream, contents, create=True):
    """Append messages to a stream. With `create`, create the stream first."""

    async def main():
        connection = await nats.connect(broker)
        jetstream = connection.jetstream()
        if create:
            await jetstream.add_stream(name=stream, subjects=[f"{stream}.>"])
        for content in contents:
            await connection.publish(f"{stream}.x", content)
        await connection.flush()
        await connection.close()

    event_loops.run(main())


def examples(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(6)
    return X, np.where(X[:, 0] * X[:, 1] > 0, "spam", "ham"), rng.integers(5, size=n)


def encode(X, y, tasks):
    rows = zip(X.tolist(), y.tolist(), tasks.tolist(), strict=True)
    return [json.dumps({"features": x, "label": label, "task": task}).encode() for x, label, task in rows]


def n_learned(service):
    with service.client() as client:
        return client.get("/v1/model").json()["seen"]


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.long)])
def test_every_message_is_learned_once_although_the_service_is_killed(broker, tmp_path, kills):
    stream, part = f"mail{kills}", 600
    X, y, tasks = examples(part * (kills + 1))
    messages = encode(X, y, tasks)
    publish(broker, stream, messages[:part])
    arguments = (LEARNER, "--consume", f"{broker}/{stream}", "--snapshot-every", 250)
    for kill in range(kills):
        with running(tmp_path / "data", *arguments) as service:
            # Wait until the service has learned at least one example of this part. How many more it has learned varies.
            until(lambda service=service, kill=kill: n_learned(service) > kill * part)
            publish(broker, stream, messages[part * (kill + 1) : part * (kill + 2)], create=False)
            service.kill()
    with running(tmp_path / "data", *arguments) as service, service.client() as client:
        until(lambda: n_learned(service) >= len(messages))
        content = client.get("/v1/snapshot").content
        assert client.get("/v1/model").json()["seen"] == len(messages)
        assert "budgetron_consume_lag" in client.get("/metrics").text
        assert service.stop() == 0
    path = tmp_path / "model.budgetron"
    path.write_bytes(content)
    expected = RandomBudgetPerceptron(budget=40, kernel=load(path).kernel, random_state=3)
    expected.partial_fit(X, y, tasks=tasks, classes=["ham", "spam"])
    probes = examples(50, seed=1)[0]
    margins = load(path).decision_function(probes, tasks=[0] * 50)
    assert (margins == expected.decision_function(probes, tasks=[0] * 50)).all()


def test_a_stream_with_a_long_name_is_learned_once(broker, tmp_path):
    """The names of the stream and of the subject together are longer than an idempotency key may be."""
    stream = "m" * MAX_KEY_LENGTH
    messages = encode(*examples(40))
    arguments = (LEARNER, "--consume", f"{broker}/{stream}?subject={stream}.x")
    for part, n in ((messages[:20], 20), (messages[20:], 40)):
        publish(broker, stream, part, create=n == 20)
        with running(tmp_path / "data", *arguments) as service:

            def is_over(service=service, n=n):
                return n_learned(service) >= n or any("rejected" in line for line in service.events("consume"))

            until(is_over)
            assert n_learned(service) == n
            assert service.stop() == 0


def test_invalid_messages_are_logged_and_a_missing_stream_is_waited_for(broker, tmp_path):
    X, y, tasks = examples(20)
    messages = encode(X, y, tasks)
    messages[3:3] = [b"no JSON", json.dumps({"features": [1.0], "label": "spam", "task": 1}).encode()]
    with running(tmp_path / "data", LEARNER, "--consume", f"{broker}/later") as service:
        until(lambda: any("error" in line for line in service.events("consume")))
        publish(broker, "later", messages)
        until(lambda: n_learned(service) >= 20)
        rejected = [json.loads(line["rejected"]) for line in service.events("consume") if "rejected" in line]
        assert [rejection["line"] for rejection in rejected] == [4, 5] and rejected[0]["error"]["kind"] == "malformed"
        with service.client() as client:
            assert 'budgetron_consume_rejected_total{model="default"} 2.0' in client.get("/metrics").text


@pytest.mark.parametrize("url", ["nats://host", "http://host/mail", "nats://host/mail?what=1", "nats:///mail"])
def test_invalid_addresses_of_streams_are_refused(url):
    from budgetron.service.consuming.nats_stream import StreamAddress

    with pytest.raises(InputError, match="--consume must be nats://HOST:PORT/STREAM"):
        StreamAddress(url)
