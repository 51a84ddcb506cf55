"""The calibration of the mixture's margins finds the scale, the offset and the lapse rate of simulated labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from budgetron import Budgetron
from budgetron.engine.reference.rules.budgetron.calibration import MAX_SCALE, MIN_SCALE, Calibration


def calibrated(margins, codes):
    """Return the calibration after the stream, and the means of its estimates over the last two thirds.

    `scale` and `offset` are averages over the two curves; `lapse` and `lapse_scale` are the lapse rate and the scale of
    the second curve. The estimates follow a stream that may change, so they never settle: a scale with step size P
    varies with variance P/2. Their means are closer to the true values.
    """
    calibration, estimates = Calibration(margins.shape[1]), []
    for n, (m, code) in enumerate(zip(margins, codes, strict=True)):
        calibration.learn(m, int(code), 1.0)
        if n >= len(codes) / 3:
            curve = calibration.curves[1]
            estimates.append((calibration.scale, calibration.offset[0], curve.lapse, curve.scale))
    return calibration, dict(zip(("scale", "offset", "lapse", "lapse_scale"), np.mean(estimates, axis=0), strict=True))


@pytest.mark.parametrize("scale", [0.6, 1.0, 1.7])
def test_the_scale_of_two_classes_is_found(scale):
    """Labels are drawn from probabilities whose logits are `scale` times the margins."""
    rng = np.random.default_rng(0)
    m = 2 * rng.normal(size=(6000, 1))
    codes = rng.random(6000) < 1 / (1 + np.exp(-scale * m[:, 0]))
    assert calibrated(m, codes)[1]["scale"] == pytest.approx(scale, abs=0.1)


@pytest.mark.parametrize("scale", [0.6, 1.7])
def test_the_scale_of_three_classes_is_found(scale):
    """The corrected probabilities also add up to 1."""
    rng = np.random.default_rng(1)
    m = 2 * rng.normal(size=(6000, 3))
    m -= np.log(np.exp(m).sum(axis=1, keepdims=True))
    codes = (scale * m + rng.gumbel(size=m.shape)).argmax(axis=1)
    calibration, means = calibrated(m, codes)
    assert means["scale"] == pytest.approx(scale, abs=0.1)
    z = np.array([calibration.margins(row) for row in m[:50]])
    np.testing.assert_allclose(np.exp(z).sum(axis=1), 1.0, rtol=1e-12)


def test_calibration_finds_an_offset():
    """Doubling the odds of a class adds log 2 to its margin, which the offset learns."""
    rng = np.random.default_rng(2)
    m = 1.5 * rng.normal(size=(20_000, 1))
    codes = rng.random(20_000) < 1 / (1 + np.exp(-m[:, 0] - np.log(2)))
    assert calibrated(m, codes)[1]["offset"] == pytest.approx(np.log(2), abs=0.1)


@pytest.mark.parametrize("lapse", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_share_of_random_labels_is_found(lapse, classes):
    rng = np.random.default_rng(3)
    m = 4 * rng.normal(size=(8000, classes))
    m -= np.log(np.exp(m).sum(axis=1, keepdims=True))
    codes = (m + rng.gumbel(size=m.shape)).argmax(axis=1)
    codes = np.where(rng.random(8000) < lapse, rng.integers(classes, size=8000), codes)
    if classes == 2:
        m = m[:, 1:] - m[:, :1]
    calibration, means = calibrated(m, codes)
    assert means["lapse"] == pytest.approx(lapse, abs=0.05)
    assert means["lapse_scale"] == pytest.approx(1.0, abs=0.2)
    assert lapse == 0 or calibration.w[1] > 0.95
    far = np.array([40.0]) if classes == 2 else np.array([0.0, -40.0, -40.0])
    top = calibration.margins(far)
    p = 1 / (1 + np.exp(-top[0])) if classes == 2 else np.exp(top[0])
    assert p == pytest.approx(1 - lapse * (classes - 1) / classes, abs=0.03)


@pytest.mark.parametrize("outputs", [1, 3])
def test_neither_scale_nor_lapse_rate_changes_the_predicted_class(outputs):
    rng = np.random.default_rng(4)
    calibration = Calibration(outputs)
    calibration.curves[0].scale, calibration.curves[1].scale, calibration.curves[1].lapse = 0.7, 3.0, 0.5
    for m in 5 * rng.normal(size=(200, outputs)):
        corrected = calibration.margins(m)
        assert corrected.argmax() == m.argmax()
        assert outputs > 1 or np.sign(corrected[0]) == np.sign(m[0])


def test_rare_labels_are_not_taken_for_random_ones():
    """One label in a hundred is positive, and no margin is near 0. The curve without random labels has most weight."""
    rng = np.random.default_rng(5)
    m = rng.normal(size=(8000, 1)) - 5.0
    calibration, _ = calibrated(m, rng.random(8000) < 1 / (1 + np.exp(-m[:, 0])))
    assert calibration.w[0] > 0.5
    assert calibration.margins(np.array([-7.0])) < calibration.margins(np.array([-5.0])) - 1


def test_explanations_shrink_as_the_margin_does():
    calibration = Calibration(1)
    calibration.w[:] = 0.0, 1.0
    calibration.curves[1].lapse = 0.2
    m = np.array([6.0])
    straight = calibration.scale * m + calibration.offset
    assert calibration.margins(m) == pytest.approx(calibration.shrinkage(m) * straight)
    assert 0.3 < calibration.shrinkage(m) < 0.5


def test_a_new_calibration_corrects_nothing():
    m = np.array([3.7])
    assert Calibration(1).margins(m) == pytest.approx(m, rel=1e-12)


def test_no_example_moves_the_calibration_far():
    """One step is small, even for a large margin and a huge weight of the example.

    After many steps, the scales are still within their limits.
    """
    calibration = Calibration(1)
    calibration.learn(np.array([13.0]), 0, 1e9)
    for curve in calibration.curves:
        assert 0.9 <= curve.scale < 1 and abs(curve.offset[0]) < 0.01
    for _ in range(1000):
        calibration.learn(np.array([13.0]), 0, 1e9)
    assert min(curve.scale for curve in calibration.curves) == MIN_SCALE
    for curve in calibration.curves:
        curve.scale = MAX_SCALE - 0.01  # without the limit, further examples would raise the scale above it
    for _ in range(1000):
        calibration.learn(np.array([0.5]), 1, 1.0)
    assert max(curve.scale for curve in calibration.curves) == MAX_SCALE


def test_probabilities_of_a_new_task_are_not_far_off_where_positives_are_rare():
    """All tasks have few positive labels. The shared weights must learn this, because a new task has no others.

    With plain AdaGrad (c = 0 in `parts.table`), the probabilities of a new task were 2.4 times too high on this stream.
    """
    rng, n, per_row = np.random.default_rng(1), 20_000, 5
    shared, own = rng.normal(0, 0.5, 60), rng.normal(0, 0.4, (400, 60))
    words = np.stack([rng.integers(12 * k, 12 * (k + 1), n) for k in range(per_row)], axis=1)
    rows = sparse.csr_matrix((np.ones(per_row * n), words.ravel(), np.arange(0, per_row * n + 1, per_row)), (n, 60))

    def truth(tasks):
        return 1 / (1 + np.exp(3.3 - shared[words].sum(1) - own[tasks[:, None], words].sum(1)))

    tasks = rng.integers(200, size=n)
    model = Budgetron().fit(rows, rng.random(n) < truth(tasks), tasks=tasks)
    said = model.predict_proba(rows, tasks=np.full(n, -1))[:, 1].mean()
    true = truth(rng.integers(200, 400, size=n)).mean()  # tasks that the model has not seen
    assert 0.6 < said / true < 1.7
