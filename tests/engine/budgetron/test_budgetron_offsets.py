"""Offsets, the scores of another model: both engines add them to f of every belief, to predict and to learn."""

from __future__ import annotations

import numpy as np
import pytest
from small_budgetrons import small_settings, small_stream

from budgetron.engine import native, reference

ENGINES = [reference.Engine, *([native.Engine] if native.available else [])]


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_core_equals_the_reference_with_offsets(is_sparse, n_outputs):
    settings = small_settings("complete", n_outputs=n_outputs, is_sparse=is_sparse, max_task_rows=3)
    X, codes, tasks = small_stream(80, classes=max(2, n_outputs), is_sparse=is_sparse)
    offsets = np.random.default_rng(1).normal(size=(80, n_outputs)) * 3
    offsets[7] = 1e6
    ids, clusters = settings.graph.locate(list(tasks))
    results = []
    for kind in ENGINES:
        engine = kind(settings)
        margins, flags = engine.learn(X, codes, ids, clusters, None, offsets)
        later = engine.margins(X[:9], ids[:9], clusters[:9], offsets=offsets[:9])
        explained = engine.query("explain", X[:9], ids[:9], clusters[:9], offsets=offsets[:9])
        assert np.array_equal(explained["margins"], np.ravel(later)) and np.isfinite(margins).all()
        results.append((margins, flags, later, explained["offsets"]))
    for first, other in zip(results[0], results[-1], strict=True):
        np.testing.assert_allclose(first, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ENGINES)
def test_a_new_model_predicts_the_offset(kind):
    """A new model has learned nothing, so its margin is the other model's score."""
    settings = small_settings("complete", max_task_rows=3)
    X, codes, tasks = small_stream(1)
    ids, clusters = settings.graph.locate(list(tasks))
    # The latent part starts from small random values, which add almost the same to every score.
    (own,), _ = kind(settings).learn(X, codes, ids, clusters)
    assert abs(own) < 0.05
    for score in (-3.0, 0.0, 2.0):
        (margin,), _ = kind(settings).learn(X, codes, ids, clusters, None, np.array([score]))
        assert margin - own == pytest.approx(score, abs=1e-3)


@pytest.mark.parametrize("kind", ENGINES)
def test_an_offset_of_zero_changes_nothing(kind):
    settings = small_settings("complete", max_task_rows=3)
    X, codes, tasks = small_stream(50)
    ids, clusters = settings.graph.locate(list(tasks))
    without = kind(settings).learn(X, codes, ids, clusters)[0]
    with_zeros = kind(settings).learn(X, codes, ids, clusters, None, np.zeros(50))[0]
    assert np.array_equal(without, with_zeros)


@pytest.mark.skipif(not native.available, reason="built without a compiler")
def test_the_core_refuses_wrong_offsets():
    engine = native.Engine(small_settings("complete", n_outputs=3))
    X, codes, tasks = small_stream(4, classes=3)
    ids, clusters = engine.settings.graph.locate(list(tasks))
    for wrong in (np.zeros(4), np.zeros(13), np.full(12, np.nan), np.full(12, np.inf)):
        with pytest.raises(ValueError, match="offset"):
            engine.learn(X, codes, ids, clusters, None, wrong)
    assert engine.n_seen == 0
