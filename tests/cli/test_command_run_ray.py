"""`budgetron run --ray`: a stream into shards on a Ray cluster of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from budgetron.cli import main


def rows(path, n=600):
    lines = ["user,a,b,label"]
    lines += [f"u{i % 20},{i % 7 - 3},{i * 13 % 11 - 5},{int((i % 7 - 3) > 0)}" for i in range(n)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_it_is_not_for_one_file(tmp_path):
    stream = rows(tmp_path / "s.csv")
    save = ["--save", str(tmp_path / "x.budgetron")]
    done = CliRunner().invoke(main, ["run", str(stream), "--task", "user", "--ray", str(tmp_path / "m"), *save])
    assert done.exit_code == 2 and "--ray must be without --save" in done.output
    assert not (tmp_path / "m").exists()


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra `ray` is not installed")
@pytest.mark.parametrize("graph", ["disconnected", "complete"])
def test_a_stream_into_shards(tmp_path, graph):
    from budgetron.distributed import ReplicatedModel, ShardedModel

    stream = str(rows(tmp_path / "s.csv"))
    words = ["run", stream, "--task", "user", "--label", "label", "--learner", "SharedProjectron", "--budget",
             "40", "--graph", graph, "--ray", str(tmp_path / "m"), "--shards", "3", "--json"]  # fmt: skip
    environment = os.environ | {"RAY_ADDRESS": "local", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-m", "budgetron", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["model"]["seen"] == 600
    kind = ShardedModel if graph == "disconnected" else ReplicatedModel
    assert told["model"]["learner"] == kind.__name__
    with kind.open(tmp_path / "m") as model:
        assert model.n_seen_ == 600 and model.n_mistakes_ == told["model"]["mistakes"]
