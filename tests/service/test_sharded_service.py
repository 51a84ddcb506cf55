"""A service with shards has several logs, and gives the same guarantees as a host with one log."""

from __future__ import annotations

import socket
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from running import Running, expect_error, running

from budgetron import Budgetron, RandomBudgetPerceptron, graphs, kernels
from budgetron.distributed import Placement, ShardedModel, Unfinished
from budgetron.distributed.directory.journal import Journal
from budgetron.distributed.shard_options import ShardOptions
from budgetron.distributed.sharded_host import ShardedHost
from budgetron.durable import AlreadyOwned, Host, Request
from budgetron.durable.blocks import margins_to_bytes
from budgetron.durable.requests import Entry
from budgetron.errors import InputError

LEARNER = "RandomBudgetPerceptron budget=40 kernel=gaussian:0.5 graph=disconnected"
SHARDS = ("--shards", 4)


def learner():
    return RandomBudgetPerceptron(budget=40, kernel=kernels.Gaussian(0.5), graph=graphs.disconnected())


def draw(n, seed=0):
    """Draw n random examples of twelve tasks: rows, labels and tasks."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(n, 3)), rng.integers(0, 12, size=n)
    return X, np.where((X[:, 0] > 0) ^ (tasks % 3 == 0), "spam", "ham"), tasks


def body(X, y, tasks, **fields):
    rows = zip(X.tolist(), y.tolist(), tasks.tolist(), strict=True)
    return {"examples": [{"features": x, "label": label, "task": task} for x, label, task in rows], **fields}


def margins_of(client, X, tasks):
    examples = [{"features": x, "task": task} for x, task in zip(X.tolist(), tasks.tolist(), strict=True)]
    answer = client.post("/v1/predict", json={"examples": examples})
    assert answer.status_code == 200, answer.text
    return [prediction["margin"] for prediction in answer.json()["predictions"]]


def test_the_shards_learn_as_in_process_and_survive_a_kill(tmp_path):
    X, y, tasks = draw(300)
    with ShardedModel(learner(), shards=4) as local:
        expected = [local.predict_then_learn(X[part], y[part], tasks=tasks[part]).tolist() for part in _parts(300, 100)]
        last = local.decision_function(X[:50], tasks=tasks[:50]).tolist()
        by_shard = [(shard.n_seen, shard.n_stored, shard.capacity) for shard in local.shards_]
    with running(tmp_path, LEARNER, *SHARDS) as service, service.client() as client:
        expect_error(client.post("/v1/predict", json={"features": [0, 0, 0], "task": 1}), 409, "nothing_learned")
        for number, part in enumerate(_parts(300, 100)):
            request = body(X[part], y[part], tasks[part], key=f"part {number}")
            first, again = client.post("/v1/learn", json=request).json(), client.post("/v1/learn", json=request).json()
            assert first["margins"] == again["margins"] == expected[number]
            assert (first["repeated"], again["repeated"]) == (False, True)
            assert first["position"] == again["position"]
        assert margins_of(client, X[:50], tasks[:50]) == last
        waiting = client.post("/v1/predict", json={"features": [1, 0, 0], "task": 5, "remember": True}).json()["id"]
        service.kill()
    with running(tmp_path) as service, service.client() as client:  # the directory records that the model is in shards
        assert margins_of(client, X[:50], tasks[:50]) == last
        model = client.get("/v1/model").json()
        assert model["budget_scope"] == "shard" and model["seen"] == 300 and model["capacity"] == 40
        assert [(shard["seen"], shard["stored"], shard["capacity"]) for shard in model["shards"]] == by_shard
        again = client.post("/v1/learn", json=body(X[:100], y[:100], tasks[:100], key="part 0")).json()
        assert again["repeated"] and again["margins"] == expected[0]
        label = {"id": waiting, "label": "spam"}
        assert client.post("/v1/feedback", json=label).json()["status"] == "learned"
        assert client.post("/v1/feedback", json=label).json()["status"] == "repeated"
        expect_error(client.post("/v1/feedback", json={**label, "label": "ham"}), 409, "conflict")
        assert client.get("/v1/model").json()["seen"] == 301
        assert 'budgetron_shards{model="default"} 4.0' in client.get("/metrics").text
        assert service.stop() == 0


def test_no_shard_learns_from_a_reused_key(service):
    X, y, tasks = draw(40, seed=1)
    with service.client() as client:
        assert client.post("/v1/learn", json=body(X, y, tasks, key="mine")).status_code == 200
        before = client.get("/v1/model").json()
        expect_error(client.post("/v1/learn", json=body(X[::-1], y, tasks, key="mine")), 409, "key_reused")
        expect_error(client.post("/v1/learn", json=body(X, y, tasks[::-1], key="mine")), 409, "key_reused")
        assert client.get("/v1/model").json() == before


def test_no_shard_learns_from_a_request_with_an_invalid_row(service):
    X, y, tasks = draw(20, seed=2)
    with service.client() as client:
        client.post("/v1/learn", json=body(*draw(20)))
        before = client.get("/v1/model").json()["seen"]
        y[-1] = "egg"
        message = expect_error(client.post("/v1/learn", json=body(X, y, tasks, key="egg")), 422, "refused")
        assert "'egg'" in message
        assert client.get("/v1/model").json()["seen"] == before
        y[-1] = "ham"  # a refused request does not use up its key
        assert client.post("/v1/learn", json=body(X, y, tasks, key="egg")).json()["repeated"] is False


def test_operations_that_shards_lack_are_refused_and_the_others_work(service):
    with service.client() as client:
        client.post("/v1/learn", json=body(*draw(20)))
        for answer in (client.get("/v1/snapshot"), client.put("/v1/snapshot", content=b"x"), client.get("/v1/backup")):
            assert "a model in shards" in expect_error(answer, 501, "in_shards")
        for method, path in (("GET", "versions"), ("PUT", "versions/v1"), ("POST", "versions/v1"), ("POST", "rollback"),
                             ("POST", "promote"), ("DELETE", "candidate")):  # fmt: skip
            message = expect_error(client.request(method, f"/v1/{path}"), 501, "in_shards")
            assert "neither versions nor a candidate" in message and "copy its directory" in message
        assert client.post("/v1/snapshot").status_code == 200
        assert client.get("/v1/tasks/3").json()["stored"] > 0
        assert client.delete("/v1/tasks/3").status_code == 200
        assert "3" not in client.get("/v1/model").json()["budget_share"]
        assert client.get("/v1/live").json()["learner"] == "ShardedModel"


def test_a_request_that_some_shards_learned_is_finished_once(tmp_path):
    X, y, tasks = draw(200, seed=3)
    with ShardedModel(learner(), shards=4) as local:
        local.partial_fit(X[:100], y[:100], tasks=tasks[:100])
        expected = local.predict_then_learn(X[100:], y[100:], tasks=tasks[100:]).tolist()
        last = local.decision_function(X, tasks=tasks).tolist()
    second = body(X[100:], y[100:], tasks[100:], key="second")
    with running(tmp_path, LEARNER, *SHARDS) as service, service.client() as client:
        client.post("/v1/learn", json=body(X[:100], y[:100], tasks[:100], key="first"))
        # Another owner takes the log of the last shard. The other shards learn their rows of the next request; the last
        # shard cannot.
        Host.open(tmp_path / "default" / "shards" / "shard-00003", epoch=1_500_000).close()
        assert "request is on disk" in expect_error(client.post("/v1/learn", json=second), 503, "unfinished")
        assert "This call wrote nothing" in expect_error(client.post("/v1/learn", json=second), 503, "unfinished")
        assert client.get("/readyz").status_code == 503
        seen = [shard["seen"] for shard in client.get("/v1/model").json()["shards"]]
        assert sum(seen) > 100 and seen[3] == (np.array(_shards(tasks[:100])) == 3).sum()
        service.kill()
    with running(tmp_path) as service, service.client() as client:
        assert service.events("model")[0]["replayed"] == 100
        assert margins_of(client, X, tasks) == last
        answer = client.post("/v1/learn", json=second).json()
        assert answer["repeated"] and answer["margins"] == expected
        assert client.get("/v1/model").json()["seen"] == 200 and client.get("/readyz").status_code == 200


def test_a_shard_that_failed_for_a_while_learns_everything(tmp_path):
    X, y, tasks = draw(300, seed=7)
    with ShardedModel(learner(), shards=4) as local:
        expected = [local.predict_then_learn(X[part], y[part], tasks=tasks[part]).tolist() for part in _parts(300, 100)]
    requests = [body(X[part], y[part], tasks[part], key=f"part {n}") for n, part in enumerate(_parts(300, 100))]
    with running(tmp_path, LEARNER, *SHARDS) as service, service.client() as client:
        assert client.post("/v1/learn", json=requests[0]).json()["margins"] == expected[0]
        with closing(sqlite3.connect(tmp_path / "default" / "shards" / "shard-00002" / "host.sqlite")) as log:
            log.execute("CREATE TRIGGER full BEFORE INSERT ON log BEGIN SELECT RAISE(ABORT, 'no more'); END")
            assert "no more" in expect_error(client.post("/v1/learn", json=requests[1]), 503, "unfinished")
            expect_error(client.post("/v1/learn", json=requests[2]), 503, "unfinished")
            log.execute("DROP TRIGGER full")
        # The service finishes the second request before it learns the third one.
        assert client.post("/v1/learn", json=requests[2]).json()["margins"] == expected[2]
        second = client.post("/v1/learn", json=requests[1]).json()
        assert second["repeated"] and second["margins"] == expected[1]
        assert client.get("/v1/model").json()["seen"] == 300 and client.get("/readyz").status_code == 200


def test_a_request_that_an_internal_error_interrupted_is_finished_once(tmp_path):
    X, y, tasks = draw(200, seed=8)
    with ShardedModel(learner(), shards=4) as local:
        expected = [local.predict_then_learn(X[part], y[part], tasks=tasks[part]).tolist() for part in _parts(200, 100)]
    first, second = (Request(X[part], y[part], tasks[part], f"at {part.start}") for part in _parts(200, 100))
    host = ShardedHost.open(tmp_path / "model", learner, ShardOptions(shards=4, workers=2))
    assert host.learn_many([first])[0].margins.tolist() == expected[0]
    workers = host.model._workers.pool._workers
    worker, thread = workers["worker-1"]
    thread.shutdown()  # calls of this worker now raise a RuntimeError, after the other worker has got its rows
    for _ in range(2):
        (answer,) = host.learn_many([second])
        assert isinstance(answer, Unfinished)
    assert isinstance(host.failing, RuntimeError)
    workers["worker-1"] = worker, ThreadPoolExecutor(1)
    (answer,) = host.learn_many([second])
    assert answer.repeated and answer.margins.tolist() == expected[1]
    assert host.failing is None and host.model.n_seen_ == 200
    host.close()


def test_requests_of_one_commit_are_learned_together_and_in_order(tmp_path):
    settings = ShardOptions(shards=4, workers=2)
    parts = [draw(int(n), seed) for seed, n in enumerate(np.random.default_rng(9).integers(1, 30, size=60), 50)]
    requests = [Request(*part, key=f"{number}", classes=["ham", "spam"]) for number, part in enumerate(parts)]
    requests[20] = Request(parts[20][0], ["egg"] * len(parts[20][1]), parts[20][2], key="20")
    host = ShardedHost.open(tmp_path / "model", learner, settings)
    answers = host.learn_many([*requests[:40], requests[3]]) + host.learn_many(requests[40:])
    with ShardedModel(learner(), shards=4) as local:
        for number, request in enumerate(requests):
            answer = answers[number if number < 40 else number + 1]
            if number == 20:
                assert isinstance(answer, InputError) and "'egg'" in str(answer)
                continue
            margins = local.predict_then_learn(request.X, request.y, tasks=request.tasks, classes=request.classes)
            assert answer.margins.tolist() == margins.tolist() and not answer.repeated
        assert answers[40].repeated and answers[40].margins.tolist() == answers[3].margins.tolist()
        assert [shard.n_seen for shard in host.model.shards_] == [shard.n_seen for shard in local.shards_]
    host.close()


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.long)])
def test_every_block_is_learned_once_although_the_service_is_killed_at_random(tmp_path, kills):
    rng = np.random.default_rng(4)
    blocks = [draw(int(rng.integers(1, 60)), seed) for seed in range(100, 100 + 40 * kills)]
    answers, service = [], Running(tmp_path, LEARNER, *SHARDS)
    client = service.client()
    try:
        for number, block in enumerate(blocks):
            if number % 40 == 0:
                threading.Timer(float(rng.uniform(0.02, 0.2)), service.process.kill).start()
            request = body(*block, key=f"block {number}", classes=["ham", "spam"])
            while len(answers) == number:
                try:
                    answers.append(client.post("/v1/learn", json=request).json())
                except httpx.TransportError:
                    client.close()
                    service.stop()
                    # The service may have been killed before it created the model, so the learner is given again.
                    service = Running(tmp_path, LEARNER)
                    client = service.client()
        X, _, tasks = draw(60, seed=5)
        margins = margins_of(client, X, tasks)
    finally:
        client.close()
        service.stop()
    with ShardedModel(learner(), shards=4) as local:
        for (rows, labels, names), answer in zip(blocks, answers, strict=True):
            assert (
                answer["margins"]
                == local.predict_then_learn(rows, labels, tasks=names, classes=["ham", "spam"]).tolist()
            )
        assert margins == local.decision_function(X, tasks=tasks).tolist()


def test_a_reopened_journal_knows_its_shards_and_answers(tmp_path):
    first, second = (Journal(_make_folder(tmp_path / name), tmp_path, 4) for name in ("a", "b"))
    assert first.name != second.name  # the keys in the logs of shards begin with this name
    first.append([Entry(b"rows", "key", digest=b"digest"), Entry(b"others")])
    first.finish([(1, margins_to_bytes(np.array([0.5])))], [2])
    first.close()
    again = Journal(tmp_path / "a", tmp_path / "elsewhere", 9)
    assert (again.shards_directory, again.shards, again.position) == (tmp_path, 4, 2)
    answers = dict(again.answers_to("key"))
    assert answers["key"].margins.tolist() == [0.5] and again.unfinished() == []
    again.close()
    second.close()


def test_the_journal_has_no_data_of_a_forgotten_task(tmp_path):
    """The write-ahead file is emptied when the task is forgotten. If a reader prevents this, the next snapshot does."""
    X, y, _ = draw(60)
    X[:, 1] = 0.123456789

    def journal_files_with_data():
        files = (path for path in tmp_path.glob("requests.sqlite*") if not path.name.endswith("-shm"))
        return [path.name for path in files if X[0, 1].tobytes() in path.read_bytes() or b"erased" in path.read_bytes()]

    host = ShardedHost.open(tmp_path, learner, ShardOptions(2))
    try:
        learned = host.learn_many([Request(X, y, ["erased"] * 60), Request(*draw(60, seed=1))])
        assert [answer.position for answer in learned] == [1, 2] and journal_files_with_data()
        host.forget_task("erased")
        assert journal_files_with_data() == []
        host.learn_many([Request(X, y, ["erased"] * 60)])
        with closing(sqlite3.connect(tmp_path / "requests.sqlite", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM request").fetchone()
            host.forget_task("erased")
            assert journal_files_with_data()
        host.snapshot()
        assert journal_files_with_data() == []
    finally:
        host.close()


def test_models_that_cannot_start_in_shards_are_refused(tmp_path):
    settings = ShardOptions(shards=4)
    X, y, tasks = draw(20)
    with pytest.raises(InputError, match="if the task graph has a single component"):
        ShardedHost.open(tmp_path / "related", Budgetron, settings)
    with pytest.raises(InputError, match="which has learned already"):
        ShardedHost.open(tmp_path / "learned", lambda: learner().fit(X, y, tasks=tasks), settings)
    Host.open(tmp_path / "one", model=learner()).close()
    with pytest.raises(InputError, match="which was started without shards"):
        ShardedHost.open(tmp_path / "one", learner, settings)
    with ShardedModel(learner(), shards=4, directory=tmp_path / "ray" / "others") as model:
        model.partial_fit(X, y, tasks=tasks)
    with pytest.raises(InputError, match=r"--ray must be a directory without .*ray/others', .* Name another directory"):
        ShardedHost.open(tmp_path / "others", learner, replace(settings, ray=tmp_path / "ray"))
    host = ShardedHost.open(tmp_path / "new", learner, settings)
    with pytest.raises(AlreadyOwned):
        ShardedHost.open(tmp_path / "new", learner, settings)
    host.close()
    with pytest.raises(InputError, match="where the shards of 'new' are"):
        ShardedHost.open(tmp_path / "new", learner, replace(settings, ray=tmp_path / "elsewhere"))


def test_shards_whose_journal_is_lost_are_refused_with_a_remedy(tmp_path):
    X, y, tasks = draw(20)
    host = ShardedHost.open(tmp_path / "model", learner, ShardOptions(shards=4))
    host.learn_many([Request(X, y, tasks=tasks)])
    host.close()
    for path in (tmp_path / "model").glob("requests.sqlite*"):
        path.unlink()
    for _ in range(2):  # the first attempt must not change the message
        with pytest.raises(InputError, match=r"model', whose journal requests\.sqlite is missing or empty") as error:
            ShardedHost.open(tmp_path / "model", learner, ShardOptions(shards=4))
        assert "--data" in str(error.value) and "--ray" not in str(error.value)
        assert "Replace the whole directory by a copy that was made while the service was stopped" in str(error.value)


@pytest.mark.long
def test_a_service_with_shards_on_ray_learns_as_in_process(tmp_path):
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    X, y, tasks = draw(200, seed=6)
    with ShardedModel(learner(), shards=4) as local:
        expected = local.predict_then_learn(X, y, tasks=tasks).tolist()
        last = local.decision_function(X, tasks=tasks).tolist()
    options = (*SHARDS, "--workers", 2, "--ray", tmp_path / "shared", "--grace", 6)
    # "local" starts a cluster for this service, even if another cluster runs on this machine.
    own = {"RAY_ADDRESS": "local", "RAY_USAGE_STATS_ENABLED": "0"}
    with running(tmp_path / "data", LEARNER, *options, env=own) as service, service.client() as client:
        request = body(X, y, tasks, key="all")
        answer = client.post("/v1/learn", json=request)
        assert answer.status_code == 200, (answer.text, service.log)
        assert answer.json()["margins"] == expected
        service.kill()
    with running(tmp_path / "data", *options, env=own) as service, service.client() as client:
        assert margins_of(client, X, tasks) == last
        assert client.post("/v1/learn", json=request).json()["repeated"] is True
        assert client.get("/v1/model").json()["seen"] == 200
        # Ray's own signal handler would abort the process three seconds after the signal.
        address = urlsplit(service.url)
        with socket.create_connection((address.hostname, address.port)) as half_a_request:
            half_a_request.sendall(b"POST /v1/learn HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n{")
            assert service.stop() == 0, service.log[-10:]
        assert service.events("stopped")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("shards"), LEARNER, *SHARDS) as service:
        yield service


def _parts(n, step):
    return [slice(start, start + step) for start in range(0, n, step)]


def _shards(tasks):
    return Placement(graphs.disconnected(), 4).shards_of_tasks(tasks.tolist()).tolist()


def _make_folder(path):
    path.mkdir()
    return path
