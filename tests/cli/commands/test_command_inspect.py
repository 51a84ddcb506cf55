"""`budgetron inspect`: the attributes of the model, and explanations that agree with a computation by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from budgetron import Forgetron, io
from budgetron.durable import Host

EXAMPLE = {"size": 1.5, "links": -0.5, "colour": "red"}


@pytest.fixture
def save_model(mail: Path, tmp_path: Path, budgetron):
    def save(*options):
        budgetron("run", mail, "--budget", 40, "--save", tmp_path / "m", "--overwrite", *options)
        return tmp_path / "m"

    return save


def test_inspect_prints_the_attributes_of_the_model(save_model, as_json) -> None:
    result = as_json("inspect", save_model())
    model, columns = io.load_model(result["file"])
    assert (result["learner"], result["seen"], result["mistakes"]) == ("Budgetron", 600, model.n_mistakes_)
    assert (result["memory_bytes"], result["capacity"]) == (model.memory_bytes_, 0)
    assert result["budget_share"] == model.budget_share_
    assert [belief["weight"] for belief in result["beliefs"]] == [weight for _, weight in model.beliefs_]
    assert [row["column"] for row in result["columns"]] == [row.column for row in columns.describe()]


@pytest.mark.parametrize("options", [["--learner", "Forgetron"], ["--learner", "mtbprj-2", "--kernel", "polynomial:2"]])
def test_contributions_add_up_to_the_margin(save_model, as_json, options: list[str]) -> None:
    path = save_model(*options)
    result = as_json("inspect", path, "--example", json.dumps(EXAMPLE), "--task", "bob", "--nearest", 1000)["example"]
    model, columns = io.load_model(path)
    row = columns.encode([EXAMPLE | {"user": "bob"}])
    assert len(result["nearest"]) == model.n_stored_
    assert sum(near["pull"] for near in result["nearest"]) == pytest.approx(result["margin"])
    assert result["margin"] == pytest.approx(model.decision_function(row, tasks=["bob"])[0])
    similarities = np.sort(model.kernel_(row, model.active_set_.rows).ravel())[::-1]
    assert np.allclose([near["alike"] for near in result["nearest"]], similarities)


def test_the_explanation_of_a_budgetron_agrees_with_its_prediction(save_model, as_json, budgetron) -> None:
    path = save_model()
    result = as_json("inspect", path, "--example", json.dumps(EXAMPLE | {"user": "cid"}))["example"]
    model, columns = io.load_model(path)
    row = columns.encode([EXAMPLE | {"user": "cid"}])
    assert list(result["probability"].values()) == pytest.approx(model.predict_proba(row, tasks=["cid"])[0])
    assert (
        result["prediction"] == model.predict(row, tasks=["cid"])[0]
        and result["task"] == "cid"
        and result["missing"] == []
    )
    shown = budgetron("inspect", path, "--example", json.dumps({"size": 1}), "--task", "ann").stdout
    for words in (
        "learner  Budgetron", "Columns", "models that are mixed", "for task ann", "not given: links", "log odds"
    ):  # fmt: skip
        assert words in shown


def test_inspect_explains_sparse_rows_and_several_labels(tmp_path: Path, budgetron, as_json) -> None:
    stream = tmp_path / "s.csv"
    rows = [("win a free prize today", "spam"), ("lunch at noon with ann", "ham"), ("your parcel waits here", "post")]
    lines = [f"{words} number {n},{label}" for n in range(30) for words, label in rows]
    stream.write_text("words,label\n" + "\n".join(lines) + "\n")
    options = ["--text", "words", "--learner", "Forgetron", "--kernel", "linear"]
    budgetron("run", stream, *options, "--save", tmp_path / "m")
    example = json.dumps({"words": "win a prize"})
    result = as_json("inspect", tmp_path / "m", "--example", example, "--nearest", 500)["example"]
    assert result["prediction"] == "spam"
    assert np.allclose(np.sum([near["pull"] for near in result["nearest"]], axis=0), result["margin"])
    assert "predicted as spam" in budgetron("inspect", tmp_path / "m", "--example", example).stdout


def test_reasons_add_up_and_have_names(save_model, as_json, budgetron) -> None:
    path = save_model()
    result = as_json("inspect", path, "--example", json.dumps(EXAMPLE), "--task", "bob")["example"]
    reasons = result["reasons"]
    total = sum(term["total"] for term in reasons["terms"]) + reasons["rest"] + reasons["remainder"]
    assert total == pytest.approx(result["margin"], abs=1e-9) == reasons["margin"]
    assert {"size", "links", "colour=red", "constant"} <= {term["name"] for term in reasons["terms"]}
    shown = budgetron("inspect", path, "--example", json.dumps(EXAMPLE), "--task", "bob").stdout
    assert "What speaks for" in shown and "colour=red" in shown and "margin" in shown


def test_words_and_many_categories_have_names(tmp_path: Path, budgetron, as_json) -> None:
    stream = tmp_path / "s.csv"
    lines = [f"{words} {n},city {n % 90},{label}" for n in range(120)
             for words, label in (("win a prize", "spam"), ("lunch at noon", "ham"))]  # fmt: skip
    stream.write_text("words,city,label\n" + "\n".join(lines) + "\n")
    budgetron("run", stream, "--text", "words", "--categorical", "city", "--save", tmp_path / "m")
    example = json.dumps({"words": "win lunch", "city": "city 7"})
    result = as_json("inspect", tmp_path / "m", "--example", example)["example"]["reasons"]
    terms = {term["name"]: term["total"] for term in result["terms"]}
    assert terms["words: win"] > 0 > terms["words: lunch"] and any(name.startswith("city") for name in terms)
    assert not any(name.startswith("column") for name in terms)


def test_importance_is_averaged_over_the_examples_of_a_file(save_model, mail: Path, as_json, budgetron) -> None:
    path = save_model()
    result = as_json("inspect", path, "--importance", mail)["importance"]
    assert result["examples"] == 600
    sizes = [feature["mean"] for feature in result["features"]]
    assert sizes == sorted(sizes, reverse=True) and {"size", "links"} <= {
        feature["name"] for feature in result["features"]
    }
    assert "averaged over 600 examples" in budgetron("inspect", path, "--importance", mail).stdout
    assert "No such file" in budgetron("inspect", path, "--importance", "gone.csv", code=2).output


def test_importance_takes_the_reading_options_that_its_errors_name(
    save_model, mail: Path, tmp_path: Path, as_json, budgetron
) -> None:
    path, bad, wide = save_model(), tmp_path / "bad.csv", tmp_path / "wide.csv"
    lines = mail.read_text(encoding="utf-8").splitlines()
    bad.write_text("\n".join([*lines[:50], "ann,much,0.5,red,ham", *lines[50:]]), encoding="utf-8")
    wide.write_text("\n".join(lines), encoding="utf-16")
    stopped = budgetron("inspect", path, "--importance", bad, code=2).stderr
    assert "line 51: " in stopped and "--on-error skip" in stopped
    skipping = budgetron("inspect", path, "--importance", bad, "--on-error", "skip", "--json")
    assert json.loads(skipping.stdout)["importance"]["examples"] == 600
    assert skipping.stderr == "1 bad line skipped.\n"
    assert "--encoding utf-16" in budgetron("inspect", path, "--importance", wide, code=2).stderr
    options = ["--encoding", "utf-16", "--format", "csv", "--limit", "30"]
    assert as_json("inspect", path, "--importance", wide, *options)["importance"]["examples"] == 30
    refused = budgetron("inspect", path, "--limit", "30", code=2).stderr
    assert "--limit must be used with --importance" in refused


def test_invalid_options_of_inspect_are_refused(save_model, tmp_path: Path, budgetron) -> None:
    path = save_model()
    for words, says in [
        (["--example", "[1, 2]"], "--example must be a JSON object"),
        (["--example", "{size: 1}"], "--example must be a JSON object"),
        (["--example", json.dumps(EXAMPLE)], "--task must be given"),
        (["--task", "ann"], "--task must be used with --example"),
        (["--example", '{"size": "much"}', "--task", "ann"], "size"),
    ]:
        refused = budgetron("inspect", path, *words, code=2).output
        assert says in refused and "Traceback" not in refused
    Forgetron(5).fit([[0.0], [1.0]], [0, 1]).save(tmp_path / "python")
    assert "Forgetron" in budgetron("inspect", tmp_path / "python").stdout
    assert "without them" in budgetron("inspect", tmp_path / "python", "--example", "{}", code=2).output
    damaged = path.read_bytes()
    path.write_bytes(damaged[:-1] + bytes([damaged[-1] ^ 1]))
    assert budgetron("inspect", path, code=2).output.startswith("Error: ")


def test_a_directory_without_a_model_is_refused(tmp_path: Path, budgetron) -> None:
    for words in (["inspect", tmp_path], ["predict", tmp_path, tmp_path / "rows.csv"]):
        refused = budgetron(*words, code=2).output
        assert "a model file, or a directory with a model in shards" in " ".join(refused.split())


def test_a_directory_of_a_service_is_refused_with_a_remedy(tmp_path: Path, budgetron) -> None:
    with Host.open(tmp_path / "model", lambda: Forgetron(5)) as host:
        host.learn([[0.0], [1.0]], [0, 1])
    refused = " ".join(budgetron("inspect", tmp_path / "model", code=2).output.split())
    assert "without a model" not in refused and "a model of the service" in refused and "GET /v1/snapshot" in refused
