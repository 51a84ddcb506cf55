"""A corrected model equals one that learned the right label from the start, and a kill leaves no half correction."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from child_signals import default_signals
from host_streams import close_without_snapshot

from budgetron import Budgetron, Forgetron
from budgetron.durable import (
    DamagedLog,
    DiskRefused,
    Host,
    KeyReused,
    NotCopied,
    NotInLog,
    Request,
    repair,
    restore,
    verify,
)
from budgetron.durable.recovery import load_copy
from budgetron.errors import Closed, InputError, StorageError
from budgetron.learners.input.hashing import DICT_FEATURES, hashed_rows

MODELS = {"budgetron": lambda: Budgetron("64 KiB", kernel=None), "forgetron": lambda: Forgetron(20)}


def requests(n=12, size=5, seed=0):
    """Yield n requests (X, y, tasks) of `size` examples each."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X, tasks = rng.normal(size=(size, 3)), rng.integers(3, size=size).tolist()
        yield X, np.where(X[:, 0] + 0.3 * rng.normal(size=size) > 0, "yes", "no").tolist(), tasks


def model_of_requests(make, sent):
    """A model without a host that learned these requests."""
    model = make()
    for X, y, tasks in sent:
        if len(y):
            model.partial_fit(X, y, tasks=tasks, classes=["no", "yes"])
    return model


def probe_margins(model):
    """The margins of a model for fixed rows."""
    return model.decision_function(np.random.default_rng(9).normal(size=(20, 3)), tasks=[0, 1] * 10)


def learned_host(folder, make=MODELS["budgetron"], **options):
    """A host that has learned 12 requests, and the list of these requests: [X, y, tasks] each.

    Record i of the log is item i - 1 of the list.
    """
    host = Host.open(folder, make, **options)
    sent = [list(request) for request in requests()]
    for X, y, tasks in sent:
        host.learn(X, y, tasks, classes=["no", "yes"])
    return host, sent


def other_label(label):
    return "no" if label == "yes" else "yes"


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("every", [17, 1000])
def test_a_corrected_model_equals_one_that_learned_the_right_label(tmp_path, make, every):
    host, sent = learned_host(tmp_path, make, snapshot_every=every)
    sent[10][1][3] = other_label(sent[10][1][3])
    done = host.correct(11, sent[10][1][3], 3, who="ann", reason="typo")
    assert np.array_equal(probe_margins(host.model), probe_margins(model_of_requests(make, sent)))
    assert done.correction.new == sent[10][1][3] and done.seconds >= 0 and done.replayed_examples >= 5
    X, y, tasks = next(requests(1, seed=5))
    sent.append([X, y, tasks])
    host.learn(X, y, tasks)
    close_without_snapshot(host)  # so that the next open replays the log
    with Host.open(tmp_path) as again:
        assert np.array_equal(probe_margins(again.model), probe_margins(model_of_requests(make, sent)))
        assert again.model.n_seen_ == 65
        (line,) = again.corrections()
        assert (line.position, line.row, line.who, line.reason) == (11, 3, "ann", "typo") and line.at > 1.7e9
    assert verify(tmp_path).examples == 65


def test_withdrawn_examples_are_as_if_never_learned(tmp_path):
    host, sent = learned_host(tmp_path)
    X, y, tasks = sent[4]
    remaining = [0, 1, 2, 3, 4]
    for row in (1, 4, 0):
        host.withdraw(5, row)
        remaining.remove(row)
        sent[4] = [X[remaining], [y[i] for i in remaining], [tasks[i] for i in remaining]]
        assert np.array_equal(probe_margins(host.model), probe_margins(model_of_requests(MODELS["budgetron"], sent)))
    with pytest.raises(InputError, match="not withdrawn"):
        host.correct(5, "yes", 1)
    label = other_label(y[2])
    host.correct(5, label, 2)  # rows keep their numbers in the request, even after some were withdrawn
    sent[4][1][0] = label
    assert np.array_equal(probe_margins(host.model), probe_margins(model_of_requests(MODELS["budgetron"], sent)))
    for row in (2, 3):
        host.withdraw(5, row)
    del sent[4]
    assert np.array_equal(probe_margins(host.model), probe_margins(model_of_requests(MODELS["budgetron"], sent)))
    with pytest.raises(InputError, match="rejected or withdrawn"):
        host.correct(5, "yes", 0)
    assert [line.row for line in host.corrections()] == [3, 2, 2, 0, 4, 1]
    close_without_snapshot(host)
    with Host.open(tmp_path) as again:
        assert np.array_equal(probe_margins(again.model), probe_margins(model_of_requests(MODELS["budgetron"], sent)))


