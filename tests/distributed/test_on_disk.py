"""Models that are saved, or that learn in a directory: nothing acknowledged is lost or learned twice."""

from __future__ import annotations

import itertools
import sqlite3
import threading
import uuid
from contextlib import closing

import numpy as np
import pytest
from streams import TASKS, local_run, random_graph, stream

import budgetron
from budgetron import Budgetron, OperatingPoint, graphs, kernels
from budgetron.distributed import ReplicatedModel, ShardedModel
from budgetron.durable import KeyReused, Request, StaleOwner, ownership, recovery
from budgetron.durable.repairs import staging
from budgetron.errors import InputError

KERNEL = kernels.Gaussian(gamma=0.4)


def learner(graph=None):
    return budgetron.BudgetProjectron(budget=40, kernel=KERNEL, graph=graph or graphs.disconnected())


@pytest.mark.parametrize("kind", ["clusters", "edges"])
def test_a_reopened_model_continues(tmp_path, kind):
    X, y, tasks = stream(400, 1)
    local = learner(random_graph(kind, 3))
    pins = {tasks[0]: 3}
    expected, _ = local_run(local, X, y, tasks, 4, [0, 1], pins)
    with ShardedModel(local, shards=4, directory=tmp_path / "m", pins=pins) as model:
        first = model.predict_then_learn(X[:150], y[:150], tasks=tasks[:150])
    with ShardedModel.open(tmp_path / "m", workers=3) as model:
        assert model.n_seen_ == 150 and model.learner.budget == 40
        rest = model.predict_then_learn(X[150:], y[150:], tasks=tasks[150:])
    np.testing.assert_array_equal(np.concatenate([first, rest]), expected)


def test_a_block_with_the_same_key_is_learned_once(tmp_path):
    X, y, tasks = stream(400, 2)
    with ShardedModel(learner(), shards=3, directory=tmp_path / "m") as model:
        first = model.predict_then_learn(X, y, tasks=tasks, key="batch-1")
        again = model.predict_then_learn(X, y, tasks=tasks, key="batch-1")
        np.testing.assert_array_equal(first, again)
        assert model.n_seen_ == 400
    with ShardedModel.open(tmp_path / "m", workers=2) as model:
        np.testing.assert_array_equal(model.predict_then_learn(X, y, tasks=tasks, key="batch-1"), first)
        assert model.n_seen_ == 400
        with pytest.raises(InputError, match="was used before with other examples"):
            model.predict_then_learn(X, 1 - y, tasks=tasks, key="batch-1")


class _Stopped(Exception):
    """Ends a call in the middle, as if the coordinator had crashed."""


def interrupt_call(model, after, X, y, tasks, key):
    """Start a call, and end it after `after` batches of messages were sent, as if the coordinator had crashed.

    The model has one worker, so each batch is one call of the worker.
    """
    send, sent = model._workers.pool.send, []

    def send_some(name, method, *rest):
        if method == "learn":
            if len(sent) == after:
                raise _Stopped
            sent.append(name)
        return send(name, method, *rest)

    model._workers.pool.send = send_some
    with pytest.raises(_Stopped):
        model.predict_then_learn(X, y, tasks=tasks, key=key)
    model._workers.pool.send = send


@pytest.mark.parametrize("blocks", [(128, 512), (512, 128), (384, 250)])
@pytest.mark.parametrize("with_learn_many", [False, True])
def test_an_interrupted_call_is_resumed_with_any_block_size(tmp_path, blocks, with_learn_many):
    """A key names the same rows for any block size: each shard learns only the rows that it has not learned yet."""
    X, y, tasks = stream(1500, 12)
    with ShardedModel(learner(), shards=3) as undisturbed:
        undisturbed.partial_fit(X[:100], y[:100], tasks=tasks[:100])
        expected = undisturbed.predict_then_learn(X, y, tasks=tasks)
        final = undisturbed.decision_function(X, tasks=tasks)
    model = ShardedModel(learner(), shards=3, directory=tmp_path / "m", block=blocks[0], in_flight=1)
    model.partial_fit(X[:100], y[:100], tasks=tasks[:100])
    interrupt_call(model, 2, X, y, tasks, key="batch")
    assert 100 < model.n_seen_ < 1600
    model.close()
    with ShardedModel.open(tmp_path / "m", block=blocks[1], workers=2) as again:
        for _ in range(2):
            if with_learn_many:
                margins = again.learn_many([Request(X, y, tasks, "batch")])[0]
            else:
                margins = again.predict_then_learn(X, y, tasks=tasks, key="batch")
            assert again.n_seen_ == 1600
            np.testing.assert_array_equal(margins, expected)
        np.testing.assert_array_equal(again.decision_function(X, tasks=tasks), final)


