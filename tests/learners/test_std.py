"""The standard deviation of a Budgetron's margin: the core equals the definition, and learning decreases it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from budgetron import Budgetron, Forgetron, graphs, kernels
from budgetron.checks.case import require_same, state_of

RNG = np.random.default_rng(6)
N = 120
X = RNG.normal(size=(N, 3))
TASKS = RNG.integers(4, size=N)
Y = (X[:, 0] + 0.3 * RNG.normal(size=N) > 0).astype(int)
KERNEL = kernels.Gaussian(0.4)


@pytest.mark.parametrize("graph", [graphs.complete(), graphs.disconnected(), graphs.complete(coupling=float("inf"))])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("store", ["dense", "float32", "sparse", "linear"])
def test_the_core_computes_the_standard_deviation_of_the_reference(graph, classes, store):
    rows = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0)) if store == "sparse" else X
    rows = rows.astype(np.float32) if store == "float32" else rows
    kernel = None if store == "linear" else KERNEL
    y = Y if classes == 2 else np.digitize(X[:, 0], [-0.5, 0.5])
    model = Budgetron(budget=15, kernel=kernel, graph=graph)
    models = [clone(model).set_params(engine=engine).fit(rows, y, tasks=TASKS) for engine in ("core", "numpy")]
    tasks = [*TASKS[:30], *[99] * 10]
    core, reference = (model.predict_std(rows[:40], tasks=tasks) for model in models)
    assert core.shape == ((40,) if classes == 2 else (40, 3)) and (core > 0).all()
    assert np.allclose(core, reference, rtol=1e-5)  # the weights are float32


def test_a_new_task_has_a_larger_deviation_than_one_that_was_learned():
    model = Budgetron(budget=30).fit(X, Y, tasks=np.zeros(N, dtype=int))
    assert (
        model.predict_std(X, tasks=np.zeros(N, dtype=int)) < model.predict_std(X, tasks=np.ones(N, dtype=int))
    ).mean() > 0.9


def test_the_deviation_shrinks_as_examples_are_learned():
    """Each belief's variance falls. The spread between beliefs varies, so the total need not fall at every step."""
    model, means, rng = Budgetron(budget=30, kernel=KERNEL), [], np.random.default_rng(9)
    for _ in range(10):
        rows, tasks = rng.normal(size=(300, 3)), rng.integers(4, size=300)
        model.partial_fit(rows, (rows[:, 0] + 0.3 * rng.normal(size=300) > 0).astype(int), tasks=tasks)
        means.append(model.predict_std(X, tasks=TASKS).mean())
    assert means[-1] < 0.8 * means[0] and max(means[-5:]) < means[0]


def test_predict_std_changes_nothing():
    asked, not_asked = (Budgetron(budget=15, kernel=KERNEL) for _ in range(2))
    for start in range(0, N, 10):
        part = slice(start, start + 10)
        asked.partial_fit(X[part], Y[part], tasks=TASKS[part], classes=[0, 1])
        not_asked.partial_fit(X[part], Y[part], tasks=TASKS[part], classes=[0, 1])
        asked.predict_std(X, tasks=TASKS)
    require_same(state_of(asked), state_of(not_asked), "asked and not asked")
    assert np.array_equal(asked.predict_then_learn(X, Y, tasks=TASKS), not_asked.predict_then_learn(X, Y, tasks=TASKS))


def test_other_learners_have_no_standard_deviation():
    assert not hasattr(Forgetron(), "predict_std")
