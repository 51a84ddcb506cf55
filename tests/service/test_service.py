"""Every path of the service, by a client on the same machine."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import numpy as np
import pytest
from running import running

import budgetron
from budgetron import kernels
from budgetron.durable import Host
from budgetron.durable.blocks import hashed


def problem(answer, status, kind):
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["kind"] == kind, answer.text
    return answer.json()["error"]["message"]


# ---- predicting and learning


def test_one_prediction_and_many(trained):
    one = trained.post("/v1/predict", json={"features": [1, 2], "task": "ann"}).json()
    assert one["label"] == "spam" and one["margin"] > 0 and "id" not in one and "probabilities" not in one
    many = trained.post("/v1/predict", json={"examples": [{"features": [1, 2], "task": "ann"},
                                                          {"features": [2, 1], "task": "bob"}]}).json()  # fmt: skip
    assert [answer["label"] for answer in many["predictions"]] == ["spam", "ham"]
    assert many["predictions"][0]["margin"] == one["margin"] and many["position"] >= 1


def test_a_forgotten_task_is_refused(trained):
    for path, example in (("predict", {"features": [1, 2]}), ("learn", {"features": [1, 2], "label": "ham"})):
        said = problem(trained.post(f"/v1/{path}", json={"examples": [example]}), 422, "refused")
        assert '"task" must be given for each row, since the model was trained with tasks; got None' in said
        assert said.endswith('Add "task" to every example.')


def test_probabilities_where_the_model_has_them(trained):
    chances = trained.post("/v1/models/flag/predict", json={"features": [1, 2], "task": "ann"}).json()["probabilities"]
    assert set(chances) == {"ham", "spam"} and sum(chances.values()) == pytest.approx(1)


def test_learning_equals_a_local_model(tmp_path_factory, trained):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "spam", "ham")
    path = tmp_path_factory.mktemp("model") / "now.budgetron"
    path.write_bytes(trained.get("/v1/snapshot").content)
    bare = budgetron.load(path)
    examples = [{"features": row.tolist(), "label": str(label), "task": "own"} for row, label in zip(X, y, strict=True)]
    answer = trained.post("/v1/learn", json={"examples": examples}).json()
    assert answer["learned"] == 60 and answer["repeated"] is False
    assert answer["margins"] == bare.predict_then_learn(X, y, tasks=["own"] * 60).tolist()
    assert trained.get("/v1/snapshot").content == _file(bare, path)


def _file(model, path):
    model.save(path)
    return path.read_bytes()


def test_a_key_in_the_header_or_the_body(trained):
    example = {"features": [0.5, 0.1], "label": "ham", "task": "ann"}
    first = trained.post("/v1/learn", json=example, headers={"Idempotency-Key": "k 1"}).json()
    again = trained.post("/v1/learn", json={**example, "key": "k 1"}).json()
    assert again == {**first, "repeated": True}
    problem(trained.post("/v1/learn", json={**example, "features": [9, 9], "key": "k 1"}), 409, "key_reused")
    problem(trained.post("/v1/learn", json={**example, "key": "a"}, headers={"Idempotency-Key": "b"}), 422, "refused")


def test_dicts_are_hashed_and_sparse_rows_accepted(tmp_path):
    with running(tmp_path, "Budgetron budget=20") as service, service.client() as client:
        learned = client.post("/v1/learn", json={"examples": [
            {"features": {"size": 2.0, "colour": "red"}, "label": 1, "task": 7},
            {"features": {"size": 1.0, "colour": "blue"}, "label": 0, "task": 8}]})  # fmt: skip
        assert learned.status_code == 200, learned.text
        bare = budgetron.Budgetron(budget=20)
        records = [{"size": 2.0, "colour": "red"}, {"size": 1.0, "colour": "blue"}]
        rows = hashed(records, None)
        assert learned.json()["margins"] == bare.predict_then_learn(rows, [1, 0], tasks=[7, 8]).tolist()
        sparse = {"indices": rows[0].indices.tolist(), "values": rows[0].data.tolist()}
        two = [client.post("/v1/predict", json={"features": f, "task": 7}).json() for f in (records[0], sparse)]
        assert two[0] == two[1] and two[0]["margin"] == bare.decision_function(rows[:1], tasks=[7])[0]
        problem(client.post("/v1/predict", json={"features": {"indices": [2**18], "values": [1]}}), 422, "refused")
        assert client.get("/v1/tasks/7").json()["task"] == 7
        assert client.get("/v1/tasks/%227%22").status_code == 404


def test_weights_and_classes(trained):
    example = {"features": [0.3, 0.1], "label": "ham", "task": "ann", "weight": 2.0}
    assert trained.post("/v1/models/flag/learn", json=example).status_code == 200
    message = problem(trained.post("/v1/learn", json=example), 422, "refused")
    assert message.startswith('RandomBudgetPerceptron: "weight" must be None')
    assert message.endswith('Leave out "weight", or serve a Budgetron.')
    problem(trained.post("/v1/learn", json={"examples": [example], "classes": ["a", "b"]}), 422, "refused")


# ---- labels that come later


def test_feedback_once_again_another_and_unknown(trained):
    seen = trained.get("/v1/model").json()["seen"]
    first = trained.post("/v1/predict", json={"features": [1, 2], "task": "ann", "remember": True}).json()
    other = trained.post("/v1/predict", json={"features": [1, 2], "task": "ann", "remember": True}).json()
    assert first["id"] != other["id"]
    learned = trained.post("/v1/feedback", json={"id": first["id"], "label": "ham"}).json()
    assert learned["status"] == "learned" and learned["margin"] == first["margin"]
    again = trained.post("/v1/feedback", json={"id": first["id"], "label": "ham"}).json()
    assert again == {**learned, "status": "repeated"}
    problem(trained.post("/v1/feedback", json={"id": first["id"], "label": "spam"}), 409, "conflict")
    problem(trained.post("/v1/feedback", json={"id": "f" * 24, "label": "spam"}), 404, "unknown")
    problem(trained.post("/v1/feedback", json={"id": other["id"], "label": "egg"}), 422, "refused")
    assert trained.get("/v1/model").json()["seen"] == seen + 1
    several = trained.post("/v1/feedback", json={"feedback": [
        {"id": other["id"], "label": "spam"}, {"id": first["id"], "label": "spam"},
        {"id": "none", "label": "ham"}]})  # fmt: skip
    assert [one["status"] for one in several.json()["feedback"]] == ["learned", "conflict", "unknown"]


# ---- looking, and administration


def test_model_tasks_live_and_metrics(trained_alone):
    model = trained_alone.get("/v1/model").json()
    assert model["learner"] == "RandomBudgetPerceptron" and model["classes"] == ["ham", "spam"]
    assert model["capacity"] == 30 and model["memory_bytes"] > 0 and sum(model["budget_share"].values()) > 0.9
    assert len(trained_alone.get("/v1/models/flag/model").json()["beliefs"]) > 1
    task = trained_alone.get("/v1/tasks/ann").json()
    assert task["stored"] >= 1 and task["figures"]["n"] >= 1
    problem(trained_alone.get("/v1/tasks/nobody"), 404, "unknown_task")
    live = trained_alone.get("/v1/live").json()
    assert live["overall"]["n"] == live["traffic"]["learned"] and live["mistakes"] and live["share"]
    assert trained_alone.get("/v1/models").json() == {"models": ["default", "flag"]}
    assert live["overall"]["auc"] is not None and live["k"] == 100 and live["rare"] is None
    assert live["tasks"][0].keys() >= {"auc", "average_precision", "brier"}
    text = trained_alone.get("/metrics").text
    assert 'budgetron_auc{model="default"}' in text and 'budgetron_brier{model="flag"}' in text
    assert f'budgetron_learned_total{{model="default"}} {live["traffic"]["learned"]}.0' in text
    assert 'budgetron_requests_total{method="GET",route="live",status="200"}' in text
    assert trained_alone.get("/healthz").json() == {"status": "alive"}
    assert trained_alone.get("/readyz").json()["status"] == "ready"


def test_events_repeat_the_live_state(trained):
    with trained.stream("GET", "/v1/events") as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        lines = answer.iter_lines()
        events = []
        for line in lines:
            if line.startswith("data: "):
                events.append(json.loads(line[6:]))
            if len(events) == 2:
                break
    assert events[0]["model"] == "default" and events[1]["at"] >= events[0]["at"]
    assert events[1].keys() == trained.get("/v1/live").json().keys()


def test_restore_forget_and_backup(tmp_path, trained):
    model = budgetron.RandomBudgetPerceptron(budget=30, kernel=kernels.Gaussian(gamma=0.5))
    model.partial_fit([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], ["x", "y"], tasks=["eve", "dan"])
    content = _file(model, tmp_path / "other.budgetron")
    before = trained.get("/v1/snapshot").content
    assert trained.put("/v1/snapshot", content=content).status_code == 200
    assert trained.get("/v1/snapshot").content == content
    assert trained.post("/v1/predict", json={"features": [1, 0, 0], "task": "eve"}).json()["label"] == "x"
    problem(trained.put("/v1/snapshot", content=content[:-1] + b"?"), 422, "refused")
    assert trained.delete("/v1/tasks/eve").status_code == 200
    assert "eve" not in trained.get("/v1/model").json()["budget_share"]
    assert trained.post("/v1/snapshot").json()["position"] > 0
    assert trained.put("/v1/snapshot", content=before).status_code == 200
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "host.sqlite").write_bytes(trained.get("/v1/backup").content)
    with Host.open(tmp_path / "copy") as copy:
        assert copy.content() == before


# ---- streams


def test_a_stream_of_lines(trained):
    example = {"features": [0.2, 0.4], "label": "spam", "task": "cyd"}
    lines = [json.dumps(example)] * 700
    lines[300] = "rubbish"
    lines[400] = json.dumps({**example, "features": [1, 2, 3]})
    seen = trained.get("/v1/model").json()["seen"]
    kind = {"Content-Type": "application/x-ndjson"}
    answer = trained.post("/v1/learn", content="\n".join(lines), headers=kind)
    answers = [json.loads(line) for line in answer.text.splitlines()]
    assert [one["line"] for one in answers if "error" in one] == [301, 401]
    assert answers[-1] == {"done": True, "lines": 700, "refused": 2}
    assert sum(one.get("learned", 0) for one in answers) == 698 == trained.get("/v1/model").json()["seen"] - seen
    lines = '{"features":[1,2],"task":"ann"}\n\n{"features":[1]}\n'
    predicted = trained.post("/v1/predict", content=lines, headers=kind)
    first, second, end = map(json.loads, predicted.text.splitlines())
    assert first["margin"] == trained.post("/v1/predict", json={"features": [1, 2], "task": "ann"}).json()["margin"]
    assert second["line"] == 2 and end == {"done": True, "lines": 2, "refused": 1}


def test_a_stream_with_a_key_is_learned_once(trained):
    lines = "\n".join(json.dumps({"features": [0.2, i / 1000], "label": "ham", "task": "dan"}) for i in range(1100))
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "stream 1"}
    cut = lines[: lines.index("\n", 60_000)]
    before = trained.get("/v1/model").json()["seen"]
    first = [json.loads(line) for line in trained.post("/v1/learn", content=cut, headers=headers).text.splitlines()]
    n = first[-1]["lines"]
    assert n % 512 and trained.get("/v1/model").json()["seen"] == before + n
    again = [json.loads(line) for line in trained.post("/v1/learn", content=lines, headers=headers).text.splitlines()]
    assert again[0]["repeated"] and again[0]["lines"][0] == 1
    assert again[-1] == {"done": True, "lines": 1100, "refused": 0}
    assert trained.get("/v1/model").json()["seen"] == before + 1100


def test_responses_arrive_while_the_stream_continues(trained):
    place = urlsplit(str(trained.base_url))
    with socket.create_connection((place.hostname, place.port), timeout=300) as wire:
        wire.sendall(b"POST /v1/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n")  # fmt: skip
        line = b'{"features":[1,2],"label":"spam","task":"ann"}\n'
        for _ in range(3):
            wire.sendall(b"%x\r\n%s\r\n" % (len(line), line))
            received = b""
            while b'"position"' not in received:
                piece = wire.recv(65536)
                assert piece
                received += piece
        wire.sendall(b"0\r\n\r\n")
        while b'"done":true' not in received:
            received += wire.recv(65536)


# ---- pages


def test_the_document_and_the_pages(client):
    document = client.get("/openapi.json").json()
    assert "/v1/models/{model}/predict" in document["paths"] and "/v1/predict" in document["paths"]
    for path in ("/docs", "/"):
        page = client.get(path)
        assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
        assert "default-src" in page.headers["content-security-policy"]
    assert "http://" not in client.get("/docs").text.replace("http://localhost", "")


# ---- reasons


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


def test_reasons_for_hostile_input(trained):
    for example, status in (
        ({"features": [1, 2, 3], "task": "ann"}, 422), ({"features": [1, 2]}, 422), ({"features": {}}, 422),
        ({"features": [1e308, -1e308], "task": "ann"}, 422), ({"features": [1, 2], "task": "x" * 100_000}, 422),
        ({"features": [1, 2], "task": "never seen"}, 200),
    ):  # fmt: skip
        answer = trained.post("/v1/predict", json={**example, "explain": True})
        assert answer.status_code == status, answer.text
    for wrong in ("yes", 1, {}, None):
        answer = trained.post("/v1/predict", json={"features": [1, 2], "task": "ann", "explain": wrong})
        problem(answer, 400, "malformed")


def test_reasons_name_hashed_features(tmp_path):
    names = ["<script>", "größe", "a" * 200, ""]
    with running(tmp_path, "Budgetron") as service, service.client() as client:
        assert client.post("/v1/predict", json={"features": {"a": 1}, "explain": True}).status_code == 409
        examples = [{"features": dict.fromkeys(names[:n], n), "label": n % 2} for n in range(1, 5)] * 5
        assert client.post("/v1/learn", json={"examples": examples}).status_code == 200
        found = client.post("/v1/predict", json={"features": dict.fromkeys(names, 2.0), "explain": True}).json()
        assert {term["name"] for term in found["reasons"]["terms"]} == {*names, "constant"}


# ---- another model's score


def test_offsets_over_http(tmp_path):
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
            said = problem(client.post(f"/v1/{path}", json=example), 422, "refused")
            assert '"offset" must be given' in said and said.endswith('Add "offset" to every example.')
            for wrong in (1e7, -1e7, [], [1.0, 2.0]):
                problem(client.post(f"/v1/{path}", json={**example, "offset": wrong}), 422, "refused")
            for wrong in ("1", None, {}, True, ["a"]):
                problem(client.post(f"/v1/{path}", json={**example, "offset": wrong}), 400, "malformed")
            mixed = {"examples": [{**example, "offset": 1.0}, example]}
            assert "1 without one" in problem(client.post(f"/v1/{path}", json=mixed), 422, "refused")
        said = problem(client.post("/v1/models/f/learn", json={"examples": rows[:5]}), 422, "refused")
        assert said.endswith('Leave out "offset", or serve a Budgetron.')
        with budgetron.Client(service.url) as caller:
            again = caller.predict_many(X[:2], tasks=["ann"] * 2, offset=[1.0, -1.0])
            assert len(again) == 2 and caller.predict(X[0], "ann", offset=1.0).label == again[0].label
            assert caller.learn(X[0], "yes", "ann", offset=np.float64(1.0)).learned == 1
            assert len(caller.learn_many(X[:3], ["yes"] * 3, ["ann"] * 3, offset=score[:3])) == 3


# ---- corrections


def test_corrections_over_http(tmp_path):
    rows = [{"features": [float(i % 5), float(i % 3)], "label": "spam" if i % 2 else "ham", "task": "ann"}
            for i in range(20)]  # fmt: skip
    with running(tmp_path, "Budgetron") as service, service.client() as client:
        problem(client.post("/v1/corrections", json={"position": 1, "label": "ham"}), 409, "nothing_learned")
        client.post("/v1/learn", json={"examples": rows, "key": "all"})
        one = client.post("/v1/predict", json={"features": [1, 1], "task": "ann", "remember": True}).json()["id"]
        nothing = client.post("/v1/feedback", json={"id": one, "withdraw": True})
        problem(nothing, 409, "conflict")
        first = client.post("/v1/feedback", json={"id": one, "label": "spam", "correct": True}).json()
        assert first["status"] == "learned"
        said = problem(client.post("/v1/feedback", json={"id": one, "label": "ham"}), 409, "conflict")
        assert '"correct": true' in said
        for _ in range(2):  # a retry changes nothing
            again = client.post("/v1/feedback", json={"id": one, "label": "ham", "correct": True}).json()
        assert again["status"] == "repeated" and len(client.get("/v1/corrections").json()["corrections"]) == 1
        model = budgetron.Budgetron().partial_fit(
            [row["features"] for row in rows], [row["label"] for row in rows], tasks=["ann"] * 20
        )
        model.learn_one([1.0, 1.0], "ham", task="ann")
        margin = client.post("/v1/predict", json={"features": [2, 1], "task": "ann"}).json()["margin"]
        assert margin == pytest.approx(float(model.decision_function([[2.0, 1.0]], tasks=["ann"])[0]), abs=1e-12)
        done = client.post("/v1/corrections", json={"key": "all", "row": 3, "label": "ham", "reason": "typo"}).json()
        assert done["correction"]["old"] == "spam" and done["replayed"] == 21 and done["seconds"] > 0
        assert client.post("/v1/feedback", json={"id": one, "withdraw": True}).json()["status"] == "withdrawn"
        said = problem(client.post("/v1/feedback", json={"id": one, "label": "ham", "correct": True}), 409, "conflict")
        assert "withdrawn" in said
        with budgetron.Client(service.url) as caller:
            assert caller.correct(1, "ham", 5, reason="é")["correction"]["new"] == "ham"
            assert caller.withdraw(1, 7)["correction"]["withdrawn"]
            trail = caller.corrections()
        assert [line["row"] for line in trail] == [7, 5, 0, 3, 0] and trail[0]["who"] == "anonymous"
        assert client.get("/v1/model").json()["seen"] == 19
        for body, status in (
            ({"position": 1, "row": 99, "label": "ham"}, 422), ({"position": 1, "label": "ham"}, 422),
            ({"position": 99, "label": "ham"}, 422), ({"position": 1, "row": 1, "label": "egg"}, 422),
            ({"position": 1, "row": 7, "label": "ham"}, 422), ({"label": "ham"}, 422), ({"position": 1, "row": 1}, 422),
            ({"position": 1, "row": 1, "label": "ham", "withdraw": True}, 422), ({"key": "?", "label": "ham"}, 404),
            ({"position": 1, "key": "all", "label": "ham"}, 422), ({"position": "1", "label": "ham"}, 400),
            ({"position": 1, "row": -1, "label": "ham"}, 400), ({"position": 1, "label": {}}, 400), ([], 400),
            ({"position": 2**70, "label": "ham"}, 400), ({"position": 1, "row": 1, "label": "x" * 10**5}, 422),
            ({"position": 1, "row": 1, "label": "ham", "reason": "x" * 501}, 400),
        ):  # fmt: skip
            answer = client.post("/v1/corrections", json=body)
            assert answer.status_code == status, (body, answer.text)
        assert client.get("/v1/model").json()["seen"] == 19
        client.post("/v1/snapshot", content=b"")
        client.post("/v1/learn", json=rows[0])
        client.post("/v1/snapshot", content=b"")
        late = client.post("/v1/corrections", json={"position": 1, "row": 1, "label": "ham"})
        said = problem(late, 409, "not_in_log")
        assert "Learn the right label as a new example" in said


# ---- the labelling queue


def test_the_labelling_queue(tmp_path):
    rng = np.random.default_rng(0)
    rows = [{"features": x.tolist(), "label": int(x[0] > 0), "task": "ann"} for x in rng.normal(size=(100, 2)).round(3)]
    with running(tmp_path, "Budgetron") as service, service.client() as client:
        assert client.get("/v1/queue").json() == {"queue": [], "waiting": 0}
        client.post("/v1/learn", json={"examples": rows, "classes": [0, 1]})
        asked = [{"features": x.tolist(), "task": "ann"} for x in rng.normal(size=(200, 2)).round(3)]
        answers = client.post("/v1/predict", json={"examples": asked, "ask": 0.1}).json()["predictions"]
        wanted = [answer for answer in answers if answer["ask"]]
        assert 5 <= len(wanted) <= 60 and all(("id" in answer) == answer["ask"] for answer in answers)
        found = client.get("/v1/queue").json()
        assert found["waiting"] == len(wanted) == len(found["queue"])
        leads = [item["lead"] for item in found["queue"]]
        assert leads == sorted(leads) and found["queue"][0]["features"] in [one["features"] for one in asked]
        first = found["queue"][0]["id"]
        assert client.post("/v1/feedback", json={"id": first, "label": 1}).json()["status"] == "learned"
        left = client.get("/v1/queue").json()
        assert left["waiting"] == len(wanted) - 1 and first not in {item["id"] for item in left["queue"]}
        remembered = client.post("/v1/predict", json={**asked[0], "remember": True}).json()
        assert "ask" not in remembered and client.get("/v1/queue").json()["waiting"] == len(wanted) - 1
        for wrong in (0, -1, 1.5, "0.1", True, None, [0.1]):
            problem(client.post("/v1/predict", json={**asked[0], "ask": wrong}), 400, "malformed")
        with budgetron.Client(service.url) as caller:
            assert caller.predict([0.0, 0.0], "ann", ask=1.0).ask in (True, False)
            assert caller.queue()["waiting"] >= len(wanted) - 1
            waiting = caller.queue()["waiting"]
        service.kill()
    with running(tmp_path) as service, service.client() as client:
        assert client.get("/v1/queue").json()["waiting"] == waiting  # it survives a kill
