"""Projections compared with least squares in explicit feature space (linear kernel), and which example is evicted:
tied scores, budgets in bytes, and near duplicates."""

from __future__ import annotations

import numpy as np
import pytest

from budgetron import graphs
from budgetron.engine.records import Outcome
from budgetron.engine.reference.gram import Gram, cheapest

# The similarity matrix A⁻¹ of the tasks on a path graph.
SIMILARITY = np.linalg.inv(np.eye(4) + np.array([[1, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 1.0]]))


def least_squares(basis, targets):
    """Coefficients of the projections of the rows of `targets` on the rows of `basis`, and the residuals."""
    if not len(basis):
        return np.zeros((len(targets), 0)), targets
    solution = np.linalg.lstsq(np.asarray(basis).T, targets.T, rcond=None)[0].T
    return solution, targets - solution @ basis


def test_alpha_and_delta_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    stored, x = rng.normal(size=(5, 9)), rng.normal(size=9)
    gram = Gram(noise=0.0)
    for n in range(5):
        gram.append(stored[:n] @ stored[n], stored[n] @ stored[n])
    alpha, delta2 = gram.project(stored @ x, x @ x)
    expected, residual = least_squares(stored, x[None])
    assert alpha == pytest.approx(expected[0])
    assert delta2 == pytest.approx((residual**2).sum())
    for x in rng.normal(size=(50, 5)) @ stored:  # in the span: the distance is 0, and never negative
        assert 0 <= gram.project(stored @ x, x @ x)[1] < 1e-12


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_every_step_of_budget_projectron(run, stream, n_outputs):
    """A projection loses exactly the residual of least squares. Each eviction changes the weights least of all."""
    n, B, eta = 220, 10, 0.25
    X, codes, tasks = stream(n, 6, n_tasks=4, n_classes=max(n_outputs, 2))
    features = np.array([np.kron(np.linalg.cholesky(SIMILARITY)[i], x) for x, i in zip(X, tasks, strict=True)])
    graph = graphs.from_similarity(SIMILARITY)
    model = run("budget_projectron", 6, graph=graph, capacity=B, eta=eta, n_outputs=n_outputs)
    counts = {"projected": 0, "evicted": 0}
    W = np.zeros((n_outputs, features.shape[1]))
    stored: list[int] = []
    for t in range(n):
        beta = model.coef
        margins, flags = model.learn(X[t:t + 1], codes[t:t + 1], tasks[t:t + 1])
        f = W @ features[t]
        assert margins.reshape(-1) == pytest.approx(f, abs=1e-9)
        if not flags[0] & Outcome.UPDATED:
            continue
        if n_outputs == 1:
            y = np.array([2.0 * codes[t] - 1])
        else:
            rivals = np.where(np.arange(n_outputs) == codes[t], -np.inf, f)
            y = np.eye(n_outputs)[codes[t]] - np.eye(n_outputs)[np.argmax(rivals)]
        _, residual = least_squares(features[stored], features[t:t + 1])
        assert bool(flags[0] & Outcome.STORED) == (np.linalg.norm(residual) > eta)
        W = W + np.outer(y, features[t])
        if not flags[0] & Outcome.STORED:
            W = W - np.outer(y, residual[0])
            counts["projected"] += 1
        elif len(stored) == B:
            candidates = [*stored, t]
            losses = {}
            for slot, r in enumerate(stored):
                _, residual = least_squares(features[[j for j in candidates if j != r]], features[r:r + 1])
                losses[r] = np.outer(beta[:, slot], residual[0])
            r = min(stored, key=lambda r: np.linalg.norm(losses[r]))
            W = W - losses[r]
            stored[stored.index(r)] = t
            counts["evicted"] += 1
        else:
            stored.append(t)
        assert model.arrivals == stored
        assert model.coef @ features[stored] == pytest.approx(W, abs=1e-8)
    assert min(counts.values()) > 10


def test_scores_are_tied_within_1e_10():
    arrival, P = np.array([7, 3, 1]), np.diag([1.0, 4.0, 1.0])
    assert cheapest(np.array([1, 2 * (1 + 0.9e-10), 5]), P, arrival) == 1
    assert cheapest(np.array([1, 2 * (1 + 1.1e-10), 5]), P, arrival) == 0


def test_ties_go_to_the_lowest_arrival(run):
    # With orthonormal rows and weights of equal size, every eviction score is exactly 1, so all are tied.
    model = run("budget_projectron", 12, capacity=3, eta=0.1)
    arrivals = []
    for t in range(9):
        model.learn(np.eye(12)[t:t + 1], [t % 2])
        arrivals.append(model.arrivals)
    assert arrivals[2:] == [[0, 1, 2], [3, 1, 2], [3, 4, 2], [3, 4, 5], [6, 4, 5], [6, 7, 5], [6, 7, 8]]


@pytest.mark.parametrize("rule", ["budget_projectron", "shared_projectron"])
def test_the_pool_is_freed_by_projection_before_a_new_example_is_stored(run, rule):
    # Stored, all positive: a = (1,0,0,…), b = (−1,1,0,…), c = (0,0,1,…). They have 4 non-zeros, in a pool of 6.
    # The new example (0,0,0,1,1,1), also positive, would make 7.
    # dist(a, span{b, c}) = 1/√2; dist(b, span{a, c}) = dist(c, span{a, b}) = 1. All |β| are 1, so a is evicted. Its
    # projection is ⟨a,b⟩/‖b‖² b = −½b, so b is left with ½. Then 3 + 3 non-zeros fit.
    model = run(rule, 6, sparse=True, capacity=9, pool=6, eta=0.01)
    X = [[1, 0, 0, 0, 0, 0], [-1, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]
    _, flags = model.learn(X, [1, 1, 1, 1])
    assert flags.tolist() == [Outcome.MISTAKE | Outcome.UPDATED | Outcome.STORED] * 4
    assert model.arrivals == [2, 1, 3]  # c, in the last slot, moved into the slot of a; the new one was appended
    assert model.coef[0] == pytest.approx([1, 0.5, 1])


@pytest.mark.parametrize("eta", [0.0, 1e-7])
@pytest.mark.parametrize("rule", ["budget_projectron", "shared_projectron"])
def test_near_duplicates_give_no_nan(run, rule, eta):
    rng = np.random.default_rng(3)
    X = np.repeat(rng.normal(size=(6, 3)), 30, axis=0) + 1e-8 * rng.normal(size=(180, 3))
    model = run(rule, 3, capacity=5, eta=eta)
    margins, _ = model.learn(rng.permutation(X), rng.integers(2, size=180))
    assert np.isfinite(margins).all() and np.isfinite(model.coef).all()
    assert model.engine.n_stored <= 5
