"""The combination of the beliefs: one step computed by hand, beliefs that complement each other, and its cost.

The symbols are those of `combination`: ℓ_b is the margin of belief b and m that of the mixture. The combination is
z = m + Σ_b β_b x_b with x_b = ℓ_b − m, and P is the covariance of β.
"""

from __future__ import annotations

import numpy as np
import pytest

from budgetron import Budgetron
from budgetron.engine.reference.rules.budgetron import mixture
from budgetron.engine.reference.rules.budgetron.combination import KEEP, PRIOR, Combination


def log_loss(margins, codes):
    return np.logaddexp(0, np.where(codes == 1, -margins, margins))


def run(f, codes, weight=1.0):
    """Learn from the margins f (examples, beliefs) of two classes.

    Returns the combination, the margins of the mixture, and the margins of the combination.
    """
    w, beliefs = np.full(f.shape[1], 1 / f.shape[1]), np.arange(f.shape[1])
    combination, mixed, combined = Combination(f.shape[1]), [], []
    for row, code in zip(f[:, :, None], codes, strict=True):
        m, logs = mixture.margins(row, w), mixture.logs(row, None)
        mixed.append(m[0])
        combined.append(combination.margins(logs, beliefs, m)[0])
        combination.learn(logs, beliefs, m, int(code), weight)
        w = mixture.weights(row, w, int(code), weight)
    return combination, np.array(mixed), np.array(combined)


def test_one_step_computed_by_hand():
    """Before the first step, z = m and P is a multiple of the identity. So β moves along u, u_b = (1 − p_y) x_b."""
    f = np.array([[2.0], [-1.0]])
    m = mixture.margins(f, np.full(2, 0.5))
    combination = Combination(2)
    logs = mixture.logs(f, None)
    assert combination.margins(logs, np.arange(2), m)[0] == pytest.approx(m[0], rel=1e-12)
    combination.learn(logs, np.arange(2), m, 1, 0.5)
    u = (f[:, 0] - m[0]) * (1 - 1 / (1 + np.exp(-m[0])))
    step = 0.5 / (1 + 0.5 * PRIOR * (u @ u))
    np.testing.assert_allclose(combination.beta, step * PRIOR * u, rtol=1e-12)
    P = (PRIOR * np.eye(2) - step * PRIOR**2 * np.outer(u, u)) / KEEP
    np.testing.assert_allclose(combination.P, P, rtol=1e-12)  # both variances are still below the prior


def test_a_variance_never_exceeds_its_prior():
    """A belief that always agrees with the mixture has x = 0. Without the limit, its variance would grow for ever."""
    rng = np.random.default_rng(0)
    combination = Combination(2)
    for _ in range(500):
        logs = np.log([[0.5, 0.5], rng.dirichlet([1, 1])])
        combination.learn(logs, np.arange(2), np.zeros(1), int(rng.integers(2)), 1.0)
    assert np.diagonal(combination.P).max() <= PRIOR * (1 + 1e-12)
    assert combination.P[1, 1] < 0.5 * PRIOR
    assert np.linalg.eigvalsh(combination.P).min() > 0


def test_beliefs_with_opposite_errors_are_averaged():
    """The margins of two beliefs are the true log odds plus and minus the same error, so their mean is exact."""
    rng = np.random.default_rng(1)
    truth, error = 1.5 * rng.normal(size=(2, 4000))
    codes = (rng.random(4000) < 1 / (1 + np.exp(-truth))).astype(int)
    combination, mixed, combined = run(np.stack([truth + 1.1 * error, truth - 0.9 * error], axis=1), codes)
    late = slice(1000, None)
    best = log_loss(truth, codes)[late].mean()
    assert log_loss(mixed, codes)[late].mean() > best + 0.05
    assert log_loss(combined, codes)[late].mean() < best + 0.01
    assert combination.w[1] > 0.99


def test_the_combination_costs_little_where_one_belief_is_best():
    """One belief is right, and the others are noise.

    Averaging m and z costs at most ln 2, plus the cost of `mixture.SHARE`. This is the share of the weight that each
    step divides equally.
    """
    rng = np.random.default_rng(2)
    f = rng.normal(scale=1.5, size=(3000, 6))
    codes = (rng.random(3000) < 1 / (1 + np.exp(-f[:, 0]))).astype(int)
    _, mixed, combined = run(f, codes)
    sharing = -len(codes) * np.log1p(-mixture.SHARE)
    assert log_loss(combined, codes).sum() <= log_loss(mixed, codes).sum() + np.log(2) + sharing


