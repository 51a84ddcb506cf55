"""Long runs on near-duplicates: the inverse or factor of the Gram matrix H that a learner updates stays accurate.

δ² = K_tt − kᵀH⁻¹k of probes is computed from the updated inverse or factor, and from scratch. Margins are compared with
those computed from the weights. The last test is about rows that are huge, tiny or equal.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from budgetron import graphs, kernels
from budgetron.engine import native
from budgetron.engine.settings import make_settings

pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")

KERNEL = kernels.Gaussian(gamma=1.0)
GRAPH = graphs.complete()
RULES = ["budget_projectron", "shared_projectron"]
ETAS = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5]
N_FEATURES, N_TASKS, BLOCK = 6, 5, 500


def engine_of(rule, capacity, eta, n_outputs=1):
    settings = make_settings(
        rule=rule, kernel=KERNEL, graph=GRAPH, n_features=N_FEATURES, capacity=capacity, eta=eta, n_outputs=n_outputs
    )
    return native.Engine(settings)


def near_duplicates(rng, n, eta):
    """Return points so near to each other that δ is about η, whatever is stored. Condition numbers are up to B/η².

    No point is far from the others: far points would stay stored, and the other points would be evicted one by one.
    """
    X = rng.normal(size=(n, N_FEATURES))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X *= np.exp(rng.uniform(np.log(2 * eta ** (1 / 2)), np.log(1.5 * eta ** (1 / 4)), size=(n, 1)))
    return X


def run(engine, updates, eta, seed=0):
    """Learn random labels, half of which are mistakes, until there were `updates` updates. Return the generator."""
    rng = np.random.default_rng(seed)
    n_updates = 0
    while n_updates < updates:
        X = near_duplicates(rng, BLOCK, eta)
        task_ids = rng.integers(N_TASKS, size=BLOCK)
        codes = rng.integers(2, size=BLOCK).astype(np.int32)
        margins, flags = engine.learn(X, codes, task_ids, np.zeros_like(task_ids))
        assert np.isfinite(margins).all()
        n_updates += int((flags & 2 > 0).sum())
    return rng


def updated_delta2(state, k, k_tt):
    """Return δ² of each row of k, from the inverse or the factor that the engine has updated step by step."""
    n = len(state["key"])
    triangle = np.zeros((n, n))
    triangle[np.tril_indices(n)] = state["inverse" if "inverse" in state else "factor"]
    if "inverse" in state:
        P = triangle + np.tril(triangle, -1).T
        return k_tt - np.einsum("ij,jk,ik->i", k, P, k)
    half = solve_triangular(triangle, k[:, state["factor_order"].astype(int)].T, lower=True)
    return k_tt - (half**2).sum(axis=0)


def fresh_delta2(H, k, k_tt):
    """Return δ² of each row of k, from scratch by Cholesky in long double (on x86, 11 bits more than double)."""
    n = len(H)
    L, b = np.array(H, dtype=np.longdouble), np.array(k.T, dtype=np.longdouble)
    for j in range(n):
        L[j:, j] = (L[j:, j] - L[j:, :j] @ L[j, :j]) / np.sqrt(L[j, j] - L[j, :j] @ L[j, :j])
        b[j] = (b[j] - L[j, :j] @ b[:j]) / L[j, j]
    return np.asarray(k_tt - (b**2).sum(axis=0), dtype=np.float64)


def exact_kernel(a, b):
    """Return the kernel in long double. In double, such an ill-conditioned Gram matrix may not be positive definite."""
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    return np.exp(-sum((a[:, None, f] - b[None, :, f]) ** 2 for f in range(N_FEATURES)))


def measure_errors(engine, rng, eta):
    """Return the largest error of δ² and of margins over probes, and the condition number of H."""
    active = engine.active()
    rows, task_ids = active["rows"], active["key"]
    probes = near_duplicates(rng, 60, eta)
    similar = np.ones((60, len(rows))), np.ones((len(rows), len(rows)))
    tasks = rng.integers(N_TASKS, size=60)
    if engine.settings.rule == "budget_projectron":
        similar = np.where(tasks[:, None] == task_ids, 1.0, 0.5), np.where(task_ids[:, None] == task_ids, 1.0, 0.5)
    k, H = exact_kernel(probes, rows) * similar[0], exact_kernel(rows, rows) * similar[1]
    errors = np.abs(updated_delta2(engine.state(), k.astype(np.float64), 1.0) - fresh_delta2(H, k, 1.0))
    margins = engine.margins(probes, tasks, np.zeros_like(tasks))
    weights = np.stack([engine.task_weights(int(task), 0)[0] for task in tasks])
    expected = (KERNEL(probes, rows) * weights).sum(axis=1)
    return errors.max(), np.abs(margins - expected).max(), np.linalg.cond(H.astype(np.float64))


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("rule", RULES)
def test_projections_of_near_duplicates_stay_accurate(rule, eta):
    engine = engine_of(rule, 40, eta)
    delta2_error, margin_error, _ = measure_errors(engine, run(engine, 4000, eta), eta)
    assert delta2_error < 1e-6 and margin_error < 1e-6
    assert delta2_error < eta**2 / 100, "the error of δ² is too large to compare δ² with η²"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("capacity", "updates"), [(200, 10**6), (2000, 10**4)])
@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("rule", RULES)
def test_projections_of_near_duplicates_stay_accurate_with_large_budgets(rule, eta, capacity, updates):
    engine = engine_of(rule, capacity, eta)
    delta2_error, margin_error, _ = measure_errors(engine, run(engine, updates, eta), eta)
    assert delta2_error < 1e-6 and margin_error < 1e-6


def test_the_streams_are_ill_conditioned():
    engine = engine_of("shared_projectron", 40, 1e-5)
    _, _, condition = measure_errors(engine, run(engine, 4000, 1e-5), 1e-5)
    assert condition > 1e8


@pytest.mark.parametrize("eta", [1e-1, 1e-5])
@pytest.mark.parametrize("rule", RULES)
def test_the_matrix_stays_accurate_when_tasks_are_forgotten(rule, eta):
    engine = engine_of(rule, 40, eta)
    for seed in range(10):
        rng = run(engine, 300, eta, seed)
        engine.forget(seed % N_TASKS)
        if engine.n_stored:
            delta2_error, margin_error, _ = measure_errors(engine, rng, eta)
            assert delta2_error < 1e-6 and margin_error < 1e-6


@pytest.mark.parametrize("scale", [1e-160, 1e-30, 1.0, 1e30, 1e70])
@pytest.mark.parametrize("rule", ["perceptron", "random_budget_perceptron", "forgetron", *RULES])
@pytest.mark.parametrize(
    "kernel", [kernels.Linear(), kernels.Linear(normalize=True), kernels.Gaussian(0.5), kernels.Polynomial(2)], ids=str
)
def test_margins_of_huge_tiny_and_equal_rows_are_finite(rule, kernel, scale):
    """Every accepted row has finite margins."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, N_FEATURES)) * scale
    X[rng.random(300) < 0.2] = X[0]
    X[rng.random(300) < 0.1] = 0.0
    X[7] *= 1e-10
    capacity, eta = None if rule == "perceptron" else 20, {"eta": 0.01} if rule in RULES else {}
    settings = make_settings(rule=rule, kernel=kernel, graph=GRAPH, n_features=N_FEATURES, capacity=capacity, **eta)
    engine = native.Engine(settings)
    if engine.first_bad_row(X) is not None:
        assert scale >= 1e70
        return
    task_ids = rng.integers(N_TASKS, size=300)
    margins, _ = engine.learn(X, rng.integers(2, size=300).astype(np.int32), task_ids, np.zeros_like(task_ids))
    assert np.isfinite(margins).all()
    assert np.isfinite(engine.margins(X, task_ids, np.zeros_like(task_ids))).all()
