"""The clients against a real service: margins equal those of a local model, and no label is learned twice."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from scipy import sparse

import budgetron
from budgetron import kernels
from budgetron.client import ServiceRefused, Unreachable
from budgetron.errors import InputError


def stream(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] > 0.2 * X[:, 1], "spam", "ham"), rng.choice(["ann", "bob"], n)


def local_model():
    return budgetron.RandomBudgetPerceptron(budget=30, kernel=kernels.Gaussian(gamma=0.5))


def test_learning_and_predicting_equal_a_local_model(service, tmp_path):
    X, y, tasks = stream()
    with budgetron.Client(service.url, model="bare") as client:  # a model that no other test uses
        margins = client.learn_many(X, y, tasks, classes=["ham", "spam"], batch=50)
        model = local_model()
        assert np.array_equal(margins, model.predict_then_learn(X, y, tasks=tasks, classes=["ham", "spam"]))
        answers = client.predict_many(X, tasks, batch=70)
        assert [answer.margin for answer in answers] == model.decision_function(X, tasks=tasks).tolist()
        assert [answer.label for answer in answers] == model.predict(X, tasks=tasks).tolist()
        prediction = client.predict(X[0], tasks[0].item(), remember=True)
        assert prediction.margin == answers[0].margin
        assert client.feedback(prediction.id, "spam")["status"] == "learned"
        assert client.feedback(prediction.id, "spam")["status"] == "repeated"
        model.learn_one(X[0], "spam", task=tasks[0].item())
        client.snapshot(tmp_path / "now.budgetron")
        model.save(tmp_path / "local.budgetron")
        assert (tmp_path / "now.budgetron").read_bytes() == (tmp_path / "local.budgetron").read_bytes()
        learned = client.learn(X[1], y[1], tasks[1], key="once")
        again = client.learn(X[1], y[1], tasks[1], key="once")
        assert again.repeated and again.margins == learned.margins and again.position == learned.position
        assert client.model()["seen"] == 122 and client.task("ann")["stored"] > 0
        client.backup(tmp_path / "host.sqlite")
        with budgetron.durable.Host.open(tmp_path) as copy:
            assert copy.model.n_seen_ == 122
        client.forget("ann")
        assert "ann" not in client.model()["budget_share"]
        client.restore(tmp_path / "now.budgetron")
        assert client.model()["seen"] == 121
        assert next(iter(client.events()))["model"] == "bare"
        assert client.live()["position"] == client.model()["position"]


def test_the_async_client_gives_the_same_results(service):
    X, y, tasks = stream(seed=1)

    async def work():
        async with budgetron.AsyncClient(service.url, model="flag") as client:
            margins = await client.learn_many(X, y, tasks, classes=["ham", "spam"], batch=60)
            model = budgetron.Budgetron(budget=20)
            expected = [
                model.predict_then_learn(X[i : i + 60], y[i : i + 60], tasks=tasks[i : i + 60]) for i in (0, 60)
            ]
            assert np.array_equal(margins, np.concatenate(expected))
            pairs = zip(X, tasks.tolist(), strict=True)
            singles = await asyncio.gather(*(client.predict(row, task) for row, task in pairs))
            assert np.allclose(
                [prediction.margin for prediction in singles], model.decision_function(X, tasks=tasks), rtol=1e-12
            )
            assert singles[0].probabilities.keys() == {"ham", "spam"}
            first = await client.predict(X[0], "ann", remember=True)
            assert (await client.feedback(first.id, "ham"))["status"] == "learned"
            assert (await client.learn(X[2], y[2], "ann")).learned == 1
            assert (await client.model())["name"] == "flag" and (await client.task("ann"))["share"] >= 0
            async for state in client.events():
                assert state["model"] == "flag"
                break

    # In another thread, because the browser fixture of other tests may have left an event loop running in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work()).result()


def test_events_are_live_states_without_drift_alarms(service):
    content = b'event: drift\ndata: {"loss": 1}\n\nevent: live\ndata: {"model": "default"}\n\n'
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=content))
    with budgetron.Client(service.url) as client:
        client._http = httpx.Client(base_url=service.url, transport=transport)
        assert list(client.events()) == [{"model": "default"}]


def test_an_error_has_the_message_of_the_service(service):
    with budgetron.Client(service.url) as client:
        client.learn_many(*stream(4), classes=["ham", "spam"])
        with pytest.raises(ServiceRefused, match=r'^Random.*: "label" must be one of the known') as refused:
            client.learn([0.0, 0.0, 0.0], "egg", "ann")
        assert refused.value.status == 422 and refused.value.kind == "refused"
        with (
            budgetron.Client(service.url, model="none") as other,
            pytest.raises(ServiceRefused, match=r"the name of the model must be one of .*flag"),
        ):
            other.model()


def test_invalid_arguments_are_rejected_by_the_client(service):
    for bad in ({"url": "localhost"}, {"url": service.url, "retries": -1}):
        with pytest.raises(InputError, match="must be"):
            budgetron.Client(**bad)
    with budgetron.Client(service.url) as client:
        for bad in ("text", 3, sparse.eye(2, format="csr")):
            with pytest.raises(InputError, match="features"):
                client.predict(bad)
        with pytest.raises(InputError, match="as long as X"):
            client.learn_many([[1.0]], [1, 2])
        with pytest.raises(InputError, match="as long as X"):
            client.learn_many([[1.0]], [1, 2], tasks=(task for task in "a"))  # `len` fails for a generator
        with pytest.raises(InputError, match="batch"):
            client.learn_many([[1.0]], [1], batch=0)


def test_an_unreachable_service_is_reported():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        with (
            budgetron.Client(f"http://127.0.0.1:{taken.getsockname()[1]}", retries=1) as client,
            pytest.raises(Unreachable, match="in 2 attempts"),
        ):
            client.model()


class LossyProxy(threading.Thread):
    """A proxy that forwards requests, and drops the first response and then every second one."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self._port, self._socket = port, socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.lost = 0

    def run(self):
        number = 0
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client, socket.create_connection(("127.0.0.1", self._port)) as service:
                while request := _receive_message(client):
                    service.sendall(request)
                    answer = _receive_message(service)
                    if not answer:  # the service has closed the connection
                        break
                    number += 1
                    if number % 2:
                        self.lost += 1
                        break
                    client.sendall(answer)

    def close(self):
        self._socket.close()


def _receive_message(connection):
    """Receive one HTTP message, headers and body. Returns no bytes if the connection was closed."""
    content = b""
    while b"\r\n\r\n" not in content:
        piece = connection.recv(65536)
        if not piece:
            return b""
        content += piece
    head, _, body = content.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    while lengths and len(body) < int(lengths[0]):
        piece = connection.recv(65536)
        if not piece:
            return b""
        body += piece
    return head + b"\r\n\r\n" + body


def test_lost_responses_are_retried_and_nothing_is_learned_twice(service):
    X, y, tasks = stream(60, seed=2)
    proxy = LossyProxy(int(service.url.rsplit(":", 1)[1]))
    proxy.start()
    with budgetron.Client(service.url) as direct, budgetron.Client(proxy.url) as client:
        direct.learn_many(X[:2], y[:2], tasks[:2], classes=["ham", "spam"])
        seen = direct.model()["seen"]
        margins = client.learn_many(X, y, tasks, batch=10)
        assert len(margins) == 60 and proxy.lost >= 6  # the first response to each of the six batches is lost
        assert direct.model()["seen"] == seen + 60
    proxy.close()
