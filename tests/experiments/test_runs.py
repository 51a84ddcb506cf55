"""A small reproduction on the paper's data: runs, resuming, and a real Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from child_signals import default_signals
from sklearn.metrics import f1_score

import budgetron
from budgetron import Perceptron, data, graphs
from budgetron.experiments import Run, all_done, findings, is_done, perform, planned, table_of
from budgetron.experiments.algorithms import ALGORITHMS, BASELINE, PAPER, Algorithm
from budgetron.experiments.blocks import BLOCKS, chosen_blocks
from budgetron.experiments.printed import BASELINE as PRINTED_BASELINE
from budgetron.experiments.printed import COLUMNS


@pytest.fixture(scope="module")
def spam_order(paper_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the baseline and of the paper's four learners, for one random order of Spam."""
    out = tmp_path_factory.mktemp("spam")
    for name in (BASELINE, *PAPER):
        perform(Run("spam", 0, name), out, str(paper_files))
    return out


def test_one_order_of_spam_is_close_to_the_printed_results(spam_order: Path) -> None:
    table = table_of(all_done(spam_order))
    baseline = table.estimate(("spam", BASELINE, "D", None))
    assert baseline is not None and abs(baseline.mean - PRINTED_BASELINE["spam"]) < 1.0
    near, far, complete, projections = findings(table)
    assert near.holds and far.holds and complete.found == "12 of 12" and projections.found == "24 of 24"


def test_a_run_records_its_parameters(spam_order: Path, paper_files: Path) -> None:
    run = Run("spam", 0, BASELINE)
    content = json.loads(run.path(spam_order).read_text())
    assert content["parameters"] == run.parameters and content["version"] == budgetron.__version__
    assert (content["examples"], content["tasks"]) == (7500, 3)
    stream = data.load("spam", folder=paper_files).shuffled(0)  # the order of the run with seed 0
    X = data.unit_norm(stream.X)
    model = Perceptron(BLOCKS[0].kernel, graphs.disconnected())
    margins = model.predict_then_learn(X, stream.y, tasks=stream.tasks)
    [cell] = content["cells"]
    assert cell["f_measure"] == pytest.approx(f1_score(stream.y, margins > 0), abs=1e-6)
    assert cell["error"] == pytest.approx(np.mean(stream.y != (margins > 0)), abs=1e-6)
    assert (cell["stored"], cell["mistakes"]) == (model.n_stored_, model.n_mistakes_)
    for name in PAPER:
        cells = json.loads(Run("spam", 0, name).path(spam_order).read_text())["cells"]
        assert [(cell["graph"], cell["share"]) for cell in cells] == list(COLUMNS)
        for cell in cells:
            assert cell["budget"] == round(cell["share"] / 100 * model.n_stored_) >= cell["stored"]


def test_equal_seeds_give_equal_figures(spam_order: Path, paper_files: Path, tmp_path: Path) -> None:
    run = Run("spam", 0, "mtrbp")
    (tmp_path / "runs" / "spam").mkdir(parents=True)
    baseline = Run("spam", 0, BASELINE).path(spam_order)
    (tmp_path / "runs" / "spam" / baseline.name).write_bytes(baseline.read_bytes())
    repeated = perform(run, tmp_path, str(paper_files))
    assert repeated is not None
    before = json.loads(run.path(spam_order).read_text())["cells"]
    for first, second in zip(before, repeated["cells"], strict=True):
        assert {k: v for k, v in first.items() if k != "seconds"} == {
            k: v for k, v in second.items() if k != "seconds"
        }


