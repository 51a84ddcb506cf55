"""`--offset COLUMN`: a column of the file has the scores of another model."""

from __future__ import annotations

import json

import numpy as np
import pytest

from budgetron import Budgetron, io


@pytest.fixture
def scored(tmp_path):
    rng = np.random.default_rng(0)
    X, users = rng.normal(size=(400, 2)).round(3), rng.integers(5, size=400)
    score = (2 * X[:, 0]).round(3)
    y = np.where(score + X[:, 1] * (users - 2) + rng.logistic(size=400) > 0, "yes", "no")
    lines = [f"u{u},{a},{b},{s},{label}" for u, (a, b), s, label in zip(users, X, score, y, strict=True)]
    path = tmp_path / "scored.csv"
    path.write_text("user,a,b,score,label\n" + "\n".join(lines) + "\n")
    return path


def test_run_predict_and_inspect_use_the_offset_column(scored, tmp_path, budgetron, as_json):
    result = as_json("run", scored, "--offset", "score", "--save", tmp_path / "m")
    with io.read(scored, offset="score") as stream:
        assert stream.columns.names == ["a", "b"] and stream.columns.offset == "score"
        (block,) = list(stream)
    model = Budgetron().partial_fit(block.X, block.y, tasks=block.tasks, classes=["no", "yes"], offset=block.offsets)
    assert result["validation"]["overall"]["mistakes"] == model.n_mistakes_
    assert as_json("run", scored, "--drop", "score")["validation"] != result["validation"]
    written = budgetron("predict", tmp_path / "m", scored, "--json").stdout.splitlines()
    expected = model.predict_proba(block.X[:1], tasks=block.tasks[:1], offset=block.offsets[:1])[0, 1]
    assert json.loads(written[0])["probability_yes"] == pytest.approx(expected, abs=1e-6)  # printed with six decimals
    example = json.dumps({"a": 0, "b": 0, "score": 3.5})
    reasons = as_json("inspect", tmp_path / "m", "--example", example, "--task", "u1")["example"]["reasons"]
    assert "offset" in {term["kind"] for term in reasons["terms"]}
    assert "offset" in {row["role"] for row in as_json("inspect", tmp_path / "m")["columns"]}
    assert as_json("inspect", tmp_path / "m", "--importance", scored)["importance"]["examples"] == 400
    budgetron("run", scored, "--resume", tmp_path / "m")
    compared = budgetron("compare", scored, "--offset", "score", "--learners", "Budgetron,Forgetron").output
    assert "--offset score" in compared


def test_decisions_use_the_offset_column(scored, tmp_path, budgetron, as_json):
    budgetron("run", scored, "--offset", "score", "--threshold", 0.5, "--save", tmp_path / "m", "--quiet")
    for score, decision in ((-30, "no"), (30, "yes")):
        example = json.dumps({"a": 0, "b": 0, "score": score})
        explained = as_json("inspect", tmp_path / "m", "--example", example, "--task", "u1")["example"]
        assert explained["decision"] == decision
    point = as_json("calibrate", tmp_path / "m", scored, "--costs", "fp=1,fn=3", "--save", tmp_path / "c")
    assert point["operating_point"]["counted"] == 400


def test_invalid_offset_columns_and_values_are_refused(scored, tmp_path, budgetron):
    assert "no column 'gone'" in budgetron("run", scored, "--offset", "gone", code=2).output
    assert "both the column" in budgetron("run", scored, "--offset", "label", "--label", "label", code=2).output
    assert "Budgetron" in budgetron("run", scored, "--offset", "score", "--learner", "Forgetron", code=2).output
    broken = tmp_path / "broken.csv"
    lines = scored.read_text().splitlines()
    for value in ("", "high", "2e7", "nan"):
        fields = lines[5].split(",")
        fields[3] = value
        broken.write_text("\n".join([*lines[:5], ",".join(fields), *lines[6:]]) + "\n")
        output = budgetron("run", broken, "--offset", "score", code=2).output
        assert "line 6" in output and "'score'" in output and "Traceback" not in output
        budgetron("run", broken, "--offset", "score", "--on-error", "skip")
    budgetron("run", scored, "--offset", "score", "--save", tmp_path / "m")
    for text in ('{"a": 1, "b": 2}', '{"a": 1, "b": 2, "score": null}', '{"a": 1, "b": 2, "score": 1e9}'):
        output = budgetron("inspect", tmp_path / "m", "--example", text, "--task", "u1", code=2).output
        assert "score" in output and "Traceback" not in output
