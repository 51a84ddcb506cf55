"""Filters that learn by AdaGrad follow drift; filters with a lapse rate are not misled by wrong labels."""

from __future__ import annotations

import numpy as np
import pytest

from budgetron import Budgetron
from budgetron.data import synthetic
from budgetron.data.synthetic import Shift
from budgetron.engine import native, reference
from budgetron.engine.reference.rules.budgetron.declaration import BudgetronDeclaration
from budgetron.engine.reference.rules.budgetron.parts.filters import Filter, FilterBelief
from budgetron.engine.reference.rules.budgetron.parts.part import Seen
from budgetron.engine.reference.rules.budgetron.parts.steps import not_random

needs_core = pytest.mark.skipif(not native.available, reason="built without a compiler")
ENGINES = [pytest.param(native.Engine, marks=needs_core), reference.Engine]


def filter_of(**belief):
    belief = FilterBelief(prior=3.0, own=1.0, **belief)
    return Filter(0, belief, outputs=1, columns=2, frequencies=0, frequency_limit=0,
                  full_covariance=belief.rate == 0, shared=True, own=False)  # fmt: skip


def seen(features):
    return Seen(None, 0, np.zeros(0), np.asarray(features, dtype=float), [], np.zeros(0))


def test_the_variances_of_adagrad_are_its_rate_over_the_root_of_the_squared_gradients():
    part, rate = filter_of(rate=2.0), 2.0
    squares = np.full(2, (rate / 3.0) ** 2)  # the first variance is then the prior variance, 3
    rng = np.random.default_rng(0)
    for _ in range(50):
        e, code = seen([rng.normal(), 1.0]), int(rng.integers(2))
        f = part.margins(e)
        g = (code == 1) - 1 / (1 + np.exp(-f[0, 0]))
        if part.learn(e, f, code, 1.0):
            squares += (g * e.linear) ** 2
        np.testing.assert_allclose(part.P, rate / np.sqrt(squares), rtol=1e-9)


def test_a_heavy_example_does_not_end_the_learning_of_adagrad():
    light, heavy = filter_of(rate=2.0), filter_of(rate=2.0)
    e = seen([1.0, 1.0])
    light.learn(e, light.margins(e), 1, 1.0)
    heavy.learn(e, heavy.margins(e), 1, 1e9)
    np.testing.assert_allclose(heavy.P, light.P)


def test_a_label_that_is_surely_wrong_hardly_moves_a_filter_with_a_lapse_rate():
    moves = []
    for lapse in (0.0, 0.05):
        part, e = filter_of(lapse=lapse), seen([1.0, 0.0])
        part.theta[:] = [[12.0, 0.0]]
        part.learn(e, part.margins(e), 0, 1.0)
        moves.append(12.0 - part.theta[0, 0])
    assert moves[0] > 1.0
    assert moves[1] < 0.01
    assert not_random(0.5, 0.05) == pytest.approx(0.95)


@pytest.mark.parametrize("kind", ENGINES)
def test_a_lapse_rate_limits_probabilities(kind, make_settings, learn):
    """A single belief that assumes 10 % random labels never gives more than 95 %, before calibration."""
    settings = make_settings(frequencies=0, latent=0, bins=0, filters=[(10.0, 0.1, 0.0)], filter_lapses=[0.1])
    engine = kind(settings)
    X = np.random.default_rng(0).normal(size=(300, 4))
    learn(engine, X, (X[:, 0] > 0).astype(int), np.zeros(300, dtype=int))
    ids = np.zeros(2, dtype=int)
    state = engine.state()
    state["calibration_scale"][:], state["calibration_offset"][:], state["calibration_lapse"][:] = 1.0, 0.0, 0.0
    far = np.array([[50.0, 0, 0, 0], [-50.0, 0, 0, 0]])
    margins = kind.restore(settings, state).margins(far, ids, ids)
    limit = np.log(0.95 / 0.05)
    np.testing.assert_allclose(np.ravel(margins), [limit, -limit], rtol=0.001)


def test_rates_and_lapse_rates_that_no_filter_can_have_are_refused(make_settings):
    BudgetronDeclaration.check(make_settings(mixed=True))
    with pytest.raises(ValueError, match="filter_lapses"):
        BudgetronDeclaration.check(make_settings(n_outputs=3, filter_lapses=[0.1, 0, 0, 0, 0]))
    with pytest.raises(ValueError, match="filter_rates"):
        BudgetronDeclaration.check(make_settings(filter_rates=[1.0]))
    with pytest.raises(ValueError, match="filter_rates"):  # filter 2 sees Fourier features
        BudgetronDeclaration.check(make_settings(filter_rates=[0, 0, 1.0, 0, 0]))


@needs_core
def test_own_weights_that_drift_are_followed():
    """Errors were 19.0 % without the filter that learns by AdaGrad, and 16.4 % with it. The limit is between them."""
    shift = Shift(angle=180.0, begin=0.0, end=1.0, alike=False)
    made = synthetic.stream(20_000, d=50, n_tasks=8, relatedness=0.8, noise=0.05, shift=shift, seed=3)
    X, y, tasks = made.dataset.X, made.dataset.y, made.dataset.tasks
    margins = Budgetron().predict_then_learn(X, y, tasks=tasks)
    assert ((margins > 0) != y).mean() < 0.175


@needs_core
def test_a_lapse_rate_lowers_the_errors_if_some_labels_are_wrong():
    """5 % of the labels are wrong.

    Errors were 11.1 % without the filter that has a lapse rate, and 10.2 % with it. The limit is between them.
    """
    wrong = []
    for seed in range(3):
        rng = np.random.default_rng(100 + seed)
        X, tasks = rng.normal(size=(6000, 10)), rng.integers(0, 10, size=6000)
        weights = np.sqrt(0.8) * rng.normal(size=10) + np.sqrt(0.2) * rng.normal(size=(10, 10))
        y = ((X * weights[tasks]).sum(axis=1) > 0) ^ (rng.random(6000) < 0.05)
        wrong.append(((Budgetron().predict_then_learn(X, y, tasks=tasks) > 0) != y).mean())
    assert np.mean(wrong) < 0.107
