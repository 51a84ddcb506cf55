"""Attributes of every learner: stored examples, counts, and forgotten tasks."""

from __future__ import annotations

import numpy as np
import pytest
from contract_streams import KERNEL, TASKS, N, X, Y, made
from sklearn.exceptions import NotFittedError

from budgetron import kernels


def test_stored_examples_are_rows_of_the_stream(storing_learner):
    model = made(storing_learner).partial_fit(X, Y, tasks=TASKS)
    active = model.active_set_
    assert len(active) == model.n_stored_ <= (model.capacity_ or N) and model.n_seen_ == N
    assert np.array_equal(active.rows, X[active.arrival])
    assert active.task == [TASKS[arrival] for arrival in active.arrival]
    assert active.coef.shape == (len(active),)
    assert sum(model.budget_share_.values()) == pytest.approx(1.0)
    assert list(model.budget_share_.values()) == sorted(model.budget_share_.values(), reverse=True)
    assert {task: active.task.count(task) / len(active) for task in set(active.task)} == model.budget_share_
    assert model.kernel_ == KERNEL and model.classes_.tolist() == [0, 1]


def test_mistakes_are_counted(learner):
    model = made(learner)
    margins = model.predict_then_learn(X, Y, tasks=TASKS)
    assert model.n_mistakes_ == ((2 * Y - 1) * margins <= 0).sum()


def test_task_weights_make_the_margins(learner):
    model = made(learner).partial_fit(X, Y, tasks=TASKS)
    if model.capacity_ == 0:
        pytest.skip("this learner stores no examples")
    active = model.active_set_
    for task in {*TASKS, "never seen"}:
        margins = KERNEL(X, active.rows) @ model.task_weights(task)
        assert margins == pytest.approx(model.decision_function(X, tasks=[task] * N), abs=1e-12)
    y = np.arange(N) % 3
    model = made(learner).partial_fit(X, y, tasks=TASKS)
    assert KERNEL(X, model.active_set_.rows) @ model.task_weights(2) == pytest.approx(
        model.decision_function(X, tasks=[2] * N), abs=1e-12
    )


def test_gamma_scale_is_estimated_from_the_first_rows(storing_learner):
    after_32, after_64 = 1 / (4 * X[:32].var()), 1 / (4 * X[:64].var())
    for n, expected in ((31, 1 / 4), (32, after_32), (63, after_32), (90, after_64)):
        for cuts in ([], [5, 33], range(1, n)):
            model = made(storing_learner, kernel=kernels.Gaussian())
            for rows in filter(len, np.split(np.arange(n), cuts)):
                model.partial_fit(X[rows], Y[rows], classes=np.unique(Y))
            assert model.kernel_.gamma == pytest.approx(expected, rel=1e-12)


def test_attributes_need_a_first_example(learner):
    model = made(learner)
    with pytest.raises(NotFittedError):
        model.predict(X)
    for name in ("n_stored_", "n_seen_", "n_mistakes_", "memory_bytes_"):
        assert not hasattr(model, name)
    with pytest.raises(NotFittedError):
        _ = model.active_set_
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict_one(X[0])


def test_forget_task_removes_the_examples_of_the_task(storing_learner):
    model = made(storing_learner).partial_fit(X, Y, tasks=[f"user {task}" for task in TASKS])
    other_tasks = [name for name in model.active_set_.task if name != "user 1"]
    model.forget_task("user 1")
    model.forget_task("user 1")
    model.forget_task("never seen")
    assert sorted(model.active_set_.task) == sorted(other_tasks) and "user 1" not in model.budget_share_
    of_new_task = np.array(model.decision_function(X, tasks=["never seen"] * N))
    assert np.array_equal(model.decision_function(X, tasks=["user 1"] * N), of_new_task)
    model.partial_fit(X, Y, tasks=["user 1"] * N)
    assert "user 1" in model.active_set_.task


def test_forgetting_every_task_leaves_nothing(storing_learner):
    model = made(storing_learner).partial_fit(X, Y, tasks=TASKS)
    for task in range(4):
        model.forget_task(task)
    assert model.n_stored_ == 0 and model.budget_share_ == {}
    assert np.abs(model.decision_function(X, tasks=TASKS)).max() < 1e-12
    model.partial_fit(X, Y, tasks=TASKS)
    assert model.n_stored_ > 0
