"""The benchmark command runs and writes the files from which the documentation is made. Times are not checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from budgetron.learners.registry import learner_names

pytest.importorskip("budgetron._core", reason="the benchmarks measure the compiled core")
RUN = Path(__file__).parents[2] / "benchmarks" / "speed" / "run.py"


def test_two_cheap_groups_write_json_figure_and_page(tmp_path: Path) -> None:
    if not RUN.exists():
        pytest.skip("the benchmarks are not part of this copy")
    command = [sys.executable, str(RUN), "--quick", "--only", "projection", "--only", "two", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=600)
    assert done.returncode == 0, done.stderr

    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results) >= {"version", "date", "quick", "machine", "rows", "float32"}
    assert set(results["machine"]) == {"arch", "cores", "instruction_set", "python", "vector_exp", "load"}
    names = [row["name"] for row in results["rows"]]
    assert names == ["projection-BudgetProjectron-B500", "projection-SharedProjectron-B500", "two-cores"]
    for row in results["rows"]:
        assert row["ratio"] > 0 and row["quartiles"][0] <= row["ratio"] <= row["quartiles"][1]
        assert row["met"] == (row["ratio"] <= row["reach"] if row["at_most"] else row["ratio"] >= row["reach"])

    assert (tmp_path / "ratios.svg").read_text().startswith("<svg")
    page = (tmp_path / "RESULTS.md").read_text()
    assert all(row["work"] in page for row in results["rows"])


def test_the_picture_of_times_shows_every_learner(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    script, drawn = RUN.with_name("per_example.py"), tmp_path / "picture.svg"
    if not script.exists():
        pytest.skip("the benchmarks are not part of this copy")
    done = subprocess.run(
        [sys.executable, script, "--draw", "--to", drawn], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr

    numbers = json.loads(script.with_suffix(".json").read_text())
    names = {name for axis in numbers.values() for point in axis.values() for name in point}
    # Perceptron is not drawn: its time grows with the stream. BudgetSgd is drawn under the names of its presets.
    assert {"Perceptron", "BudgetSgd", *names} >= set(learner_names()), "run python benchmarks/speed/per_example.py"
    assert all(f">{name}<" in drawn.read_text() for name in names)


def test_the_comparison_of_learners_names_a_missing_set_before_it_measures(tmp_path: Path) -> None:
    script = RUN.parents[1] / "related" / "compare.py"
    if not script.exists():
        pytest.skip("the benchmarks are not part of this copy")
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "german.npz").touch()
    done = subprocess.run([sys.executable, script, "--from", tmp_path], capture_output=True, text=True, timeout=600)
    assert done.returncode == 2 and not done.stdout
    assert f"{str(tmp_path)!r} has no spambase.npz" in done.stderr and "Put spambase.npz there" in done.stderr


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_ratio_of_two_builds_is_the_second_time_divided_by_the_first(tmp_path: Path, rounds: int) -> None:
    script, written = RUN.with_name("two_builds.py"), tmp_path / "rows.json"
    if not script.exists():
        pytest.skip("the benchmarks are not part of this copy")
    pythons = [tmp_path / "first", tmp_path / "second"]
    for path, us in zip(pythons, (10, 40), strict=True):  # they print these times instead of measuring any
        path.write_text(f"#!/bin/sh\necho '{json.dumps({'a row': {'us': us, 'mistakes': us}})}'\n")
        path.chmod(0o755)
    command = [sys.executable, script, *pythons, "--only", "singles", "--rounds", str(rounds), "--out", written]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    (row,) = json.loads(written.read_text())
    assert (row["first_us"], row["second_us"], row["ratio"], row["quartiles"]) == (10, 40, 4, [4, 4])
    assert row["work"] == "a row" and not row["same_mistakes"]


def test_a_build_that_is_compared_with_itself_is_measured_on_both_sides(tmp_path: Path) -> None:
    script, written, python = RUN.with_name("two_builds.py"), tmp_path / "rows.json", tmp_path / "python"
    if not script.exists():
        pytest.skip("the benchmarks are not part of this copy")
    # The time that it prints is the number of its calls so far.
    times = '{\\"a row\\": {\\"us\\": $(wc -l < "$0.calls"), \\"mistakes\\": 0}}'
    python.write_text(f'#!/bin/sh\necho call >> "$0.calls"\necho "{times}"\n')
    python.chmod(0o755)
    command = [sys.executable, script, python, python, "--only", "singles", "--rounds", "1", "--out", written]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    (row,) = json.loads(written.read_text())
    assert (row["first_us"], row["second_us"], row["ratio"]) == (1, 2, 2)


def test_two_builds_are_compared_row_by_row(tmp_path: Path) -> None:
    script, written = RUN.with_name("two_builds.py"), tmp_path / "rows.json"
    if not script.exists():
        pytest.skip("the benchmarks are not part of this copy")
    kept = {"group": "dense", "work": "measured earlier"}
    written.write_text(json.dumps([kept, {"group": "singles", "work": "replaced"}]))
    command = [sys.executable, script, sys.executable, sys.executable, "--only", "singles", "--rounds", "2"]
    done = subprocess.run([*command, "--out", written], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr

    earlier, *rows = json.loads(written.read_text())
    assert earlier == kept
    assert rows and {row["group"] for row in rows} == {"singles"}
    for row in rows:
        assert row["work"] in done.stdout
        assert row["same_mistakes"] and row["first_us"] > 0 and row["second_us"] > 0
        assert row["quartiles"][0] <= row["ratio"] <= row["quartiles"][1]
