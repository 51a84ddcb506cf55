"""Every learner: copies, clones, equal seeds, and which arguments must be keywords."""

from __future__ import annotations

import copy
import pickle
from io import BytesIO

import joblib
import numpy as np
import pytest
from contract_streams import TASKS, X, Y, assert_same_model, made
from sklearn.base import clone

from budgetron import graphs, kernels
from budgetron.checks.case import require_same, state_of


def through_joblib(model):
    file = BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), through_joblib],
    ids=["deepcopy", "pickle", "joblib"],
)
@pytest.mark.parametrize("engine", ["core", "numpy"])
def test_copies_are_equal_and_independent(learner, copied, engine):
    names = [f"user {task}" for task in TASKS]
    model = made(learner, engine=engine).partial_fit(X, Y, tasks=names)
    other = copied(model)
    before = state_of(model)
    assert other.active_set_.task == model.active_set_.task and other.get_params().keys() == model.get_params().keys()
    assert_same_model(model, other)
    other.partial_fit(X[::-1], Y, tasks=names)
    require_same(before, state_of(model), "the original, after its copy learned")
    new = copied(made(learner))
    assert not new.__sklearn_is_fitted__()


def test_clone_has_learned_nothing(learner):
    model = made(learner, graph=graphs.complete(4)).partial_fit(X, Y, tasks=TASKS)
    new = clone(model)
    assert not new.__sklearn_is_fitted__() and new.get_params() == model.get_params()
    assert_same_model(new.partial_fit(X, Y, tasks=TASKS), model)
    if "kernel" in model.get_params():
        assert model.set_params(kernel=kernels.Linear()).kernel == kernels.Linear()


def test_equal_seeds_give_equal_models(learner):
    if "random_state" not in learner().get_params():
        assert_same_model(made(learner).fit(X, Y, tasks=TASKS), made(learner).fit(X, Y, tasks=TASKS))
        return
    drawing = learner.presets.get("bogd", {})  # the default of BudgetSgd uses no random numbers
    models = [made(learner, random_state=seed, **drawing).fit(X, Y, tasks=TASKS) for seed in (3, 3, 4)]
    assert_same_model(*models[:2])
    margins = [model.decision_function(X, tasks=TASKS) for model in models]
    assert np.array_equal(margins[0], margins[1]) and not np.array_equal(margins[0], margins[2])


def test_tasks_classes_and_weights_are_keywords(learner):
    """A third positional argument is ambiguous: users of scikit-learn would expect sample weights, not tasks."""
    model = made(learner)
    for call in (
        lambda: model.fit(X, Y, TASKS),
        lambda: model.partial_fit(X, Y, TASKS),
        lambda: model.predict_then_learn(X, Y, TASKS),
        lambda: model.learn_one(X[0], Y[0], TASKS[0]),
    ):
        with pytest.raises(TypeError, match="positional"):
            call()
    model.fit(X, Y, tasks=TASKS)
    for call in (lambda: model.predict(X, TASKS), lambda: model.score(X, Y, TASKS), lambda: model.predict_one(X[0], 1)):
        with pytest.raises(TypeError, match="positional"):
            call()
