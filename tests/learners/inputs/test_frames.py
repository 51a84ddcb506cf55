"""Data frames of pandas and polars: column names are remembered, and columns without numbers are rejected by name."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from budgetron import BudgetProjectron, Budgetron, Forgetron, evaluate, graphs
from budgetron.errors import InputError, InputTypeError, UnknownTask

RNG = np.random.default_rng(2)
N = 40
X = RNG.normal(size=(N, 2))
Y = (X[:, 0] > 0).astype(int)
COLUMNS = {"a": X[:, 0], "schema": X[:, 1]}
LIBRARIES = pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])


def fitted(frame, **parameters):
    return Forgetron(budget=9, **parameters).fit(frame, Y)


@LIBRARIES
@pytest.mark.parametrize(
    ("values", "says"),
    [
        (["x", "y"] * 20, "OneHotEncoder"),
        ([datetime.datetime(2026, 1, 1 + day % 28) for day in range(N)], "days since"),
        ([datetime.timedelta(hours=hour) for hour in range(N)], "days since"),
    ],
    ids=["text", "dates", "spans"],
)
def test_columns_without_numbers_are_refused_by_name(library, values, says):
    frame = library.DataFrame({**COLUMNS, "odd one": values})
    with pytest.raises(InputError, match=rf"^Forgetron: X must be numeric .*'odd one'.*{says}"):
        fitted(frame)


@pytest.mark.parametrize(
    "column",
    [pd.Series(["x", "y"] * 20).astype("category"), pl.Series(["x", "y"] * 20, dtype=pl.Categorical)],
    ids=["pandas", "polars"],
)
def test_categorical_columns_are_refused_by_name(column):
    library = pd if isinstance(column, pd.Series) else pl
    with pytest.raises(InputError, match=r"'kind'.*OneHotEncoder"):
        fitted(library.DataFrame({**COLUMNS, "kind": column}))


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "Float64", "float64", "object"])
def test_missing_values_of_a_pandas_frame_are_named(dtype):
    frame = pd.DataFrame({**COLUMNS, "gap": pd.array([1, 0, None, 1] * 10, dtype=dtype)})
    with pytest.raises(InputError, match=r"row 2.*'gap'|'gap', row 2"):
        fitted(frame)
    model = fitted(frame.assign(gap=1.0))
    with pytest.raises(InputError, match=r"row 2.*'gap'|'gap', row 2"):
        model.predict(frame)


def test_missing_values_of_a_polars_frame_are_named():
    for values in ([1, 0, None, 1] * 10, [1.0, 0.0, float("nan"), 1.0] * 10):
        with pytest.raises(InputError, match=r"row 2.*'gap'|'gap', row 2"):
            fitted(pl.DataFrame({**COLUMNS, "gap": values}))


@LIBRARIES
def test_numbers_of_every_kind_are_accepted(library):
    more_columns = {"whole": list(range(N)), "flag": [True, False] * 20}
    frame = library.DataFrame({**COLUMNS, **more_columns})
    rows = np.column_stack([X, more_columns["whole"], more_columns["flag"]]).astype(float)
    model = fitted(frame)
    assert model.feature_names_in_.tolist() == ["a", "schema", "whole", "flag"]
    assert np.array_equal(model.decision_function(frame), fitted(rows).decision_function(rows))


def test_nullable_and_object_columns_that_hold_numbers_are_accepted():
    frame = pd.DataFrame({"a": pd.array(X[:, 0], dtype="Float64"), "b": X[:, 1].astype(object)})
    assert np.array_equal(fitted(frame).decision_function(frame), fitted(X).decision_function(X))


@LIBRARIES
@pytest.mark.parametrize("column", ["user", 2, -1])
def test_a_task_column_given_by_name_or_position_is_no_feature(library, column):
    users = ["ann", "bob"] * 20
    frame = library.DataFrame({**COLUMNS, "user": users})
    model = fitted(frame, task_column=column)
    assert model.feature_names_in_.tolist() == ["a", "schema"]
    expected = Forgetron(budget=9).fit(X, Y, tasks=users)
    assert np.array_equal(model.decision_function(frame), expected.decision_function(X, tasks=users))


def test_invalid_frames_are_refused():
    with pytest.raises(InputError, match="'a' twice"):
        fitted(pd.DataFrame(X, columns=["a", "a"]))
    with pytest.raises(InputError, match="collect"):
        fitted(pl.LazyFrame(COLUMNS))
    model = fitted(pd.DataFrame(COLUMNS))
    with pytest.raises(InputError, match=r"columns of the first call.* z") as caught:
        model.predict(pd.DataFrame({"a": X[:, 0], "z": X[:, 1]}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_labels_and_tasks_may_be_series(library):
    frame = library.DataFrame(COLUMNS)
    labels, users = ["spam" if y else "ham" for y in Y], ["ann", "bob"] * 20
    model = Forgetron(budget=9).fit(frame, library.Series(labels), tasks=library.Series(users))
    assert model.classes_.tolist() == ["ham", "spam"] and set(model.budget_share_) <= {"ann", "bob"}
    categories = library.Series(users).astype("category") if library is pd else pl.Series(users, dtype=pl.Categorical)
    with_categories = Forgetron(budget=9).fit(frame, library.Series(labels), tasks=categories)
    expected = model.decision_function(frame, tasks=users)
    assert np.array_equal(with_categories.decision_function(frame, tasks=users), expected)


def test_an_invalid_or_unknown_task_is_refused_in_the_name_of_the_learner():
    model = Budgetron(budget=4).fit(X, Y, tasks=["ann"] * N)
    for wrong in (float("nan"), object()):
        for call in (
            lambda task: model.predict(X[:1], tasks=[task]),
            lambda task: model.learn_one(X[0], 1, task=task),
            lambda task: model.predict_one(X[0], task=task),
            lambda task: model.forget_task(task),
            lambda task: model.task_weights(task),
        ):
            with pytest.raises(InputError, match=r"^Budgetron: a task must be an integer, a string"):
                call(wrong)
    with_fixed_tasks = BudgetProjectron(graph=graphs.from_edges([("ann", "bob")])).fit(X, Y, tasks=["ann", "bob"] * 20)
    with pytest.raises(UnknownTask, match=r"^BudgetProjectron: a task must be one of the graph's 2 tasks"):
        with_fixed_tasks.predict_one(X[0], task="cid")


def test_a_model_without_tasks_can_forget_its_only_task():
    model = Forgetron(budget=9).fit(X, Y)
    assert model.n_stored_ > 0
    model.forget_task(None)
    assert model.n_stored_ == 0


def test_a_lazy_frame_anywhere_is_refused_with_the_remedy():
    frame = pl.DataFrame({"user": ["a", "b"] * 20, "x": [0.1, 0.2, 0.3, 0.4] * 10, "y": [0, 1] * 20})
    X, lazy = frame.select("user", "x"), frame.lazy()
    model = Budgetron(budget=5, task_column="user").fit(X, frame["y"])
    for call in (
        lambda: model.fit(lazy, frame["y"]), lambda: model.fit(X, lazy.select("y")), lambda: model.predict(lazy),
        lambda: model.score(X, lazy.select("y")), lambda: model.partial_fit(lazy, frame["y"]),
        lambda: Budgetron(budget=5).fit(X.select("x"), frame["y"], tasks=lazy.select("user")),
        lambda: evaluate.progressive(Budgetron(budget=5), (lazy.select("x"), frame["y"])),
    ):  # fmt: skip
        with pytest.raises(InputTypeError, match=r"got a LazyFrame\. Call collect\(\) first\."):
            call()
