"""Extreme sample weights, the unit of Budgetron's kernel part, and weights that decay to nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import budgetron
from budgetron import graphs, kernels
from budgetron.engine import native, reference
from budgetron.engine.records import Outcome
from budgetron.engine.settings import make_settings

needs_core = pytest.mark.skipif(not native.available, reason="built without a compiler")
ENGINES = [pytest.param(native.Engine, marks=needs_core), reference.Engine]
D = 4
EXTRA = {
    "beliefs": [(1.0, 0.5, 0.0, 0.0, 0.0), (1.0, 0.5, 3.0, 0.5, 0.0), (0.0, 0.0, 3.0, 0.5, 0.0)], "shared": True,
    "own": True, "own_rank": 2, "slots": 0, "patience": 10_000, "whole": False, "sure": 0.0,
}  # fmt: skip


def flagship(kind, is_sparse=False, dtype="float64", n_outputs=1, whole=False, kernel=None):
    extra = EXTRA | {"slots": 64 if is_sparse else 0, "whole": whole}
    kernel = kernels.Gaussian(0.5) if kernel is None else kernel
    return kind(make_settings(
        rule="budgetron", kernel=kernel, graph=graphs.complete(), n_features=D, n_outputs=n_outputs, sparse=is_sparse,
        dtype=dtype, capacity=8, eta=0.1, **extra,
    ))  # fmt: skip


def is_subnormal(values):
    values = np.asarray(values)
    if values.dtype.kind != "f":
        return False
    return bool(((values != 0) & (np.abs(values) < np.finfo(values.dtype).tiny)).any())


def check_state(engine):
    for name, values in engine.state().items():
        assert np.isfinite(np.asarray(values, dtype=np.float64)).all(), name
        if name not in ("rows", "data", "inverse", "factor"):  # what came in, and what does not decay
            assert not is_subnormal(values), name


@pytest.mark.parametrize("heavy", [1.7e308, 1e200, 1e20])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("form", ["dense", "whole", "sparse", "float32", "sparse-float32"])
@pytest.mark.parametrize("kind", ENGINES)
def test_the_largest_weights(kind, form, n_outputs, heavy):
    rng = np.random.default_rng(0)
    dtype = "float32" if form.endswith("float32") else "float64"
    is_sparse = form.startswith("sparse")
    engine = flagship(kind, is_sparse, dtype, n_outputs, whole=form == "whole")
    X = rng.normal(size=(60, D)).astype(dtype)
    codes = (X[:, 0] > 0).astype(np.int32) if n_outputs == 1 else rng.integers(3, size=60).astype(np.int32)
    keys, weights = rng.integers(3, size=60), np.where(rng.random(60) < 0.3, heavy, 1.0)
    rows = sparse.csr_matrix(X) if is_sparse else X
    margins, _ = engine.learn(rows, codes, keys, np.zeros_like(keys), weights)
    assert np.isfinite(margins).all()
    shares = engine.query("beliefs")["weight"]
    assert (shares > 0).all() and shares.sum() == pytest.approx(1.0)
    check_state(engine)
    assert np.isfinite(engine.margins(rows, keys, np.zeros_like(keys))).all()


@needs_core
@pytest.mark.parametrize("heavy", [1.7e308, 50.0])
def test_core_is_reference_with_large_weights(heavy):
    rng = np.random.default_rng(1)
    X, keys = rng.normal(size=(40, D)), rng.integers(3, size=40)
    codes, weights = (X[:, 0] > 0).astype(np.int32), np.where(np.arange(40) % 9 == 4, heavy, 1.0)
    core, definition = flagship(native.Engine), flagship(reference.Engine)
    f, g = (engine.learn(X, codes, keys, np.zeros_like(keys), weights)[0] for engine in (core, definition))
    assert np.allclose(f, g, rtol=1e-6, atol=1e-6)
    assert np.allclose(*(engine.query("beliefs")["weight"] for engine in (core, definition)), atol=1e-9)


def test_the_largest_weight_through_the_learner():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, D))
    model = budgetron.Budgetron(20)
    model.partial_fit(X, X[:, 0] > 0, sample_weight=np.full(40, 1.7e308))
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("kind", ENGINES)
def test_a_unit_of_1_is_not_set_twice(kind, restart):
    """K'(x, x) of the first example ever stored is the unit for good, also where it is 1 and all is forgotten."""
    engine = flagship(kind, kernel=kernels.Linear())
    assert engine.state()["unit"] == 1.0 and not engine.state()["unit_set"]
    one, four = np.eye(D)[:1], 2 * np.eye(D)[1:2]
    zero = np.zeros(1, dtype=np.int64)
    engine.learn(one, np.array([1], np.int32), zero, zero)
    assert engine.n_stored == 1 and engine.state()["unit"] == 1.0 and engine.state()["unit_set"]
    engine.forget(0)
    assert engine.n_stored == 0
    if restart:
        engine = kind.restore(engine.settings, engine.state())
    engine.learn(four, np.array([0], np.int32), zero, zero)
    assert engine.n_stored == 1 and engine.state()["unit"] == 1.0


@pytest.mark.parametrize("kind", ENGINES)
def test_a_unit_of_an_older_file(kind):
    """Older files say 1 for a unit that was not set; where nothing is stored that is what it meant."""
    empty = flagship(kind, kernel=kernels.Linear())
    state = empty.state()
    del state["unit_set"]
    engine = kind.restore(empty.settings, state)
    zero = np.zeros(1, dtype=np.int64)
    engine.learn(2 * np.eye(D)[:1], np.array([1], np.int32), zero, zero)
    assert engine.state()["unit"] == 4.0


def decaying(kind, steps):
    """Every 40 steps the tasks change for good, so that the rows of earlier ones only shrink; yields the engine."""
    settings = make_settings(
        rule="shared_projectron", kernel=kernels.Gaussian(200.0), graph=graphs.complete(), n_features=2, capacity=6,
        eta=0.05, max_task_rows=200,
    )  # fmt: skip
    engine = kind(settings)
    rng = np.random.default_rng(3)
    for at in range(0, steps, 40):
        keys = at + rng.integers(2, size=40)
        codes = rng.integers(2, size=40).astype(np.int32)
        engine.learn(rng.uniform(-1, 1, size=(40, 2)), codes, keys, np.zeros_like(keys))
        yield engine


@pytest.mark.parametrize("kind", ENGINES)
def test_task_rows_do_not_decay_to_subnormal_numbers(kind):
    for engine in decaying(kind, steps=600):
        check_state(engine)


@needs_core
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_task_rows_do_not_decay_to_subnormal_numbers_in_full():
    for at, engine in enumerate(decaying(native.Engine, steps=10**6)):
        if at % 100 == 0:
            check_state(engine)


@pytest.mark.parametrize("kind", ENGINES)
def test_a_forgetron_that_shrank_to_nothing(kind):
    """All weights of a Forgetron shrink together; the oldest may be tiny when the common factor is folded into them."""
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