def test_no_shard_learns_from_a_key_that_was_used_with_other_rows(tmp_path):
    X, y, tasks = stream(900, 13)
    with ShardedModel(learner(), shards=3, directory=tmp_path / "m", block=128, in_flight=1) as model:
        model.partial_fit(X[:50], y[:50], tasks=tasks[:50])
        interrupt_call(model, 2, X, y, tasks, key="batch")
        seen = [shard.n_seen for shard in model.shards_]
        first, reverse = slice(40), slice(None, None, -1)
        for rows, labels, their_tasks in (
            (X + 1, y, tasks), (X, 1 - y, tasks), (X[first], y[first], tasks[first]),
            (X[reverse], y[reverse], tasks[reverse]),
        ):  # fmt: skip
            with pytest.raises(InputError, match="was used before with other examples"):
                model.predict_then_learn(rows, labels, tasks=their_tasks, key="batch")
            answer = model.learn_many([Request(rows, labels, their_tasks, "batch")])[0]
            assert isinstance(answer, InputError)
            assert [shard.n_seen for shard in model.shards_] == seen
        model.predict_then_learn(X[:60], y[:60], tasks=tasks[:60], key="batch/128")  # this is another key
        model.predict_then_learn(X, y, tasks=tasks, key="batch")
        assert model.n_seen_ == 50 + 60 + 900
        with pytest.raises(InputError, match="1 to 180 characters"):
            model.predict_then_learn(X, y, tasks=tasks, key="k" * 181)


def test_a_key_repeated_within_one_call_is_learned_once(tmp_path):
    X, y, tasks = stream(300, 15)
    first, second, third = (Request(X[i : i + 100], y[i : i + 100], tasks[i : i + 100], key)
                            for i, key in ((0, "k"), (100, "k"), (200, None)))  # fmt: skip
    learner = Budgetron(budget="1 MiB", graph=graphs.disconnected())
    with ShardedModel(learner, shards=3) as undisturbed:
        expected = undisturbed.learn_many([first, third])
        final = undisturbed.decision_function(X, tasks=tasks)
    with ShardedModel(learner, shards=3, directory=tmp_path / "m") as model:
        model.operating_point = OperatingPoint(costs={"fp": 1, "fn": 4})
        answers = model.learn_many([first, second, first, third])
        assert isinstance(answers[1], KeyReused)
        np.testing.assert_array_equal([answers[0], answers[2], answers[3]], [expected[0], expected[0], expected[1]])
        assert model.n_seen_ == 200 and model.operating_point.to_dict()["counted"] == 200
        np.testing.assert_array_equal(model.decision_function(X, tasks=tasks), final)


def test_rows_whose_answers_were_deleted_are_not_learned_again(tmp_path, monkeypatch):
    X, y, tasks = stream(1200, 14)
    monkeypatch.setattr("budgetron.durable.storage.snapshots.MAX_KEYS", 2)
    with ShardedModel(learner(), shards=2, directory=tmp_path / "m", block=128) as model:
        first = model.predict_then_learn(X, y, tasks=tasks, key="batch")
        model.snapshot()
        model.partial_fit(X[:100], y[:100], tasks=tasks[:100])
        model.snapshot()  # deletes answers up to the previous snapshot, except the latest two answers
        again = model.predict_then_learn(X, y, tasks=tasks, key="batch")
        assert model.n_seen_ == 1300
        known = ~np.isnan(again)
        assert 0 < known.sum() < 1200
        np.testing.assert_array_equal(again[known], first[known])


def test_a_later_coordinator_takes_over(tmp_path):
    X, y, tasks = stream(300, 3)
    former = ShardedModel(learner(), shards=3, directory=tmp_path / "m")
    former.partial_fit(X[:100], y[:100], tasks=tasks[:100])
    with ShardedModel.open(tmp_path / "m") as later:
        with pytest.raises(StaleOwner):
            former.partial_fit(X[100:200], y[100:200], tasks=tasks[100:200])
        assert later.n_seen_ == 100
        later.partial_fit(X[100:], y[100:], tasks=tasks[100:])
        assert later.n_seen_ == 300
    former.close()


