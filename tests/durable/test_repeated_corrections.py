"""Retries after a correction: keys keep their first answers, and a repeated correction changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from corrected_hosts import MODELS, learned_host, other_label, requests
from host_streams import close_without_snapshot

from budgetron.durable import Host, KeyReused, NotCopied
from budgetron.errors import InputError, StorageError


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
