"""The calibration of the mixture's margins finds the scale and the offset of simulated labels."""

from __future__ import annotations

import numpy as np
import pytest

from budgetron.engine.reference.rules.budgetron.calibration import MAX_SCALE, MIN_SCALE, Calibration


def calibrated(margins, codes, omega=1.0):
    calibration = Calibration(margins.shape[1])
    for m, code in zip(margins, codes, strict=True):
        calibration.learn(m, calibration.margins(m), int(code), omega)
    return calibration


@pytest.mark.parametrize("scale", [0.6, 1.0, 1.7])
def test_the_scale_of_two_classes_is_found(scale):
    """Labels are drawn from probabilities whose logits are `scale` times the margins."""
    rng = np.random.default_rng(0)
    m = 2 * rng.normal(size=(6000, 1))
    codes = rng.random(6000) < 1 / (1 + np.exp(-scale * m[:, 0]))
    assert calibrated(m, codes).scale == pytest.approx(scale, abs=0.2)


@pytest.mark.parametrize("scale", [0.6, 1.7])
def test_the_scale_of_three_classes_is_found(scale):
    rng = np.random.default_rng(1)
    m = 2 * rng.normal(size=(6000, 3))
    m -= np.log(np.exp(m).sum(axis=1, keepdims=True))
    codes = (scale * m + rng.gumbel(size=m.shape)).argmax(axis=1)
    calibration = calibrated(m, codes)
    assert calibration.scale == pytest.approx(scale, abs=0.2)
    z = np.array([calibration.margins(row) for row in m[:50]])
    np.testing.assert_allclose(np.exp(z).sum(axis=1), 1.0, rtol=1e-12)


def test_calibration_finds_an_offset():
    """Doubling the odds of a class adds log 2 to its margin, which the offset learns."""
    rng = np.random.default_rng(2)
    m = 1.5 * rng.normal(size=(20_000, 1))
    codes = rng.random(20_000) < 1 / (1 + np.exp(-m[:, 0] - np.log(2)))
    assert calibrated(m, codes).offset[0] == pytest.approx(np.log(2), abs=0.2)


def test_no_example_moves_the_calibration_far():
    """The step is bounded for every margin and every weight of the example."""
    calibration = Calibration(1)
    calibration.learn(np.array([13.0]), calibration.margins(np.array([13.0])), 0, 1e9)
    assert 0.9 <= calibration.scale < 1 and abs(calibration.offset[0]) < 0.01
    for _ in range(1000):
        calibration.learn(np.array([13.0]), calibration.margins(np.array([13.0])), 0, 1e9)
    assert calibration.scale >= MIN_SCALE
    for _ in range(1000):
        calibration.learn(np.array([0.5]), calibration.margins(np.array([0.5])), 1, 1.0)
    assert calibration.scale <= MAX_SCALE
