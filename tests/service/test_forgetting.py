"""Forgetting a task in a service: in the model, in its candidate and in the remembered predictions."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from running import expect_error, running

from budgetron import Client
from budgetron.durable import Host
from budgetron.service.model.pending import Pending

LEARNER = "RandomBudgetPerceptron budget=40 kernel=gaussian:0.5 graph=disconnected"
MARK = 0.123456789  # a feature of the task to forget, by which its data are found in files


def learn(client):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)).round(3)
    X[::3, 1] = MARK
    tasks = ["eve", "ann", "bob"] * 20
    client.learn_many(X, np.where(X[:, 0] > 0, "spam", "ham").tolist(), tasks)


def files_with(folder, *contents):
    return [path.name for path in folder.rglob("*") if path.is_file() and any(c in path.read_bytes() for c in contents)]


@pytest.mark.parametrize("options", [(), ("--shards", 2)], ids=["one model", "shards"])
def test_the_predictions_of_a_forgotten_task_are_deleted_in_the_same_request(tmp_path, options):
    with running(tmp_path, LEARNER, *options) as service, Client(service.url) as client, service.client() as http:
        learn(client)
        labelled, waiting = (client.predict([0.5, MARK], "eve", remember=True).id for _ in range(2))
        queued = client.predict([0.5, MARK], "eve", ask=1.0).id
        other = client.predict([0.5, 0.5], "ann", remember=True).id
        client.feedback(labelled, "ham")
        assert files_with(tmp_path, b'"eve"')
        client.forget("eve")
        for prediction_id in (labelled, waiting, queued):
            answer = http.post("/v1/feedback", json={"id": prediction_id, "label": "spam"})
            expect_error(answer, 404, "unknown")
        assert "eve" not in [item["task"] for item in client.queue()["queue"]]
        assert client.feedback(other, "spam")["status"] == "learned"
        in_json = (str(MARK).encode(), b'"eve"')
        pending = list((tmp_path / "default").glob("pending.sqlite*"))
        assert pending and not any(content in path.read_bytes() for path in pending for content in in_json)


def test_the_candidate_forgets_a_task_in_the_same_request(tmp_path):
    with running(tmp_path, LEARNER) as service, Client(service.url) as client:
        learn(client)
        client.save_version("v1")
        client.begin_candidate("v1", share=1.0)
        learn(client)
        before = client.predict([0.5, MARK], "eve")
        assert before.version == "v1" and before.margin != 0
        client.forget("eve")
        after = client.predict([0.5, MARK], "eve")
        assert after.version == "v1" and after.margin == 0
        versions = tmp_path / "default" / "versions"
        assert [name for name in files_with(versions, b"eve") if name.startswith("candidate")] == []
        assert files_with(versions, b"eve")  # a saved version keeps the task on purpose


def test_a_service_that_was_interrupted_while_it_forgot_a_task_deletes_its_predictions_at_the_start(tmp_path):
    with running(tmp_path, LEARNER) as service, Client(service.url) as client:
        learn(client)
        client.predict_many([[0.5, MARK]] * 2, ["eve", "ann"], remember=True)
    with Host.open(tmp_path / "default") as host:  # the log has the record, and the predictions are still there
        host.forget_task("eve")
    assert "pending.sqlite" in files_with(tmp_path / "default", b'"eve"')
    with running(tmp_path, LEARNER) as service, Client(service.url) as client:
        assert not any(b'"eve"' in path.read_bytes() for path in (tmp_path / "default").glob("pending.sqlite*"))
        remembered = client.predict([0.5, 0.5], "eve", remember=True).id  # the task comes back
        service.kill()
    with running(tmp_path, LEARNER) as service, Client(service.url) as client:
        assert client.feedback(remembered, "spam")["status"] == "learned"


def test_a_snapshot_empties_the_write_ahead_file_of_the_predictions_if_a_reader_had_prevented_it(tmp_path):
    def has_data():
        return any(b'"eve"' in path.read_bytes() for path in (tmp_path / "default").glob("pending.sqlite*"))

    with running(tmp_path, LEARNER) as service, Client(service.url) as client, service.client() as http:
        learn(client)
        client.predict([0.5, MARK], "eve", remember=True)
        with closing(sqlite3.connect(tmp_path / "default" / "pending.sqlite", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM pending").fetchone()
            client.forget("eve")
            assert has_data()
        assert http.post("/v1/snapshot").status_code == 200
        assert not has_data()


@pytest.mark.parametrize("task", ["eve", 5, "5"])
def test_the_predictions_of_other_tasks_stay_remembered(tmp_path, task):
    others = [name for name in ("eve", "Eve", 5, "5", -5, None) if name != task]
    pending = Pending(tmp_path, 10, 10**9)
    ids = pending.put([([1.0], name) for name in (task, *others)], "ann")
    with pending.hidden(task):
        assert [pending.get(prediction_id) is None for prediction_id in ids] == [True] + [False] * 5
    pending.forget_task(task, 7)
    assert [pending.get(prediction_id) is None for prediction_id in ids] == [True] + [False] * 5
    assert len(pending) == pending._all.rows == 5 and pending.forgotten_until == 7
    pending.close()
