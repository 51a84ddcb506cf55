"""Streams with one idempotency key: every row is learned once, however the stream is cut into requests."""

from __future__ import annotations

import sqlite3
from itertools import pairwise

import numpy as np
import pytest
from host_streams import MODELS, close_without_snapshot, learn_without_host, same_model, stream

from budgetron.durable import Host, KeyReused, Request, StreamRows, restore, row_digests
from budgetron.errors import InputError

X, Y, TASKS = stream(120)


def stream_part(start, stop, key="s", y=Y, step=1):
    """Rows of the stream as a request; `step` is the distance between the positions of two rows."""
    digests = row_digests(X[start:stop], y[start:stop], TASKS[start:stop])
    rows = StreamRows(step * np.arange(start, stop), digests)
    return Request(X[start:stop], y[start:stop], TASKS[start:stop], key, rows=rows)


def send_stream(host, cuts, **options):
    """Send the stream up to the last cut, one request per cut. Returns the answers."""
    answers = [host.learn_many([stream_part(start, stop, **options)])[0] for start, stop in pairwise([0, *cuts])]
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


def margins_of(answers):
    return np.concatenate([answer.margins for answer in answers])


@pytest.mark.parametrize("ending", ["close", "kill", "stay"])
@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize(
    ("before", "again"),
    [([40, 72], [50, 100, 120]), ([72], [120]), ([10, 20, 30], [30, 60, 120]), ([1], [120]), ([119], [64, 120])],
)
def test_a_stream_sent_again_is_learned_once_wherever_it_is_cut(tmp_path, before, again, step, ending):
    bare, _ = learn_without_host(MODELS["random"], [(X, Y, TASKS)], classes=[0, 1])
    expected = MODELS["random"]().predict_then_learn(X, Y, tasks=TASKS, classes=[0, 1])
    host = Host.open(tmp_path, MODELS["random"])
    first = margins_of(send_stream(host, before, step=step))
    if ending != "stay":
        host.close() if ending == "close" else close_without_snapshot(host)
        host = Host.open(tmp_path)
    answers = send_stream(host, again, step=step)
    assert host.model.n_seen_ == 120
    assert same_model(host.model, bare)
    assert np.array_equal(margins_of(answers), expected) and np.array_equal(first, expected[: before[-1]])
    assert sum(answer.n_before for answer in answers) == before[-1]
    whole = send_stream(host, [120], step=step)[0]
    assert whole.repeated and np.array_equal(whole.margins, expected)
    host.close()


def test_parts_of_one_stream_may_be_in_one_commit(tmp_path):
    with Host.open(tmp_path, MODELS["random"]) as host:
        answers = host.learn_many([stream_part(0, 50), stream_part(30, 70), stream_part(0, 70), stream_part(70, 120)])
        assert [answer.n_before for answer in answers] == [0, 20, 70, 0]
        assert host.model.n_seen_ == 120


def test_other_rows_at_the_same_position_are_rejected(tmp_path):
    other = np.where(np.arange(120) == 30, 1 - Y, Y)
    with Host.open(tmp_path, MODELS["random"]) as host:
        send_stream(host, [50])
        for request in (stream_part(20, 40, y=other), stream_part(20, 90, y=other)):
            assert isinstance(host.learn_many([request])[0], KeyReused)
        assert host.model.n_seen_ == 50
        send_stream(host, [120])
        assert host.model.n_seen_ == 120


def test_a_rejected_row_stays_rejected_after_later_rows_were_learned(tmp_path):
    labels = [str(label) for label in Y]
    bad = [*labels[:30], "other", *labels[31:]]

    def one_row(i, y):
        return Request(X[[i]], [y[i]], [TASKS[i]], "s", rows=StreamRows([i]))

    with Host.open(tmp_path, MODELS["random"]) as host:
        whole = Request(X[:30], labels[:30], TASKS[:30], "s", ["0", "1"], rows=StreamRows(np.arange(30)))
        assert host.learn_many([whole])[0].position
        assert isinstance(host.learn_many([one_row(30, bad)])[0], InputError)
        # No later row was learned, so a corrected row may take its position.
        assert host.learn_many([one_row(30, labels)])[0].margins.shape == (1,)
        assert isinstance(host.learn_many([one_row(31, [*bad[:31], "other"])])[0], InputError)
        assert host.learn_many([one_row(32, labels)])[0].margins.shape == (1,)
        again = host.learn_many([one_row(31, labels)])[0]
        assert isinstance(again, InputError) and "row 31 of the stream 's' was rejected or left out" in str(again)
        assert host.model.n_seen_ == 32
        assert host.learn_many([one_row(35, labels)])[0].margins.shape == (1,)
        skipped = host.learn_many([one_row(34, labels)])[0]
        assert isinstance(skipped, InputError) and "row 34 of the stream 's' was rejected or left out" in str(skipped)


def test_streams_and_requests_have_separate_keys(tmp_path):
    with Host.open(tmp_path, MODELS["random"]) as host:
        send_stream(host, [50], key="s")
        send_stream(host, [50], key="t")
        assert not host.learn(X[:50], Y[:50], TASKS[:50], key="s").repeated
        assert host.learn(X[:50], Y[:50], TASKS[:50], key="s").repeated
        assert host.model.n_seen_ == 150


