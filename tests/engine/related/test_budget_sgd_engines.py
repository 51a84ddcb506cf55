"""Both engines of BudgetSgd agree for every step size and maintenance, with weights, pools, forgetting and classes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from covers import covering

from budgetron import graphs, kernels
from budgetron.engine import native, reference
from budgetron.engine.reference.rules.budget_sgd.parameters import Maintenance, Step
from budgetron.engine.settings import make_settings

pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")

N, D, TASKS = 160, 4, 3
KINDS = {"dense": {}, "classes": {"n_outputs": 3}, "sparse": {"sparse": True}, "pool": {"sparse": True, "pool": 30}}
COMBINATIONS = list(covering(list(Step), list(Maintenance), list(KINDS)))


def stream(outputs, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.8)
    tasks = rng.integers(TASKS, size=N)
    scores = np.einsum("nd,ndc->nc", X, rng.normal(size=(TASKS, D, max(outputs, 2)))[tasks])
    codes = (scores + 0.5 * rng.normal(size=scores.shape)).argmax(axis=1).astype(np.int32)
    return X, codes, tasks, rng.uniform(0.3, 2.0, size=N)


def assert_engines_agree(settings, seed):
    X, codes, tasks, weights = stream(settings.n_outputs, seed)
    rows = scipy.sparse.csr_matrix(X) if settings.sparse else X
    task_ids, clusters = settings.graph.locate(tasks.tolist())
    engines = native.Engine(settings), reference.Engine(settings)
    for part in (slice(0, 80), slice(80, 81), slice(81, N)):
        results = [e.learn(rows[part], codes[part], task_ids[part], clusters[part], weights[part]) for e in engines]
        size = max(1.0, float(np.abs(results[1][0]).max()))
        assert np.abs(results[0][0] - results[1][0]).max() <= 1e-7 * size
        assert np.array_equal(results[0][1], results[1][1])
        for engine in engines:
            engine.forget(int(task_ids[part][0]))
    a, b = (engine.active() for engine in engines)
    order = np.argsort(a["arrival"]), np.argsort(b["arrival"])
    assert np.array_equal(a["arrival"][order[0]], b["arrival"][order[1]])
    assert np.allclose(a["coef"][:, order[0]], b["coef"][:, order[1]], rtol=1e-6, atol=1e-7 * size)


@pytest.mark.parametrize("step, maintenance, kind", COMBINATIONS, ids=lambda value: getattr(value, "name", value))
def test_engines_agree_on_every_step_and_maintenance(step, maintenance, kind):
    settings = make_settings(
        rule="budget_sgd", kernel=kernels.Gaussian(gamma=0.4), graph=graphs.complete(), n_features=D, capacity=10,
        step=step, maintenance=maintenance, rate=0.4, regularization=0.02, clip=3.0, rank=0.4, seed=5, **KINDS[kind],
    )  # fmt: skip
    assert_engines_agree(settings, seed=int(step) + 10 * int(maintenance))


REMOVAL = [Maintenance.REMOVE, Maintenance.OLDEST, Maintenance.RANDOM, Maintenance.WEIGHTED, Maintenance.REPLACE]


@pytest.mark.parametrize("capacity", [31, 37, 72, 100])
@pytest.mark.parametrize("maintenance", REMOVAL, ids=lambda value: value.name)
def test_engines_agree_on_more_examples_than_a_register_holds(maintenance, capacity):
    """The core compares scores in groups of registers, in single registers, and one by one. These sizes need all three.

    The parameter `margin` is so large that every example causes an update.
    """
    settings = make_settings(
        rule="budget_sgd", kernel=kernels.Gaussian(gamma=0.4), graph=graphs.complete(), n_features=D, capacity=capacity,
        step=Step.CONSTANT, maintenance=maintenance, rate=0.1, regularization=0.01, margin=9.0, clip=3.0, seed=capacity,
    )  # fmt: skip
    assert_engines_agree(settings, seed=capacity)


@pytest.mark.parametrize("maintenance", [Maintenance.RANDOM, Maintenance.WEIGHTED], ids=lambda value: value.name)
@pytest.mark.parametrize("kind", KINDS)
def test_engines_agree_on_rescaled_weights(maintenance, kind):
    settings = make_settings(
        rule="budget_sgd", kernel=kernels.Gaussian(gamma=0.4), graph=graphs.complete(), n_features=D, capacity=10,
        step=Step.CONSTANT, maintenance=maintenance, rate=0.4, clip=1.5, rescale=True, seed=2, **KINDS[kind],
    )  # fmt: skip
    assert_engines_agree(settings, seed=4)


@pytest.mark.parametrize("maintenance", [Maintenance.REMOVE, Maintenance.OLDEST, Maintenance.HALVE])
@pytest.mark.parametrize("kind", KINDS)
def test_engines_agree_on_the_norm(maintenance, kind):
    """The core updates ‖f‖² at every step; the definition computes it from all coefficients."""
    settings = make_settings(
        rule="budget_sgd", kernel=kernels.Polynomial(degree=2), graph=graphs.complete(), n_features=D, capacity=10,
        step=Step.CONSTANT, maintenance=maintenance, rate=0.3, radius=0.4, **KINDS[kind],
    )  # fmt: skip
    assert_engines_agree(settings, seed=3)
