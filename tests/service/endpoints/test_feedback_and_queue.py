"""Labels that arrive after the prediction: feedback on remembered predictions, and the queue of examples to label."""

from __future__ import annotations

import numpy as np
from running import expect_error, running

import budgetron


def test_feedback_that_is_new_repeated_contradictory_or_unknown_gets_its_status(trained):
    seen = trained.get("/v1/model").json()["seen"]
    first = trained.post("/v1/predict", json={"features": [1, 2], "task": "ann", "remember": True}).json()
    other = trained.post("/v1/predict", json={"features": [1, 2], "task": "ann", "remember": True}).json()
    assert first["id"] != other["id"]
    learned = trained.post("/v1/feedback", json={"id": first["id"], "label": "ham"}).json()
    assert learned["status"] == "learned" and learned["margin"] == first["margin"]
    again = trained.post("/v1/feedback", json={"id": first["id"], "label": "ham"}).json()
    assert again == {**learned, "status": "repeated"}
    expect_error(trained.post("/v1/feedback", json={"id": first["id"], "label": "spam"}), 409, "conflict")
    expect_error(trained.post("/v1/feedback", json={"id": "f" * 24, "label": "spam"}), 404, "unknown")
    expect_error(trained.post("/v1/feedback", json={"id": other["id"], "label": "egg"}), 422, "refused")
    assert trained.get("/v1/model").json()["seen"] == seen + 1
    several = trained.post("/v1/feedback", json={"feedback": [
        {"id": other["id"], "label": "spam"}, {"id": first["id"], "label": "spam"},
        {"id": "none", "label": "ham"}]})  # fmt: skip
    assert [answer["status"] for answer in several.json()["feedback"]] == ["learned", "conflict", "unknown"]


def test_the_labelling_queue_lists_uncertain_examples_and_survives_a_kill(tmp_path):
    rng = np.random.default_rng(0)
    rows = [{"features": x.tolist(), "label": int(x[0] > 0), "task": "ann"} for x in rng.normal(size=(100, 2)).round(3)]
    with running(tmp_path, "Budgetron") as service, service.client() as client:
        assert client.get("/v1/queue").json() == {"queue": [], "waiting": 0}
        client.post("/v1/learn", json={"examples": rows, "classes": [0, 1]})
        examples = [{"features": x.tolist(), "task": "ann"} for x in rng.normal(size=(200, 2)).round(3)]
        answers = client.post("/v1/predict", json={"examples": examples, "ask": 0.1}).json()["predictions"]
        to_label = [answer for answer in answers if answer["ask"]]
        assert 5 <= len(to_label) <= 60 and all(("id" in answer) == answer["ask"] for answer in answers)
        queue = client.get("/v1/queue").json()
        assert queue["waiting"] == len(to_label) == len(queue["queue"])
        leads = [item["lead"] for item in queue["queue"]]
        assert leads == sorted(leads)  # the least certain first
        assert queue["queue"][0]["features"] in [example["features"] for example in examples]
        first = queue["queue"][0]["id"]
        assert client.post("/v1/feedback", json={"id": first, "label": 1}).json()["status"] == "learned"
        left = client.get("/v1/queue").json()
        assert left["waiting"] == len(to_label) - 1 and first not in {item["id"] for item in left["queue"]}
        remembered = client.post("/v1/predict", json={**examples[0], "remember": True}).json()
        assert "ask" not in remembered and client.get("/v1/queue").json()["waiting"] == len(to_label) - 1
        for wrong in (0, -1, 1.5, "0.1", True, None, [0.1]):
            expect_error(client.post("/v1/predict", json={**examples[0], "ask": wrong}), 400, "malformed")
        with budgetron.Client(service.url) as caller:
            assert caller.predict([0.0, 0.0], "ann", ask=1.0).ask in (True, False)
            assert caller.queue()["waiting"] >= len(to_label) - 1
            waiting = caller.queue()["waiting"]
        service.kill()
    with running(tmp_path) as service, service.client() as client:
        assert client.get("/v1/queue").json()["waiting"] == waiting