@pytest.mark.parametrize("where", ["folder", "url"])
def test_a_saved_model_is_loaded_and_continues(tmp_path, where):
    if where == "url":
        pytest.importorskip("fsspec", reason="the extra `ray` is not installed")
    target = tmp_path / "saved" if where == "folder" else f"memory://{uuid.uuid4().hex}/model"
    X, y, tasks = stream(400, 4)
    labels = np.where(y == 1, "spam", "ham")
    expected, _ = local_run(learner(), X, labels, tasks, 4, ["ham", "spam"])
    with ShardedModel(learner(), shards=4, workers=2) as model:
        first = model.predict_then_learn(X[:200], labels[:200], tasks=tasks[:200])
        model.save(target)
        model.partial_fit(X[:10], labels[:10], tasks=tasks[:10])
        model.save(target)  # replaces the first
    with ShardedModel(learner(), shards=4) as model:
        model.partial_fit(X[:200], labels[:200], tasks=tasks[:200])
        model.save(target)
    with ShardedModel.load(target, workers=3) as model:
        assert model.classes_.tolist() == ["ham", "spam"] and model.n_seen_ == 200
        rest = model.predict_then_learn(X[200:], labels[200:], tasks=tasks[200:])
        np.testing.assert_array_equal(np.concatenate([first, rest]), expected)
    if where == "folder":
        assert len(list(target.iterdir())) == 4 + 2  # shards, prototype and record: nothing of earlier saves
        shard = budgetron.load(next(target.glob("shard-00000*")))
        assert shard.classes_.tolist() == ["ham", "spam"]  # each shard is an ordinary model file


