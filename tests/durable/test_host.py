"""A host learns like a model without a host, survives kills, and gives a repeated key its first answer."""

from __future__ import annotations

import datetime
import itertools
import threading
import time

import numpy as np
import pytest
from host_streams import MODELS, blocks, close_without_snapshot, learn_without_host, same_model, stream
from scipy import sparse

import budgetron
from budgetron.durable import Host, KeyReused, Request
from budgetron.durable.storage.sqlite_file import copy_database
from budgetron.errors import Closed, InputError, UnknownLabel
from budgetron.learners.lifecycle.saved import content_of


def test_a_host_equals_a_model_without_a_host_and_recovers_bit_for_bit(tmp_path, make_model):
    sent = blocks()
    bare, margins = learn_without_host(make_model, sent)
    host = Host.open(tmp_path, make_model, snapshot_every=70)
    for block, expected in zip(sent, margins, strict=True):
        assert np.array_equal(host.learn(*block).margins, expected)
    assert same_model(host.model, bare)
    close_without_snapshot(host)
    again = Host.open(tmp_path)
    assert 0 < again.recovery.replayed_examples < 300
    assert same_model(again.model, bare) and again.position == len(sent)
    assert np.array_equal(
        again.decision_function(sent[0][0], tasks=sent[0][2]), bare.decision_function(sent[0][0], tasks=sent[0][2])
    )
    again.close()
    with Host.open(tmp_path) as third:
        assert third.recovery.replayed_examples == 0 and same_model(third.model, bare)


def test_another_random_seed_at_reopening_changes_nothing(tmp_path):
    def unseeded():
        return budgetron.RandomBudgetPerceptron(budget=5, random_state=None)

    host = Host.open(tmp_path, unseeded)
    for block in blocks(100):
        host.learn(*block)
    before = host.content()
    close_without_snapshot(host)
    with Host.open(tmp_path, unseeded) as again:
        assert again.content() == before


def test_a_repeated_key_gets_the_first_answer(tmp_path):
    first, second, third = blocks(60)
    host = Host.open(tmp_path, MODELS["random"])
    answers = [host.learn(*first, key="a"), host.learn(*second, key="b")]
    assert not any(answer.repeated for answer in answers)
    for again in (host, None):
        if again is None:  # the second time the answers come from the replay
            close_without_snapshot(host)
            again = Host.open(tmp_path)
        for block, key, answer in zip((first, second), "ab", answers, strict=True):
            repeated = again.learn(*block, key=key)
            assert repeated.repeated and repeated.position == answer.position
            assert np.array_equal(repeated.margins, answer.margins)
        with pytest.raises(KeyReused, match="used before with other examples"):
            again.learn(*third, key="a")
        assert again.model.n_seen_ == 40
    again.close()


def test_a_key_repeated_within_one_commit_is_learned_once(tmp_path):
    first, second = blocks(40)
    with Host.open(tmp_path, MODELS["random"]) as host:
        answer, two, other = host.learn_many(
            [Request(*first, key="k"), Request(*first, key="k"), Request(*second, key="k")]
        )
        assert answer.position == two.position and two.repeated and np.array_equal(answer.margins, two.margins)
        assert isinstance(other, KeyReused)
        assert host.model.n_seen_ == 20


def test_multiclass_margins_keep_their_shape(tmp_path):
    X, _, tasks = stream(30)
    y = ["red", "green", "blue"] * 10
    host = Host.open(tmp_path, MODELS["shared"])
    first = host.learn(X, y, tasks, key="k")
    close_without_snapshot(host)
    with Host.open(tmp_path) as again:
        assert np.array_equal(again.learn(X, y, tasks, key="k").margins, first.margins)
        assert first.margins.shape == (30, 3)


def test_a_rejected_block_is_not_learned_now_nor_in_any_replay(tmp_path):
    first, second, third = blocks(60)
    host = Host.open(tmp_path, MODELS["budgetron"])
    host.learn(*first)
    before = host.content()
    with pytest.raises(UnknownLabel):
        host.learn(second[0], ["never"] * 20, second[2], key="bad")
    with pytest.raises(InputError, match="finite"):
        host.learn(np.full((1, 5), np.nan), [1], ["ann"])
    assert host.content() == before
    assert not host.learn(*second, key="bad").repeated  # a rejected request does not use up its key
    before = host.content()
    with pytest.raises(UnknownLabel):
        host.learn(second[0], ["never"] * 20, second[2], key="other")
    close_without_snapshot(host)  # the log still has the bytes of the last rejected record
    host = Host.open(tmp_path)
    assert host.recovery.rejected == 1 and host.content() == before
    host.learn(*third)
    after = host.content()
    close_without_snapshot(host)
    host = Host.open(tmp_path)  # the commit of `third` has cleared the bytes of the rejected record
    assert host.recovery.rejected == 0 and host.content() == after
    host.close()


