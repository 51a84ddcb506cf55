"""The whole covariance of Budgetron's shared linear part, on columns that are nearly copies of each other.

One linear belief, all tasks pooled. What the engine keeps by rank-one steps is the inverse of a sum,

    Σ = (I/s + Σ_t h_t z_t z_tᵀ)⁻¹,   h = p(1 − p),

which is made here in long double from the margins that the engine gave.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_flagship import inverse
from test_projections import GRAPH

from budgetron.engine import native
from budgetron.engine.records import Outcome
from budgetron.engine.settings import make_settings

pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")

D, S = 6, 3.0


def engine():
    extra = {
        "beliefs": [(S, 0.0, 0.0, 0.0, 0.0)], "shared": True, "own": False, "own_rank": 0, "slots": 0,
        "patience": 10_000, "whole": True, "sure": 0.0,
    }  # fmt: skip
    return native.Engine(make_settings(rule="budgetron", kernel=None, graph=GRAPH, n_features=D, capacity=1, **extra))


def features(X):
    """z of every row: scaled by the rows before it, as `reference/budgetron/dense.py` has it."""
    mean, m2 = np.zeros(D), np.zeros(D)
    Z = np.ones((len(X), D + 1))
    for n, x in enumerate(X):
        with np.errstate(invalid="ignore", divide="ignore"):
            z = np.clip((x - mean) / np.sqrt(m2 / n), -3, 3) / np.sqrt(D)
        Z[n, :D] = np.where(m2 > 0, z, 0.0)
        far = np.where(m2 > 0, 10 * np.sqrt(m2 / max(n - 1, 1)), np.inf)
        away = np.clip(x, mean - far, mean + far) - mean
        mean, m2 = mean + away / (n + 1), m2 + away * away * n / (n + 1)
    return Z


def examine(updates):
    rng = np.random.default_rng(0)
    common = rng.standard_normal((updates, 2))
    X = common[:, np.arange(D) % 2] + 1e-3 * rng.standard_normal((updates, D))
    y = (common[:, 0] + 0.5 * rng.standard_normal(updates) > 0).astype(np.int32)
    zeros = np.zeros(updates, dtype=np.int64)
    one = engine()
    margins, flags = one.learn(X, y, zeros, zeros)
    learned = (np.asarray(flags) & Outcome.UPDATED.value) != 0
    Z = features(X)[learned].astype(np.longdouble)
    p = 1 / (1 + np.exp(-np.asarray(margins)[learned].astype(np.longdouble)))
    precision = np.eye(D + 1) / np.longdouble(S) + (Z * (p * (1 - p))[:, None]).T @ Z
    packed = np.asarray(one.state()["linear_covariance"]).ravel()
    Sigma = np.zeros((D + 1, D + 1))
    Sigma[np.tril_indices(D + 1)] = packed
    Sigma = Sigma + np.tril(Sigma, -1).T
    return Sigma, inverse(precision), int(learned.sum())


def test_rank_one_steps_are_the_inverse_of_the_sum():
    Sigma, expected, n_learned = examine(3_000)
    assert n_learned > 1_000
    assert np.abs(Sigma - expected).max() < 1e-9 * S


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_rank_one_steps_are_the_inverse_of_the_sum_in_full():
    Sigma, expected, n_learned = examine(10**6)
    assert n_learned > 10**4
    assert np.abs(Sigma - expected).max() < 1e-6 * S
    assert np.linalg.eigvalsh(Sigma).min() > 0
