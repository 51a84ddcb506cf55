"""`run --history` and `budgetron history`: runs over time, and whether the last two differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from budgetron.evaluate.history import changes


def write(path: Path, seed: int, noise: float) -> Path:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=1500)
    labels = np.where(x + noise * rng.normal(size=1500) > 0, "a", "b")
    lines = [f"{x[i]:.3f},{labels[i]}" for i in range(1500)]
    path.write_text("\n".join(["x,label", *lines]) + "\n", encoding="utf-8")
    return path


def test_runs_are_recorded_and_compared(tmp_path: Path, budgetron, as_json) -> None:
    file = tmp_path / "runs.ndjson"
    for seed, noise in ((1, 0.3), (2, 0.3), (3, 2.0)):
        stream = write(tmp_path / f"day{seed}.csv", seed, noise)
        assert "budgetron history" in budgetron("run", stream, "--history", file).stdout
        result = as_json("history", file)
        assert len(result["runs"]) == seed
        if seed > 1:
            assert [change["significant"] for change in result["changes"]] == [seed == 3] * 2
    text = budgetron("history", file, "--last", 2).stdout
    assert "day3.csv" in text and "day1.csv" not in text
    assert "The error rose from" in text and "The AUC fell from" in text and "a significant difference" in text


def test_one_run_is_listed_without_a_comparison(tmp_path: Path, budgetron) -> None:
    budgetron("run", write(tmp_path / "d.csv", 1, 1.0), "--history", tmp_path / "r", "--quiet")
    assert "standard deviations" not in budgetron("history", tmp_path / "r").stdout


@pytest.mark.parametrize("content", ["", "{}\n", "no json\n", "[1]\n"])
def test_files_without_a_history_are_refused(tmp_path: Path, budgetron, content: str) -> None:
    (tmp_path / "r").write_text(content, encoding="utf-8")
    message = "line 1 of" if content else "has no runs"
    assert message in budgetron("history", tmp_path / "r", code=2).output
    budgetron("history", tmp_path / "none", code=2)


def test_the_standard_error_of_auc_agrees_with_the_spread_over_many_streams() -> None:
    """Compare Hanley and McNeil's standard error with the standard deviation of 300 simulated AUCs.

    The tolerance is 15 %, because the formula is an approximation, and the standard deviation of 300 values is
    uncertain by about 4 %.
    """
    rng = np.random.default_rng(0)
    y = np.arange(600) < 60
    values = [roc_auc_score(y, rng.normal(size=600) + y) for _ in range(300)]
    run = {"n": 600, "positives": 60, "auc": float(np.mean(values)), "error": None}
    # The difference of two independent AUCs has √2 times the standard deviation of one AUC.
    other = run | {"auc": run["auc"] + float(np.std(values)) * np.sqrt(2)}
    (change,) = changes(run, other)
    assert change.deviations == pytest.approx(1.0, abs=0.15) and not change.is_significant
