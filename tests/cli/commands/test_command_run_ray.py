"""`budgetron run` with a model in shards: created on a Ray cluster, and resumed there or in threads."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from budgetron import Budgetron, SharedProjectron, graphs, io
from budgetron.cli import main, models, outputs
from budgetron.distributed import ReplicatedModel, ShardedModel
from budgetron.errors import InputError


def rows(path, start=0, n=600):
    lines = ["user,a,b,label"]
    lines += [f"u{i % 20},{i % 7 - 3},{i * 13 % 11 - 5},{int((i % 7 - 3) > 0)}" for i in range(start, start + n)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def invoke(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def output_of(*words):
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(params=["disconnected", "complete"])
def live_directory(request, tmp_path):
    """A model directory with the columns of its stream, as `run --ray` leaves it, and a stream to continue with."""
    stream = rows(tmp_path / "s.csv")
    options = {"workers": 2, "directory": tmp_path / "m"}
    if request.param == "disconnected":
        model = ShardedModel(SharedProjectron(budget=40, graph=graphs.disconnected()), shards=3, **options)
    else:
        model = ReplicatedModel(Budgetron(budget=40), replicas=3, exchange_every=128, **options)
    with model, io.read(stream, label="label", task="user") as source:
        for block in source:
            model.partial_fit(block.X, block.y, tasks=block.tasks)
        model.keep_columns(source.columns)
    return tmp_path / "m", rows(tmp_path / "t.csv", 600)


def test_predict_and_inspect_read_a_directory_that_another_process_owns(live_directory):
    directory, stream = live_directory
    model_class = ShardedModel if "ShardedModel" in (directory / "sharded.json").read_text() else ReplicatedModel
    with model_class.open(directory, workers=1) as owner:
        table = list(csv.DictReader(output_of("predict", directory, stream, "-q").splitlines()))
        result = json.loads(output_of("inspect", directory, "--json"))
        example = json.loads(output_of("inspect", directory, "--example", '{"a": 2, "b": 1}', "--task", "u3", "--json"))
        with io.read(stream, columns=io.columns_of(owner), labelled=False) as source:
            block = next(iter(source))
        assert [int(row["prediction"]) for row in table] == owner.predict(block.X, tasks=block.tasks).tolist()
        assert result["seen"] == 600 and result["stored"] == owner.n_stored_ == sum(
            s["stored"] for s in result["shards"]
        )
        assert result["learner"] == type(owner.learner).__name__ and len(result["shards"]) == 3
        row = io.columns_of(owner).block([{"a": 2, "b": 1, "user": "u3"}])
        assert example["example"]["margin"] == owner.decision_function(row.X, tasks=row.tasks)[0]
        assert bool(example["example"]["nearest"]) == (owner.capacity_ > 0)  # a Budgetron stores no examples
        owner.partial_fit(block.X[:10], [0] * 10, tasks=block.tasks[:10])  # the owner can still write
    heading = "shards  " if model_class is ShardedModel else "replicas"
    assert f"{heading} 3, with" in output_of("inspect", directory)


def test_a_run_resumes_in_threads_and_saves_and_reports(tmp_path, live_directory):
    directory, stream = live_directory
    report, copy = tmp_path / "r.html", tmp_path / "copy"
    first = json.loads(output_of("run", stream, "--resume", directory, "--save", copy, "--report", report, "--json"))
    assert first["model"]["seen"] == 1200 and first["saved"] == str(copy)
    assert first["directory"] == str(directory)
    parts = "3 shards" if "ShardedModel" in (directory / "sharded.json").read_text() else "3 replicas"
    assert parts in report.read_text() and "Learned relations are not shown" in report.read_text()
    assert output_of("predict", copy, stream, "-q") == output_of("predict", directory, stream, "-q")
    again = json.loads(output_of("run", stream, "--resume", copy, "--save", copy, "--json"))  # replaces the copy
    assert again["model"]["seen"] == 1800 and again["directory"] is None
    assert json.loads(output_of("inspect", directory, "--json"))["seen"] == 1200


def test_run_and_inspect_describe_a_model_in_shards_alike(live_directory):
    directory, stream = live_directory
    run = json.loads(output_of("run", stream, "--resume", directory, "--json"))["model"]
    inspected = json.loads(output_of("inspect", directory, "--json"))
    assert run["learner"] == inspected["learner"] in ("SharedProjectron", "Budgetron")
    assert len(run["shards"]) == 3 and sum(shard["seen"] for shard in run["shards"]) == run["seen"] == 1200
    assert {name: inspected[name] for name in run} == run


def test_wrong_options_are_rejected_before_anything_is_learned(tmp_path, live_directory):
    directory, stream = live_directory
    output_of("run", stream, "--task", "user", "--budget", 20, "--save", tmp_path / "one.budgetron", "-q")
    for words, message in (
        (["--ray", directory, "--budget", 9], "--budget must be left out if --ray names an existing model"),
        (["--resume", directory, "--shards", 4], "--shards must be left out with --resume"),
        (["--resume", tmp_path / "one.budgetron", "--ray", tmp_path / "new"], "cannot be divided"),
        (["--resume", directory, "--save", directory], "--save must be a new folder, or one that --save wrote"),
        (["--resume", directory, "--save", stream], "--save must be a folder, because the model is in shards"),
        (["--resume", directory, "--save", tmp_path / "no" / "where"], "in a folder that exists"),
    ):
        done = invoke("run", stream, *words)
        assert done.exit_code == 2 and message in done.output, done.output
    assert json.loads(output_of("inspect", directory, "--json"))["seen"] == 600
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["new", "existing"])
def test_a_folder_that_cannot_be_written_to_is_rejected(tmp_path, monkeypatch, name):
    (tmp_path / "existing").mkdir()
    # `chmod` would not be enough, because root may write to every folder.
    read_only = tmp_path / "existing" if name == "existing" else tmp_path
    monkeypatch.setattr(os, "access", lambda path, mode: path != read_only)
    with pytest.raises(InputError, match="--save must be in a folder you may write to"):
        outputs.check_folder("run", "--save", str(tmp_path / name), overwrite=False)


@pytest.mark.parametrize("graph", [graphs.complete(), graphs.disconnected()])
def test_a_budget_of_run_ray_is_the_total_of_all_shards(tmp_path, graph):
    model = models.start_sharded(Budgetron(budget=100, graph=graph), str(tmp_path / "m"), shards=8, workers=2)
    # 100 = 8 · 12 + 4. Shards share the remaining 4. Replicas leave these 4 unused: they average their weights, so
    # all of them have the same size.
    is_replicated = graph == graphs.complete()
    assert model._first_budgets() == ([12] * 8 if is_replicated else [13, 13, 13, 13, 12, 12, 12, 12])


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra `ray` is not installed")
@pytest.mark.parametrize("graph", ["disconnected", "complete"])
def test_shards_on_ray_learn_one_stream_and_then_another(tmp_path, graph):
    streams = rows(tmp_path / "s.csv"), rows(tmp_path / "t.csv", 600)
    new = ("--task", "user", "--label", "label", "--learner", "SharedProjectron", "--budget", "40", "--graph", graph,
           "--shards", "3")  # fmt: skip
    environment = os.environ | {"RAY_ADDRESS": "local", "RAY_USAGE_STATS_ENABLED": "0"}
    for number, (stream, settings) in enumerate(zip(streams, (new, ()), strict=True), 1):
        words = ["run", stream, *settings, "--ray", tmp_path / "m", "--save", tmp_path / f"copy {number}", "--json"]
        command = [sys.executable, "-m", "budgetron", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=800, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
        result = json.loads(done.stdout)
        assert result["model"]["seen"] == 600 * number
    model_class = ShardedModel if graph == "disconnected" else ReplicatedModel
    assert result["model"]["learner"] == "SharedProjectron" and len(result["model"]["shards"]) == 3
    assert result["directory"] == str(tmp_path / "m")
    with model_class.open(tmp_path / "m") as model:
        assert model.n_seen_ == 1200 and model.n_mistakes_ == result["model"]["mistakes"]
        assert model.capacity_ == 40 and model.n_stored_ <= 40
    assert output_of("predict", tmp_path / "m", stream, "-q") == output_of("predict", tmp_path / "copy 2", stream, "-q")