def test_damaged_and_missing_files_are_rejected(tmp_path):
    X, y, tasks = stream(100, 4)
    with ShardedModel(learner(), shards=2) as model:
        model.partial_fit(X, y, tasks=tasks)
        model.save(tmp_path)
    shard = next(tmp_path.glob("shard-00001*"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(InputError, match="does not match its checksum"):
        ShardedModel.load(tmp_path)
    for content in (b"{}", b'{"kind":"\xff"}'):
        (tmp_path / "sharded.json").write_bytes(content)
        with pytest.raises(InputError, match="is damaged"):
            ShardedModel.load(tmp_path)
    with pytest.raises(InputError, match=r"has no file 'sharded.json'"):
        ShardedModel.open(tmp_path / "nowhere")


def test_errors_about_the_directory_of_a_replicated_model_name_its_class(tmp_path):
    X, y, tasks = stream(100, 4)
    with ReplicatedModel(Budgetron(100), replicas=2, directory=tmp_path / "live") as model:
        model.partial_fit(X, y, tasks=tasks)
        model.save(tmp_path / "saved")
    with pytest.raises(InputError, match=r"^ReplicatedModel: .* Continue it with ReplicatedModel\.open"):
        ReplicatedModel(Budgetron(100), replicas=2, directory=tmp_path / "live").partial_fit(X, y, tasks=tasks)
    with pytest.raises(InputError, match=r"^ReplicatedModel\.open: .* Use ReplicatedModel\.load\.$"):
        ReplicatedModel.open(tmp_path / "saved")
    with pytest.raises(InputError, match=r"^ReplicatedModel: .* has no file .* URL of a ReplicatedModel\.$"):
        ReplicatedModel.open(tmp_path / "nowhere")
    replica = next((tmp_path / "saved").glob("shard-00001*"))
    replica.write_bytes(replica.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"^ReplicatedModel: .* does not match its checksum"):
        ReplicatedModel.load(tmp_path / "saved")
    (tmp_path / "saved" / "sharded.json").write_text("{}")
    with pytest.raises(InputError, match=r"^ReplicatedModel: .* is damaged"):
        ReplicatedModel.load(tmp_path / "saved")


def test_a_directory_with_a_model_cannot_be_started_again(tmp_path):
    X, y, tasks = stream(100, 4)
    with ShardedModel(learner(), shards=2, directory=tmp_path) as model:
        model.partial_fit(X, y, tasks=tasks)
        model.snapshot()
    with pytest.raises(InputError, match=r"Continue it with ShardedModel.open"):
        ShardedModel(learner(), shards=2, directory=tmp_path).partial_fit(X, y, tasks=tasks)
    with pytest.raises(InputError, match=r"Continue it with ShardedModel.open"):
        ShardedModel.load(tmp_path, directory=tmp_path)


def test_a_copy_of_a_live_directory_does_not_disturb_its_owner(tmp_path):
    X, y, tasks = stream(300, 5)
    with ShardedModel(learner(), shards=2, directory=tmp_path, snapshot_every=40) as model:
        model.partial_fit(X[:100], y[:100], tasks=tasks[:100])
        model.partial_fit(X[100:115], y[100:115], tasks=tasks[100:115])  # these examples are only in the logs
        with ShardedModel.load(tmp_path, workers=2) as copy:
            assert copy.decision_function(X, tasks=tasks).tolist() == model.decision_function(X, tasks=tasks).tolist()
            copy.partial_fit(X[115:200], y[115:200], tasks=tasks[115:200])
            shard_learner = copy.learner_of(tasks[0])
            alone = shard_learner.decision_function(X[:1], tasks=tasks[:1])
            assert alone.tolist() == copy.decision_function(X[:1], tasks=tasks[:1]).tolist()
        assert model.n_seen_ == 115
        model.partial_fit(X[115:], y[115:], tasks=tasks[115:])
        assert model.n_seen_ == 300


def test_a_copy_is_loaded_while_its_owner_commits_between_any_two_reads(tmp_path, monkeypatch):
    X, y, tasks = stream(400, 5)
    with ShardedModel(learner(), shards=2, directory=tmp_path, snapshot_every=20) as model:
        model.partial_fit(X[:100], y[:100], tasks=tasks[:100])

        def commit_before(place, name):
            """Let every shard commit before each call of a function that reads the files."""
            read = getattr(place, name)

            def commit_and_read(*arguments):
                model.partial_fit(X[: len(TASKS)], y[: len(TASKS)], tasks=TASKS)
                return read(*arguments)

            monkeypatch.setattr(place, name, commit_and_read)

        positions_before = positions(tmp_path)
        for place, name in (
            (ownership.AcknowledgedMark, "read"), (staging, "copy_log"), (recovery, "from_snapshot"),
            (recovery, "replay"),
        ):  # fmt: skip
            commit_before(place, name)
        ShardedModel.load(tmp_path).close()
        monkeypatch.undo()
        assert all(now > before for now, before in zip(positions(tmp_path), positions_before, strict=True))


def test_a_copy_is_loaded_while_another_thread_learns(tmp_path):
    X, y, tasks = stream(2000, 5)
    with ShardedModel(learner(), shards=2, directory=tmp_path, snapshot_every=40) as model:
        model.partial_fit(X[:100], y[:100], tasks=tasks[:100])
        stopping = threading.Event()

        def learn():
            for i in itertools.cycle(range(100, 2000, 4)):
                model.partial_fit(X[i : i + 4], y[i : i + 4], tasks=tasks[i : i + 4])
                if stopping.is_set():
                    return

        learning = threading.Thread(target=learn)
        learning.start()
        try:
            seen = []
            for _ in range(10):
                with ShardedModel.load(tmp_path) as copy:
                    seen.append(copy.n_seen_)
        finally:
            stopping.set()
            learning.join()
        assert seen == sorted(seen) and seen[0] >= 100 and seen[-1] <= model.n_seen_


def positions(directory):
    """The number of the last record in the log of each shard."""
    numbers = []
    for path in sorted(directory.glob("shard-*/host.sqlite")):
        with closing(sqlite3.connect(path)) as log:
            numbers += log.execute("SELECT position FROM owner").fetchone()
    return numbers


def test_loading_a_copy_does_not_migrate_a_directory_of_an_earlier_format(tmp_path):
    X, y, tasks = stream(100, 5)
    with ShardedModel(learner(), shards=2, directory=tmp_path) as model:
        model.partial_fit(X, y, tasks=tasks)
        expected = model.decision_function(X, tasks=tasks)
    logs = sorted(tmp_path.glob("shard-*/host.sqlite"))
    for path in logs:
        with closing(sqlite3.connect(path)) as log:
            log.executescript("DROP TABLE correction; PRAGMA user_version=3;")  # format 3 had no corrections
    before = [path.read_bytes() for path in logs]
    with ShardedModel.load(tmp_path) as copy:
        assert copy.decision_function(X, tasks=tasks).tolist() == expected.tolist()
    assert [path.read_bytes() for path in logs] == before


def test_keys_of_earlier_versions_are_not_learned_twice(tmp_path):
    """Earlier versions stored one key per message: KEY/FIRST ROW. A retry skips the rows of these messages."""
    X, y, tasks = stream(600, 21)
    with ShardedModel(learner(), shards=3, directory=tmp_path / "m", block=128) as model:
        model.partial_fit(X[:50], y[:50], tasks=tasks[:50])
        expected = model.predict_then_learn(X, y, tasks=tasks, key="batch")
    for shard in range(3):  # turn the answers of the stream into keys of messages, as in an earlier version
        with sqlite3.connect(tmp_path / "m" / f"shard-{shard:05d}" / "host.sqlite") as log:
            for table in ("owner", "answer", "stream_block", "stream_forgotten"):  # format 2 had no checksums
                log.execute(f"ALTER TABLE {table} DROP COLUMN crc")
            log.execute("ALTER TABLE owner DROP COLUMN snapshot")
            log.execute("ALTER TABLE owner DROP COLUMN previous")
            log.execute("PRAGMA user_version=2")
            log.execute("INSERT INTO answer SELECT key || '/' || first, number, x'', margins FROM stream_block "
                        "WHERE key = 'batch'")  # fmt: skip
            assert log.execute("DELETE FROM stream_block WHERE key = 'batch'").rowcount > 0
        log.close()
    with ShardedModel.open(tmp_path / "m") as again:
        margins = again.predict_then_learn(X, y, tasks=tasks, key="batch")
        assert again.n_seen_ == 650 and margins.tolist() == expected.tolist()


def test_the_operating_point_of_a_sharded_model_counts_every_margin_once(tmp_path):
    rng = np.random.default_rng(5)
    X, tasks = rng.normal(size=(600, 2)), rng.integers(0, 9, size=600)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=600) > 0.3, "yes", "no")
    learner = Budgetron(budget="1 MiB", graph=graphs.disconnected())
    point = OperatingPoint(costs={"fp": 1, "fn": 4})
    model = ShardedModel(learner, shards=3, directory=tmp_path / "live")
    model.operating_point = point
    margins = np.concatenate([model.predict_then_learn(X[a:b], y[a:b], tasks=tasks[a:b], key=f"from {a}")
                              for a, b in ((0, 250), (250, 600))])  # fmt: skip
    model.predict_then_learn(X[250:], y[250:], tasks=tasks[250:], key="from 250")  # a retry is not counted
    expected = OperatingPoint(costs={"fp": 1, "fn": 4})
    expected.begin(model.classes_)
    expected.count_margins(margins, (y == "yes").astype(int))
    settings = model.operating_point.to_dict()
    assert settings == expected.to_dict() and settings["counted"] == 600 and settings["expected_cost"] > 0
    decided = model.decide(X[:50], tasks=tasks[:50])
    assert set(decided) == {"no", "yes"} and model.decide_one(X[0], task=tasks[0]) == decided[0]
    model.save(tmp_path / "saved")
    model.close()
    with ShardedModel.open(tmp_path / "live") as again, ShardedModel.load(tmp_path / "saved") as loaded:
        assert again.operating_point.to_dict() == loaded.operating_point.to_dict() == settings
        assert again.decide(X[:50], tasks=tasks[:50]).tolist() == decided.tolist()
        again.change_operating_point({"max_error": 0.2})
        assert again.operating_point.to_dict()["counted"] == 600


