"""The estimate of γ from the first rows.

The tests check its values, that both engines agree, that a restored engine continues to estimate, and what happens to
stored examples that become linearly dependent when γ changes.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from budgetron import graphs, kernels
from budgetron.engine import native, reference
from budgetron.engine.reference.examples.bandwidth import kernel_after
from budgetron.engine.settings import make_settings

needs_core = pytest.mark.skipif(not native.available, reason="built without a compiler")
ENGINES = [pytest.param(native.Engine, marks=needs_core), reference.Engine]
RULES = {
    "perceptron": {}, "random_budget_perceptron": {"capacity": 20}, "forgetron": {"capacity": 20},
    "budget_projectron": {"capacity": 20, "eta": 0.1}, "shared_projectron": {"capacity": 20, "eta": 0.1},
}  # fmt: skip


def settings_of(rule, d=4, **more):
    parameters = RULES[rule] | more
    return make_settings(rule=rule, kernel=kernels.Gaussian(), graph=graphs.complete(), n_features=d, **parameters)


def stream(n, d=4, is_sparse=False, spread=3.0):
    rng = np.random.default_rng(d)
    X = 5.0 + spread * rng.normal(size=(n, d))
    if is_sparse:
        X = sparse.csr_matrix(np.where(rng.random((n, d)) < 0.3, X, 0.0))
    dense = X.toarray() if is_sparse else X
    codes = ((dense[:, 0] > dense[:, 1]) ^ (rng.random(n) < 0.1)).astype(np.int32)
    return X, codes, rng.integers(3, size=n)


def learn(engine, X, codes, task_ids):
    return engine.learn(X, codes, task_ids, np.zeros_like(task_ids))[0]


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_gamma_is_estimated_again_at_powers_of_two(kind, is_sparse):
    X, codes, task_ids = stream(80, 12, is_sparse)
    engine = kind(settings_of("random_budget_perceptron", 12, sparse=is_sparse))
    for t in range(80):
        learn(engine, X[t : t + 1], codes[t : t + 1], task_ids[t : t + 1])
        n = min(1 << ((t + 1).bit_length() - 1), 64)
        first = X[:n].toarray() if is_sparse else X[:n]
        expected = 1 / (12 * first.var()) if is_sparse or n >= 32 else 1 / 12
        assert engine.kernel.gamma == pytest.approx(expected, rel=1e-12)
        assert kernel_after(engine.settings, X[: t + 1]).gamma == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", ENGINES)
def test_gamma_is_one_over_d_if_rows_do_not_vary(kind):
    engine = kind(settings_of("forgetron"))
    learn(engine, np.full((70, 4), 7.0), np.arange(70, dtype=np.int32) % 2, np.zeros(70, dtype=np.int64))
    assert engine.kernel.gamma == 1 / 4


@needs_core
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("rule", RULES)
def test_the_core_estimates_gamma_as_the_reference_does(rule, is_sparse):
    X, codes, task_ids = stream(150, 8, is_sparse)
    settings = settings_of(rule, 8, sparse=is_sparse)
    core, definition = native.Engine(settings), reference.Engine(settings)
    assert learn(core, X, codes, task_ids) == pytest.approx(learn(definition, X, codes, task_ids), abs=1e-6)
    assert np.array_equal(core.active()["arrival"], definition.active()["arrival"])


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("stop", [1, 10, 40, 64])
@pytest.mark.parametrize("rule", RULES)
def test_a_restored_engine_continues_to_estimate(rule, stop, kind):
    X, codes, task_ids = stream(100)
    whole, part = kind(settings_of(rule)), kind(settings_of(rule))
    expected = learn(whole, X, codes, task_ids)
    learn(part, X[:stop], codes[:stop], task_ids[:stop])
    restored = kind.restore(part.settings, part.state())
    assert np.array_equal(learn(restored, X[stop:], codes[stop:], task_ids[stop:]), expected[stop:])
    assert restored.kernel == whole.kernel


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("eta", [0.0, 0.1])
@pytest.mark.parametrize("rule", ["budget_projectron", "shared_projectron"])
def test_examples_that_become_dependent_are_projected(rule, eta, kind):
    """With γ = 1/d no two rows are similar, and all mistakes are stored. With the estimated γ the rows are similar."""
    rng = np.random.default_rng(0)
    X = 1000.0 * rng.normal(size=(200, 1))
    codes, task_ids = rng.integers(2, size=200).astype(np.int32), np.zeros(200, dtype=np.int64)
    engine = kind(settings_of(rule, 1, capacity=50, eta=eta))
    learn(engine, X[:31], codes[:31], task_ids[:31])
    before = engine.n_stored
    assert before > 10
    margins = learn(engine, X[31:32], codes[31:32], task_ids[31:32])
    assert engine.kernel.gamma < 1e-5 and engine.n_stored < before
    H = engine.kernel(engine.active()["rows"], engine.active()["rows"])
    assert (1 / np.diagonal(np.linalg.inv(H)) > 0.99 * max(eta**2, 2.0**-36)).all()
    margins = learn(engine, X[32:], codes[32:], task_ids[32:])
    assert np.abs(margins).max() < 1e4
