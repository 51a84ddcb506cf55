"""Replicas of one connected component: which state they exchange, and how close they stay to a single learner.

A *filter* is one of the Bayesian models that a Budgetron mixes. Its weights θ have the precision Λ.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from budgetron import Budgetron, Forgetron, SharedProjectron, graphs, kernels
from budgetron.distributed import ReplicatedModel
from budgetron.distributed.replicas.exchange import Baseline, combine, gram, shared_part, with_shared_part
from budgetron.errors import InputError

KERNEL = kernels.Gaussian(gamma=0.3)


def related_tasks_stream(n, seed=0, n_tasks=60):
    """Tasks with a common rule and small differences."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(n, 4)), rng.integers(0, n_tasks, size=n)
    own = 0.4 * np.random.default_rng(99).normal(size=(n_tasks, 4))
    return X, (np.einsum("nd,nd->n", X, np.array([1.0, -1, 0.5, 0]) + own[tasks]) > 0).astype(int), tasks


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("make", [Budgetron, SharedProjectron])
def test_one_replica_equals_the_learner(make, is_sparse):
    X, y, tasks = related_tasks_stream(600)
    X = sparse.csr_matrix(X) if is_sparse else X
    expected = make(budget=64, kernel=KERNEL).predict_then_learn(X, y, tasks=tasks)
    with ReplicatedModel(make(budget=64, kernel=KERNEL), replicas=1, exchange_every=128, block=128) as model:
        np.testing.assert_array_equal(model.predict_then_learn(X, y, tasks=tasks), expected)
        assert model.n_exchanges_ == 4


def information(part):
    """Λ and Λθ of the first filter."""
    theta, P = part.filters["filter0"]
    precision = np.linalg.inv(P)
    return precision, theta @ precision


def test_filters_of_replicas_add_up_to_those_of_one_learner():
    """Precisions Λ and products Λθ of disjoint rows add up.

    The weights differ a little from those of one learner, because each replica linearises at its own weights.
    """
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    y = (X @ [1.0, -1.0, 0.3] > 0).astype(int)
    make = lambda: Budgetron("1 MiB", kernel=None, graph=graphs.complete(coupling=float("inf")))  # noqa: E731
    models = [make().partial_fit(X[:100], y[:100]) for _ in range(2)]
    last = [shared_part(model._engine) for model in models]
    for g, model in enumerate(models):
        rows = np.arange(100, 400)[g::2]
        model.partial_fit(X[rows], y[rows])
    now = [shared_part(model._engine) for model in models]
    after = combine(None, now, Baseline.of(last))
    expected = shared_part(make().partial_fit(X, y)._engine)
    for part in after:
        count, columns = part.columns
        assert count == 250
        np.testing.assert_allclose(columns[:3], (now[0].columns[1] + now[1].columns[1])[:3] / 2)
        for combined, before, *replicas in zip(*map(information, [part, last[0], *now]), strict=True):
            gains = [replica - before for replica in replicas]
            np.testing.assert_allclose(combined - before, sum(gains), rtol=1e-6, atol=1e-9)
        # The weights of one replica alone differ from those of one learner by up to 0.55.
        np.testing.assert_allclose(part.filters["filter0"][0], expected.filters["filter0"][0], rtol=0, atol=0.15)


def test_shared_weights_of_a_budgetron_other_than_filters_become_the_mean():
    X, y, tasks = related_tasks_stream(300, seed=2)
    models = [Budgetron("4 MiB").partial_fit(X[g::2], y[g::2], tasks=tasks[g::2], classes=[0, 1]) for g in range(2)]
    now = [shared_part(model._engine) for model in models]
    after = combine(None, now, Baseline.of(now))
    assert {"adagrad0_weights", "latent_weights", "latent_dimensions"} <= set(now[0].means)
    for g, part in enumerate(after):
        engine = with_shared_part(models[g]._engine, part)
        for name, own in shared_part(engine).means.items():
            np.testing.assert_allclose(own, (now[0].means[name] + now[1].means[name]) / 2, rtol=1e-5, atol=1e-7)
        state, before = engine.state(), models[g]._engine.state()
        for name in ("row_values", "adagrad0_own_weights", "adagrad0_squares", "belief_weight"):  # not exchanged
            np.testing.assert_array_equal(state[name], before[name])


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_shared_projectron_receives_the_mean_function_of_all_replicas(is_sparse):
    """On the rows that a replica stores, its new shared function equals the mean of all replicas' shared functions."""
    X, y, tasks = related_tasks_stream(300, seed=3)
    X = sparse.csr_matrix(X) if is_sparse else X
    learner = SharedProjectron(budget=300, kernel=KERNEL)
    models = [type(learner)(**learner.get_params(deep=False)) for _ in range(2)]
    for g, model in enumerate(models):
        model.partial_fit(X[g * 150 : g * 150 + 150], y[g * 150 : g * 150 + 150], tasks=tasks[g * 150 : g * 150 + 150])
    now = [shared_part(model._engine) for model in models]
    after = combine(KERNEL, now, Baseline.of(now))
    for g, part in enumerate(after):
        own = gram(KERNEL, part.rows, part.rows)
        mean = sum(gram(KERNEL, part.rows, replica.rows) @ replica.weights.T for replica in now) / 2
        np.testing.assert_allclose(own @ part.weights.T, mean, atol=1e-5)
        engine = with_shared_part(models[g]._engine, part)
        np.testing.assert_allclose(shared_part(engine).weights, part.weights)
        assert engine.n_seen == 150


