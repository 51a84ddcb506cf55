"""Features by name over HTTP: nested objects as in a file, unknown names, and labels that are booleans."""

from __future__ import annotations

import json

import pytest
from running import running

from budgetron import Budgetron, io


@pytest.fixture(scope="module")
def client_and_file(tmp_path_factory):
    """A client of a service with three models, and the model file from which `default` and `learning` start.

    The model in this file has learned nested objects and boolean labels. The third model, `hashed`, hashes names. The
    tests can run in any order: `default` learns nothing more, and only one test uses `hashed`.
    """
    folder = tmp_path_factory.mktemp("names")
    rows = [{"user": f"u{i % 3}", "geo": {"lat": i % 7, "at": {"hour": i % 5}}, "tags": ["a", "b"][: i % 3],
             "size": i % 4, "fraud": i % 7 > 3} for i in range(210)]  # fmt: skip
    (folder / "events.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = Budgetron(budget=30)
    with io.read(folder / "events.ndjson") as stream:
        for block in stream:
            model.partial_fit(block.X, block.y, tasks=block.tasks, classes=stream.classes)
    io.save_model(folder / "m.budgetron", model, stream.columns)
    file = folder / "m.budgetron"
    served = running(folder / "data", f"default={file}", f"learning={file}", "hashed=Budgetron")
    with served as service, service.client() as client:
        yield client, file


def predict(client, features, path="/v1/predict", **fields):
    answer = client.post(path, json={"features": features, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


NESTED = {"geo": {"lat": 6, "at": {"hour": 1}}, "tags": ["a", "b"], "size": 2}
FLAT = {"geo.lat": 6, "geo.at.hour": 1, "tags": "a b", "size": 2}


def test_nested_objects_are_encoded_as_in_a_file(client_and_file):
    client, path = client_and_file
    model, columns = io.load_model(path)
    expected = model.predict_proba(columns.encode([FLAT]), tasks=["u1"])[0].tolist()
    for features in (NESTED, FLAT):
        answer = predict(client, features, task="u1")
        assert answer["label"] is True and "warning" not in answer
        assert answer["probabilities"] == pytest.approx(dict(zip(["false", "true"], expected, strict=True)))
    assert predict(client, NESTED, task="u1", explain=True)["reasons"]["label"] is True
    assert columns.encode([NESTED]).tolist() == columns.encode([FLAT]).tolist()


def test_unknown_names_are_refused_or_reported(client_and_file):
    client, _ = client_and_file
    for features in ({"lat": 6, "grösse": 2}, {"geo": {"latitude": 6}}):
        for path, fields in (("predict", {}), ("learn", {"label": True})):
            answer = client.post(f"/v1/{path}", json={"features": features, "task": "u1", **fields})
            message = answer.json()["error"]["message"]
            assert answer.status_code == 422, message
            assert (
                "\"features\" must be values of some of the columns ['geo.lat'" in message and "none of them" in message
            )
    answer = predict(client, {**NESTED, "colour": "red"}, task="u1")
    assert answer["warning"].startswith("Unknown features are ignored: ['colour']. The columns of the model are")
    assert predict(client, {"size": 2}, task="u1")["warning"].startswith("Only 1 of 4 columns are given")
    row_of_the_file = {**NESTED, "user": "u1", "fraud": True}
    assert "warning" not in predict(client, row_of_the_file, task="u1")
    many = client.post("/v1/predict", json={"examples": [{"features": NESTED, "task": "u1"},
                                                         {"features": {"size": 1}, "task": "u1"}]}).json()  # fmt: skip
    assert ["warning" in answer for answer in many["predictions"]] == [False, True]


@pytest.mark.parametrize("label", [True, "true", "True"])
def test_every_spelling_of_a_boolean_label_is_accepted(client_and_file, label):
    client, path = client_and_file[0], "/v1/models/learning/learn"
    answer = client.post(path, json={"features": NESTED, "task": "u1", "label": label})
    assert answer.status_code == 200, answer.text
    line = json.dumps({"features": NESTED, "task": "u1", "label": label}) + "\n"
    lines = client.post(path, content=line * 3, headers={"content-type": "application/x-ndjson"}).text
    acknowledged = json.loads(lines.splitlines()[0])
    assert acknowledged["learned"] == 3 and acknowledged["wrong"] == 0
    assert "warning" not in acknowledged
    few = line * 2 + json.dumps({"features": {"size": 1}, "task": "u1", "label": label}) + "\n"
    lines = client.post(path, content=few, headers={"content-type": "application/x-ndjson"}).text
    acknowledged = json.loads(lines.splitlines()[0])
    assert acknowledged["warning"].startswith("Only 1 of 4") and acknowledged["warning_line"] == 3
    answer = client.post(path, json={"features": {"size": 1}, "task": "u1", "label": label}).json()
    assert answer["warning"].startswith("Only 1 of 4")


def test_hashed_names_are_flattened_too(client_and_file):
    client, _ = client_and_file
    examples = [{"features": NESTED, "label": "a"}, {"features": {"geo": {"lat": -3}, "size": None}, "label": "b"}] * 5
    assert client.post("/v1/models/hashed/learn", json={"examples": examples}).status_code == 200
    nested, flat = (predict(client, features, "/v1/models/hashed/predict") for features in (NESTED, FLAT))
    assert nested == flat and nested["label"] == "a"
    reasons = predict(client, NESTED, "/v1/models/hashed/predict", explain=True)["reasons"]
    assert {"geo.lat", "tags=a b"} <= {term["name"] for term in reasons["terms"]}
    refused = client.post("/v1/predict", json={"features": {"tags": [{"a": 1}]}, "task": "u1"})
    assert refused.status_code == 422 and "a list with dict" in refused.json()["error"]["message"]


def test_learn_one_flattens_and_files_for_another_model_are_refused(client_and_file, tmp_path):
    _, path = client_and_file
    model = Budgetron()
    model.learn_one({"a": {"b": 1.0}, "c": ["x", "y"]}, 1)
    assert model.predict_one({"a.b": 1.0, "c": "x y"}) == 1 and model.predict_one({"a": {"b": 1.0}, "d": None}) == 1
    _, columns = io.load_model(path)
    (tmp_path / "other.ndjson").write_text('{"user": "u1", "x": 1}\n{"user": "u2", "y": 2}\n')
    with (
        io.read(tmp_path / "other.ndjson", columns=columns, labelled=False) as stream,
        pytest.raises(ValueError, match=r"has none of the columns that the model learned from, \['geo.lat'"),
    ):
        list(stream)
    with pytest.raises(ValueError, match="the record must be values of some of the columns"):
        columns.encode({"x": [1, 2]})
