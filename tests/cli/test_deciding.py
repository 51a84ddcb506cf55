"""Operating points on the command line: set by `run`, chosen by `calibrate`, used by `predict`, shown by `inspect`."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

import budgetron as library
from budgetron.distributed import ShardedModel
from budgetron.io import read


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    labels = np.where(rng.random(3000) < 0.08 * np.exp(x - 0.5), "yes", "no")
    lines = [f"{x[i]:.3f},u{i % 5},{labels[i]}" for i in range(3000)]
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join(["x,user,click", *lines]) + "\n", encoding="utf-8")
    return path


def test_run_sets_an_operating_point_that_predict_uses(clicks: Path, tmp_path: Path, budgetron, as_json) -> None:
    saved = tmp_path / "m.budgetron"
    text = budgetron("run", clicks, "--label", "click", "--costs", "fp=1,fn=8", "--save", saved).stdout
    assert "decides  yes if its probability is at least 0." in text and "per example; always no: " in text
    assert "so far   3,000 decided" in text
    result = as_json("inspect", saved)["operating_point"]
    assert result["costs"] == {"fp": 1.0, "fn": 8.0, "ask": None} and result["counted"] == 3000
    assert "decides  yes if" in budgetron("inspect", saved, "--example", '{"x": 3}', "--task", "u1").stdout
    assert "the decision is yes" in budgetron("inspect", saved, "--example", '{"x": 3}', "--task", "u1").stdout
    rows = list(csv.DictReader(io.StringIO(budgetron("predict", saved, clicks, "--quiet").stdout)))
    assert {row["decision"] for row in rows} == {"yes", "no"}
    threshold = result["high"]
    # `predict` prints probabilities with six decimals, so rows within 1e-6 of the threshold are left out.
    probabilities = [float(row["probability_yes"]) for row in rows]
    clear = [(row, p) for row, p in zip(rows, probabilities, strict=True) if abs(p - threshold) > 1e-6]
    assert len(clear) > 0.9 * len(rows)
    assert all((row["decision"] == "yes") == (p >= threshold) for row, p in clear)
    # For other settings, `predict` chooses thresholds from the counts that `run` saved in the model.
    careful = list(csv.DictReader(io.StringIO(budgetron("predict", saved, clicks, "-q", "--max-error", 0.15).stdout)))
    assert {row["decision"] for row in careful} == {"no", "ask"}
    exact = list(csv.DictReader(io.StringIO(budgetron("predict", saved, clicks, "-q", "--threshold", 0.3).stdout)))
    assert all((row["decision"] == "yes") == (float(row["probability_yes"]) >= 0.3) for row in exact)


def test_a_resumed_model_keeps_its_point_or_gets_another(clicks: Path, tmp_path: Path, budgetron, as_json) -> None:
    saved = tmp_path / "m.budgetron"
    budgetron("run", clicks, "--label", "click", "--max-error", 0.2, "--limit", 1000, "--save", saved, "--quiet")
    again = as_json("run", clicks, "--resume", saved, "--skip", 1000, "--save", saved)["operating_point"]
    assert again["counted"] == 3000 and again["max_error"] == 0.2
    other = as_json("run", clicks, "--resume", saved, "--limit", 10, "--costs", "fp=1,fn=2,ask=0.4")["operating_point"]
    assert other["counted"] == 3010 and other["costs"]["ask"] == 0.4 and other["max_error"] is None


def test_calibrate_does_not_learn(clicks: Path, tmp_path: Path, budgetron, as_json) -> None:
    saved, decided = tmp_path / "m.budgetron", tmp_path / "d.budgetron"
    budgetron("run", clicks, "--label", "click", "--limit", 1500, "--save", saved, "--quiet")
    text = budgetron("calibrate", saved, clicks, "--max-error", 0.2, "--save", decided).stdout
    assert "3,000 examples counted; the model did not learn from them." in text and "at most 20.0 % per label" in text
    model = library.load(decided)
    assert model.n_seen_ == 1500 and model.operating_point.n == 3000
    plain = as_json("calibrate", saved, clicks, "--threshold", 0.4, "--save", tmp_path / "e")["operating_point"]
    assert plain["high"] == 0.4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--costs", "fp=1"], "fp=1,fn=20,ask=0.5"),
        (["--costs", "fp=1,fn=x"], "--costs"),
        (["--costs", "fp=-1,fn=2"], "--costs"),
        (["--costs", "fp=1,fn=2", "--threshold", 0.5], "one at a time"),
        (["--threshold", 2], "threshold must be a number above 0 and below 1"),
        (["--max-error", 1], "--max-error"),
        (["--max-error", 0.1, "--confidence", 0], "--confidence"),
    ],
)
def test_wrong_options_are_named(clicks: Path, budgetron, options: list, words: str) -> None:
    result = budgetron("run", clicks, "--label", "click", *options, code=2)
    assert words in result.output


def test_calibrate_refuses_a_model_in_shards(clicks: Path, tmp_path: Path, budgetron) -> None:
    learner = library.Budgetron(graph=library.graphs.disconnected(), budget="1 MiB")
    with read(clicks, label="click", task="user") as stream, ShardedModel(learner, shards=2) as model:
        for block in stream:
            model.partial_fit(block.X, block.y, tasks=block.tasks)
        model.keep_columns(stream.columns)
        model.save(tmp_path / "shards")
    result = budgetron("calibrate", tmp_path / "shards", clicks, "--threshold", 0.4, "--save", tmp_path / "n", code=2)
    assert "calibrate: MODEL must be a model in one file" in result.output


def test_calibrate_reports_the_lines_that_it_skips(clicks: Path, tmp_path: Path, budgetron) -> None:
    saved = tmp_path / "m"
    budgetron("run", clicks, "--label", "click", "--limit", 100, "--save", saved, "--quiet")
    lines = clicks.read_text().splitlines()
    clicks.write_text("\n".join([*lines[:500], "much,u1,yes", *lines[500:], "1.5,u1,perhaps", ""]))
    result = budgetron("calibrate", saved, clicks, "--threshold", 0.4, "--on-error", "skip", "--save", saved)
    assert "3,000 examples counted" in result.stdout
    assert result.stderr.startswith("2 bad lines skipped; the first:\n  line 501: ") and "line 3,003: " in result.stderr


def test_calibrate_reads_other_encodings(tmp_path: Path, budgetron) -> None:
    lines = ["größe,label", *(f"{(n % 7) / 7:.3f},{'ja' if n % 7 > 2 else 'nein'}" for n in range(140))]
    saved, windows, utf_16 = tmp_path / "m", tmp_path / "windows.csv", tmp_path / "utf16.csv"
    windows.write_text("\n".join(lines), encoding="cp1252")
    utf_16.write_text("\n".join(lines), encoding="utf-16")
    budgetron("run", windows, "--encoding", "cp1252", "--save", saved, "--quiet")
    options = ["--costs", "fp=1,fn=2", "--save", tmp_path / "decided", "--overwrite"]
    for file, encoding in ((windows, "cp1252"), (utf_16, "utf-16")):
        assert f"--encoding {encoding}" in budgetron("calibrate", saved, file, *options, code=2).stderr
        assert "140 examples counted" in budgetron("calibrate", saved, file, "--encoding", encoding, *options).stdout


def test_calibrate_needs_a_setting(clicks: Path, tmp_path: Path, budgetron) -> None:
    budgetron("run", clicks, "--label", "click", "--limit", 100, "--save", tmp_path / "m", "--quiet")
    result = budgetron("calibrate", tmp_path / "m", clicks, "--save", tmp_path / "n", code=2)
    assert "--threshold, --costs or --max-error must be given" in result.output
