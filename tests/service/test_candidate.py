"""The candidate of a model, without HTTP: learning, refusals, and interrupted promotions."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import event_loops
import numpy as np
import pytest

from budgetron import Forgetron, Perceptron
from budgetron.durable import DiskRefused, Host, ModelHost, NotCopied, NothingLearned
from budgetron.durable.versions import NoVersion, Versions
from budgetron.errors import StorageError
from budgetron.service.handlers.predicting import Predictor
from budgetron.service.http.wire import Example
from budgetron.service.model.model_versions import ModelVersions
from budgetron.service.settings import Limits


def batch(seed, n=20, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] > 0).astype(int), rng.choice(["ann", "bob"], n).tolist()


def open_versions(tmp_path):
    host = Host.open(tmp_path, Perceptron, snapshot_every=50)
    versions = ModelVersions("default", host, nullcontext)
    versions.open()
    return host, versions


def learn(host, versions, seed, **options):
    versions.learned([host.learn(*batch(seed, **options))])


@pytest.fixture
def forgetron(tmp_path):
    path = tmp_path / "forgetron"
    Forgetron(budget=20).fit(*batch(100)[:2], tasks=batch(100)[2]).save(path)
    return path.read_bytes()


def test_a_candidate_learns_what_the_model_learns(tmp_path, forgetron):
    """Snapshots, the activation of another version, and restarts without a clean shutdown make no difference."""
    host, versions = open_versions(tmp_path / "data")
    with pytest.raises(NothingLearned):
        versions.save("v1", b"")
    learn(host, versions, 0)
    versions.save("v1", b"")
    versions.save("other", forgetron)
    versions.begin("other", 0.0)
    for seed in range(1, 12):
        learn(host, versions, seed)
        if seed == 4:
            versions.activate("v1", "me")
            assert versions.activate("v1", "me") == host.position  # a retry changes nothing
        if seed in (2, 7):  # restart without a clean shutdown
            host._state.log.close()
            host._state.directory_lock.release()
            host, versions = open_versions(tmp_path / "data")
    separate = Forgetron(budget=20).fit(*batch(100)[:2], tasks=batch(100)[2])
    for seed in range(1, 12):
        separate.partial_fit(*batch(seed)[:2], tasks=batch(seed)[2])
    X, _, tasks = batch(50)
    expected, candidate = separate.decision_function(X, tasks=tasks), versions.candidate
    assert (candidate.hosted.model.decision_function(X, tasks=tasks) == expected).all()
    assert candidate.skipped == candidate.refused == 0
    versions.promote("me")
    assert (host.decision_function(X, tasks) == expected).all()
    assert [event.action for event in versions.versions.state.events] == ["activate", "promote"]
    assert versions.candidate is None and not list((tmp_path / "data" / "versions").glob("candidate-*"))
    host.close()


def test_a_replacement_that_was_not_copied_is_not_counted_as_a_record_that_the_candidate_missed(tmp_path, forgetron):
    host, versions = open_versions(tmp_path / "data")
    learn(host, versions, 0)
    versions.save("v1", b"")
    versions.save("other", forgetron)
    versions.begin("other", 0.0)
    learn(host, versions, 1)

    def broken():
        raise StorageError("the network is down")

    host.before_answer = broken
    with pytest.raises(NotCopied):
        versions.activate("v1", "me")
    with pytest.raises(NotCopied):  # a retry changes nothing, and it is not acknowledged either
        versions.activate("v1", "me")
    host.before_answer = None
    assert versions.activate("v1", "me") == host.position
    learn(host, versions, 2)
    assert versions.candidate.skipped == 0 and len(versions.versions.state.events) == 1
    host.close()


def test_a_promotion_that_was_not_copied_is_not_repeated_by_a_retry(tmp_path, forgetron):
    host, versions = open_versions(tmp_path / "data")
    learn(host, versions, 0)
    versions.save("other", forgetron)
    versions.begin("other", 0.0)
    learn(host, versions, 1)
    old, new = host.content(), versions.candidate.hosted.content()

    def broken():
        raise StorageError("the network is down")

    host.before_answer = broken
    for _ in range(2):
        with pytest.raises(NotCopied):
            versions.promote("me")
        assert host.content() == new and versions.candidate is None
    host.before_answer = None
    assert versions.promote("me") == host.position
    assert [event.action for event in versions.versions.state.events] == ["promote"]
    assert versions.versions.state.promoting is None
    versions.activate("other", "me")  # the file, which has not learned what the candidate has learned
    assert host.content() == forgetron
    versions.activate("replaced-2", "me")
    assert host.content() == old
    with pytest.raises(NoVersion):
        versions.promote("me")
    host.close()


class Wrapped:
    """A host of another class than `Host`, with only the members of the interface `ModelHost`."""

    def __init__(self, host):
        self._wrapped = host

    def __getattr__(self, name):
        if name not in dir(ModelHost):
            raise AttributeError(f"{name} is not in the interface")
        return getattr(self._wrapped, name)


def test_versions_and_candidates_need_only_the_interface_of_a_host(tmp_path, forgetron):
    with Host.open(tmp_path / "data", Perceptron) as host:
        versions = ModelVersions("default", Wrapped(host), nullcontext)
        versions.open()
        learn(host, versions, 0)
        versions.save("v1", b"")
        versions.save("other", forgetron)
        versions.begin("other", 0.0)
        learn(host, versions, 1)
        versions.promote("me")
        assert type(host.model) is Forgetron
        versions.rollback("me")
        assert type(host.model) is Perceptron


def test_what_the_candidate_refuses_is_still_learned_by_the_model(tmp_path):
    narrow = tmp_path / "narrow"
    X, y, tasks = batch(1, d=2)
    Perceptron().fit(X, y, tasks=tasks).save(narrow)
    host, versions = open_versions(tmp_path / "data")
    learn(host, versions, 0)
    versions.save("narrow", narrow.read_bytes())
    versions.begin("narrow", 0.0)
    learn(host, versions, 1)
    shown = versions.shown()
    assert shown["refused"] == 1 and "2" in shown["reason"] and host.model.n_seen_ == 40
    with pytest.raises(NoVersion):
        versions.begin("none", 0.0)
    versions.end()
    with pytest.raises(NoVersion):
        versions.promote("me")
    host.close()


def test_what_the_candidate_cannot_predict_is_predicted_and_explained_by_the_model(tmp_path):
    X, y, tasks = batch(1, d=2)
    Perceptron().fit(X, y, tasks=tasks).save(tmp_path / "narrow")
    host, versions = open_versions(tmp_path / "data")
    learn(host, versions, 0)
    versions.save("narrow", (tmp_path / "narrow").read_bytes())
    versions.begin("narrow", 1.0)

    async def main():
        predictor = Predictor(host, SimpleNamespace(busy=False), Limits(), versions)
        examples = [Example([0.1, 0.2, 0.3], "ann")]
        return await predictor.many(examples), await predictor.reasons(examples)

    (prediction,), (reasons,) = event_loops.run(main())
    assert prediction.version is None and prediction.margin == pytest.approx(reasons.margin)
    host.close()


@pytest.mark.parametrize("before", [True, False], ids=["before the model is replaced", "after the model is replaced"])
def test_an_interrupted_promotion_is_complete_or_undone(tmp_path, forgetron, monkeypatch, before):
    host, versions = open_versions(tmp_path / "data")
    learn(host, versions, 0)
    versions.save("other", forgetron)
    versions.begin("other", 0.0)
    old, new = host.content(), versions.candidate.hosted.content()

    def fails(*_, **__):
        raise DiskRefused("full")

    monkeypatch.setattr(*((host, "restore") if before else (Versions, "replaced")), fails)
    with pytest.raises(DiskRefused):
        versions.promote("me")
    monkeypatch.undo()
    host._state.log.close()
    host._state.directory_lock.release()
    host, versions = open_versions(tmp_path / "data")
    assert host.content() == (old if before else new)
    assert (versions.candidate is not None) == before
    if not before:
        versions.rollback("me")
        assert host.content() == old
    host.close()
