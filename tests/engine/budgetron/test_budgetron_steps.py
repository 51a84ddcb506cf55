"""Steps, filters, mixture, scaler, hashes and Fourier features, each tested without an engine."""

from __future__ import annotations

import math

import numpy as np
import pytest

from budgetron.engine.reference.rules.budgetron import mixture
from budgetron.engine.reference.rules.budgetron.features.fourier_features import FourierFeatures
from budgetron.engine.reference.rules.budgetron.features.hashing import gaussian, mix64
from budgetron.engine.reference.rules.budgetron.features.scaler import CLIP, Scaler
from budgetron.engine.reference.rules.budgetron.parts.filters import Filter, FilterBelief
from budgetron.engine.reference.rules.budgetron.parts.part import Seen
from budgetron.engine.reference.rules.budgetron.parts.steps import step

# ---- the size of a step


def softmax(f):
    e = np.exp(f - np.max(f))
    return e / e.sum()


def step_by_bisection(f, code, omega, v):
    """Return α and τ, with τ from 200 bisections of the equation that defines it (see `steps`)."""
    full = np.concatenate([[0.0], f]) if len(f) == 1 else np.asarray(f)
    p = softmax(full)
    direction = -p
    direction[code] += 1
    if len(f) == 1:
        direction = np.array([0.0, direction[1]])
    low, high = 0.0, 1.0
    for _ in range(200):
        tau = (low + high) / 2
        after = softmax(full + v * omega * tau * direction)
        if tau * (1 - p[code]) < 1 - after[code]:
            low = tau
        else:
            high = tau
    return low * omega * direction[-len(f) :], low


@pytest.mark.parametrize("v", [1e-4, 0.3, 20.0])
@pytest.mark.parametrize("omega", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("f", [[0.0], [-7.0], [3.0], [0.5, -1.0, 2.0], [9.0, -9.0, 0.0]])
def test_the_step_size_equals_that_of_bisection(f, omega, v):
    for code in range(max(2, len(f))):
        alpha, h = step(np.array(f), code, omega, v)
        expected, _ = step_by_bisection(f, code, omega, v)
        np.testing.assert_allclose(alpha, expected, rtol=1e-8, atol=1e-12)
        moved = np.array(f) + v * alpha
        p = softmax(np.concatenate([[0.0], moved]) if len(f) == 1 else moved)[code]
        assert h == pytest.approx(omega * p * (1 - p), rel=1e-6)


@pytest.mark.parametrize("omega", [1e3, 1e9])
def test_no_sample_weight_makes_a_step_too_long(omega):
    """After its step, a heavy example is predicted right, with a margin that grows only like log(weight)."""
    alpha, _ = step(np.array([-5.0]), 1, omega, 2.0)
    f = -5.0 + 2.0 * alpha[0]
    assert 0 < f < 2 * math.log(omega * 2.0)


# ---- a filter with a full covariance is Bayesian logistic regression, one Laplace step per example


def laplace(prior, X, y):
    """Return the weights and their covariance.

    For each example, Newton's method finds the weights of largest posterior probability, and the curvature there gives
    the new covariance.
    """
    mean, P = np.zeros(X.shape[1]), np.eye(X.shape[1]) * prior
    for x, sign in zip(X, 2 * y - 1, strict=True):
        inverse, theta = np.linalg.inv(P), mean.copy()
        for _ in range(60):
            p = 1 / (1 + np.exp(-sign * (x @ theta)))
            slope = inverse @ (theta - mean) - sign * (1 - p) * x
            theta = theta - np.linalg.solve(inverse + p * (1 - p) * np.outer(x, x), slope)
        p = 1 / (1 + np.exp(-x @ theta))
        mean, P = theta, np.linalg.inv(inverse + p * (1 - p) * np.outer(x, x))
    return mean, P


@pytest.mark.parametrize("prior", [0.5, 4.0])
def test_a_filter_equals_logistic_regression_with_laplace_steps(prior):
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(25, 3)), np.ones(25)])
    y = (X @ [1.0, -2.0, 0.5, 0.2] + rng.normal(size=25) > 0).astype(int)
    part = Filter(0, FilterBelief(prior, 0.1), 1, 4, 0, 0, full_covariance=True, shared=True, own=False)
    for x, code in zip(X, y, strict=True):
        e = Seen(None, 0, np.zeros(0), x, np.zeros(0), np.zeros(0))
        assert part.learn(e, part.margins(e), int(code), 1.0)
    mean, P = laplace(prior, X, y)
    np.testing.assert_allclose(part.theta[0], mean, atol=1e-8)
    np.testing.assert_allclose(part.P, P, atol=1e-8)


