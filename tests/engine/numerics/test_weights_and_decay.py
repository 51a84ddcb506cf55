"""Extreme sample weights give finite results; decaying weights do not become subnormal. See also `engine/budgetron`."""

from __future__ import annotations

import numpy as np
import pytest

import budgetron
from budgetron import graphs, kernels
from budgetron.engine import native, reference
from budgetron.engine.records import Outcome
from budgetron.engine.settings import make_settings

needs_core = pytest.mark.skipif(not native.available, reason="built without a compiler")
ENGINES = [pytest.param(native.Engine, marks=needs_core), reference.Engine]


def is_subnormal(values):
    values = np.asarray(values)
    if values.dtype.kind != "f":
        return False
    return bool(((values != 0) & (np.abs(values) < np.finfo(values.dtype).tiny)).any())


def check_state(engine):
    for name, values in engine.state().items():
        assert np.isfinite(np.asarray(values, dtype=np.float64)).all(), name
        if name not in ("rows", "data", "inverse", "factor"):  # inputs, and arrays that do not decay
            assert not is_subnormal(values), name


def test_the_largest_sample_weight_gives_finite_probabilities():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 4))
    model = budgetron.Budgetron(20)
    model.partial_fit(X, X[:, 0] > 0, sample_weight=np.full(40, 1.7e308))
    assert np.isfinite(model.predict_proba(X)).all()


def decaying_engine(kind, steps):
    """Yield an engine after every 40 examples. Each 40 are of two new tasks; the rows of earlier tasks only shrink."""
    settings = make_settings(
        rule="shared_projectron", kernel=kernels.Gaussian(200.0), graph=graphs.complete(), n_features=2, capacity=6,
        eta=0.05, max_task_rows=200,
    )  # fmt: skip
    engine = kind(settings)
    rng = np.random.default_rng(3)
    for at in range(0, steps, 40):
        task_ids = at + rng.integers(2, size=40)
        codes = rng.integers(2, size=40).astype(np.int32)
        engine.learn(rng.uniform(-1, 1, size=(40, 2)), codes, task_ids, np.zeros_like(task_ids))
        yield engine


@pytest.mark.parametrize("kind", ENGINES)
def test_task_rows_do_not_decay_to_subnormal_numbers(kind):
    for engine in decaying_engine(kind, steps=600):
        check_state(engine)


@needs_core
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_task_rows_do_not_decay_to_subnormal_numbers_on_long_streams():
    for at, engine in enumerate(decaying_engine(native.Engine, steps=10**6)):
        if at % 100 == 0:
            check_state(engine)


@pytest.mark.parametrize("kind", ENGINES)
def test_a_forgetron_with_negligible_weights_still_learns(kind):
    """All weights of a Forgetron shrink by a common factor. When the factor is applied, old weights may become tiny."""
    settings = make_settings(
        rule="forgetron", kernel=kernels.Gaussian(1.0), graph=graphs.complete(), n_features=1, capacity=3
    )  # fmt: skip
    engine = kind(settings)
    zeros = np.zeros(3, dtype=np.int64)
    engine.learn(np.array([[0.0], [5.0], [10.0]]), np.array([1, 0, 1], np.int32), zeros, zeros)
    assert engine.n_stored == 3
    state = engine.state() | {"scale": 0.99e-100, "coef": np.array([[1e-215, -1e-210, 1.0]])}
    engine = kind.restore(settings, state)
    _, flags = engine.learn(np.array([[15.0]]), np.array([0], np.int32), zeros[:1], zeros[:1])
    assert flags[0] & Outcome.STORED
    check_state(engine)
