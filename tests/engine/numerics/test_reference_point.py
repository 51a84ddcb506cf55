"""The Gaussian kernel is accurate on features that are far from 0: a reference point is subtracted from the rows.

The columns of `stream` have mean ±`ratio` and, unless a test sets it, spread 1. They are rounded to float32, so that
both precisions see the same rows, and the float32 run can be compared with the float64 run.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import budgetron
from budgetron import graphs, kernels
from budgetron.engine import native, reference
from budgetron.engine.memory import bytes_of
from budgetron.engine.records import Outcome
from budgetron.engine.settings import make_settings

needs_core = pytest.mark.skipif(not native.available, reason="built without a compiler")
ENGINES = [pytest.param(native.Engine, marks=needs_core), reference.Engine]
RULES = ["perceptron", "random_budget_perceptron", "forgetron", "budget_projectron", "shared_projectron"]
PROJECTING = RULES[3:]
RATIOS = [0.0, 10.0, 100.0, 1e3, 1e4]
D, N_TASKS = 6, 3
GAMMA = 0.5 / D


def settings_of(rule, dtype, capacity=25, eta=0.1, gamma=GAMMA, kernel=None, is_sparse=False, n_features=D):
    return make_settings(
        rule=rule, kernel=kernels.Gaussian(gamma) if kernel is None else kernel, graph=graphs.complete(),
        n_features=n_features, sparse=is_sparse, dtype=dtype, capacity=None if rule == "perceptron" else capacity,
        **({"eta": eta} if rule in PROJECTING else {}),
    )  # fmt: skip


def stream(n, ratio, seed=0, spread=1.0):
    """Return float32 rows with column means ±`ratio` and this spread, codes (a tenth of them flipped), and tasks."""
    rng = np.random.default_rng(seed)
    Z, task_ids = rng.normal(size=(n, D)), rng.integers(N_TASKS, size=n)
    concept = rng.normal(size=(N_TASKS, D))
    flip = rng.random(n) < 0.1
    codes = ((np.sin((Z * concept[task_ids]).sum(axis=1)) > 0) ^ flip).astype(np.int32)
    mean = ratio * np.where(np.arange(D) % 2, 1.0, -1.0)
    return (spread * Z + mean).astype(np.float32), codes, task_ids


def learn(engine, X, codes, task_ids):
    margins, flags = engine.learn(X.astype(engine.settings.dtype), codes, task_ids, np.zeros_like(task_ids))
    return margins, flags


def count_mistakes(flags):
    return int((flags & Outcome.MISTAKE > 0).sum())


def count_rebuilds(engine):
    return int(np.asarray(engine.state().get("gram_rebuilds", [0]))[0])


@needs_core
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("rule", RULES)
def test_float32_is_near_float64(rule, ratio):
    data = stream(900, ratio)
    single, double = (native.Engine(settings_of(rule, dtype)) for dtype in ("float32", "float64"))
    (f, flags), (g, flags64) = learn(single, *data), learn(double, *data)
    assert abs(count_mistakes(flags) - count_mistakes(flags64)) <= 0.01 * len(flags)
    assert np.abs(f).max() <= 2 * np.abs(g).max()
    assert np.median(np.abs(f - g)) < 1e-3
    assert count_rebuilds(single) <= 2 and count_rebuilds(double) <= 2


@needs_core
@pytest.mark.parametrize("eta", [0.0, 1e-3, 0.02])
@pytest.mark.parametrize("ratio", [0.0, 1e3, 1e4])
@pytest.mark.parametrize("rule", PROJECTING)
def test_a_small_eta_with_float32_rows_gives_finite_margins(rule, ratio, eta):
    """With near-duplicates in float32, a computed δ² may be nothing but rounding error.

    If η is small, such a δ² may still be above η². A division by it would give huge margins.
    """
    X, codes, task_ids = stream(1500, ratio, seed=1, spread=0.3)
    X[1::3] = X[::3]  # duplicates
    X[2::3] = (X[::3] + 1e-3 * np.sign(X[::3])).astype(np.float32)
    engine = native.Engine(settings_of(rule, "float32", eta=eta))
    margins, flags = learn(engine, X, codes, task_ids)
    assert np.isfinite(margins).all() and np.abs(margins).max() < 100
    assert count_rebuilds(engine) <= 1 + len(X) // 25, "the Gram matrix is rebuilt too often"
    margins64, _ = learn(native.Engine(settings_of(rule, "float64", eta=max(eta, 2**-8))), X, codes, task_ids)
    assert count_mistakes(flags) <= 1.1 * (np.sign(margins64) != np.where(codes, 1, -1)).sum() + 20


@needs_core
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("ratio", [0.0, 100.0, 1e4])
@pytest.mark.parametrize("rule", RULES)
def test_the_core_equals_the_reference_on_shifted_rows(rule, ratio, dtype):
    X, codes, task_ids = stream(220, ratio, seed=2)
    core, definition = (kind(settings_of(rule, dtype, capacity=12)) for kind in (native.Engine, reference.Engine))
    (f, flags), (g, expected) = learn(core, X, codes, task_ids), learn(definition, X, codes, task_ids)
    tolerance = 1e-7 if dtype == "float64" else 2e-4
    assert np.abs(f - g).max() < tolerance
    assert (flags == expected).all()
    for name in ("reference", "reference_candidate", "reference_streak", "reference_moves"):
        assert np.array_equal(core.state().get(name, 0), definition.state().get(name, 0)), name
    assert np.array_equal(core.active()["rows"], definition.active()["rows"])


@pytest.mark.parametrize("kind", ENGINES)
def test_float64_rows_far_from_zero_keep_their_accuracy(kind):
    """With a mean of about 1e8 and spread 1, even float64 leaves half a digit of ‖x − y‖² without a reference point."""
    rng = np.random.default_rng(0)
    Z = np.round(rng.normal(size=(150, D)) * 2**16) / 2**16  # rounded, so that adding the mean 2²⁶ is exact
    codes, task_ids = (Z[:, 0] * Z[:, 1] > 0).astype(np.int32), np.zeros(150, dtype=np.int64)
    near, far = (kind(settings_of("budget_projectron", "float64")) for _ in range(2))
    f, g = learn(near, Z, codes, task_ids)[0], learn(far, Z + 2.0**26, codes, task_ids)[0]
    assert far.state()["reference_moves"] == 1 and np.abs(f - g).max() < 1e-6


@pytest.mark.parametrize("huge", [1e18, -3e4, 0.0])
@pytest.mark.parametrize("kind", ENGINES)
def test_a_row_of_huge_values_does_not_become_the_reference_point(kind, huge):
    for index in (0, 1, 7):
        X, codes, task_ids = stream(160, 1e3, seed=4)
        X[index] = huge
        single, double = (kind(settings_of("budget_projectron", dtype)) for dtype in ("float32", "float64"))
        f, g = learn(single, X, codes, task_ids)[0], learn(double, X, codes, task_ids)[0]
        assert np.abs(f - g)[3:].max() < 1e-3, "margins differ after two consecutive normal rows"
        assert np.abs(np.abs(single.state()["reference"]) - 1e3).max() < 10


@pytest.mark.parametrize("kind", ENGINES)
def test_rows_near_0_have_no_reference_point(kind):
    X, codes, task_ids = stream(100, 0.0)
    X[50] = 1e4  # one far row is a candidate until the next row
    engine = kind(settings_of("random_budget_perceptron", "float32"))
    learn(engine, X[:51], codes[:51], task_ids[:51])
    assert engine.state()["reference_streak"] == 1 and engine.state()["reference_moves"] == 0
    learn(engine, X[51:], codes[51:], task_ids[51:])
    assert "reference" not in engine.state()


@pytest.mark.parametrize("kernel", [kernels.Linear(1.0), kernels.Polynomial(2), None], ids=["linear", "poly", "sparse"])
@pytest.mark.parametrize("kind", ENGINES)
def test_other_kernels_and_sparse_rows_are_not_shifted(kind, kernel):
    X, codes, task_ids = stream(60, 100.0)
    is_sparse = kernel is None
    engine = kind(settings_of("random_budget_perceptron", "float32", kernel=kernel, is_sparse=is_sparse))
    rows = sparse.csr_matrix(X) if is_sparse else X
    engine.learn(rows, codes, task_ids, np.zeros_like(task_ids))
    assert "reference" not in engine.state()
    stored = engine.active()["rows"]
    assert np.array_equal(stored.toarray() if is_sparse else stored, X[engine.active()["arrival"]])


@needs_core
def test_sparse_float32_rows_far_from_zero_are_accurate():
    """Inner products of sparse rows are summed in double, so they need no reference point at these ratios."""
    X, codes, task_ids = stream(600, 1e3)
    single = native.Engine(settings_of("budget_projectron", "float32", is_sparse=True))
    f, _ = single.learn(sparse.csr_matrix(X), codes, task_ids, np.zeros_like(task_ids))
    g, _ = learn(native.Engine(settings_of("budget_projectron", "float64")), X, codes, task_ids)
    assert np.abs(f - g).max() < 1e-5


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ENGINES)
def test_block_sizes_and_restarts_do_not_change_the_reference_point(kind, rule):
    X, codes, task_ids = stream(180, 1e3, seed=5)
    X[[0, 60]] = 7e6
    X[90:] -= 5e3  # the stream moves elsewhere
    whole = kind(settings_of(rule, "float32"))
    f, _ = learn(whole, X, codes, task_ids)
    cut, parts = kind(settings_of(rule, "float32")), []
    for at in range(0, 180, 7):
        parts.append(learn(cut, X[at : at + 7], codes[at : at + 7], task_ids[at : at + 7])[0])
        if kind is native.Engine:  # NumPy recomputes the Gram matrix at a restart, which may round differently
            cut = kind.restore(cut.settings, cut.state())
    assert np.array_equal(np.concatenate(parts), f)
    assert whole.state()["reference_moves"] >= 2
    for name, values in whole.state().items():
        assert np.array_equal(values, cut.state()[name]), name


def test_a_loaded_model_continues_with_its_reference_point(tmp_path):
    X, codes, task_ids = stream(200, 1e3, seed=6)
    model = budgetron.BudgetProjectron(20, kernels.Gaussian(GAMMA))
    model.partial_fit(X[:100], codes[:100], tasks=task_ids[:100])
    model.save(tmp_path / "model.budgetron")
    loaded = budgetron.load(tmp_path / "model.budgetron")
    assert np.array_equal(model.active_set_.rows, loaded.active_set_.rows)
    margins = loaded.predict_then_learn(X[100:], codes[100:], tasks=task_ids[100:])
    assert np.array_equal(model.predict_then_learn(X[100:], codes[100:], tasks=task_ids[100:]), margins)


@pytest.mark.parametrize("engine", [pytest.param("auto", marks=needs_core), "numpy"])
def test_stored_rows_are_shown_without_the_shift(engine):
    X, codes, task_ids = stream(120, 1e3, seed=7)
    model = budgetron.RandomBudgetPerceptron(30, kernels.Gaussian(GAMMA), engine=engine)
    model.partial_fit(X, codes, tasks=task_ids)
    active = model.active_set_
    assert active.rows.dtype == np.float32
    assert np.array_equal(active.rows, X[active.arrival]), "the shift has changed a row"


@needs_core
def test_an_alternating_stream_moves_the_point_rarely():
    X, codes, task_ids = stream(4000, 0.0, seed=8)
    X[np.arange(4000) // 8 % 2 == 1] += 1e3
    engine = native.Engine(settings_of("budget_projectron", "float32"))
    margins, _ = learn(engine, X, codes, task_ids)
    assert engine.state()["reference_moves"] <= 3 and np.abs(margins).max() < 100


@needs_core
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_memory_bytes_include_the_reference_point(dtype):
    plain = settings_of("random_budget_perceptron", dtype, capacity=64, kernel=kernels.Linear(), n_features=500)
    centred = settings_of("random_budget_perceptron", dtype, capacity=64, n_features=500)
    more = native.Engine(centred).memory_bytes() - native.Engine(plain).memory_bytes()
    row = 500 * np.dtype(dtype).itemsize
    assert more >= 2 * row, "the point and its candidate are not counted"
    assert bytes_of(centred) - bytes_of(plain) >= more


@needs_core
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1.0, 1e6, 1e17])
@pytest.mark.parametrize("rule", RULES)
def test_margins_of_huge_tiny_and_equal_float32_rows_are_finite(rule, scale):
    """Every accepted row has finite margins."""
    X, codes, task_ids = stream(300, 0.0, seed=9)
    X = (X.astype(np.float64) * scale).astype(np.float32)
    X[::5] = X[0]
    X[3::7] = 0.0
    engine = native.Engine(settings_of(rule, "float32", eta=0.0))
    assert engine.first_bad_row(X) is None
    margins, _ = learn(engine, X, codes, task_ids)
    assert np.isfinite(margins).all() and np.isfinite(engine.margins(X, task_ids, np.zeros_like(task_ids))).all()


@pytest.mark.parametrize("kind", ENGINES)
def test_rows_too_large_for_float32_are_refused(kind):
    engine = kind(settings_of("random_budget_perceptron", "float32"))
    X = np.zeros((3, D), dtype=np.float32)
    X[1], X[2] = 1e18, 3e18  # 9e36 · 6 is beyond 1e37, 1e36 · 6 is not
    assert engine.first_bad_row(X) == 2
    X[2] = -1e18
    assert engine.first_bad_row(X) is None
    margins, _ = learn(engine, X[[1, 1, 2, 2, 2, 2, 1, 0]], np.array([0, 1] * 4, np.int32), np.zeros(8, np.int64))
    assert np.isfinite(margins).all()


@pytest.mark.parametrize("kind", ENGINES)
def test_a_gamma_beyond_float32_is_used(kind):
    engine = kind(settings_of("perceptron", "float32", gamma=1e300))
    X = np.ones((4, D), dtype=np.float32)
    margins, _ = learn(engine, X, np.array([1, 1, 1, 1], np.int32), np.zeros(4, np.int64))
    assert margins.tolist() == [0.0, 1.0, 1.0, 1.0]


def run_drifting_stream(n, block=2000):
    """Return the mistakes of both precisions on `n` rows whose mean drifts, the largest margin, and the engines."""
    rng = np.random.default_rng(10)
    engines = [native.Engine(settings_of("shared_projectron", dtype, capacity=50)) for dtype in ("float32", "float64")]
    mistakes, largest, mean = [0, 0], 0.0, np.full(D, 1e3)
    for part in range(n // block):
        mean = mean + rng.normal(size=D)
        X, codes, task_ids = stream(block, 0.0, seed=part)
        X = (X + mean).astype(np.float32)
        for e, engine in enumerate(engines):
            margins, flags = learn(engine, X, codes, task_ids)
            mistakes[e] += count_mistakes(flags)
            largest = max(largest, float(np.abs(margins).max()))
    return mistakes, largest, engines


@needs_core
def test_errors_on_a_long_drifting_stream_are_alike_in_both_precisions():
    mistakes, largest, engines = run_drifting_stream(10_000)
    assert abs(mistakes[0] - mistakes[1]) <= 0.01 * mistakes[1] + 20 and largest < 100
    assert all(count_rebuilds(engine) == 0 for engine in engines)


@needs_core
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_errors_on_a_million_drifting_rows_are_alike_in_both_precisions():
    mistakes, largest, engines = run_drifting_stream(10**6)
    assert abs(mistakes[0] - mistakes[1]) <= 0.01 * mistakes[1] and largest < 100
    assert all(count_rebuilds(engine) <= 10 for engine in engines)
