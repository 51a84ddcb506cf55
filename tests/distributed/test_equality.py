"""A sharded run equals local runs with one learner and one share of the budget per shard, margin for margin.

This holds for any number of workers, and however the stream is divided into calls.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import local_run, random_graph, stream

import budgetron
from budgetron import graphs, kernels
from budgetron.distributed import ShardedModel

RULES = [
    budgetron.Perceptron,
    budgetron.RandomBudgetPerceptron,
    budgetron.Forgetron,
    budgetron.BudgetProjectron,
    budgetron.SharedProjectron,
]
KINDS = ["disconnected", "clusters", "edges", "similarity", "large"]
N = 200


def new_learner(rule, graph, budget):
    parameters = {"kernel": kernels.Gaussian(gamma=0.4), "graph": graph}
    return rule(**parameters) if rule is budgetron.Perceptron else rule(budget=budget, **parameters)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@given(data=st.data())
@settings(max_examples=1)
def test_a_sharded_model_equals_local_models(rule, kind, data):
    seed = data.draw(st.integers(1, 10_000))
    n_shards, workers = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 4))
    n_classes, is_sparse = data.draw(st.sampled_from([2, 3])), data.draw(st.booleans())
    graph = random_graph(kind, seed)
    X, y, tasks = stream(N, seed, n_classes, is_sparse)
    learner = new_learner(rule, graph, budget=40)
    classes = list(range(n_classes))
    expected, models = local_run(learner, X, y, tasks, n_shards, classes)
    cut = data.draw(st.integers(1, N))
    with ShardedModel(learner, shards=n_shards, workers=workers, block=128) as model:
        first = model.predict_then_learn(X[:cut], y[:cut], tasks=tasks[:cut], classes=classes)
        rest = model.predict_then_learn(X[cut:], y[cut:], tasks=tasks[cut:]) if cut < N else first[:0]
        np.testing.assert_array_equal(np.concatenate([first, rest]), expected)
        assert model.n_seen_ == N
        assert model.n_mistakes_ == sum(local.n_mistakes_ for local in models if local._is_fitted)
        if rule is not budgetron.Perceptron:
            assert model.capacity_ == 40 and model.n_stored_ <= 40


@pytest.mark.parametrize("kind", ["edges", "similarity", "large"])
@pytest.mark.parametrize("rule", [budgetron.Perceptron, budgetron.BudgetProjectron, budgetron.SharedProjectron])
def test_a_shard_needs_only_its_part_of_the_graph(rule, kind):
    """Learners with the whole graph give the same margins.

    A Forgetron with the whole graph would not, because it shrinks its weights by a factor that depends on c_G, a
    constant of the graph.
    """
    X, y, tasks = stream(N, 11)
    learner = new_learner(rule, random_graph(kind, 11), budget=40)
    part, _ = local_run(learner, X, y, tasks, 3, [0, 1])
    whole, _ = local_run(learner, X, y, tasks, 3, [0, 1], whole_graph=True)
    np.testing.assert_allclose(part, whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_sharded_budgetron_equals_local_budgetrons(is_sparse):
    X, y, tasks = stream(400, 3, is_sparse=is_sparse)
    learner = budgetron.Budgetron(budget=64, graph=graphs.disconnected(), kernel=kernels.Gaussian(gamma=0.4))
    expected, _ = local_run(learner, X, y, tasks, 4, [0, 1])
    for workers in (1, 3):
        with ShardedModel(learner, shards=4, workers=workers) as model:
            np.testing.assert_array_equal(model.predict_then_learn(X, y, tasks=tasks), expected)
            probabilities = model.predict_proba(X[:5], tasks=tasks[:5])
            np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_shards_with_ample_budgets_equal_one_learner():
    """With a large enough budget, the shards together equal one learner on the whole graph."""
    graph = random_graph("edges", 5)
    X, y, tasks = stream(400, 5)
    whole = budgetron.BudgetProjectron(budget=2000, kernel=kernels.Gaussian(gamma=0.4), graph=graph)
    expected = whole.predict_then_learn(X, y, tasks=tasks)
    with ShardedModel(whole.__class__(**whole.get_params()), shards=4, workers=2) as model:
        np.testing.assert_allclose(model.predict_then_learn(X, y, tasks=tasks), expected, atol=1e-9)


def test_all_shards_use_one_estimated_bandwidth():
    X, y, tasks = stream(300, 8)
    learner = budgetron.Forgetron(budget=30, graph=graphs.disconnected())
    with ShardedModel(learner, shards=3) as model:
        model.partial_fit(X, y, tasks=tasks)
        assert model.kernel_.gamma == pytest.approx(1 / (4 * X[:64].var()))
        assert all(model.learner_of(task).kernel_ == model.kernel_ for task in set(tasks))


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_and_labels_reach_the_shards(weighted):
    X, y, tasks = stream(200, 2)
    labels = np.where(y == 1, "spam", "ham")
    learner = budgetron.Budgetron(budget=64, graph=graphs.disconnected(), kernel=None, class_weight={"spam": 3.0})
    weights = {"sample_weight": np.linspace(0.1, 2, 200)} if weighted else {}
    with ShardedModel(learner, shards=1) as model:
        margins = model.predict_then_learn(X, labels, tasks=tasks, **weights)
        local = budgetron.Budgetron(**learner.get_params(deep=False))
        np.testing.assert_array_equal(margins, local.predict_then_learn(X, labels, tasks=tasks, **weights))
        assert model.predict(X[:3], tasks=tasks[:3]).tolist() == local.predict(X[:3], tasks=tasks[:3]).tolist()


def test_a_stream_may_begin_with_a_single_label():
    """The first block has only the label 1. The label -1 comes in the second block."""
    X, y, tasks = stream(60, 4)
    signs = np.where(y == 1, 1, -1)
    ones = np.flatnonzero(signs == 1)[:3]
    learner = budgetron.RandomBudgetPerceptron(budget=20, graph=graphs.disconnected(), kernel=kernels.Linear())
    with ShardedModel(learner, shards=4) as model:
        model.partial_fit(X[ones], signs[ones], tasks=[tasks[row] for row in ones])
        model.partial_fit(X, signs, tasks=tasks)
        assert model.classes_.tolist() == [-1, 1]
        assert set(model.predict(X, tasks=tasks).tolist()) <= {-1, 1}


def test_shards_learn_single_dicts():
    learner = budgetron.Budgetron(budget=64, graph=graphs.disconnected())
    with ShardedModel(learner, shards=2) as model:
        for _ in range(30):
            model.learn_one({"free": 1.0, "money": 1.0}, "spam", task="ann", classes=["ham", "spam"])
            model.learn_one({"dear": 1.0, "bob": 1.0}, "ham", task="bob")
        assert model.predict_one({"free": 1.0, "money": 1.0}, task="ann") == "spam"
        assert model.n_seen_ == 60


def test_learners_without_a_kernel_can_be_split():
    X, y, tasks = stream(N, 6)
    learner = budgetron.LinearPerceptron(graph=graphs.disconnected())
    expected, _ = local_run(learner, X, y, tasks, 3, [0, 1])
    with ShardedModel(learner, shards=3) as model:
        np.testing.assert_array_equal(model.predict_then_learn(X, y, tasks=tasks, classes=[0, 1]), expected)


def test_a_learner_without_a_task_graph_is_rejected():
    X, y, tasks = stream(20, 6)
    with pytest.raises(budgetron.errors.InputError, match="ShardedModel: learner must be a learner with a parameter"):
        ShardedModel(budgetron.RelationPerceptron(), shards=3).partial_fit(X, y, tasks=tasks)


def test_the_score_of_a_sharded_model_uses_the_offsets():
    X, y, tasks = stream(N, 6)
    scores = np.linspace(-4, 4, N)
    with ShardedModel(budgetron.Budgetron(graph=graphs.disconnected()), shards=2) as model:
        model.partial_fit(X, y, tasks=tasks, offset=scores)
        right = model.predict(X, tasks=tasks, offset=scores) == y
        assert model.score(X, y, tasks=tasks, offset=scores) == right.mean()


def test_the_score_of_a_sharded_model_takes_both_spellings_of_boolean_labels():
    X, y, tasks = stream(N, 4)
    words, booleans = np.where(y, "true", "false"), y.astype(bool)
    learner = new_learner(budgetron.BudgetProjectron, graphs.disconnected(), budget=40)
    with ShardedModel(learner, shards=3) as model:
        model.partial_fit(X, words, tasks=tasks)
        assert model.score(X, booleans, tasks=tasks) == model.score(X, words, tasks=tasks) > 0.5
