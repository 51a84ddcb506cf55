"""A model that was trained on a file accepts the file's columns over HTTP.

Learning updates the scales of the columns, and a kill does not lose these updates.
"""

from __future__ import annotations

import pytest
from running import Running

from budgetron import Budgetron, io
from budgetron.learners.lifecycle.saved import content_of

LINE = "{user},{size}.5,{colour},{label}\n"
TABLE = "user,size,colour,label\n" + "".join(
    LINE.format(user="ab"[i % 2], size=i % 7, colour="red" if i % 3 else "blue", label="spam" if i % 7 > 3 else "ham")
    for i in range(60)
)
RECORDS = [{"size": 2.5 + i, "colour": "red"} for i in range(5)]


@pytest.fixture
def saved(tmp_path):
    (tmp_path / "mail.csv").write_text(TABLE)
    model = Budgetron(budget=20)
    with io.read(tmp_path / "mail.csv") as stream:
        for block in stream:
            model.partial_fit(block.X, block.y, tasks=block.tasks)
    io.save_model(tmp_path / "mail.budgetron", model, stream.columns)
    return tmp_path / "mail.budgetron"


def test_records_are_encoded_and_learned_as_from_the_file_and_survive_a_kill(tmp_path, saved):
    service = Running(tmp_path / "data", str(saved))
    local, columns = io.load_model(saved)
    with service.client() as client:
        answer = client.post("/v1/predict", json={"features": RECORDS[0], "task": "ann"}).json()
        assert answer["margin"] == local.decision_function(columns.encode(RECORDS[:1]), tasks=["ann"])[0]
        examples = [{"features": record, "label": "spam", "task": "bob"} for record in RECORDS]
        margins = client.post("/v1/learn", json={"examples": examples}).json()["margins"]
        X = columns.encode(RECORDS, learn=True)
        assert margins == local.predict_then_learn(X, ["spam"] * 5, tasks=["bob"] * 5).tolist()
        refused = client.post("/v1/learn", json={"features": {"size": 9e9}, "label": "egg", "task": "bob"})
        assert refused.status_code == 422, refused.text  # so the scales must not change
        assert client.get("/v1/snapshot").content == content_of(local)
        assert {"column", "role", "kind"} <= client.get("/v1/model").json()["columns"][0].keys()
    service.kill()
    service = Running(tmp_path / "data")
    with service.client() as client:
        assert client.get("/v1/snapshot").content == content_of(local)
    service.stop()