def test_updates_of_related_tasks_computed_by_hand():
    """v_j += α r_j S_j φ and S_j ← S_j/(1 + h r_j² S_j φ²), written out for two related tasks."""
    part = Filter(0, FilterBelief(2.0, 0.5), 1, 2, 0, 0, full_covariance=True, shared=True, own=True)
    rows = [np.zeros(part.row_width) for _ in range(2)]
    for row in rows:
        part.begin_row(row, 0)
        assert row.tolist() == [0.0, 0.0, 1.0, 1.0]  # prior 2 × own 0.5
    phi, r = np.array([0.6, 1.0]), [0.8, -0.3]
    e = Seen(None, 0, np.zeros(0), phi, np.zeros(0), rows[0], [(r[0], 0, rows[0]), (r[1], 1, rows[1])])
    V = 2.0 * (phi @ phi) + sum(c * c * (phi @ phi) for c in r)
    assert part.variances(e)[0] == pytest.approx(V)
    alpha, tau = step_by_bisection([0.0], 1, 1.0, V)
    f = V * alpha[0]
    h = np.exp(-f) / (1 + np.exp(-f)) ** 2
    part.learn(e, part.margins(e), 1, 1.0)
    np.testing.assert_allclose(part.theta[0], alpha[0] * 2.0 * phi, rtol=1e-8)
    for row, c in zip(rows, r, strict=True):
        np.testing.assert_allclose(row[:2], alpha[0] * c * phi, rtol=1e-8)
        np.testing.assert_allclose(row[2:], 1 / (1 + h * c * c * phi**2), rtol=1e-8)
    assert part.margins(e)[0, 0] == pytest.approx(f, rel=1e-8) and tau > 0


# ---- the mixture


def test_the_mixture_computed_by_hand():
    f, w = np.array([[0.0], [np.log(3)]]), np.array([0.25, 0.75])  # class 1 has the probabilities ½ and ¾
    p = 0.25 * 0.5 + 0.75 * 0.75
    assert mixture.margins(f, w)[0] == pytest.approx(np.log(p / (1 - p)))
    unnormalised = np.array([0.25 * 0.5**2, 0.75 * 0.75**2])
    expected = (1 - mixture.SHARE) * unnormalised / unnormalised.sum() + mixture.SHARE / 2
    np.testing.assert_allclose(mixture.weights(f, w, 1, 2.0), expected, rtol=1e-12)