@pytest.mark.parametrize("bad", [
    {"X": [[1.0, 2.0]], "y": [1]},
    {"X": [], "y": []},
    {"X": [[1.0] * 5], "y": [1, 0]},
    {"X": [[1.0] * 5], "y": [1], "tasks": ["a", "b"]},
    {"X": [[1.0] * 5], "y": [object()]},
    {"X": [[1.0] * 5], "y": [1], "tasks": [object()]},
    {"X": [[1.0] * 5], "y": [1], "key": ""},
    {"X": [[1.0] * 5], "y": [1], "key": "x" * 201},
    {"X": [[1.0] * 5], "y": None},
    {"X": [[1.0] * 5], "y": [1], "tasks": [2**70]},
    {"X": [[1.0] * 5], "y": [1], "sample_weight": [1.0]},
])  # fmt: skip
def test_bad_input_is_rejected_with_a_message(tmp_path, bad):
    with Host.open(tmp_path, MODELS["random"]) as host:
        host.learn(*blocks(20)[0])
        before = host.content()
        with pytest.raises(InputError, match="must be"):
            host.learn(**bad)
        assert host.content() == before


def test_several_kinds_of_rows_and_tasks_are_logged_and_replayed(tmp_path):
    X, _, _ = stream(4)
    tasks = [7, "ann", datetime.date(2020, 1, 2), ("pair", 1)]
    for kind, rows in {
        "float32": X.astype(np.float32),
        "sparse": sparse.csr_matrix(np.where(X > 0, X, 0)),
        "lists": X.tolist(),
        "dicts": [{"height": 1.5, "colour": "red"}, {"height": 0.5}, {"colour": "blue"}, {"width": 2}],
    }.items():
        folder = tmp_path / kind
        host = Host.open(folder, MODELS["budgetron"])
        host.learn(rows, [True, False, True, False], tasks, sample_weight=[1.0, 2.0, 1.0, 0.5])
        host.learn(rows, np.array([True, False, True, True]), np.array([1, 2, 3, 4]))
        content, predicted = host.content(), host.predict(rows, tasks)
        close_without_snapshot(host)
        with Host.open(folder) as again:
            assert again.content() == content and again.model.n_seen_ == 8
            assert np.array_equal(again.predict(rows, tasks=tasks), predicted)


def test_dicts_are_hashed_as_learn_one_does(tmp_path):
    records = [{"height": 1.5, "colour": "red"}, {"height": 0.5}, {"colour": "blue"}, {"width": 2, "height": 1}]
    bare = MODELS["budgetron"]()
    with Host.open(tmp_path, MODELS["budgetron"]) as host:
        for record, label in zip(records, [True, False, True, False], strict=True):
            host.learn([record], [label], ["ann"])
            bare.learn_one(record, label, task="ann")
        assert same_model(host.model, bare)


