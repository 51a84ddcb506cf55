"""A corrected model equals one that learned the right label from the start."""

from __future__ import annotations

import numpy as np
import pytest
from corrected_hosts import MODELS, learned_host, model_of_requests, other_label, probe_margins, requests
from host_streams import close_without_snapshot

from budgetron.durable import Host, Request, verify
from budgetron.errors import InputError
from budgetron.learners.input.hashing import DICT_FEATURES, hashed_rows


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