def test_the_first_record_can_be_corrected_while_it_is_in_the_log(tmp_path):
    host, sent = learned_host(tmp_path)
    sent[0][1][0] = other_label(sent[0][1][0])
    assert host.correct(1, sent[0][1][0], 0).snapshot == 0
    assert np.array_equal(probe_margins(host.model), probe_margins(model_of_requests(MODELS["budgetron"], sent)))
    host.close()


def test_records_rejected_before_the_first_snapshot_do_not_prevent_corrections(tmp_path):
    """The first snapshot deletes the records that the model rejected before it, so numbers are missing in the log."""
    sent = [list(request) for request in requests(3)]
    rejected = Request(sent[0][0], ["maybe"] * 5, sent[0][2], classes=["no", "yes"])
    X, y, tasks = sent[0]
    host = Host.open(tmp_path, MODELS["budgetron"])
    with pytest.raises(InputError, match="maybe"):
        host.learn(X, ["maybe"] * 5, tasks, classes=["no", "yes"])
    commit = [rejected, Request(X, y, tasks, classes=["no", "yes"]), rejected, Request(*sent[1]), rejected]
    answers = host.learn_many(commit)
    assert [isinstance(answer, InputError) for answer in answers] == [True, False, True, False, True]
    first, second = answers[1].position, answers[3].position
    host.learn(*sent[2])
    assert [number for (number,) in host._state.log.db.rows("SELECT number FROM log")] == [first, second, second + 2]
    sent[0][1][0], sent[1][1][3] = other_label(sent[0][1][0]), other_label(sent[1][1][3])
    assert host.correct(first, sent[0][1][0], 0).snapshot == 0
    assert host.correct(second, sent[1][1][3], 3).snapshot == 0
    assert np.array_equal(probe_margins(host.model), probe_margins(model_of_requests(MODELS["budgetron"], sent)))
    with pytest.raises(InputError, match="rejected or withdrawn"):
        host.withdraw(first + 1, 0)
    close_without_snapshot(host)
    with Host.open(tmp_path) as again:
        assert np.array_equal(probe_margins(again.model), probe_margins(model_of_requests(MODELS["budgetron"], sent)))


def test_corrections_of_the_first_records_of_a_trained_model_are_rejected(tmp_path):
    host = Host.open(tmp_path, model=model_of_requests(MODELS["budgetron"], requests(1, seed=7)))
    X, y, tasks = next(requests(1))
    host.learn(X, y, tasks)
    with pytest.raises(NotInLog, match="already trained"):
        host.correct(1, other_label(y[0]), 0)
    host.close()


def test_corrections_of_records_that_left_the_log_are_rejected(tmp_path):
    host, sent = learned_host(tmp_path, snapshot_every=10)
    before = host.content()
    for position in (1, 3):
        with pytest.raises(NotInLog, match="Learn the correct label as a new example"):
            host.correct(position, other_label(sent[position - 1][1][0]), 0)
    oldest_snapshot = host._state.snapshots.numbers[-1]
    with pytest.raises(NotInLog):
        host.correct(oldest_snapshot, other_label(sent[oldest_snapshot - 1][1][0]), 0)
    # The next record is in the newest snapshot, but not in the older one, from which the replay can start.
    host.correct(oldest_snapshot + 1, other_label(sent[oldest_snapshot][1][0]), 0)
    assert host.content() != before
    host.close()


WRONG = [
    {"position": 0}, {"position": 99}, {"position": "1"}, {"position": 1.5}, {"position": -1}, {"position": True},
    {"row": 5}, {"row": -1}, {"row": "0"}, {"row": None}, {"label": "maybe"}, {"label": 1}, {"label": None},
    {"label": object()}, {"label": [1]}, {"reason": "x" * 501}, {"who": None},
]  # fmt: skip


def test_invalid_corrections_are_rejected_and_change_nothing(tmp_path):
    host, learned = learned_host(tmp_path)
    before = host.content()
    for arguments in WRONG:
        call = {"position": 6, "row": 2, "label": other_label(learned[5][1][2])} | arguments
        with pytest.raises(InputError):
            host.correct(call.pop("position"), call.pop("label"), call.pop("row"), **call)
    with pytest.raises(InputError, match="already has the label"):
        host.correct(6, learned[5][1][2], 2)
    assert host.content() == before and host.corrections() == []
    host.close()


