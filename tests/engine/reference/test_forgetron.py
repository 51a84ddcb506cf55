"""The Forgetron compared with its definition: φ by search, the rule in explicit feature space, invariance to scale."""

from __future__ import annotations

import numpy as np
import pytest

from budgetron import graphs
from budgetron.engine.reference.rules.forgetron import largest_phi

PATH = np.linalg.inv(np.eye(4) + np.array([[1, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 1.0]]))


def test_phi_is_the_largest_that_satisfies_the_inequality():
    rng = np.random.default_rng(1)
    grid = np.arange(1, 200_001) / 200_000
    below_one = 0
    for _ in range(200):
        c2, sigma, mu, M = rng.uniform(0.1, 3), rng.uniform(0.01, 1), rng.normal(), int(rng.integers(1, 50))
        Q = rng.uniform(-2, 15 / 32 * c2 * (M - 1))
        left = c2 * sigma**2 * grid**2 + 2 * c2 * sigma * grid - 2 * sigma * mu * grid**2 + Q
        feasible = grid[left <= 15 / 32 * c2 * M]
        searched = feasible.max() if feasible.size else 0.0
        phi = largest_phi(c2, sigma, sigma * mu, Q, M)
        assert searched - 1e-9 <= phi <= searched + 1 / 200_000
        below_one += phi < 1
    assert 20 < below_one < 180  # both branches occurred


def run_definition(X, codes, tasks, S, B, n_outputs):
    """Run the rule with explicit features and φ by bisection. Return margins, stored arrivals, their weights, and Q."""
    root = np.linalg.cholesky(S)
    features = [np.kron(root[i], x) for x, i in zip(X, tasks, strict=True)]
    c2 = S.diagonal().max() * (1 if n_outputs == 1 else 2)
    stored, beta, Q, M, margins = [], {}, 0.0, 0, []
    for t, code in enumerate(codes):
        f = sum((beta[j] * (features[j] @ features[t]) for j in stored), np.zeros(n_outputs))
        margins.append(f)
        if n_outputs == 1:
            y = 2 * code - 1
            if y * f[0] > 0:
                continue
            direction = np.array([float(y)])
        else:
            rival = max((c for c in range(n_outputs) if c != code), key=lambda c: (f[c], -c))
            if f[code] > f[rival]:
                continue
            direction = np.eye(n_outputs)[code] - np.eye(n_outputs)[rival]
        M += 1
        stored.append(t)
        beta[t] = direction
        if len(stored) > B:
            r = stored[0]
            at_r = sum(beta[j] * (features[j] @ features[r]) for j in stored)
            sigma = abs(beta[r]).max()
            mu = at_r @ np.sign(beta[r])

            def cost(phi, sigma=sigma, mu=mu):
                return c2 * (sigma * phi) ** 2 + 2 * c2 * sigma * phi - 2 * sigma * mu * phi**2

            low, high = 0.0, 1.0
            if Q + cost(1.0) <= 15 / 32 * c2 * M:
                low = 1.0
            else:
                for _ in range(100):
                    middle = (low + high) / 2
                    low, high = (middle, high) if Q + cost(middle) <= 15 / 32 * c2 * M else (low, middle)
            Q += cost(low)
            stored.pop(0)
            beta = {j: low * beta[j] for j in stored}
    return np.array(margins), stored, np.array([beta[j] for j in stored]).T, Q


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("B", [1, 7])
def test_the_forgetron_equals_the_rule_in_feature_space(run, stream, n_outputs, B):
    X, codes, tasks = stream(250, 5, n_tasks=4, n_classes=max(n_outputs, 2))
    model = run("forgetron", 5, graph=graphs.from_similarity(PATH), capacity=B, n_outputs=n_outputs)
    margins, _ = model.learn(X, codes, tasks)
    expected, stored, beta, Q = run_definition(X, codes, tasks, PATH, B, n_outputs)
    order = np.argsort(model.arrivals)
    assert margins.reshape(250, n_outputs) == pytest.approx(expected, abs=1e-10)
    assert sorted(model.arrivals) == stored
    assert model.coef[:, order] == pytest.approx(beta, abs=1e-10)
    assert model.engine.state()["q"] == pytest.approx(Q, abs=1e-9)
    assert beta.shape == (n_outputs, B) and abs(beta).min(initial=1) < 0.99


def test_the_scale_of_the_graph_changes_nothing(run, stream):
    X, codes, tasks = stream(300, 5, n_tasks=4)
    runs = [run("forgetron", 5, graph=graphs.from_similarity(scale * PATH), capacity=9) for scale in (1, 7.3)]
    (margins, flags), (scaled, scaled_flags) = [model.learn(X, codes, tasks) for model in runs]
    assert np.array_equal(flags, scaled_flags)
    assert scaled == pytest.approx(7.3 * margins, rel=1e-9, abs=1e-12)
    assert runs[1].coef == pytest.approx(runs[0].coef, rel=1e-9)
    assert runs[1].engine.state()["q"] == pytest.approx(7.3 * runs[0].engine.state()["q"])


def test_one_long_row_evicts_several_examples(run):
    # Orthonormal rows e0, e1, e2 (+), pool 4. A row of three non-zeros leaves space for one: e0 and e1 are evicted.
    # M = 4, σ = 2, σμ = 1·1 + 1·1 = 2: 4φ² + 4φ − 4φ² ≤ (15/32)·4, so φ = 15/32. It is the weight of e2 and of the
    # new example.
    model = run("forgetron", 8, sparse=True, capacity=10, pool=4)
    X = np.eye(8)[:4].copy()
    X[3] = [0, 0, 0, 1, 1, 1, 0, 0]
    model.learn(X, [1, 1, 1, 1])
    assert model.arrivals == [3, 2]  # appended in slot 3, moved to slot 0 when e0 was evicted; then e2 moved to slot 1
    assert model.coef[0] == pytest.approx([15 / 32, 15 / 32])
    assert model.engine.state()["q"] == pytest.approx(15 / 8)