def test_the_mixture_of_three_classes_and_of_extreme_margins():
    f = np.array([[2.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    p = 0.3 * softmax(f[0]) + 0.7 * softmax(f[1])
    np.testing.assert_allclose(mixture.margins(f, np.array([0.3, 0.7])), np.log(p), rtol=1e-12)
    worst = mixture.weights(np.array([[-800.0], [800.0]]), np.array([0.5, 0.5]), 1, 1e9)
    assert np.isfinite(worst).all() and worst.sum() == pytest.approx(1) and worst[0] == pytest.approx(mixture.SHARE / 2)
    assert np.isfinite(mixture.margins(np.array([[-800.0], [800.0]]), worst)).all()


# ---- columns


def scale_column(column):
    """Return z of the last half of a column, and the scaler. Each value is scaled before it is learned."""
    scaler, z = Scaler(1), []
    for x in column:
        z.append(scaler.features(np.array([x]))[0])
        scaler.learn(np.array([x]))
    return np.array(z[len(z) // 2 :]), scaler


@pytest.mark.parametrize("index", [0, 1, 2, 50])
def test_one_row_of_huge_values_does_not_spoil_the_scales(index):
    column = np.random.default_rng(0).normal(size=2000)
    column[index] = 1e9
    z, _ = scale_column(column)
    assert abs(z.mean()) < 0.15 and 0.8 < z.std() < 1.25


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_codes_for_missing_values_do_not_compress_other_values(share):
    """A code such as −999 for missing values must not compress the range of the other values."""
    rng = np.random.default_rng(1)
    column, missing = rng.normal(50, 2, size=4000), rng.random(4000) < share
    column[missing] = -999
    z, _ = scale_column(column)
    present = z[~missing[2000:]]
    assert present.std() > 0.3 and np.corrcoef(present, column[2000:][~missing[2000:]])[0, 1] > 0.9
    assert (np.abs(z) <= CLIP).all() and z[missing[2000:]].max() < present.min() + 1.0


def test_scales_of_heavy_tailed_constant_and_shifted_columns():
    rng = np.random.default_rng(2)
    tails = rng.standard_cauchy(size=4000)
    z, _ = scale_column(tails)
    near = np.abs(tails[2000:]) < 2
    assert z[near].std() > 0.2 and (np.abs(z) <= CLIP).all()
    z, scaler = scale_column(np.full(100, 7.0))
    assert (z == 0).all() and scaler.variance[0] == 0 and scaler.mean[0] == 7.0
    z, _ = scale_column(1e8 + rng.normal(size=4000))
    assert abs(z.mean()) < 0.2 and 0.8 < z.std() < 1.25  # a mean of 1e8 leaves eight of the sixteen digits
    z, _ = scale_column(rng.integers(2, size=4000))
    assert set(np.sign(z)) == {-1.0, 1.0} and 0.8 < z.std() < 1.25


# ---- hashes and Fourier features


def splitmix64(x):
    mask = 2**64 - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def test_hashes_are_splitmix64():
    # The first outputs of the published generator, seeded with 0 and 1234567.
    assert int(mix64(np.int64(0))) == 0xE220A8397B1DCDAF
    assert int(mix64(np.int64(1234567))) == 6457827717110365317
    ids = [0, 1, -1, 2**62, -(2**63), 2**63 - 1, 12345]
    assert mix64(np.array(ids)).tolist() == [splitmix64(i % 2**64) for i in ids]


def test_hashes_become_integers_with_a_gaussian_distribution():
    h = mix64(np.arange(200_000))
    integers = gaussian(h)
    sums = [sum(int(number).to_bytes(8, "little")) - 1020 for number in h[:500]]
    expected = [max(-127, min(127, int(math.copysign((abs(s) * 32 + 104) // 209, s)))) for s in sums]
    assert integers[:500].tolist() == expected
    assert abs(integers.mean()) < 0.3 and abs(integers.std() - 32) < 0.5 and np.abs(integers).max() <= 127


@pytest.mark.parametrize("d", [6, 3])
def test_fourier_features_have_the_gaussian_kernel(d):
    """The mean of cos(ω·(x − y)) over the frequencies with the same γ is exp(−γ‖x − y‖²), up to 4/√(their number)."""
    count = 8000
    fourier = FourierFeatures(d, 1.0, [0.5])
    fourier.resize(count)
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, d)) * 0.7
    index = np.arange(count)
    # In bank 0, every fourth block of 32 frequencies has twice the γ, and the blocks that begin after the first 48 d
    # frequencies have three times the γ. Bank 1 has one γ.
    gammas_0 = (1 + (index // 32 % 4 == 3)) * np.where(index // 32 * 32 < 48 * d, 1.0, 3.0) / d
    for a, b, gammas in zip(fourier.banks(x), fourier.banks(y), (gammas_0, np.full(count, 0.5 / d)), strict=True):
        products = (a * b).reshape(count, 2).sum(axis=1)
        for gamma in np.unique(gammas):
            cosines = products[gammas == gamma]
            assert cosines.mean() == pytest.approx(np.exp(-gamma * ((x - y) ** 2).sum()), abs=4 / np.sqrt(len(cosines)))


def test_a_frequency_does_not_depend_on_how_many_there_are():
    few, many = (FourierFeatures(5, 0.7, [8.0]) for _ in range(2))
    few.resize(70)
    many.resize(300)
    z = np.linspace(-1, 1, 5)
    for a, b in zip(few.banks(z), many.banks(z), strict=True):
        np.testing.assert_array_equal(a, b[:140])