@pytest.mark.parametrize("make", [Budgetron, SharedProjectron])
def test_replicas_stay_close_to_one_learner(make):
    """Replicas make more errors than one learner, and fewer with exchanges than without them."""
    X, y, tasks = related_tasks_stream(4000, seed=5)
    learner = make(budget=4 * 64, kernel=KERNEL)
    local_margins = make(budget=64, kernel=KERNEL).predict_then_learn(X, y, tasks=tasks)
    error, more_errors = np.mean((local_margins > 0) != y), {}
    for every, n_exchanges in ((256, 15), (10**9, 0)):
        with ReplicatedModel(learner, replicas=4, workers=2, exchange_every=every, block=128) as model:
            margins = model.predict_then_learn(X, y, tasks=tasks)
            assert model.n_exchanges_ == n_exchanges and model.n_seen_ == 4000
        more_errors[every] = np.mean((margins > 0) != y) - error
    # Measured: 0.010 (Budgetron) and 0.005 (SharedProjectron) with exchanges, 0.020 and 0.012 without.
    assert more_errors[256] < 0.02 and more_errors[256] < 0.75 * more_errors[10**9]


def test_a_reopened_replicated_model_continues(tmp_path):
    X, y, tasks = related_tasks_stream(900, seed=6)
    learner = Budgetron(budget=64, kernel=KERNEL)
    with ReplicatedModel(learner, replicas=3, exchange_every=256, block=128, directory=tmp_path / "m") as model:
        model.partial_fit(X[:600], y[:600], tasks=tasks[:600])
        expected = model.decision_function(X, tasks=tasks)
        model.save(tmp_path / "saved")
    with ReplicatedModel.open(tmp_path / "m", workers=2) as model:
        np.testing.assert_array_equal(model.decision_function(X, tasks=tasks), expected)
        model.partial_fit(X[600:], y[600:], tasks=tasks[600:])
        assert model.n_seen_ == 900 and model.exchange_every == 256 and model.n_exchanges_ == 1
    with ReplicatedModel.load(tmp_path / "saved") as model:
        np.testing.assert_array_equal(model.decision_function(X, tasks=tasks), expected)


def test_a_repeated_call_causes_no_exchange(tmp_path):
    X, y, tasks = related_tasks_stream(600, seed=8)
    learner = Budgetron(budget=64, kernel=KERNEL)
    with ReplicatedModel(learner, replicas=3, exchange_every=256, block=128, directory=tmp_path / "m") as model:
        first = model.predict_then_learn(X, y, tasks=tasks, key="all")
        exchanges, now = model.n_exchanges_, model.decision_function(X, tasks=tasks)
        for _ in range(2):
            assert model.predict_then_learn(X, y, tasks=tasks, key="all").tolist() == first.tolist()
        assert exchanges > 0 and model.n_exchanges_ == exchanges and model.n_seen_ == 600
        assert model.decision_function(X, tasks=tasks).tolist() == now.tolist()


def test_invalid_learners_graphs_and_rows_are_rejected_by_replicas():
    X, y, tasks = related_tasks_stream(10)
    with pytest.raises(InputError, match="ReplicatedModel: learner must be a learner of budgetron"):
        ReplicatedModel("Budgetron").partial_fit(X, y, tasks=tasks)
    with pytest.raises(InputError, match="learner must be Budgetron or SharedProjectron"):
        ReplicatedModel(Forgetron(budget=10)).partial_fit(X, y, tasks=tasks)
    with pytest.raises(InputError, match=r"graph must be complete\(\)"):
        ReplicatedModel(SharedProjectron(graph=graphs.disconnected())).partial_fit(X, y, tasks=tasks)
    with pytest.raises(InputError, match="exchange_every must be an integer >= 1"):
        ReplicatedModel(SharedProjectron(), exchange_every=0).partial_fit(X, y, tasks=tasks)
    for parameters in ({"block": 1}, {"workers": 0}, {"backend": "spark"}, {"backend": "ray"}):
        with pytest.raises(InputError, match=r"ReplicatedModel: (block|workers|backend|directory) must be"):
            ReplicatedModel(Budgetron(), **parameters).partial_fit(X, y, tasks=tasks)
    with pytest.raises(InputError, match=r"ReplicatedModel: .* or use ReplicatedModel\.open"):
        ReplicatedModel(Budgetron()).predict(X, tasks=tasks)
    with ReplicatedModel(Budgetron()) as model:
        with pytest.raises(InputError, match="ReplicatedModel: y must be one label"):
            model.learn_one(X[0], y, task=0)
        model.partial_fit(X, y, tasks=tasks)
        with pytest.raises(InputError, match="ReplicatedModel: worker must be one of"):
            model.remove_worker("worker-7")
        with pytest.raises(InputError, match="ReplicatedModel: shares must be"):
            model.rebalance()
