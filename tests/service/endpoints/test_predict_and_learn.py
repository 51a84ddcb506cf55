"""Predict and learn over HTTP: the answers of the service equal the results of a local model."""

from __future__ import annotations

import numpy as np
import pytest
from running import expect_error, model_file, running

import budgetron
from budgetron.durable.blocks import hashed


def test_one_example_and_a_list_get_the_same_prediction(trained):
    prediction = trained.post("/v1/predict", json={"features": [1, 2], "task": "ann"}).json()
    assert (
        prediction["label"] == "spam"
        and prediction["margin"] > 0
        and "id" not in prediction
        and "probabilities" not in prediction
    )
    many = trained.post("/v1/predict", json={"examples": [{"features": [1, 2], "task": "ann"},
                                                          {"features": [2, 1], "task": "bob"}]}).json()  # fmt: skip
    assert [answer["label"] for answer in many["predictions"]] == ["spam", "ham"]
    assert many["predictions"][0]["margin"] == prediction["margin"] and many["position"] >= 1


def test_an_example_without_a_task_is_refused_by_a_model_with_tasks(trained):
    for path, example in (("predict", {"features": [1, 2]}), ("learn", {"features": [1, 2], "label": "ham"})):
        message = expect_error(trained.post(f"/v1/{path}", json={"examples": [example]}), 422, "refused")
        assert '"task" must be given for each row, since the model was trained with tasks; got null' in message
        assert message.endswith('Add "task" to every example.')


def test_predictions_include_probabilities_if_the_model_has_them(trained):
    prediction = trained.post("/v1/models/flag/predict", json={"features": [1, 2], "task": "ann"}).json()
    probabilities = prediction["probabilities"]
    assert set(probabilities) == {"ham", "spam"} and sum(probabilities.values()) == pytest.approx(1)


def test_the_served_model_equals_a_local_model_after_the_same_examples(tmp_path_factory, trained):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "spam", "ham")
    path = tmp_path_factory.mktemp("model") / "now.budgetron"
    path.write_bytes(trained.get("/v1/snapshot").content)
    local = budgetron.load(path)
    examples = [{"features": row.tolist(), "label": str(label), "task": "own"} for row, label in zip(X, y, strict=True)]
    answer = trained.post("/v1/learn", json={"examples": examples}).json()
    assert answer["learned"] == 60 and answer["repeated"] is False
    assert answer["margins"] == local.predict_then_learn(X, y, tasks=["own"] * 60).tolist()
    assert trained.get("/v1/snapshot").content == model_file(local, path)


def test_an_idempotency_key_works_in_the_header_and_in_the_body(trained):
    example = {"features": [0.5, 0.1], "label": "ham", "task": "ann"}
    first = trained.post("/v1/learn", json=example, headers={"Idempotency-Key": "k 1"}).json()
    again = trained.post("/v1/learn", json={**example, "key": "k 1"}).json()
    assert again == {**first, "repeated": True}
    expect_error(trained.post("/v1/learn", json={**example, "features": [9, 9], "key": "k 1"}), 409, "key_reused")
    expect_error(
        trained.post("/v1/learn", json={**example, "key": "a"}, headers={"Idempotency-Key": "b"}), 422, "refused"
    )


def test_named_features_are_hashed_and_sparse_rows_accepted(tmp_path):
    with running(tmp_path, "Budgetron budget=20") as service, service.client() as client:
        learned = client.post("/v1/learn", json={"examples": [
            {"features": {"size": 2.0, "colour": "red"}, "label": 1, "task": 7},
            {"features": {"size": 1.0, "colour": "blue"}, "label": 0, "task": 8}]})  # fmt: skip
        assert learned.status_code == 200, learned.text
        local = budgetron.Budgetron(budget=20)
        records = [{"size": 2.0, "colour": "red"}, {"size": 1.0, "colour": "blue"}]
        rows = hashed(records, None)
        assert learned.json()["margins"] == local.predict_then_learn(rows, [1, 0], tasks=[7, 8]).tolist()
        sparse = {"indices": rows[0].indices.tolist(), "values": rows[0].data.tolist()}
        answers = [client.post("/v1/predict", json={"features": f, "task": 7}).json() for f in (records[0], sparse)]
        assert answers[0] == answers[1] and answers[0]["margin"] == local.decision_function(rows[:1], tasks=[7])[0]
        expect_error(client.post("/v1/predict", json={"features": {"indices": [2**18], "values": [1]}}), 422, "refused")
        assert client.get("/v1/tasks/7").json()["task"] == 7
        assert client.get("/v1/tasks/%227%22").status_code == 404


def test_weights_are_refused_by_learners_without_weights(trained):
    example = {"features": [0.3, 0.1], "label": "ham", "task": "ann", "weight": 2.0}
    assert trained.post("/v1/models/flag/learn", json=example).status_code == 200
    message = expect_error(trained.post("/v1/learn", json=example), 422, "refused")
    assert message.startswith('RandomBudgetPerceptron: "weight" must be None')
    assert message.endswith('Leave out "weight", or serve a Budgetron.')
    expect_error(trained.post("/v1/learn", json={"examples": [example], "classes": ["a", "b"]}), 422, "refused")
