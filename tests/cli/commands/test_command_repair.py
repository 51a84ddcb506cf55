"""`budgetron verify`, `repair` and `restore`, as an operator uses them on a damaged model."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from click.testing import CliRunner

import budgetron
from budgetron.cli import main
from budgetron.distributed.shard_options import ShardOptions
from budgetron.distributed.sharded_host import ShardedHost
from budgetron.durable import Host, Request


def invoke(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return done.exit_code, done.output


def run_sql(path, statement):
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()


def block(seed):
    X = np.random.default_rng(seed).normal(size=(10, 3))
    return X, (X[:, 0] > 0).astype(int), [f"t{i % 4}" for i in range(10)]


def learner():
    return budgetron.Forgetron(budget=20, graph=budgetron.graphs.disconnected())


@pytest.fixture
def data(tmp_path):
    """The data directory of a service with two models, and a backup of the first one after 30 examples."""
    for name in ("default", "other"):
        with Host.open(tmp_path / "data" / name, learner) as host:
            for seed in range(3):
                host.learn(*block(seed), key=str(seed))
            if name == "default":
                host.backup(tmp_path / "backup")
            for seed in range(3, 5):
                host.learn(*block(seed), key=str(seed))
    return tmp_path / "data"


def test_verify_reports_intact_and_damaged_models(data, tmp_path):
    code, output = invoke("verify", data)
    assert code == 0 and output.splitlines() == [
        f"{data / name}: intact (examples: 50, idempotency keys: 5, last record: 5)." for name in ("default", "other")
    ]
    assert invoke("verify", data / "other")[1] in output
    assert invoke("verify", tmp_path / "backup")[1].endswith("(examples: 30, idempotency keys: 3, last record: 3).\n")
    run_sql(data / "other" / "host.sqlite", "DELETE FROM snapshot")
    code, output = invoke("verify", data)
    assert code == 1 and f"{data / 'other'}: DAMAGED." in output and f"{data / 'default'}: intact (" in output
    (tmp_path / "empty").mkdir()
    for command, parameter in ((["verify"], "PATH"), (["repair", "--accept-loss"], "DIRECTORY")):
        code, output = invoke(*command, tmp_path / "empty")
        assert code == 2 and "which contains no model" in output
        assert f"{command[0]}: {parameter} must be the data directory of a service" in output


def test_verify_names_repair_only_for_a_directory(tmp_path):
    with Host.open(tmp_path / "model", learner) as host:
        for seed in range(2):
            host.learn(*block(seed), key=str(seed))
            host.snapshot()
        host.backup(tmp_path / "backup")
    for path, file, remedy in (
        (tmp_path / "model", tmp_path / "model" / "host.sqlite", f"budgetron repair {tmp_path / 'model'}"),
        (tmp_path / "backup", tmp_path / "backup", "It can still be restored"),
    ):
        run_sql(file, "UPDATE snapshot SET content = x'00' WHERE number = (SELECT max(number) FROM snapshot)")
        code, output = invoke("verify", path)
        assert code == 0 and "Damaged, but not needed: snapshot 2" in output and remedy in output
        assert ("budgetron repair" in output) == path.is_dir()


def test_repair_needs_the_loss_to_be_accepted(data):
    # After this change the row does not match its checksum.
    run_sql(data / "other" / "host.sqlite", "UPDATE answer SET key = 'x' WHERE key = '1'")
    before = (data / "other" / "host.sqlite").read_bytes()
    code, output = invoke("repair", data)
    assert code == 2 and "add --accept-loss" in output and (data / "other" / "host.sqlite").read_bytes() == before
    code, output = invoke("repair", data, "--accept-loss")
    assert code == 0 and f"{data / 'default'}: intact, nothing changed." in output
    assert f"{data / 'other'}: repaired: 50 examples learned, no record lost. The damaged file is " in output
    assert invoke("verify", data)[0] == 0


def test_restore_replaces_a_damaged_model_by_its_backup(data, tmp_path):
    (data / "default" / "host.sqlite").write_bytes(b"rubbish" * 1000)
    code, output = invoke("repair", data / "default", "--accept-loss")
    assert code == 3 and f"budgetron restore BACKUP {data / 'default'}" in output
    code, output = invoke("restore", tmp_path / "backup", data)
    assert code == 2 and f"for example {data / 'default'}" in output
    code, output = invoke("restore", tmp_path / "backup", data / "default")
    assert code == 0 and "restored: 30 examples learned.\nThe last 2 record(s), after record 3," in output
    assert invoke("verify", data)[0] == 0
    with Host.open(data / "default") as host:
        assert host.learn(*block(2), key="2").repeated and not host.learn(*block(3), key="3").repeated


def sharded(directory):
    return ShardedHost.open(directory, learner, ShardOptions(shards=2, workers=2))


@pytest.mark.parametrize("file", ["requests.sqlite", "shards/shard-00001/host.sqlite"])
def test_verify_and_repair_a_model_in_shards(tmp_path, file):
    directory = tmp_path / "model"
    host = sharded(directory)
    for seed in range(3):
        X, y, tasks = block(seed)
        host.learn_many([Request(X, y, tasks, str(seed))])
    host.close()
    code, output = invoke("verify", tmp_path)
    assert code == 0 and "shard-00000: intact" in output and "shard-00001: intact" in output
    table = "answer" if file == "requests.sqlite" else "stream_block"
    run_sql(directory / file, f"UPDATE {table} SET margins = NULL WHERE number = (SELECT max(number) FROM {table})")
    code, output = invoke("verify", tmp_path)
    assert code == 1 and "budgetron repair" in output
    code, output = invoke("restore", tmp_path / "model" / "requests.sqlite", directory)
    assert code == 2 and "a model in shards" in output
    code, output = invoke("repair", tmp_path, "--accept-loss")
    assert code == 0 and output.count("repaired") == 1, output
    says_what_is_lost = "requests that were not finished and cannot be read are lost" in " ".join(output.split())
    assert says_what_is_lost == (file == "requests.sqlite")
    assert invoke("verify", tmp_path)[0] == 0
    host = sharded(directory)
    X, y, tasks = block(0)
    assert host.learn_many([Request(X, y, tasks, "0")])[0].repeated
    X, y, tasks = block(9)
    assert len(host.learn_many([Request(X, y, tasks, "9")])[0].margins) == 10
    host.close()