def test_the_end_of_a_stream_is_known_after_its_answers_were_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr("budgetron.durable.storage.snapshots.MAX_KEYS", 3)
    with Host.open(tmp_path, MODELS["random"], snapshot_every=10) as host:
        send_stream(host, range(10, 101, 10))
        answers = send_stream(host, [50, 120])
        assert host.model.n_seen_ == 120
        assert answers[0].repeated and np.isnan(answers[0].margins).all()
        assert np.isfinite(answers[1].margins[-20:]).all()


def test_rows_of_a_stream_after_the_restored_record_are_learned_again(tmp_path, monkeypatch):
    monkeypatch.setattr("budgetron.durable.storage.snapshots.MAX_KEYS", 2)  # fewer than the records between snapshots
    with Host.open(tmp_path, MODELS["random"], snapshot_every=50) as host:
        send_stream(host, range(10, 101, 10))
    restore(tmp_path, tmp_path, position=7)
    with Host.open(tmp_path) as host:
        assert host.model.n_seen_ == 70 and host.end_of_stream("s") == 70
        send_stream(host, range(10, 121, 10))
        assert same_model(host.model, learn_without_host(MODELS["random"], [(X, Y, TASKS)], classes=[0, 1])[0])


def test_a_restored_model_keeps_the_positions_of_streams(tmp_path):
    three = MODELS["random"]()
    three.partial_fit(X[:60], np.arange(60) % 3, tasks=TASKS[:60])
    three.save(tmp_path / "three.budgetron")
    with Host.open(tmp_path / "host", MODELS["random"]) as host:
        send_stream(host, [50])
        host.restore((tmp_path / "three.budgetron").read_bytes())
        answer = host.learn_many([stream_part(0, 120)])[0]
        assert answer.n_before == 50 and answer.margins.shape == (120, 3) and host.model.n_seen_ == 60 + 70
        assert np.isnan(answer.margins[:50]).all() and answer.classes.tolist() == [0, 1, 2]
        mixed = host.learn_many([stream_part(0, 120)])[0]  # one answer cannot have margins of two models
        assert isinstance(mixed, InputError) and host.model.n_seen_ == 130


@pytest.mark.parametrize(
    "bad",
    [{"places": []}, {"places": [3, 3]}, {"places": [-1]}, {"places": [[1]]}, {"places": [1, 2], "digests": b"8"}],
)
def test_invalid_positions_are_rejected(bad):
    with pytest.raises(InputError, match="must be"):
        StreamRows(**bad)


def test_rows_need_a_key_and_one_position_per_row(tmp_path):
    with Host.open(tmp_path, MODELS["random"]) as host:
        without_key = Request(X[:2], Y[:2], rows=StreamRows([0, 1]))
        too_few = Request(X[:2], Y[:2], key="s", rows=StreamRows([0]))
        assert all(isinstance(answer, InputError) for answer in host.learn_many([without_key, too_few]))


# Turn `host.sqlite` into a file of format 1. Tables get temporary names, because their new forms still exist.
FORMAT_1 = """
CREATE TABLE answer_1 (key TEXT PRIMARY KEY, number INTEGER, digest BLOB, margins BLOB) STRICT;
INSERT INTO answer_1 SELECT key, number, digest, margins FROM answer;
DROP TABLE answer;
CREATE TABLE owner_1 (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER, position INTEGER) STRICT;
INSERT INTO owner_1 SELECT one, epoch, position FROM owner;
DROP TABLE owner;
ALTER TABLE owner_1 RENAME TO owner;
DELETE FROM log WHERE block IS NULL;
ALTER TABLE answer_1 RENAME TO answer;
CREATE INDEX IF NOT EXISTS answer_by_number ON answer (number);
DROP TABLE stream_block;
DROP TABLE stream_forgotten;
DROP TABLE IF EXISTS probe;
PRAGMA user_version=1;
"""


@pytest.mark.parametrize("ending", ["close", "kill"])
def test_a_directory_of_format_1_opens_and_its_streams_are_known(tmp_path, ending):
    host = Host.open(tmp_path, MODELS["random"])
    for start in (0, 20, 40):  # in format 1, the keys of a stream's blocks had line numbers, which start at 1
        stop = start + 20
        host.learn(X[start:stop], Y[start:stop], TASKS[start:stop], key=f"s:{start + 1}-{stop}")
    first = host.learn(X[60:62], Y[60:62], TASKS[60:62], key="another")
    host.close() if ending == "close" else close_without_snapshot(host)
    db = sqlite3.connect(tmp_path / "host.sqlite")
    db.executescript(FORMAT_1)
    db.close()
    with Host.open(tmp_path) as host:
        assert host.model.n_seen_ == 62
        again = host.learn(X[60:62], Y[60:62], TASKS[60:62], key="another")
        assert again.repeated and np.array_equal(again.margins, first.margins)
        rows = StreamRows(np.arange(1, 121), row_digests(X, Y, TASKS))
        answer = host.learn_many([Request(X, Y, TASKS, "s", rows=rows)])[0]
        assert answer.n_before == 60 and host.model.n_seen_ == 62 + 60
    with Host.open(tmp_path) as host:
        assert host.learn_many([Request(X, Y, TASKS, "s", rows=rows)])[0].repeated
