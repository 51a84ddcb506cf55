"""Remembered predictions: bounded in number and bytes, and divided fairly among the clients."""

from __future__ import annotations

import json
import sqlite3

import pytest
from running import Running, running

from budgetron.service.http import api_keys
from budgetron.service.model.pending import Pending

EXAMPLES = {"examples": [{"features": [i / 50, 1.0], "label": i % 2, "task": "ann"} for i in range(50)]}


def example(n_bytes):
    return ("x" * n_bytes, None)


def remembered(pending, ids):
    return [prediction_id for prediction_id in ids if pending.get(prediction_id) is not None]


def test_a_client_that_floods_evicts_only_its_own_predictions(tmp_path):
    pending = Pending(tmp_path, 1000, 100_000)
    others = {client: pending.put([example(100)] * 40, client) for client in ("ann", "bob")}
    for _ in range(50):
        flood = pending.put([example(2000)] * 30, "flood")
        assert remembered(pending, flood)[-1:] == flood[-1:]  # at least its latest prediction stays
    assert all(remembered(pending, ids) == ids for ids in others.values())
    assert pending._all.bytes <= 100_000 and len(pending) < 130
    pending.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 500_000


def test_the_number_of_predictions_is_divided_fairly_among_clients(tmp_path):
    pending = Pending(tmp_path, 100, 10**9)
    first = pending.put([example(10)] * 100, "ann")
    second = pending.put([example(10)] * 30, "bob")
    assert remembered(pending, first) == first[30:] and remembered(pending, second) == second
    third = pending.put([example(10)] * 100, "bob")  # both clients ask for more than half of the places
    assert len(pending) == 100
    assert remembered(pending, first) == first[50:] and remembered(pending, third) == third[50:]
    pending.close()
    again = Pending(tmp_path, 60, 10**9)  # a smaller bound; what each client uses is counted again
    assert len(again) == 60 and remembered(again, first) == first[70:] and remembered(again, third) == third[70:]
    again.close()


def test_a_failed_write_leaves_the_counts_as_they_were(tmp_path):
    pending = Pending(tmp_path, 100, 10**9)
    pending.put([example(10)] * 3, "ann")
    with pytest.raises(TypeError):
        pending.put([example(10), (object(), None)], "ann")
    pending._db.execute("CREATE TRIGGER full BEFORE INSERT ON pending BEGIN SELECT raise(ABORT, 'full'); END")
    before = vars(pending._all).copy()
    with pytest.raises(Exception, match="full"):
        pending.put([example(10)], "ann")
    assert vars(pending._all) == before and len(pending) == 3
    pending.close()


def test_a_file_of_the_first_format_is_read(tmp_path):
    db = sqlite3.connect(tmp_path / "pending.sqlite")
    db.executescript(
        "CREATE TABLE pending (number INTEGER PRIMARY KEY, id TEXT UNIQUE, example BLOB, label BLOB, position INTEGER,"
        "margin BLOB) STRICT; PRAGMA user_version=1;"
    )
    db.execute("INSERT INTO pending (id, example) VALUES ('a', ?)", (json.dumps([[1.0], "ann"]).encode(),))
    db.commit()
    db.close()
    pending = Pending(tmp_path, 2, 10**9)
    assert pending.get("a").task == "ann"
    pending.put([example(1)] * 2, "bob")
    assert len(pending) == 2
    pending.close()


def test_a_predict_key_can_neither_fill_the_disk_nor_evict_the_predictions_of_others(tmp_path):
    path = tmp_path / "keys"
    tokens = {name: api_keys.add(path, name, role) for name, role in (("flood", "predict"), ("app", "learn"))}
    headers = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    options = ("RandomBudgetPerceptron budget=5", "--keys", path)
    with running(tmp_path / "data", *options) as service, service.client() as client:
        first = [{"features": [1.0] * 5000, "label": 1}, {"features": [0.0] * 5000, "label": 0}]
        assert client.post("/v1/learn", json={"examples": first}, headers=headers["app"]).status_code == 200
        example_to_label = {"features": [0.5] * 5000, "remember": True}
        prediction_id = client.post("/v1/predict", json=example_to_label, headers=headers["app"]).json()["id"]
        many = json.dumps({"examples": [{"features": [0.125] * 5000}] * 200, "remember": True}).encode()
        kind = {"Content-Type": "application/json"}
        for _ in range(24):  # about 150 MB in all
            answer = client.post("/v1/predict", content=many, headers=headers["flood"] | kind)
            assert answer.status_code == 200
        files = (tmp_path / "data" / "default").glob("pending*")
        assert sum(file.stat().st_size for file in files) < 100 * 2**20
        label = {"id": prediction_id, "label": 1}
        assert client.post("/v1/feedback", json=label, headers=headers["app"]).json()["status"] == "learned"


def test_a_damaged_file_is_named_and_repair_deletes_it(tmp_path):
    from click.testing import CliRunner

    from budgetron.cli import main

    with running(tmp_path) as service, service.client() as client:
        assert client.post("/v1/learn", json=EXAMPLES).status_code == 200
        service.stop()
    (tmp_path / "default" / "pending.sqlite").write_bytes(b"rubbish" * 1000)
    words = rf"the file of pending predictions is damaged.*budgetron repair {tmp_path / 'default'} --accept-loss"
    with pytest.raises(RuntimeError, match=words):
        Running(tmp_path)
    done = CliRunner().invoke(main, ["verify", str(tmp_path)])
    assert done.exit_code == 1 and "the file of pending predictions is damaged" in done.output
    done = CliRunner().invoke(main, ["repair", str(tmp_path), "--accept-loss"])
    assert done.exit_code == 0 and "pending.sqlite was damaged and is deleted" in done.output
    with running(tmp_path) as service, service.client() as client:
        assert client.get("/v1/model").json()["seen"] == 50
