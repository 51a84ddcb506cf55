"""How unsure a Budgetron says it is: by hand where that can be done, and the core as the definition everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from budgetron import Belief, Budgetron, Forgetron, graphs, kernels
from budgetron.checks.case import inside, require_same

RNG = np.random.default_rng(6)
N = 120
X = RNG.normal(size=(N, 3))
TASKS = RNG.integers(4, size=N)
Y = (X[:, 0] + 0.3 * RNG.normal(size=N) > 0).astype(int)
KERNEL = kernels.Gaussian(0.4)


@pytest.mark.parametrize("graph", [graphs.complete(), graphs.disconnected(), graphs.complete(coupling=float("inf"))])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("store", ["dense", "float32", "sparse", "linear"])
def test_core_is_reference(graph, classes, store):
    rows = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0)) if store == "sparse" else X
    rows = rows.astype(np.float32) if store == "float32" else rows
    kernel = None if store == "linear" else KERNEL
    y = Y if classes == 2 else np.digitize(X[:, 0], [-0.5, 0.5])
    model = Budgetron(budget=15, kernel=kernel, graph=graph)
    made = [clone(model).set_params(engine=engine).fit(rows, y, tasks=TASKS) for engine in ("core", "numpy")]
    tasks = [*TASKS[:30], *[99] * 10]
    core, reference = (model.predict_std(rows[:40], tasks=tasks) for model in made)
    assert core.shape == ((40,) if classes == 2 else (40, 3)) and (core > 0).all()
    assert np.allclose(core, reference, rtol=1e-3 if store == "float32" else 1e-6)


def test_far_from_everything_it_is_the_prior():
    belief = Belief(kernel=10, kernel_own=0.5)
    model = Budgetron(budget=20, kernel=KERNEL, beliefs=[belief]).fit(X, Y, tasks=TASKS)
    far = np.full((1, 3), 50.0)
    assert model.predict_std(far, tasks=[0])[0] == pytest.approx(np.sqrt(10 * 1.5))
    pooled = Budgetron(budget=20, kernel=KERNEL, beliefs=[belief], graph=graphs.complete(coupling=float("inf")))
    assert pooled.fit(X, Y, tasks=TASKS).predict_std(far, tasks=[0])[0] == pytest.approx(np.sqrt(10))
    assert (model.predict_std(X, tasks=TASKS) < np.sqrt(15)).all()


def test_a_new_task_is_less_sure_than_one_that_was_learned():
    model = Budgetron(budget=30).fit(X, Y, tasks=np.zeros(N, dtype=int))
    assert (
        model.predict_std(X, tasks=np.zeros(N, dtype=int)) < model.predict_std(X, tasks=np.ones(N, dtype=int))
    ).mean() > 0.9


def test_it_shrinks_as_examples_come():
    model, means = Budgetron(budget=30, kernel=KERNEL), []
    for _ in range(4):
        model.partial_fit(X, Y, tasks=TASKS)
        means.append(model.predict_std(X, tasks=TASKS).mean())
    assert means == sorted(means, reverse=True)


def test_beliefs_that_differ_make_it_unsure():
    """Linear beliefs share no store: each is in the mixture what it is alone, and the variance follows by hand."""
    beliefs = [Belief(linear=1), Belief(linear=10, linear_own=1)]
    each = [[belief] for belief in beliefs]
    mixed, *alone = (Budgetron(kernel=None, beliefs=some).fit(X, Y, tasks=TASKS) for some in (beliefs, *each))
    weight = np.array([w for _, w in mixed.beliefs_])
    f = np.array([model.decision_function(X, tasks=TASKS) for model in alone])
    v = np.array([model.predict_std(X, tasks=TASKS) ** 2 for model in alone])
    expected = weight @ (v + f**2) - (weight @ f) ** 2
    assert np.allclose(mixed.predict_std(X, tasks=TASKS) ** 2, expected)


def test_asking_changes_nothing():
    asked, not_asked = (Budgetron(budget=15, kernel=KERNEL) for _ in range(2))
    for start in range(0, N, 10):
        part = slice(start, start + 10)
        asked.partial_fit(X[part], Y[part], tasks=TASKS[part], classes=[0, 1])
        not_asked.partial_fit(X[part], Y[part], tasks=TASKS[part], classes=[0, 1])
        asked.predict_std(X, tasks=TASKS)
    require_same(inside(asked), inside(not_asked), "asked and not asked")
    assert np.array_equal(asked.predict_then_learn(X, Y, tasks=TASKS), not_asked.predict_then_learn(X, Y, tasks=TASKS))


def test_other_learners_do_not_pretend():
    assert not hasattr(Forgetron(), "predict_std")