def test_corrections_need_an_open_host_that_has_learned(tmp_path):
    with Host.open(tmp_path, MODELS["budgetron"]) as host, pytest.raises(InputError, match="learned nothing"):
        host.correct(1, "yes")
    with pytest.raises(Closed):
        host.correct(1, "yes")


def test_keys_keep_their_first_answers(tmp_path):
    X, y, tasks = next(requests(1))
    host = Host.open(tmp_path, MODELS["budgetron"])
    first = host.learn(X, y, tasks, key="k", classes=["no", "yes"])
    second = host.learn(X + 1, y, tasks, key="l")
    host.correct(2, other_label(y[1]), 1)
    host.withdraw(2, 0)
    assert host.record_of("l") == 2 and host.record_of("never") is None
    for _ in range(2):
        again = host.learn(X + 1, y, tasks, key="l")  # the request as it was first sent, with the wrong label
        assert again.repeated and np.array_equal(again.margins, second.margins)
        assert np.array_equal(host.learn(X, y, tasks, key="k", classes=["no", "yes"]).margins, first.margins)
        with pytest.raises(KeyReused):
            host.learn(X + 2, y, tasks, key="l")
        close_without_snapshot(host)
        host = Host.open(tmp_path)
    assert host.model.n_seen_ == 9
    host.close()


def test_a_repeated_correction_changes_nothing(tmp_path):
    host, sent = learned_host(tmp_path)
    label = other_label(sent[3][1][1])
    first = host.correct(4, label, 1)
    again = host.correct(4, label, 1)
    assert again.correction == first.correction and again.replayed_examples == 0
    host.withdraw(4, 1)
    assert host.withdraw(4, 1).correction.withdrawn and len(host.corrections()) == 2
    host.close()


def test_a_correction_without_row_is_a_retry_only_if_the_record_has_one_example(tmp_path):
    host, sent = learned_host(tmp_path)
    label = other_label(sent[3][1][0])
    host.correct(4, label, 0)
    with pytest.raises(InputError, match="because the record has 5 examples"):
        host.correct(4, label)
    host.withdraw(5, 0)
    with pytest.raises(InputError, match="because the record has 5 examples"):
        host.withdraw(5)
    for row in range(1, 5):
        host.withdraw(5, row)
    with pytest.raises(InputError, match="rejected or withdrawn"):
        host.withdraw(5)
    alone = host.learn(sent[0][0][:1], ["yes"], [0]).position
    host.correct(alone, "no")
    assert host.correct(alone, "no").replayed_examples == 0
    host.withdraw(alone)
    assert host.withdraw(alone).replayed_examples == 0
    host.snapshot()  # deletes the record from the log
    assert host.withdraw(alone).replayed_examples == 0
    host.close()


def test_a_repeated_correction_is_copied_before_its_answer(tmp_path):
    """The first attempt wrote the correction, but its copy failed."""
    host, sent = learned_host(tmp_path)
    label = other_label(sent[3][1][1])

    def broken():
        raise StorageError("the network is down")

    host.before_answer = broken
    for _ in range(2):
        with pytest.raises(NotCopied):
            host.correct(4, label, 1)
    host.before_answer = lambda: None
    assert host.correct(4, label, 1).replayed_examples == 0
    host.close()


def test_corrections_replay_forgotten_tasks_weights_and_dicts(tmp_path):
    host = Host.open(tmp_path, MODELS["budgetron"])
    rows = [{"a": 1.0, "b": "x"}, {"a": 2.0}]
    host.learn(rows, [0, 1], ["ann", "bob"], sample_weight=[2.0, 1.0])
    host.learn(rows, [0, 1], ["ann", "bob"], sample_weight=[2.0, 1.0])
    host.forget_task("ann")
    host.learn(rows, [1, 0], ["ann", "bob"])
    with pytest.raises(InputError, match="forgets a task"):
        host.withdraw(3)
    host.correct(2, 1, 0)
    bare = MODELS["budgetron"]()  # learns the same without a host
    for y, weights in (([0, 1], [2.0, 1.0]), ([1, 1], [2.0, 1.0]), ([1, 0], None)):
        if weights is None:
            bare.forget_task("ann")
        bare.partial_fit(hashed_rows("t", rows, DICT_FEATURES), y, tasks=["ann", "bob"], sample_weight=weights)
    probes = hashed_rows("t", rows, DICT_FEATURES)
    expected_margins = bare.decision_function(probes, tasks=["ann", "bob"])
    assert np.array_equal(host.decision_function(rows, ["ann", "bob"]), expected_margins)
    host.close()


