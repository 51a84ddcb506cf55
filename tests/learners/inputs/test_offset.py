"""Another model's score as an offset of a Budgetron: in every call, or in none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import budgetron
from budgetron import Budgetron, Forgetron, evaluate
from budgetron.distributed import ShardedModel
from budgetron.durable import Host, KeyReused
from budgetron.errors import InputError


def personal(n=3000, seed=0):
    """Return a stream and another model's scores, which explain what all tasks share but not their differences."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(n, 6)), rng.integers(20, size=n)
    own = rng.normal(size=(20, 6)) * 1.5
    score = 2 * X[:, 0] - X[:, 1] + 1.5 * np.sin(2 * X[:, 2])
    f = score + np.einsum("nd,nd->n", X, own[tasks])
    return X, (f + rng.logistic(size=n) > 0).astype(int), tasks, score


def error(margins, y):
    return float(((margins > 0) != y).mean())


def test_a_budgetron_learns_what_the_other_model_does_not_know():
    X, y, tasks, score = personal()
    with_score = error(Budgetron().predict_then_learn(X, y, tasks=tasks, offset=score)[1000:], y[1000:])
    without_score = error(Budgetron().predict_then_learn(X, y, tasks=tasks)[1000:], y[1000:])
    assert with_score < without_score - 0.01 and with_score < error(score[1000:], y[1000:]) - 0.05


def test_single_examples_with_offsets_equal_blocks():
    X, y, tasks, score = personal(60)
    block, single = Budgetron(), Budgetron()
    margins = block.predict_then_learn(X, y, tasks=tasks, offset=score, classes=[0, 1])
    single_margins = [single.learn_one(X[i], y[i], task=tasks[i], offset=score[i], classes=[0, 1] if i == 0 else None)
                      for i in range(len(y))]  # fmt: skip
    assert np.array_equal(margins, single_margins)
    expected = block.decision_function(X[:5], tasks=tasks[:5], offset=score[:5])
    probabilities = block.predict_proba(X[:5], tasks=tasks[:5], offset=score[:5])
    assert block.predict_std(X[:5], tasks=tasks[:5], offset=score[:5]).shape == (5,)
    assert block.score(X[:5], y[:5], tasks=tasks[:5], offset=score[:5]) <= 1
    for i in range(5):
        arguments = {"task": tasks[i], "offset": score[i]}
        assert single.predict_one(X[i], **arguments) == int(expected[i] > 0)
        assert single.predict_proba_one(X[i], **arguments)[1] == pytest.approx(probabilities[i, 1])
        explanation = single.explain(X[i], **arguments)
        assert explanation.margin == pytest.approx(expected[i]) and abs(explanation.total - explanation.margin) < 1e-9
        assert "offset" in {term.kind for term in explanation.terms}


@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_offsets_are_used_with_dicts_and_three_classes(engine):
    model = Budgetron("64 KiB", engine=engine)
    for step in range(30):
        scores = np.eye(3)[step % 3] * 2
        model.learn_one({"a": step % 3, "b": 1.0}, step % 3, classes=[0, 1, 2], offset=scores)
    assert model.predict_one({"never": 1.0}, offset=[0.0, 0.0, 5.0]) == 2
    explanation = model.explain({"a": 1.0}, offset=[3.0, 0.0, 0.0], label=0)
    offset = next(term for term in explanation.terms if term.kind == "offset")
    assert offset.total > 1 and abs(explanation.total - explanation.margin) < 1e-9
    rows = sparse.csr_matrix(([1.0], [5], [0, 1]), shape=(1, model.n_features_in_))
    assert model.decision_function(rows, offset=np.zeros((1, 3))).shape == (1, 3)


def test_offsets_are_passed_always_or_never(tmp_path):
    X, y, tasks, score = personal(40)
    with_score = Budgetron().fit(X, y, tasks=tasks, offset=score)
    with_score.save(tmp_path / "m")
    without = Budgetron().fit(X, y, tasks=tasks)
    assert with_score.needs_offset_ and not without.needs_offset_
    for model in (with_score, budgetron.load(tmp_path / "m")):
        for call in (
            lambda model: model.partial_fit(X, y, tasks=tasks), lambda model: model.predict(X, tasks=tasks),
            lambda model: model.learn_one(X[0], 1, task=3), lambda model: model.predict_one(X[0], task=3),
            lambda model: model.explain(X[0], task=3), lambda model: model.predict_std(X, tasks=tasks),
        ):  # fmt: skip
            with pytest.raises(InputError, match=r"offset must be given.*Pass offset="):
                call(model)
        assert model.n_seen_ == 40 and model.task_similarity([1, 2]).shape == (2, 2)
    for call in (
        lambda: without.partial_fit(X, y, tasks=tasks, offset=score),
        lambda: without.predict_one(X[0], task=1, offset=1),
        lambda: without.learn_one(X[0], 1, task=1, offset=1.0),
    ):  # fmt: skip
        with pytest.raises(InputError, match="trained without"):
            call()
    without.fit(X, y, tasks=tasks, offset=score)  # `fit` starts from nothing
    with pytest.raises(InputError, match="Budgetron can"):
        Forgetron(5).fit(X, y, tasks=tasks, offset=score)


