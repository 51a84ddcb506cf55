"""Check that HashedPerceptron learns, can be saved and loaded, keeps to a byte budget, and obeys the laws.

`test_new_rule` runs this program in a copy of the package.

    python used.py ENGINE FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import budgetron
from budgetron.checks import Case, check_learner
from budgetron.engine import native
from budgetron.errors import InputError, ModelFileError
from budgetron.persist import pack, unpack

ENGINE, FOLDER = sys.argv[1], Path(sys.argv[2])


def stream(n, classes):
    rng = np.random.default_rng(classes)
    X = rng.normal(size=(n, 12))
    return X, (X[:, 0] - X[:, 5] > 0).astype(int) + (X[:, 1] > 1) * (classes > 2), rng.integers(4, size=n)


def by_hand(X, y, rate, m):
    """Return margins, weights and hits of the rule for two classes, computed from its definition alone."""
    w, hits, margins = np.zeros(m), np.zeros(m, dtype=int), []
    for x, label in zip(X, y, strict=True):
        phi = np.array([x[c::m].sum() for c in range(m)])
        margins.append(w @ phi)
        if (2 * label - 1) * margins[-1] <= 0:
            w, hits = w + rate * (2 * label - 1) * phi, hits + 1
    return np.array(margins), w, hits


def assert_raises(error, call):
    try:
        call()
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")


assert "HashedPerceptron" in budgetron.__all__
assert (native.available and "hashed_perceptron" in native._core.rules()) == (ENGINE == "core")
Learner = budgetron.HashedPerceptron

# The learner follows the rule.
X, y, tasks = stream(400, 2)
model = Learner(rate=0.5, engine=ENGINE)
margins = model.predict_then_learn(X, y, tasks=tasks)
expected, w, hits = by_hand(X, y, 0.5, 12)
assert np.allclose(margins, expected, atol=1e-12) and model.n_stored_ == 0 and model.n_seen_ == 400
best = model.busiest(3)
assert len(best) == 3 and all(np.isclose(w[cell], weight) for cell, weight in best)
assert isinstance(model._engine, native.Engine) == (ENGINE == "core")
assert_raises(InputError, lambda: Learner(rate=0).fit(X, y))

# A model can be saved and loaded by either engine, and continues to learn.
for classes in (2, 3):
    X, y, tasks = stream(400, classes)
    model = Learner(rate=0.5, engine=ENGINE).partial_fit(X[:200], y[:200], tasks=tasks[:200], classes=range(classes))
    model.save(FOLDER / "toy.budgetron")
    for engine in {ENGINE, "numpy"}:
        again, other = (budgetron.load(FOLDER / "toy.budgetron", engine=name) for name in (engine, None))
        assert again.get_params()["rate"] == 0.5 and again._engine.settings.parameters.rate == 0.5
        ends = [model.predict_then_learn(X[200:], y[200:], tasks=tasks[200:]) for model in (again, other)]
        assert np.allclose(*ends, atol=1e-12)
text, arrays = unpack((FOLDER / "toy.budgetron").read_bytes())
for changed in ({"state.hits": -arrays["state.hits"]}, {"state.weights": arrays["state.weights"][:, 1:]}):
    (FOLDER / "bad").write_bytes(pack(text, arrays | changed))
    assert_raises(ModelFileError, lambda: budgetron.load(FOLDER / "bad"))

# The rule divides a byte budget, and stays within it.
X, y, tasks = stream(400, 2)
wide = np.tile(X, 40)
for budget in (10_000, 16_000):
    model = Learner(budget=f"{budget} B", engine=ENGINE).fit(wide, y, tasks=tasks)
    assert 1 <= model._engine.settings.parameters.cells < wide.shape[1] and model.memory_bytes_ <= budget
assert_raises(InputError, lambda: Learner(budget="100 B", engine=ENGINE).fit(wide, y))

# The laws hold.
model = Learner(engine=ENGINE)
check_learner(model, [Case(model), Case(model, dtype="float32", n_classes=3)])
print("used")
