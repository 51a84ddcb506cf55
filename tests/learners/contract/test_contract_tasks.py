"""Tasks of every learner: any hashables, in any container, or in a column of the rows."""

from __future__ import annotations

import datetime
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pytest
from contract_streams import TASKS, N, X, Y, assert_same_model, made
from scipy import sparse


def test_tasks_are_any_hashables(learner):
    names = ["ann", ("bob", 2), uuid.UUID(int=5), datetime.date(2020, 1, 2)]
    model = made(learner).partial_fit(X, Y, tasks=[names[task] for task in TASKS])
    margins = model.decision_function(X, tasks=[names[task] for task in TASKS])
    same_margins = made(learner).partial_fit(X, Y, tasks=TASKS).decision_function(X, tasks=TASKS)
    if "renaming_tasks" not in learner.exemptions:
        assert np.array_equal(margins, same_margins)
    assert set(model.active_set_.task) <= set(names)


def test_equal_names_are_one_task(learner):
    model = made(learner).partial_fit(X, Y, tasks=[1] * N)
    for alias in (1.0, True, np.int64(1), np.float32(1)):
        assert np.array_equal(model.decision_function(X, tasks=[alias] * N), model.decision_function(X, tasks=[1] * N))


def test_without_tasks_all_examples_are_of_one_task(storing_learner):
    """This does not hold for a Budgetron, which `storing_learner` leaves out.

    Without tasks, a Budgetron uses the bytes of task rows for its shared part.
    """
    learner = storing_learner
    without_tasks, with_task_0 = made(learner).partial_fit(X, Y), made(learner).partial_fit(X, Y, tasks=[0] * N)
    assert_same_model(without_tasks, with_task_0)
    assert np.array_equal(without_tasks.decision_function(X), with_task_0.decision_function(X, tasks=[0] * N))


CONTAINERS = [np.array, lambda tasks: np.array(tasks, dtype=np.int8), pd.Series, pl.Series, tuple, iter]


@pytest.mark.parametrize("container", CONTAINERS)
def test_tasks_may_be_in_any_container(learner, container):
    expected = made(learner).partial_fit(X, Y, tasks=TASKS)
    assert_same_model(made(learner).partial_fit(X, Y, tasks=container(TASKS)), expected)


def test_a_task_column_equals_the_argument_tasks(learner):
    expected = made(learner).fit(X, Y, tasks=TASKS)
    for column in (0, 2, -1):
        position = column if column >= 0 else 4
        with_tasks = np.insert(X, position, TASKS, axis=1)
        model = made(learner, task_column=column)
        assert_same_model(model.fit(with_tasks, Y), expected)
        assert np.array_equal(model.decision_function(with_tasks), expected.decision_function(X, tasks=TASKS))
        one_by_one = made(learner, task_column=column)
        for row, label in zip(with_tasks, Y, strict=True):
            one_by_one.learn_one(row, label)
        assert_same_model(one_by_one, expected)
        sparse_model = made(learner, task_column=column).fit(sparse.csr_matrix(with_tasks), Y)
        assert sparse_model.active_set_.task == made(learner).fit(sparse.csr_matrix(X), Y, tasks=TASKS).active_set_.task


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_task_column_of_a_data_frame(learner, library):
    frame = library.DataFrame({name: X[:, column] for column, name in enumerate("abcd")})
    users = library.Series([f"user {task}" for task in TASKS])
    labels = library.Series(["spam" if y else "ham" for y in Y])
    expected = made(learner).fit(X, labels.to_numpy(), tasks=users.to_numpy())
    model = made(learner).fit(frame, labels, tasks=users)
    assert_same_model(model, expected)
    assert model.predict(frame, tasks=users).tolist() == expected.predict(X, tasks=list(users)).tolist()
    with_users = frame.assign(user=list(users)) if library is pd else frame.with_columns(users.alias("user"))
    column = made(learner, task_column="user").fit(with_users, labels)
    assert_same_model(column, expected)
    assert column.predict(with_users).tolist() == model.predict(frame, tasks=users).tolist()
