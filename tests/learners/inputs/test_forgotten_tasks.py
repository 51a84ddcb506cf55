"""A call that omits `tasks=` is rejected by a model that was trained with tasks, and accepted by other models."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest

import budgetron
from budgetron import Budgetron, Forgetron, graphs, kernels
from budgetron.checks.case import require_same, state_of
from budgetron.distributed import ShardedModel
from budgetron.durable import Host
from budgetron.errors import InputError

RNG = np.random.default_rng(2)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
TASKS = {"integers": RNG.integers(3, size=60).tolist(), "only 0": [0] * 60, "strings": RNG.choice(list("abc"), 60)}
MESSAGE = re.compile(r"^\w+: tasks? must be given.*, since the model was trained with tasks; got None\. Pass tasks?=")
CALLS = {
    "predict": lambda model: model.predict(X),
    "decision_function": lambda model: model.decision_function(X),
    "predict_proba": lambda model: model.predict_proba(X),
    "predict_std": lambda model: model.predict_std(X),
    "predict_one": lambda model: model.predict_one(X[0]),
    "predict_proba_one": lambda model: model.predict_proba_one(X[0]),
    "score": lambda model: model.score(X, Y),
    "learn_one": lambda model: model.learn_one(X[0], 1),
    "partial_fit": lambda model: model.partial_fit(X, Y),
    "predict_then_learn": lambda model: model.predict_then_learn(X, Y),
    "task_weights": lambda model: model.task_weights(),
    "forget_task": lambda model: model.forget_task(None),
}


def created(learner):
    parameters = {"budget": 12, "kernel": kernels.Gaussian(0.4)}
    return learner(**{name: parameters[name] for name in parameters if name in learner().get_params()})


def calls_of(model):
    calls = [call for call in CALLS if hasattr(model, call)]
    assert len(calls) >= 9
    return calls


@pytest.mark.parametrize("names", TASKS)
def test_every_method_rejects_missing_tasks(learner, names):
    model = created(learner).partial_fit(X, Y, tasks=TASKS[names])
    before = state_of(model)
    for call in calls_of(model):
        with pytest.raises(InputError, match=MESSAGE):
            CALLS[call](model)
        require_same(before, state_of(model), f"the model, after {call} was refused")


def test_a_model_without_tasks_needs_none(learner):
    model = created(learner).partial_fit(X, Y)
    for call in calls_of(model):
        CALLS[call](model)


@pytest.mark.parametrize("names", TASKS)
def test_copies_and_saved_models_still_require_tasks(learner, names, tmp_path):
    model = created(learner).partial_fit(X, Y, tasks=TASKS[names])
    model.save(tmp_path / "with")
    others = [budgetron.load(tmp_path / "with"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    for other in others:
        with pytest.raises(InputError, match=MESSAGE):
            other.predict(X)
        assert np.array_equal(other.predict(X, tasks=TASKS[names]), model.predict(X, tasks=TASKS[names]))
    without_tasks = created(learner).partial_fit(X, Y)
    without_tasks.save(tmp_path / "without")
    assert np.array_equal(budgetron.load(tmp_path / "without").predict(X), without_tasks.predict(X))


def test_tasks_are_required_once_they_were_used(learner):
    model = created(learner).partial_fit(X, Y)
    assert np.array_equal(
        model.predict(X), model.predict(X, tasks=[0] * 60)
    )  # examples that were learned without tasks belong to task 0
    model.learn_one(X[0], Y[0], task="ann")
    with pytest.raises(InputError, match=MESSAGE):
        model.predict(X)
    assert len(model.predict(X, tasks=[0] * 60)) == 60
    assert len(model.fit(X, Y).predict(X)) == 60  # `fit` starts again without tasks


def test_a_refused_block_with_tasks_does_not_make_tasks_required(learner):
    model = created(learner).partial_fit(X, Y)
    with pytest.raises(InputError, match="finite"):
        model.partial_fit(np.full((2, 3), np.nan), Y[:2], tasks=["a", "b"])
    model.predict(X, tasks=["a"] * 60)  # a prediction with tasks does not make them required either
    assert len(model.predict(X)) == 60


def test_a_task_column_supplies_the_tasks(learner):
    with_column = np.column_stack([X, TASKS["integers"]])
    model = created(learner).set_params(task_column=3).partial_fit(with_column, Y)
    assert len(model.predict(with_column)) == 60
    model.set_params(task_column=None)
    with pytest.raises(InputError, match=MESSAGE):
        model.predict(X)


def test_shards_refuse_a_call_without_tasks(tmp_path):
    learner = Forgetron(budget=20, kernel=kernels.Gaussian(0.4), graph=graphs.disconnected())
    with ShardedModel(learner, shards=3, workers=2, directory=tmp_path) as model:
        model.partial_fit(X, Y)
        assert len(model.predict(X)) == 60
        assert len(model.task_weights()) == model.n_stored_
        model.partial_fit(X, Y, tasks=TASKS["strings"])
        for call in ("predict", "learn_one", "partial_fit", "score", "predict_one", "task_weights"):
            with pytest.raises(InputError, match=MESSAGE):
                CALLS[call](model)
        seen = model.n_seen_
    with ShardedModel.open(tmp_path) as model:
        assert model.n_seen_ == seen
        with pytest.raises(InputError, match=MESSAGE):
            model.predict(X)


def test_a_host_refuses_a_call_without_tasks(tmp_path):
    with Host.open(tmp_path, make_model=lambda: Budgetron(budget=10)) as host:
        host.learn(X, Y, TASKS["integers"])
    with Host.open(tmp_path) as host:
        for call in (lambda: host.predict(X), lambda: host.learn(X, Y)):
            with pytest.raises(InputError, match=MESSAGE):
                call()
        assert host.model.n_seen_ == 60
