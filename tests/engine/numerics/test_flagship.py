"""Budgetron's covariance M after long runs on near-duplicates: against a replay in long double, and against its bounds.

One kernel belief, all tasks pooled: f = U·k and V = kᵀMk are all there is, and the rule fits on a page.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_projections import GRAPH, KERNEL, N_FEATURES, fresh_delta2, kept_delta2, near_duplicates

from budgetron.engine import native
from budgetron.engine.settings import make_settings

pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")

S = 10.0  # the belief's prior scale
ETAS = [1e-1, 1e-2, 1e-3]  # Budgetron accepts no smaller one


def engine_of(capacity, eta):
    extra = {
        "beliefs": [(0.0, 0.0, S, 0.0, 0.0)], "shared": True, "own": False, "own_rank": 0, "slots": 0,
        "patience": 10_000, "whole": False, "sure": 0.0,
    }  # fmt: skip
    settings = make_settings(
        rule="budgetron", kernel=KERNEL, graph=GRAPH, n_features=N_FEATURES, capacity=capacity, eta=eta, **extra
    )
    return native.Engine(settings)


def run(engine, X, y):
    zeros = np.zeros(len(X), dtype=np.int64)
    margins, _ = engine.learn(X, y.astype(np.int32), zeros, zeros)
    assert np.isfinite(margins).all()
    return margins


def covariance(state):
    n = len(state["key"])
    M = np.zeros((n, n))
    M[np.tril_indices(n)] = np.asarray(state["m"]).ravel()
    return M + np.tril(M, -1).T


def inverse(H):
    """H⁻¹ in long double, by Cholesky."""
    n = len(H)
    L, X = H.copy(), np.eye(n, dtype=np.longdouble)
    for j in range(n):
        L[j:, j] = (L[j:, j] - L[j:, :j] @ L[j, :j]) / np.sqrt(L[j, j] - L[j, :j] @ L[j, :j])
        X[j] = (X[j] - L[j, :j] @ X[:j]) / L[j, j]
    return X.T @ X


def replay(engine, X, y, eta, capacity):
    """The rule in long double beside the engine, P made afresh at every step; U and M in slot order.

    Who is evicted is read off the engine, and must be one of the cheapest: two may be so alike that rounding decides.
    """
    long = np.longdouble
    rows = np.empty((0, N_FEATURES), dtype=long)
    U, M = np.zeros(0, dtype=long), np.zeros((0, 0), dtype=long)
    gram = lambda a, b: np.exp(-((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2))  # noqa: E731
    for t, (x, label) in enumerate(zip(X.astype(long)[:, None, :], y, strict=True)):
        before = engine.active()["arrival"]
        run(engine, X[t : t + 1], y[t : t + 1])
        after = engine.active()["arrival"]
        k = gram(rows, x)[:, 0]
        sign, f = 2 * int(label) - 1, U @ k
        alpha = inverse(gram(rows, rows)) @ k if len(rows) else k
        delta2 = max(long(1) - k @ alpha, long(0))
        wanted = sign * f <= 0 or (len(rows) < capacity and sign * f < 1)
        assert (t in after) == (wanted and delta2 > long(eta) ** 2)
        if t in after:
            e = np.append(-alpha, 1)
            rows, U = np.concatenate([rows, x]), np.append(U, 0)
            M = np.pad(M, (0, 1)) + S * np.outer(e, e) / delta2
            if len(rows) > capacity:
                r = int(np.flatnonzero(before != after)[0])
                P = inverse(gram(rows, rows))
                score = ((U**2 + np.diag(M)) / np.diag(P))[:-1]
                assert score[r] <= score.min() * (1 + 1e-3)
                gamma = -P[r] / P[r, r]
                gamma[r] = 0
                M = M + np.outer(gamma, M[r]) + np.outer(M[r], gamma) + np.outer(gamma, gamma) * M[r, r]
                U = U + U[r] * gamma
                order = np.arange(capacity)
                order[r] = capacity  # the new example takes the slot
                rows, U, M = rows[order], U[order], M[np.ix_(order, order)]
            k, delta2 = gram(rows, x)[:, 0], long(0)
            f = U @ k
        Mk = M @ k
        v = max(k @ Mk, long(0)) + S * delta2
        p = 1 / (1 + np.exp(-f))
        g, h = label - p, p * (1 - p)
        if abs(g) * v >= 1e-3:
            U = U + g / (1 + h * v) * Mk
            M = M - h / (1 + h * v) * np.outer(Mk, Mk)
    return U, M


@pytest.mark.parametrize("eta", ETAS)
def test_covariance_equals_a_replay_in_long_double(eta):
    rng = np.random.default_rng(1)
    X, y = near_duplicates(rng, 500, eta), rng.integers(2, size=500)
    engine = engine_of(12, eta)
    U, M = replay(engine, X, y, eta, 12)
    state = engine.state()
    probes = KERNEL(near_duplicates(rng, 40, eta), state["rows"])
    spread = np.einsum("ij,jk,ik->i", probes, covariance(state), probes)
    assert np.abs(spread - np.einsum("ij,jk,ik->i", probes, M, probes)).max() < 1e-6
    assert np.abs(probes @ np.asarray(state["u"]).ravel() - probes @ U).max() < 1e-6


def examine(engine, rng, eta):
    """Error of δ² over probes; and how far M leaves 0 ≼ M ≼ sP, in the coordinates where sP is s times the identity."""
    state = engine.state()
    H = KERNEL(state["rows"], state["rows"])
    k = KERNEL(near_duplicates(rng, 60, eta), state["rows"])
    delta2_error = np.abs(kept_delta2(state, k, 1.0) - fresh_delta2(H, k, 1.0)).max()
    spread = np.einsum("ij,jk,ik->i", k, covariance(state), k)
    prior = S * (1.0 - fresh_delta2(H, k, 1.0))
    return delta2_error, max(-spread.min(), (spread - prior).max())


@pytest.mark.parametrize("eta", ETAS)
def test_near_duplicates(eta):
    rng = np.random.default_rng(2)
    engine = engine_of(40, eta)
    for _ in range(8):
        run(engine, near_duplicates(rng, 500, eta), rng.integers(2, size=500))
    delta2_error, outside = examine(engine, rng, eta)
    assert delta2_error < 1e-6 and outside < 1e-6


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("capacity", "updates"), [(200, 10**6), (2000, 10**4)])
@pytest.mark.parametrize("eta", ETAS)
def test_near_duplicates_in_full(eta, capacity, updates):
    rng = np.random.default_rng(3)
    engine = engine_of(capacity, eta)
    for _ in range(updates // 500):
        run(engine, near_duplicates(rng, 500, eta), rng.integers(2, size=500))
    delta2_error, outside = examine(engine, rng, eta)
    assert delta2_error < 1e-6 and outside < 1e-6
