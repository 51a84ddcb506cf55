"""Corrections that are not possible are rejected with the reason, and change nothing."""

from __future__ import annotations

import pytest
from corrected_hosts import MODELS, learned_host, model_of_requests, other_label, requests

from budgetron.durable import Host, NotInLog
from budgetron.errors import Closed, InputError


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