def test_coefficients_give_the_margin_where_all_beliefs_nearly_agree():
    """Explanations use Σ_b c_b ℓ_b. Its difference from the margin vanishes as the beliefs become equal."""
    rng, combination = np.random.default_rng(3), Combination(3)
    combination.beta, combination.w = np.array([0.3, -0.2, 0.5]), np.array([0.1, 0.9])
    w, beliefs = np.array([0.2, 0.3, 0.5]), np.arange(3)
    c = combination.coefficients(w, beliefs)
    assert c.sum() == pytest.approx(1.0)
    f = 0.7 + 1e-4 * rng.normal(size=(3, 1))
    margin = combination.margins(mixture.logs(f, None), beliefs, mixture.margins(f, w))
    assert margin[0] == pytest.approx(float(c @ f[:, 0]), abs=1e-7)
    assert abs(margin[0] - float(w @ f[:, 0])) > 1e-6  # the weights of the mixture alone would not give it


def test_a_sleeping_belief_keeps_its_beta():
    rng = np.random.default_rng(5)
    combination, _, _ = run(rng.normal(size=(200, 3)), rng.integers(2, size=200))
    combination.P[1, [0, 2]] = combination.P[[0, 2], 1] = 0.0  # so that a step of the awake beliefs does not move β_1
    before, awake = combination.beta.copy(), np.array([0, 2])
    combination.learn(np.log([[0.3, 0.7], [0.6, 0.4]]), awake, np.zeros(1), 1, 1.0)
    assert combination.beta[1] == before[1] and (combination.beta[awake] != before[awake]).all()


def test_a_combination_of_three_classes():
    """The labels follow twice the signal. Two beliefs are the signal plus own noise, so their sum is better."""
    rng = np.random.default_rng(6)
    signal = rng.normal(size=(3000, 3))
    codes = (2 * signal + rng.gumbel(size=signal.shape)).argmax(axis=1)
    f = signal[:, None] + 0.7 * rng.normal(size=(3000, 2, 3))
    w, beliefs, combination = np.full(2, 0.5), np.arange(2), Combination(2)
    losses = []
    for row, code in zip(f, codes, strict=True):
        m, logs = mixture.margins(row, w), mixture.logs(row, None)
        both = combination.margins(logs, beliefs, m)
        losses.append((-m[code], np.logaddexp.reduce(both) - both[code]))
        combination.learn(logs, beliefs, m, int(code), 1.0)
        w = mixture.weights(row, w, int(code), 1.0)
    mixed, combined = np.mean(losses[500:], axis=0)
    assert combined < mixed - 0.03


def test_heavy_examples_and_confident_beliefs_keep_the_combination_finite():
    rng = np.random.default_rng(7)
    f = 30 * rng.normal(size=(2000, 4))  # often confident, and wrong half of the time
    combination, _, combined = run(f, rng.integers(2, size=2000), weight=1e9)
    assert np.isfinite(combination.P).all() and np.isfinite(combined).all()
    # Before the probabilities of m and z are averaged, values below one in a million are raised to one in a million.
    assert np.abs(combination.beta).max() < 2 and np.abs(combined).max() <= -mixture.MIN_LOG_PROBABILITY + 1e-9


def test_a_budgetron_predicts_better_than_its_mixture_alone():
    """Some columns have a threshold, and others a linear effect. No single belief describes both well."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(6000, 6))
    score = 2 * X[:, :3].sum(axis=1) + 3 * (X[:, 3] > 0.3) - 3 * (np.abs(X[:, 4]) < 0.5)
    y = score + rng.logistic(size=6000) > 0
    model = Budgetron()
    margins = model.predict_then_learn(X, y)
    # The same stream nearly without the combination: its β are set to 0 after every block of 50 rows.
    plain, mixed = Budgetron(), []
    for at in range(0, 6000, 50):
        mixed.append(plain.predict_then_learn(X[at : at + 50], y[at : at + 50], classes=[False, True]))
        settings, state = plain._engine.settings, plain._engine.state()
        state["combination_beta"] = np.zeros_like(state["combination_beta"])
        plain._engine = type(plain._engine).restore(settings, state)
    codes = y.astype(int)
    assert log_loss(margins, codes).mean() < 0.99 * log_loss(np.concatenate(mixed), codes).mean()
