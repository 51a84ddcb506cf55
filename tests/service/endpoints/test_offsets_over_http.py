"""Offsets over HTTP. An offset is the score of another model, and is added to the margin."""

from __future__ import annotations

import json

import numpy as np
import pytest
from running import expect_error, running

import budgetron

X = np.random.default_rng(0).normal(size=(40, 3)).round(3)
SCORES = (2 * X[:, 0]).round(3)
ROWS = [
    {"features": x.tolist(), "label": "yes" if score > 0 else "no", "task": "ann", "offset": float(score)}
    for x, score in zip(X, SCORES, strict=True)
]
NDJSON = {"content-type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service with two Budgetrons that have learned ROWS with offsets, and a Forgetron, which takes no offsets.

    `fixed` learns nothing else, so the tests can run in any order.
    """
    models = ("Budgetron", "fixed=Budgetron", "f=Forgetron budget=5")
    with running(tmp_path_factory.mktemp("service"), *models) as service:
        with service.client() as client:
            for path in ("/v1/learn", "/v1/models/fixed/learn"):
                answer = client.post(path, json={"examples": ROWS[:20], "classes": ["no", "yes"]})
                assert answer.status_code == 200, answer.text
                lines = "".join(json.dumps(row) + "\n" for row in ROWS[20:]).encode()
                streamed = client.post(path, content=lines, headers=NDJSON).text
                assert '"done":true,"lines":20,"refused":0' in streamed
        yield service


def test_margins_with_offsets_equal_those_of_a_local_model(client):
    model = budgetron.Budgetron().partial_fit(
        X, [row["label"] for row in ROWS], tasks=["ann"] * 40, classes=["no", "yes"], offset=SCORES
    )
    expected = model.decision_function(X[:2], tasks=["ann"] * 2, offset=[1.0, -1.0]).tolist()
    asked = [{"features": x.tolist(), "task": "ann", "offset": s} for x, s in zip(X[:2], (1.0, -1.0), strict=True)]
    many = client.post("/v1/models/fixed/predict", json={"examples": asked, "explain": True}).json()["predictions"]
    assert [answer["margin"] for answer in many] == pytest.approx(expected)
    assert "offset" in {term["kind"] for term in many[0]["reasons"]["terms"]}
    lines = "".join(json.dumps(row) + "\n" for row in asked).encode()
    streamed = client.post("/v1/models/fixed/predict", content=lines, headers=NDJSON)
    assert len(streamed.text.splitlines()) == 3 and "error" not in streamed.text


def test_the_offset_of_a_remembered_prediction_is_used_when_its_label_is_learned(client):
    asked = {"features": X[0].tolist(), "task": "ann", "offset": 1.0, "remember": True}
    predicted = client.post("/v1/predict", json=asked).json()
    learned = client.post("/v1/feedback", json={"id": predicted["id"], "label": "yes"}).json()
    assert learned["margin"] == pytest.approx(predicted["margin"])


@pytest.mark.parametrize("path, body", [("predict", {}), ("learn", {"label": "yes"})])
def test_missing_and_invalid_offsets_are_refused(client, path, body):
    example = {"features": [1, 2, 3], "task": "ann", **body}
    message = expect_error(client.post(f"/v1/{path}", json=example), 422, "refused")
    assert '"offset" must be given' in message and message.endswith('Add "offset" to every example.')
    for wrong in (1e7, -1e7, [], [1.0, 2.0]):
        expect_error(client.post(f"/v1/{path}", json={**example, "offset": wrong}), 422, "refused")
    for wrong in ("1", None, {}, True, ["a"]):
        expect_error(client.post(f"/v1/{path}", json={**example, "offset": wrong}), 400, "malformed")
    mixed = {"examples": [{**example, "offset": 1.0}, example]}
    assert "examples without an offset" in expect_error(client.post(f"/v1/{path}", json=mixed), 422, "refused")


def test_a_learner_without_offsets_refuses_them(client):
    message = expect_error(client.post("/v1/models/f/learn", json={"examples": ROWS[:5]}), 422, "refused")
    assert message.endswith('Leave out "offset", or serve a Budgetron.')


def test_the_python_client_sends_offsets(service):
    with budgetron.Client(service.url) as client:
        predictions = client.predict_many(X[:2], tasks=["ann"] * 2, offset=[1.0, -1.0])
        assert len(predictions) == 2 and client.predict(X[0], "ann", offset=1.0).label == predictions[0].label
        assert client.learn(X[0], "yes", "ann", offset=np.float64(1.0)).learned == 1
        assert len(client.learn_many(X[:3], ["yes"] * 3, ["ann"] * 3, offset=SCORES[:3])) == 3