def test_a_retry_of_learn_many_is_not_counted_again_by_the_operating_point(tmp_path):
    X, y, tasks = stream(400, 6)
    with ShardedModel(Budgetron(budget="1 MiB", graph=graphs.disconnected()), shards=3, directory=tmp_path) as model:
        model.operating_point = OperatingPoint(costs={"fp": 1, "fn": 4})
        for n in (100, 200, 200):
            model.learn_many([Request(X[:n], y[:n], tasks[:n], f"first {n}")])
        assert model.n_seen_ == 300 and model.operating_point.to_dict()["counted"] == 300


def test_a_first_block_that_is_rejected_does_not_change_the_operating_point():
    X, y, tasks = stream(100, 7)
    model = ShardedModel(Budgetron(budget="2 KiB", graph=graphs.disconnected()), shards=8)
    model.operating_point = OperatingPoint(max_error=0.1).update(np.linspace(0, 1, 100), np.resize([0, 1], 100))
    with pytest.raises(InputError, match="budget"):
        model.partial_fit(X, y, tasks=tasks, classes=[0, 1])
    assert model.operating_point.to_dict()["counted"] == 100
    with pytest.raises(InputError, match="one for the labels"):
        model.partial_fit(X, np.where(y, "b", "a"), tasks=tasks)
