"""The benchmark command runs and leaves what the pages are made from. No time is asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("budgetron._core", reason="ratios are those of the compiled core")
RUN = Path(__file__).parents[2] / "benchmarks" / "speed" / "run.py"


def test_two_cheap_groups_write_json_figure_and_page(tmp_path: Path) -> None:
    if not RUN.exists():
        pytest.skip("the benchmarks are not part of this copy")
    command = [sys.executable, str(RUN), "--quick", "--only", "projection", "--only", "two", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=600)
    assert done.returncode == 0, done.stderr

    found = json.loads((tmp_path / "results.json").read_text())
    assert set(found) >= {"version", "date", "quick", "machine", "rows", "float32"}
    assert set(found["machine"]) == {"arch", "cores", "instruction_set", "python", "vector_exp", "load"}
    names = [row["name"] for row in found["rows"]]
    assert names == ["projection-BudgetProjectron-B500", "projection-SharedProjectron-B500", "two-cores"]
    for row in found["rows"]:
        assert row["ratio"] > 0 and row["quartiles"][0] <= row["ratio"] <= row["quartiles"][1]
        assert row["met"] == (row["ratio"] <= row["reach"] if row["at_most"] else row["ratio"] >= row["reach"])

    assert (tmp_path / "ratios.svg").read_text().startswith("<svg")
    page = (tmp_path / "RESULTS.md").read_text()
    assert all(row["work"] in page for row in found["rows"])
