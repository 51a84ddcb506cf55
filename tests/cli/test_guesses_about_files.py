"""What the commands guess about a file: task column, encoding, number format; and the options that correct a guess."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import budgetron as library
from budgetron import io


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Orders of a German shop: an identifier, decimal commas, a code for missing values, umlauts, a weight."""
    path = tmp_path / "orders.csv"
    ages = ["k.A." if i % 9 == 0 else i % 60 for i in range(800)]
    left = ["ja" if i % 7 > 3 else "nein" for i in range(800)]
    rows = [f"{400 + i % 40};{i % 90},{i % 7};{ages[i]};{i % 3};{left[i]}" for i in range(800)]
    path.write_text("Kunde Nr;Größe;Alter;Gewicht;gekündigt\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_guesses_are_printed_with_the_options_that_change_them(orders: Path, tmp_path: Path, budgetron) -> None:
    done = budgetron("run", orders, "--learner", "Forgetron", "--save", tmp_path / "m")
    assert "'Kunde Nr' (40 values) could be the task: name it with --task 'Kunde Nr'" in done.stderr
    assert "one task (none named; see --task)" in done.stdout
    _, columns = io.load_model(tmp_path / "m")
    notes = {line.column: line.note for line in columns.describe()}
    assert notes["Größe"] == "written as 1.234,5" and notes["Alter"].startswith("'k.A.' counts as missing")
    named = budgetron("run", orders, "--learner", "Forgetron", "--task", "Kunde Nr")
    assert named.stderr == "" and "40 tasks (column Kunde Nr)" in named.stdout
    compared = budgetron("compare", orders, "--learners", "Forgetron", "--budgets", 9)
    tuned = budgetron("tune", orders, "--learner", "Forgetron")
    assert "--task 'Kunde Nr'" in compared.stderr and "--task 'Kunde Nr'" in tuned.stderr


def test_a_windows_file_gets_a_hint_and_an_option(orders: Path, tmp_path: Path, budgetron, as_json) -> None:
    latin = tmp_path / "latin.csv"
    latin.write_bytes(orders.read_text(encoding="utf-8").encode("cp1252"))
    refused = budgetron("run", latin, code=2).stderr
    assert "line 1: the line is not valid UTF-8" in refused and "Größe" in refused and "--encoding cp1252" in refused
    options = ["--encoding", "cp1252", "--task", "Kunde Nr", "--learner", "Forgetron"]
    budgetron("run", latin, *options, "--save", tmp_path / "l")
    budgetron("run", orders, *options[2:], "--save", tmp_path / "u")
    assert (tmp_path / "l").read_bytes() == (tmp_path / "u").read_bytes()
    predicted = [budgetron("predict", tmp_path / "l", file, "-q", *more).stdout
                 for file, more in ((latin, ["--encoding", "cp1252"]), (orders, []))]  # fmt: skip
    assert predicted[0] == predicted[1]
    compared = as_json("compare", latin, *options[:4], "--learners", "mtforg", "--budgets", 9)
    assert "--encoding cp1252 --task 'Kunde Nr'" in compared["command"]


def test_a_weight_column_gives_the_model_that_the_library_gives(
    orders: Path, tmp_path: Path, budgetron, as_json
) -> None:
    options = ["--task", "Kunde Nr", "--kernel", "none"]
    weighted = as_json("run", orders, *options, "--weight", "Gewicht", "--save", tmp_path / "m")
    model = library.Budgetron(kernel=None)
    with io.read(orders, task="Kunde Nr", weight="Gewicht") as stream:
        for block in stream:
            model.partial_fit(block.X, block.y, tasks=block.tasks, classes=stream.classes, sample_weight=block.weights)
    saved, expected = (
        loaded.decision_function(block.X, tasks=block.tasks).tolist()
        for loaded in (library.load(tmp_path / "m"), model)
    )
    assert saved == expected
    plain = as_json("run", orders, *options)
    assert weighted["validation"]["overall"]["log_loss"] != plain["validation"]["overall"]["log_loss"]
    assert "weight: there is no column" in budgetron("run", orders, "--weight", "nothing", code=2).stderr
    refused = budgetron("run", orders, "--learner", "Forgetron", "--weight", "Gewicht", code=2).stderr
    assert "Budgetron takes weights" in refused
    budgetron("run", orders, "--resume", tmp_path / "m", "--save", tmp_path / "m", "-q")
    refused = budgetron("run", orders, "--resume", tmp_path / "m", "--weight", "x", code=2).stderr
    assert "--weight must be left out with --resume" in refused


def test_options_set_the_number_format_and_the_missing_values(tmp_path: Path, budgetron) -> None:
    file = tmp_path / "s.csv"
    file.write_text("a;b;label\n" + "1,234;-999;0\n2,345;1;1\n" * 40)
    assert "--decimal , or --decimal . to read it as numbers" in budgetron("run", file).stderr
    for sign, mean in ((",", 1.7895), (".", 1789.5)):  # "1,234" and "2,345" with a decimal comma or a decimal point
        saved = tmp_path / f"m{ord(sign)}"
        budgetron("run", file, "--decimal", sign, "--na-values", "-999,?", "--save", saved)
        _, columns = io.load_model(saved)
        scaling = columns.scaling
        assert (scaling.center + scaling.total / scaling.count)[0] == pytest.approx(mean)
        assert scaling.count.tolist() == [80, 40]


def test_boolean_labels_from_json_to_json(tmp_path: Path, budgetron, as_json) -> None:
    file = tmp_path / "s.ndjson"
    file.write_text("".join(json.dumps({"at": {"x": i % 5}, "ok": i % 5 > 2}) + "\n" for i in range(200)))
    options = ["--set", "class_weight=true:50", "--classes", "true,false", "--save", tmp_path / "m"]
    assert as_json("run", file, *options)["model"]["classes"] == [False, True]
    assert "labels false or true" in budgetron("run", file).stdout
    lines = budgetron("predict", tmp_path / "m", file, "-q", "--json", "--limit", 5).stdout.splitlines()
    assert [json.loads(line)["prediction"] for line in lines][-1] is True
    table = budgetron("predict", tmp_path / "m", file, "-q", "--limit", 5).stdout.splitlines()
    assert table[0] == "line,prediction,probability_false,probability_true" and table[-1].startswith("5,true,")
    shown = budgetron("inspect", tmp_path / "m", "--example", '{"at": {"x": 4}}').stdout
    assert "is predicted as true" in shown and "not given" not in shown
    refused = budgetron("inspect", tmp_path / "m", "--example", '{"x": 4}', code=2).stderr
    assert "--example must be values of some of the columns ['at.x']" in refused


def test_a_report_about_one_task_says_nothing_about_tasks(orders: Path, tmp_path: Path, budgetron) -> None:
    page = tmp_path / "r.html"
    budgetron("run", orders, "--report", page, "-q")
    text = page.read_text(encoding="utf-8")
    assert re.search(r"The weights say that [^.;]*\)\. They say nothing about tasks, since there is only one\.", text)
    assert "tasks are alike" not in text
    assert "No column was recognised as the task" in text and "--task" in text
