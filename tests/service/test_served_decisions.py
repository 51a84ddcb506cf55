"""A served model with an operating point decides or abstains, keeps counting, and continues after a kill."""

from __future__ import annotations

import numpy as np
from running import running

from budgetron import Budgetron, OperatingPoint


def examples(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).round(3)
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0.5, "yes", "no")


def test_decisions_over_http(tmp_path) -> None:
    X, y = examples(2000, 0)
    model = Budgetron(budget=20)
    model.operating_point = OperatingPoint(max_error=0.1)
    model.partial_fit(X, y)
    model.save(tmp_path / "m.budgetron")
    with running(tmp_path / "state", tmp_path / "m.budgetron") as service, service.client() as client:
        rows = [[3.0, 0.0], [0.5, 0.0], [-3.0, 0.0]]
        many = client.post("/v1/predict", json={"examples": [{"features": row} for row in rows]}).json()["predictions"]
        decided = [(one.get("decision"), one.get("abstain")) for one in many]
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