@pytest.mark.parametrize(("labels", "later", "words"), [
    ("ab", "b", "labels of at least two classes"),
    ("abc", "c", "because of record 2"),
    ("abc", "b", "would remove one of the classes"),
])  # fmt: skip
def test_a_correction_of_the_only_example_of_its_class_in_the_first_block_is_rejected(tmp_path, labels, later, words):
    """The first block determines the classes. A correction must not remove one of them."""
    host = Host.open(tmp_path, MODELS["budgetron"])
    host.learn([[float(i)] for i in range(len(labels))], list(labels))
    host.learn([[0.0]], [later])
    before = host.content()
    with pytest.raises(InputError, match=words):
        host.correct(1, "a", len(labels) - 1)
    assert host.content() == before
    host.close()


# ---- faults


def test_a_failed_write_changes_nothing(tmp_path, monkeypatch):
    host, sent = learned_host(tmp_path)
    before, label = host.content(), other_label(sent[5][1][0])
    put_corrected = host._state.snapshots.put_corrected

    def failing(content, base):
        put_corrected(content, base)
        raise DiskRefused("full")

    monkeypatch.setattr(host._state.snapshots, "put_corrected", failing)
    with pytest.raises(DiskRefused):
        host.correct(6, label, 0)
    monkeypatch.undo()
    assert host.content() == before and host.corrections() == []
    host.correct(6, label, 0)
    host.close()


def test_a_correction_whose_line_cannot_be_read_back_changes_nothing(tmp_path):
    host, sent = learned_host(tmp_path)
    before, label = host.content(), other_label(sent[5][1][0])
    db = host._state.log.db
    db.execute(
        "CREATE TRIGGER damage AFTER INSERT ON correction BEGIN "
        "UPDATE correction SET who = CAST(x'FF' AS TEXT) WHERE number = new.number; END"
    )
    with pytest.raises(DamagedLog):
        host.correct(6, label, 0)
    assert host.content() == before == load_copy(tmp_path).content()
    db.execute("DROP TRIGGER damage")
    assert host.correct(6, label, 0).correction.new == label
    host.close()


KILLED = """
import sys, itertools
sys.path[:0] = {path!r}
from budgetron.durable import Host
other_label = {{"no": "yes", "yes": "no"}}.get
host = Host.open({folder!r}, snapshot_every=23)
print("ready", flush=True)
labels = {labels!r}
for turn in itertools.count():
    row = turn % 5
    labels[row] = other_label(labels[row])
    host.correct(12, labels[row], row)
    print(row, labels[row], flush=True)
"""


def test_after_a_kill_a_correction_is_complete_or_absent(tmp_path):
    host, sent = learned_host(tmp_path, snapshot_every=23)
    host.close()
    rng = random.Random()  # not seeded: every run kills the child at another moment
    labels = sent[11][1]
    script = textwrap.dedent(KILLED).format(path=sys.path, folder=str(tmp_path), labels=list(labels))
    with default_signals():
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    for _ in range(rng.randint(3, 9)):
        row, label = child.stdout.readline().split()
        labels[int(row)] = label
    child.send_signal(signal.SIGKILL)
    for line in child.stdout.read().splitlines():  # acknowledged before the kill
        row, label = line.split()
        labels[int(row)] = label
    child.wait()
    child.stdout.close()
    with Host.open(tmp_path) as again:
        latest = {}
        for line in again.corrections(10_000):
            latest.setdefault(line.row, line.new)
        wrong = [row for row, label in latest.items() if labels[row] != label]
        assert len(wrong) <= 1  # the last correction may be on disk without its acknowledgement
        for row in wrong:
            labels[row] = latest[row]
        assert np.array_equal(probe_margins(again.model), probe_margins(model_of_requests(MODELS["budgetron"], sent)))


def test_the_list_of_corrections_survives_backup_restore_and_repair(tmp_path):
    host, sent = learned_host(tmp_path / "one")
    host.correct(12, other_label(sent[11][1][0]), 0, who="é", reason="wrong")
    host.backup(tmp_path / "backup")
    host.close()
    restore(tmp_path / "backup", tmp_path / "two")
    with Host.open(tmp_path / "two") as again:
        assert [line.who for line in again.corrections()] == ["é"]
        with pytest.raises(NotInLog):
            again.correct(12, sent[11][1][0], 0)
    with sqlite3.connect(tmp_path / "one" / "host.sqlite") as db:
        db.execute("UPDATE snapshot SET content = x'00' WHERE number = (SELECT max(number) FROM snapshot)")
    assert repair(tmp_path / "one") is not None
    with Host.open(tmp_path / "one") as again:
        assert [line.reason for line in again.corrections()] == ["wrong"]
