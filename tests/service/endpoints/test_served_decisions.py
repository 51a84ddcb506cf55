"""A served model with an operating point decides or abstains, keeps counting, and continues after a kill."""

from __future__ import annotations

import httpx
import numpy as np
import pytest
from running import running

from budgetron import Budgetron, OperatingPoint
from budgetron.client import Client


def examples(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).round(3)
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0.5, "yes", "no")


def test_a_served_model_decides_or_abstains_and_continues_after_a_kill(tmp_path) -> None:
    X, y = examples(2000, 0)
    model = Budgetron(budget=20)
    model.operating_point = OperatingPoint(max_error=0.1)
    model.partial_fit(X, y)
    model.save(tmp_path / "m.budgetron")
    with running(tmp_path / "state", tmp_path / "m.budgetron") as service, service.client() as client:
        rows = [[3.0, 0.0], [0.5, 0.0], [-3.0, 0.0]]
        many = client.post("/v1/predict", json={"examples": [{"features": row} for row in rows]}).json()["predictions"]
        decided = [(answer.get("decision"), answer.get("abstain")) for answer in many]
        assert decided == [("yes", None), (None, True), ("no", None)]
        assert client.post("/v1/predict", json={"features": rows[0]}).json()["decision"] == "yes"
        more, labels = examples(300, 1)
        body = [{"features": row.tolist(), "label": str(label)} for row, label in zip(more, labels, strict=True)]
        assert client.post("/v1/learn", json={"examples": body}).status_code == 200
        shown = client.get("/v1/model").json()["operating_point"]
        assert shown["counted"] == 2300 and shown["labels"] == ["no", "yes"]
        assert client.get("/v1/live").json()["operating_point"] == shown
        text = client.get("/metrics").text
        assert 'budgetron_expected_asked{model="default"} 0.' in text
        service.kill()
    model.partial_fit(more, labels)
    with running(tmp_path / "state") as service, service.client() as client:  # replays the log
        assert client.get("/v1/model").json()["operating_point"] == shown == model.operating_point.to_dict()


def learn(client: httpx.Client, n: int, seed: int) -> None:
    X, y = examples(n, seed)
    body = [
        {"features": row.tolist(), "label": str(label), "task": i % 7}
        for i, (row, label) in enumerate(zip(X, y, strict=True))
    ]
    assert client.post("/v1/learn", json={"examples": body}).status_code == 200


@pytest.mark.parametrize("shards", [0, 3])
def test_an_operating_point_is_set_while_the_service_runs(tmp_path, shards) -> None:
    options = ["--shards", shards] if shards else []
    learner = ["Budgetron budget=20 graph=disconnected", *options]
    with running(tmp_path / "state", *learner) as service, service.client() as client:
        learn(client, 300, 0)
        assert client.get("/v1/model").json()["operating_point"] is None
        with Client(service.url) as admin:
            point = admin.set_operating_point(costs={"fp": 1, "fn": 5})
        assert point["costs"] == {"fp": 1.0, "fn": 5.0, "ask": None} and point["counted"] == 0
        learn(client, 400, 1)
        counted = client.get("/v1/model").json()["operating_point"]
        assert counted["counted"] == counted["so_far"]["decided"] == 400 and counted["expected_cost"] > 0
        row = {"features": [3.0, 0.0], "task": 1}
        assert client.post("/v1/predict", json=row).json()["decision"] == "yes"
        # New settings keep the counts of scores and labels; the count of decisions starts from zero.
        point = client.put("/v1/operating-point", json={"max_error": 0.3}).json()["operating_point"]
        assert point["counted"] == 400 and point["so_far"]["decided"] == 0 and point["max_error"] == 0.3
        unsure = {"features": [0.5, 0.0], "task": 1}
        assert client.post("/v1/predict", json=unsure).json()["abstain"] is True
        learn(client, 100, 2)
        before = client.get("/v1/model").json()["operating_point"]
        assert before["counted"] == 500
        service.kill()
    with running(tmp_path / "state", *options) as service, service.client() as client:
        assert client.get("/v1/model").json()["operating_point"] == before
        assert client.post("/v1/predict", json=unsure).json()["abstain"] is True
        for wrong in ({"threshold": 2}, {}, {"costs": {"fp": 1}}, {"threshold": 0.5, "costs": {"fp": 1, "fn": 1}}):
            refused = client.put("/v1/operating-point", json=wrong)
            assert refused.status_code == 422 and "OperatingPoint" in refused.json()["error"]["message"]
        assert client.get("/v1/model").json()["operating_point"] == before
        assert client.delete("/v1/operating-point").json()["operating_point"] is None
        assert "decision" not in client.post("/v1/predict", json=row).json()
    with running(tmp_path / "state", *options) as service, service.client() as client:
        assert client.get("/v1/model").json()["operating_point"] is None


def test_a_threshold_set_before_the_first_example_refuses_a_third_label(tmp_path) -> None:
    with running(tmp_path / "state", "Budgetron", "--shards", 1) as service, service.client() as client:
        assert client.put("/v1/operating-point", json={"threshold": 0.2}).status_code == 200
        three = [{"features": [float(i)], "label": label} for i, label in enumerate("abc")]
        refused = client.post("/v1/learn", json={"examples": three})
        assert refused.status_code == 422 and "two labels" in refused.json()["error"]["message"]
        assert client.post("/v1/learn", json={"examples": three[:2]}).status_code == 200
        assert client.post("/v1/predict", json={"features": [9.0]}).json()["decision"] in ("a", "b")
