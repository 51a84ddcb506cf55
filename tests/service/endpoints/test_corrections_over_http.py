"""Corrections over HTTP: labels that are changed or withdrawn after they were learned."""

from __future__ import annotations

import pytest
from running import expect_error, running

import budgetron

ROWS = [
    {"features": [float(i % 5), float(i % 3)], "label": "spam" if i % 2 else "ham", "task": "ann"} for i in range(20)
]


@pytest.fixture
def service(tmp_path):
    """A service that has learned ROWS in one request. Its key is "all", and it is record 1 of the log."""
    with running(tmp_path, "Budgetron") as service:
        with service.client() as client:
            expect_error(client.post("/v1/corrections", json={"position": 1, "label": "ham"}), 409, "nothing_learned")
            assert client.post("/v1/learn", json={"examples": ROWS, "key": "all"}).status_code == 200
        yield service


def remembered_prediction(client):
    """Predict an example, and return the id by which the prediction can be labelled."""
    return client.post("/v1/predict", json={"features": [1, 1], "task": "ann", "remember": True}).json()["id"]


def test_feedback_can_correct_a_label_it_has_given_before(client):
    prediction_id = remembered_prediction(client)
    expect_error(client.post("/v1/feedback", json={"id": prediction_id, "withdraw": True}), 409, "conflict")
    first = client.post("/v1/feedback", json={"id": prediction_id, "label": "spam", "correct": True}).json()
    assert first["status"] == "learned"
    message = expect_error(client.post("/v1/feedback", json={"id": prediction_id, "label": "ham"}), 409, "conflict")
    assert '"correct": true' in message
    for _ in range(2):  # a retry changes nothing
        again = client.post("/v1/feedback", json={"id": prediction_id, "label": "ham", "correct": True}).json()
    assert again["status"] == "repeated" and len(client.get("/v1/corrections").json()["corrections"]) == 1
    model = budgetron.Budgetron().partial_fit(
        [row["features"] for row in ROWS], [row["label"] for row in ROWS], tasks=["ann"] * 20
    )
    model.learn_one([1.0, 1.0], "ham", task="ann")
    margin = client.post("/v1/predict", json={"features": [2, 1], "task": "ann"}).json()["margin"]
    assert margin == pytest.approx(float(model.decision_function([[2.0, 1.0]], tasks=["ann"])[0]), abs=1e-12)


def test_labels_are_corrected_or_withdrawn_by_key_by_id_and_by_position(service, client):
    prediction_id = remembered_prediction(client)
    client.post("/v1/feedback", json={"id": prediction_id, "label": "ham"})
    done = client.post("/v1/corrections", json={"key": "all", "row": 3, "label": "ham", "reason": "typo"}).json()
    assert done["correction"]["old"] == "spam" and done["replayed"] == 21 and done["seconds"] > 0
    for _ in range(2):  # a retry gets the same answer
        answer = client.post("/v1/feedback", json={"id": prediction_id, "withdraw": True})
        assert answer.status_code == 200 and answer.json()["status"] == "withdrawn"
    for label in ("ham", "spam"):  # refused after the withdrawal, and the message does not suggest a correction
        verdict = {"id": prediction_id, "label": label}
        (in_list,) = client.post("/v1/feedback", json={"feedback": [verdict]}).json()["feedback"]
        messages = [in_list["message"]] + [
            expect_error(client.post("/v1/feedback", json=verdict | correct), 409, "conflict")
            for correct in ({}, {"correct": True})
        ]
        assert in_list["status"] == "conflict"
        assert all("was withdrawn" in message and '"correct"' not in message for message in messages)
    with budgetron.Client(service.url) as caller:
        assert caller.correct(1, "ham", 5, reason="é")["correction"]["new"] == "ham"
        assert caller.withdraw(1, 7)["correction"]["withdrawn"]
        trail = caller.corrections()
    assert [line["row"] for line in trail] == [7, 5, 0, 3] and trail[0]["who"] == "anonymous"
    assert client.get("/v1/model").json()["seen"] == 19
    answer = client.post("/v1/corrections", json={"position": 1, "row": 7, "label": "ham"})
    assert answer.status_code == 422, "the example was withdrawn"


def test_invalid_corrections_are_refused_and_change_nothing(client):
    before = client.get("/v1/snapshot").content
    for body, status in (
        ({"position": 1, "row": 99, "label": "ham"}, 422), ({"position": 1, "label": "ham"}, 422),
        ({"position": 99, "label": "ham"}, 422), ({"position": 1, "row": 1, "label": "egg"}, 422),
        ({"label": "ham"}, 422), ({"position": 1, "row": 1}, 422),
        ({"position": 1, "row": 1, "label": "ham", "withdraw": True}, 422), ({"key": "?", "label": "ham"}, 404),
        ({"position": 1, "key": "all", "label": "ham"}, 422), ({"position": "1", "label": "ham"}, 400),
        ({"position": 1, "row": -1, "label": "ham"}, 400), ({"position": 1, "label": {}}, 400), ([], 400),
        ({"position": 2**70, "label": "ham"}, 400), ({"position": 1, "row": 1, "label": "x" * 10**5}, 422),
        ({"position": 1, "row": 1, "label": "ham", "reason": "x" * 501}, 400),
    ):  # fmt: skip
        answer = client.post("/v1/corrections", json=body)
        assert answer.status_code == status, (body, answer.text)
    assert client.get("/v1/snapshot").content == before


def test_a_correction_of_a_record_that_left_the_log_is_refused_with_a_remedy(client):
    client.post("/v1/snapshot", content=b"")
    client.post("/v1/learn", json=ROWS[0])
    client.post("/v1/snapshot", content=b"")
    late = client.post("/v1/corrections", json={"position": 1, "row": 1, "label": "ham"})
    assert "Learn the correct label as a new example" in expect_error(late, 409, "not_in_log")