def test_blocks_from_several_threads_are_learned_in_the_order_of_the_log(tmp_path):
    sent = blocks(400, size=4)
    host = Host.open(tmp_path, MODELS["random"])
    host.learn(*sent[0])
    answers = {}

    def work(part):
        for i in part:
            answers[i] = host.learn(*sent[i], key=f"block {i}")

    threads = [threading.Thread(target=work, args=(range(1 + start, 100, 4),)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    order = sorted(answers, key=lambda i: answers[i].position)
    bare, margins = learn_without_host(MODELS["random"], [sent[0], *(sent[i] for i in order)])
    assert same_model(host.model, bare)
    assert all(np.array_equal(answers[i].margins, m) for i, m in zip(order, margins[1:], strict=True))
    close_without_snapshot(host)
    with Host.open(tmp_path) as again:
        assert same_model(again.model, bare)


def test_forgetting_a_task_is_logged(tmp_path):
    sent = blocks(100)
    host = Host.open(tmp_path, MODELS["shared"])
    for block in sent[:4]:
        host.learn(*block)
    host.forget_task("bob")
    host.learn(*sent[4])
    bare, _ = learn_without_host(MODELS["shared"], sent[:4])
    bare.forget_task("bob")
    bare.partial_fit(*sent[4][:2], tasks=sent[4][2])
    assert same_model(host.model, bare)
    close_without_snapshot(host)
    with Host.open(tmp_path) as again:
        assert same_model(again.model, bare)


def files_with(folder, content):
    return [path.name for path in folder.iterdir() if content in path.read_bytes()]


def test_the_data_of_a_forgotten_task_is_in_no_file_after_the_second_snapshot(tmp_path):
    X, y, _ = stream(600)
    X[:, 4] = np.float64(0.123456789)
    with Host.open(tmp_path, MODELS["random"]) as host:
        host.learn(*blocks(20)[0])
        host.learn(X, y, ["erased"] * len(y))
        host.snapshot()
        assert files_with(tmp_path, b"erased") and files_with(tmp_path, X[0, 4].tobytes())
        host.forget_task("erased")
        for block in blocks(40, seed=1):
            host.learn(*block)
            host.snapshot()
        assert files_with(tmp_path, X[0, 4].tobytes()) == []
        assert files_with(tmp_path, b"erased") == []


@pytest.mark.parametrize("change", [
    lambda host: host.forget_task("bob"),
    lambda host: host.set_operating_point({"max_error": 0.1}),
], ids=["task forgotten", "operating point"])  # fmt: skip
def test_closing_writes_a_snapshot_after_a_record_without_examples(tmp_path, change):
    with Host.open(tmp_path, MODELS["shared"]) as host:
        for block in blocks(100):
            host.learn(*block)
    with Host.open(tmp_path) as host:
        change(host)
        position, content = host.position, host.content()
    with Host.open(tmp_path) as again:
        assert again.snapshot_record == position and again.recovery.position == again.recovery.snapshot
        assert again.content() == content


def test_restore_replaces_the_model(tmp_path):
    sent = blocks(100)
    other, _ = learn_without_host(MODELS["budgetron"], sent[:2])
    host = Host.open(tmp_path / "a", MODELS["random"])
    answer = host.learn(*sent[0], key="before")
    host.restore(content_of(other))
    assert same_model(host.model, other)
    host.learn(*sent[2])
    other.partial_fit(*sent[2][:2], tasks=sent[2][2])
    close_without_snapshot(host)
    with Host.open(tmp_path / "a") as again:
        assert same_model(again.model, other)
        assert again.learn(*sent[0], key="before").position == answer.position
        with pytest.raises(InputError, match="a Budgetron model"):
            again.restore(b"rubbish")
        assert same_model(again.model, other)


def test_a_backup_made_while_learning_is_consistent(tmp_path, monkeypatch):
    """Examples are learned without a pause, also while `backup` runs: before and after it copies the database."""
    sent, stop = blocks(400, size=4), threading.Event()
    host = Host.open(tmp_path / "a", MODELS["random"], snapshot_every=50)

    def learn():
        for block in itertools.cycle(sent):
            if stop.is_set():
                return
            host.learn(*block)

    def wait_for_more():
        position, end = host.position, time.monotonic() + 300
        while host.position == position:
            assert time.monotonic() < end, "nothing is learned during the backup"
            time.sleep(0.001)

    def copy_between_records(source, target):
        wait_for_more()
        copy_database(source, target)
        wait_for_more()

    monkeypatch.setattr("budgetron.durable.storage.sqlite_file.copy_database", copy_between_records)
    (tmp_path / "b").mkdir()
    thread = threading.Thread(target=learn)
    thread.start()
    try:
        wait_for_more()
        first = host.position
        host.backup(tmp_path / "b" / "host.sqlite")
        last = host.position
    finally:
        stop.set()
        thread.join()
        host.close()
    with Host.open(tmp_path / "b") as copy:
        assert first < copy.position < last
        learned = itertools.islice(itertools.cycle(sent), copy.position)
        assert same_model(copy.model, learn_without_host(MODELS["random"], learned)[0])


def test_the_directory_stays_small(tmp_path):
    def size():
        return sum(file.stat().st_size for file in tmp_path.iterdir())

    with Host.open(tmp_path, MODELS["random"], snapshot_every=200) as host:
        for block in blocks(12000, size=50):
            host.learn(*block)
        early = size()  # by now SQLite's write-ahead file has reached its full size, 4 MB
        for block in blocks(24000, size=50, seed=1):
            host.learn(*block)
        assert size() <= 1.1 * early


def test_old_keys_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr("budgetron.durable.storage.snapshots.MAX_KEYS", 10)
    sent = blocks(200, size=5)
    with Host.open(tmp_path, MODELS["random"], snapshot_every=50) as host:
        for i, block in enumerate(sent):
            host.learn(*block, key=f"k{i}")
        assert len(host.answers_to("k")) <= 20
        assert host.learn(*sent[-1], key="k39").repeated
        assert not host.learn(*sent[0], key="k0").repeated


def test_arguments_of_open_are_checked(tmp_path):
    with pytest.raises(InputError, match="given for a new directory"):
        Host.open(tmp_path)
    for bad in ({"snapshot_every": 0}, {"epoch": 0}, {"epoch": 1.5}):
        with pytest.raises(InputError, match="must be an integer"):
            Host.open(tmp_path, MODELS["random"], **bad)
    with pytest.raises(InputError, match="a learner of budgetron"):
        Host.open(tmp_path, model=object())
    with Host.open(tmp_path, MODELS["random"]) as host, pytest.raises(InputError, match="has learned nothing yet"):
        host.predict([[1.0]])
    with pytest.raises(Closed, match="was closed"):
        host.learn([[1.0]], [1])