def test_only_complete_runs_of_the_same_version_count_as_done(spam_order: Path, tmp_path: Path) -> None:
    run = Run("spam", 0, "mtforg")
    assert is_done(run, spam_order)
    content = json.loads(run.path(spam_order).read_text())
    path = run.path(tmp_path)
    path.parent.mkdir(parents=True)
    other_version = content | {"version": "0.0"}
    other_kernel = content | {"parameters": content["parameters"] | {"kernel": "Linear()"}}
    cut_short = json.dumps(content)[:200]
    for text in ("", cut_short, "[]", json.dumps(other_version), json.dumps(other_kernel)):
        path.write_text(text)
        assert not is_done(run, tmp_path)
    path.write_text(json.dumps(content))
    assert is_done(run, tmp_path)


def test_a_stopped_run_writes_nothing(spam_order: Path, paper_files: Path, tmp_path: Path) -> None:
    baseline = Run("spam", 0, BASELINE)
    baseline.path(tmp_path).parent.mkdir(parents=True)
    baseline.path(tmp_path).write_bytes(baseline.path(spam_order).read_bytes())
    stopped = iter([False, False, False, True])  # stopped before the fourth cell
    run = Run("spam", 0, "mtrbp")
    assert perform(run, tmp_path, str(paper_files), stopped=lambda: next(stopped)) is None
    assert list(run.path(tmp_path).parent.iterdir()) == [baseline.path(tmp_path)]


def test_the_plan_is_complete_and_ordered() -> None:
    runs = planned(chosen_blocks(["spam", "school", "sentiment"]), 10)
    assert len(runs) == len(set(runs)) == 4 * 10 * len(ALGORITHMS)
    assert len({run.path(Path()) for run in runs}) == len(runs)
    position = {run: number for number, run in enumerate(runs)}

    def needed(algorithm: Algorithm, run: Run) -> list[Run]:
        return [Run(run.block, run.seed, name) for name in algorithm.after]

    for algorithm in ALGORITHMS:
        for run in runs:
            if run.algorithm == algorithm.name:
                assert all(position[earlier] < position[run] for earlier in needed(algorithm, run))
    assert {run.block for run in planned(chosen_blocks(["school"]), 1)} == {"school", "school-0.5"}


def test_ctrl_c_keeps_finished_runs_and_the_next_call_continues(paper_files: Path, tmp_path: Path) -> None:
    """The first call, for 200 orders, takes minutes, so Ctrl-C arrives before its end. The second is for one order."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "budgetron", "reproduce", "--sets", "spam", "--jobs", "1", "--out", str(out)]
    command += ["--from", str(paper_files), "--json", "--paper-only", "--orders"]
    environment = os.environ | {"PYTHONWARNINGS": "default"}
    with default_signals():
        first = subprocess.Popen(
            [*command, "200"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    try:
        while first.poll() is None and len(list(out.glob("runs/*/*.json"))) < 2:
            time.sleep(0.02)
        os.killpg(first.pid, signal.SIGINT)  # as a terminal does: to the command and its workers
        _, errors = first.communicate(timeout=600)
    finally:
        if first.poll() is None:
            first.kill()
    finished = {path: path.read_bytes() for path in out.glob("runs/*/*.json")}
    runs = planned(chosen_blocks(["spam"]), 200, paper_only=True)
    assert first.returncode == 130, errors
    assert 2 <= len(finished) < len(runs)
    assert f"Stopped; {len(finished)} of {len(runs)} runs are finished." in errors and "Traceback" not in errors
    assert not (out / "table.md").exists() and not list(out.rglob("*.part"))
    assert all(json.loads(content)["cells"] for content in finished.values())

    second = subprocess.run([*command, "1"], env=environment, capture_output=True, text=True, timeout=600)
    assert second.returncode == 0, second.stderr
    runs = planned(chosen_blocks(["spam"]), 1, paper_only=True)
    assert all(is_done(run, out) for run in runs) and finished.keys() & {run.path(out) for run in runs}
    assert all(path.read_bytes() == content for path, content in finished.items())  # not run again
    cells = json.loads(second.stdout)["cells"]
    assert len(cells) == 1 + len(PAPER) * len(COLUMNS)
    assert (out / "table.md").exists() and (out / "table.html").exists()
