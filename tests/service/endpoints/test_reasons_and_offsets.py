"""Reasons of a prediction, and offsets (the score of another model) over HTTP."""

from __future__ import annotations

import json

import numpy as np
import pytest
from running import expect_error, running

import budgetron


def test_reasons_add_up_to_the_margin(trained):
    example = {"features": [1, 2], "task": "ann", "explain": True}
    for path in ("/v1/predict", "/v1/models/flag/predict"):
        answer = trained.post(path, json=example).json()
        found = answer["reasons"]
        total = sum(term["total"] for term in found["terms"]) + found["rest"] + found["remainder"]
        assert found["label"] == "spam" and total == pytest.approx(found["margin"], abs=1e-9)
        assert found["margin"] == pytest.approx(answer["margin"], abs=1e-9)
        assert "reasons" not in trained.post(path, json={**example, "explain": False}).json()
        many = trained.post(path, json={"examples": [{"features": [1, 2], "task": "ann"}] * 3, "explain": True}).json()
        assert [one["reasons"] for one in many["predictions"]] == [found] * 3
    assert trained.post("/v1/predict", json=example).json()["reasons"]["nearest"]


def test_invalid_requests_for_reasons_are_refused(trained):
    for example, status in (
        ({"features": [1, 2, 3], "task": "ann"}, 422), ({"features": [1, 2]}, 422), ({"features": {}}, 422),
        ({"features": [1e308, -1e308], "task": "ann"}, 422), ({"features": [1, 2], "task": "x" * 100_000}, 422),
        ({"features": [1, 2], "task": "never seen"}, 200),
    ):  # fmt: skip
        answer = trained.post("/v1/predict", json={**example, "explain": True})
        assert answer.status_code == status, answer.text
    for wrong in ("yes", 1, {}, None):
        answer = trained.post("/v1/predict", json={"features": [1, 2], "task": "ann", "explain": wrong})
        expect_error(answer, 400, "malformed")


def test_reasons_name_hashed_features(tmp_path):
    names = ["<script>", "größe", "a" * 200, ""]
    with running(tmp_path, "Budgetron") as service, service.client() as client:
        assert client.post("/v1/predict", json={"features": {"a": 1}, "explain": True}).status_code == 409
        examples = [{"features": dict.fromkeys(names[:n], n), "label": n % 2} for n in range(1, 5)] * 5
        assert client.post("/v1/learn", json={"examples": examples}).status_code == 200
        found = client.post("/v1/predict", json={"features": dict.fromkeys(names, 2.0), "explain": True}).json()
        assert {term["name"] for term in found["reasons"]["terms"]} == {*names, "constant"}


def test_offsets_are_learned_predicted_explained_and_validated(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)).round(3)
    score = (2 * X[:, 0]).round(3)
    rows = [{"features": x.tolist(), "label": "yes" if s > 0 else "no", "task": "ann", "offset": float(s)}
            for x, s in zip(X, score, strict=True)]  # fmt: skip
    with running(tmp_path, "Budgetron", "f=Forgetron budget=5") as service, service.client() as client:
        assert client.post("/v1/learn", json={"examples": rows[:20], "classes": ["no", "yes"]}).status_code == 200
        lines = "".join(json.dumps(row) + "\n" for row in rows[20:]).encode()
        streamed = client.post("/v1/learn", content=lines, headers={"content-type": "application/x-ndjson"}).text
        assert '"done":true,"lines":20,"refused":0' in streamed
        model = budgetron.Budgetron().partial_fit(
            X, [row["label"] for row in rows], tasks=["ann"] * 40, classes=["no", "yes"], offset=score
        )
        expected = model.decision_function(X[:2], tasks=["ann"] * 2, offset=[1.0, -1.0]).tolist()
        asked = [{"features": x.tolist(), "task": "ann", "offset": s} for x, s in zip(X[:2], (1.0, -1.0), strict=True)]
        many = client.post("/v1/predict", json={"examples": asked, "explain": True}).json()["predictions"]
        assert [one["margin"] for one in many] == pytest.approx(expected)
        assert "offset" in {term["kind"] for term in many[0]["reasons"]["terms"]}
        one = client.post("/v1/predict", json={**asked[0], "remember": True}).json()
        assert one["margin"] == pytest.approx(expected[0])
        learned = client.post("/v1/feedback", json={"id": one["id"], "label": "yes"}).json()
        assert learned["margin"] == pytest.approx(expected[0])  # the remembered offset was used
        lines = "".join(json.dumps(row) + "\n" for row in asked).encode()
        streamed = client.post("/v1/predict", content=lines, headers={"content-type": "application/x-ndjson"})
        assert len(streamed.text.splitlines()) == 3 and "error" not in streamed.text
        for path, body in (("predict", {}), ("learn", {"label": "yes"})):
            example = {"features": [1, 2, 3], "task": "ann", **body}
            said = expect_error(client.post(f"/v1/{path}", json=example), 422, "refused")
            assert '"offset" must be given' in said and said.endswith('Add "offset" to every example.')
            for wrong in (1e7, -1e7, [], [1.0, 2.0]):
                expect_error(client.post(f"/v1/{path}", json={**example, "offset": wrong}), 422, "refused")
            for wrong in ("1", None, {}, True, ["a"]):
                expect_error(client.post(f"/v1/{path}", json={**example, "offset": wrong}), 400, "malformed")
            mixed = {"examples": [{**example, "offset": 1.0}, example]}
            assert "1 without one" in expect_error(client.post(f"/v1/{path}", json=mixed), 422, "refused")
        said = expect_error(client.post("/v1/models/f/learn", json={"examples": rows[:5]}), 422, "refused")
        assert said.endswith('Leave out "offset", or serve a Budgetron.')
        with budgetron.Client(service.url) as caller:
            again = caller.predict_many(X[:2], tasks=["ann"] * 2, offset=[1.0, -1.0])
            assert len(again) == 2 and caller.predict(X[0], "ann", offset=1.0).label == again[0].label
            assert caller.learn(X[0], "yes", "ann", offset=np.float64(1.0)).learned == 1
            assert len(caller.learn_many(X[:3], ["yes"] * 3, ["ann"] * 3, offset=score[:3])) == 3