def test_a_saved_model_continues_bit_for_bit(tmp_path):
    X, y, tasks, score = personal(80)
    model = Budgetron().fit(X[:40], y[:40], tasks=tasks[:40], offset=score[:40])
    model.save(tmp_path / "m")
    loaded = budgetron.load(tmp_path / "m")
    arguments = {"tasks": tasks[40:], "offset": score[40:]}
    assert np.array_equal(model.predict_then_learn(X[40:], y[40:], **arguments),
                          loaded.predict_then_learn(X[40:], y[40:], **arguments))  # fmt: skip


@pytest.mark.parametrize("wrong", [
    np.zeros(39), np.zeros((40, 2)), "high", [np.nan] * 40, [np.inf] * 40, [2e6] * 40, 1.0, np.zeros((40, 1, 1)),
    [None] * 40,
])  # fmt: skip
def test_wrong_offsets_are_refused(wrong):
    X, y, tasks, _ = personal(40)
    model = Budgetron()
    with pytest.raises((InputError, TypeError), match="offset"):
        model.fit(X, y, tasks=tasks, offset=wrong)
    model.fit(X, y, tasks=tasks)  # the refused call has left no trace


def test_a_validation_passes_offsets_to_the_learner():
    X, y, tasks, score = personal(200)
    results = []
    for delay in (0, 3):
        validator = evaluate.Validator(Budgetron(), classes=[0, 1], delay=delay)
        validator.add(X, y, tasks, offset=score)
        results.append(validator.finish().overall)
    margins = Budgetron().predict_then_learn(X, y, tasks=tasks, classes=[0, 1], offset=score)
    assert results[0].n == results[1].n == 200 and results[0].error == pytest.approx(error(margins, y))


# ---- on disk


def test_a_host_logs_offsets_and_replays_them(tmp_path):
    X, y, tasks, score = personal(60)
    with Host.open(tmp_path, lambda: Budgetron("64 KiB"), snapshot_every=25) as host:
        for start in range(0, 60, 10):
            part = slice(start, start + 10)
            arguments = {"key": f"k{start}", "classes": [0, 1], "offset": score[part]}
            first = host.learn(X[part], y[part], tasks[part].tolist(), **arguments)
        expected = host.decision_function(X[:5], tasks[:5].tolist(), score[:5])
        position = host.position
    with Host.open(tmp_path) as host:
        assert np.array_equal(host.decision_function(X[:5], tasks[:5].tolist(), score[:5]), expected)
        repeated = host.learn(X[part], y[part], tasks[part].tolist(), key="k50", classes=[0, 1], offset=score[part])
        assert repeated.repeated and np.array_equal(repeated.margins, first.margins) and host.position == position
        with pytest.raises(KeyReused):
            host.learn(X[part], y[part], tasks[part].tolist(), key="k50", classes=[0, 1], offset=score[part] + 1)
        with pytest.raises(InputError, match="offset must be given"):
            host.learn(X[:1], y[:1], tasks[:1].tolist())


def test_a_log_without_offsets_has_the_bytes_of_earlier_versions():
    from budgetron.durable.blocks import decode_block, encode_request, without_first_rows
    from budgetron.durable.requests import Request

    X, y, _, score = personal(3)
    plain = encode_request(Request(X, y), None, False)
    assert plain[:2] == bytes([0x99, 1])  # nine fields, version 1
    scored = encode_request(Request(X, y, offset=score), None, False)
    assert scored[:2] == bytes([0x9B, 2])
    assert np.array_equal(decode_block(without_first_rows(scored, 1)).examples.offsets, score[1:])


def test_shards_require_offsets_after_learning_with_them(tmp_path):
    from budgetron import graphs

    X, y, tasks, score = personal(200)
    graph = graphs.clusters({task: task % 2 for task in range(20)})
    with ShardedModel(Budgetron("200 KiB", graph=graph), shards=2, directory=tmp_path / "d") as model:
        model.partial_fit(X, y, tasks=tasks, offset=score, classes=[0, 1])
        assert model.needs_offset_
        expected = model.decision_function(X[:5], tasks=tasks[:5], offset=score[:5])
        with pytest.raises(InputError, match="offset must be given"):
            model.predict(X[:5], tasks=tasks[:5])
        explanation = model.explain(X[0], task=int(tasks[0]), offset=score[0])
        assert explanation.margin == pytest.approx(expected[0])
    with ShardedModel.open(tmp_path / "d") as model:
        assert np.array_equal(model.decision_function(X[:5], tasks=tasks[:5], offset=score[:5]), expected)
        with pytest.raises(InputError, match="offset must be given"):
            model.partial_fit(X, y, tasks=tasks)
