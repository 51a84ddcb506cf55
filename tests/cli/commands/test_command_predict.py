"""`budgetron predict`: the model's predictions, as CSV and NDJSON.

Columns of the file are found by name. There may be other columns too, and the label may be missing.
"""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from written_mail import write_mail

from budgetron import Forgetron, io


@pytest.fixture
def model(mail: Path, tmp_path: Path, budgetron) -> Path:
    budgetron("run", mail, "--budget", 40, "--save", tmp_path / "m.budgetron")
    return tmp_path / "m.budgetron"


def load_model_and_rows(model: Path, stream: Path):
    learner, columns = io.load_model(model)
    with io.read(stream, columns=columns, labelled=False) as source:
        (block,) = list(source)
    return learner, block


def test_the_output_has_the_predictions_of_the_model(model: Path, mail: Path, budgetron) -> None:
    rows = list(csv.DictReader(StringIO(budgetron("predict", model, mail).stdout)))
    learner, block = load_model_and_rows(model, mail)
    assert [row["prediction"] for row in rows] == learner.predict(block.X, tasks=block.tasks).tolist()
    assert [row["task"] for row in rows] == block.tasks.tolist()
    assert [int(row["line"]) for row in rows] == list(range(2, 602))
    probabilities = learner.predict_proba(block.X, tasks=block.tasks)
    written = [[float(row["probability_ham"]), float(row["probability_spam"])] for row in rows]
    assert np.allclose(written, probabilities, atol=1e-6)  # printed with six decimals


def test_a_model_without_probabilities_prints_margins(mail: Path, tmp_path: Path, budgetron) -> None:
    budgetron("run", mail, "--learner", "Forgetron", "--save", tmp_path / "f")
    written = [json.loads(line) for line in budgetron("predict", tmp_path / "f", mail, "--json").stdout.splitlines()]
    learner, block = load_model_and_rows(tmp_path / "f", mail)
    assert np.allclose(
        [row["margin"] for row in written], learner.decision_function(block.X, tasks=block.tasks), atol=1e-6
    )
    assert written[0].keys() == {"line", "task", "prediction", "margin"}


def test_predictions_for_more_than_two_labels(tmp_path: Path, budgetron) -> None:
    stream = write_mail(tmp_path / "s.csv", labels=("ham", "jam", "spam"))
    budgetron("run", stream, "--learner", "Forgetron", "--save", tmp_path / "f")
    rows = list(csv.DictReader(StringIO(budgetron("predict", tmp_path / "f", stream).stdout)))
    learner, block = load_model_and_rows(tmp_path / "f", stream)
    assert [row["prediction"] for row in rows] == learner.predict(block.X, tasks=block.tasks).tolist()
    assert np.allclose(
        [[float(row[f"margin_{label}"]) for label in ("ham", "jam", "spam")] for row in rows],
        learner.decision_function(block.X, tasks=block.tasks),
        atol=1e-6,
    )


def test_columns_are_found_by_name(model: Path, mail: Path, tmp_path: Path, budgetron) -> None:
    table = list(csv.DictReader(mail.read_text().splitlines()))
    other = tmp_path / "other.csv"
    with other.open("w", newline="") as file:  # another order, one more column, no label
        writer = csv.DictWriter(file, ["note", "links", "user", "colour", "size"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows({"note": 'so, "what"', **row} for row in table)
    assert budgetron("predict", model, other).stdout == budgetron("predict", model, mail).stdout
    with other.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["user", "size"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(table)
    assert "learned from: ['links'" in budgetron("predict", model, other, code=2).output


def test_output_is_complete_or_absent(model: Path, mail: Path, tmp_path: Path, budgetron) -> None:
    out = tmp_path / "out.ndjson"
    output = budgetron("predict", model, mail, "-o", out)
    assert output.stdout == "" and "600 rows predicted" in output.stderr
    assert len([json.loads(line) for line in out.read_text().splitlines()]) == 600
    before = out.read_text()
    assert "--overwrite" in budgetron("predict", model, mail, "-o", out, code=2).output
    mail.write_text(mail.read_text() + "ann,much,1,red,ham\n")
    assert "line 602" in budgetron("predict", model, mail, "-o", out, "--overwrite", code=2).output
    assert out.read_text() == before and {path.name for path in tmp_path.iterdir()} == {out.name, model.name, mail.name}
    skipped = budgetron("predict", model, mail, "-o", out, "--overwrite", "--on-error", "skip", "--to", "csv")
    assert "1 bad line skipped" in skipped.stderr and len(out.read_text().splitlines()) == 601


def test_limit_cuts_the_output_and_quiet_prints_no_summary(model: Path, mail: Path, budgetron) -> None:
    result = budgetron("predict", model, mail, "--limit", 7, "--quiet")
    assert len(result.stdout.splitlines()) == 8 and result.stderr == ""


def test_names_with_commas_stay_one_field(tmp_path: Path, budgetron) -> None:
    stream = tmp_path / "s.csv"
    stream.write_text("task,x,label\n" + '"a, ""b""",0.5,"yes, sir"\nother,-0.5,no\n' * 20)
    budgetron("run", stream, "--save", tmp_path / "m")
    rows = list(csv.DictReader(StringIO(budgetron("predict", tmp_path / "m", stream).stdout)))
    assert rows[0]["task"] == 'a, "b"' and rows[0]["prediction"] == "yes, sir"


def test_files_that_are_not_models_are_refused(mail: Path, tmp_path: Path, budgetron) -> None:
    damaged = tmp_path / "m"
    damaged.write_bytes(b"not a model at all")
    assert budgetron("predict", damaged, mail, code=2).output.startswith("Error: ")
    assert "No such file" in budgetron("predict", tmp_path / "none", mail, code=2).output
    Forgetron(5).fit([[0.0], [1.0]], [0, 1]).save(damaged)
    assert "saved from Python without them" in budgetron("predict", damaged, mail, code=2).output
