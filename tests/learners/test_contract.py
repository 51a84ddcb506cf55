"""The public contract of every learner: labels, tasks, kinds of input, copies, and attributes."""

from __future__ import annotations

import copy
import datetime
import pickle
import uuid
from io import BytesIO

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from budgetron import graphs, kernels
from budgetron.checks.case import require_same, state_of
from budgetron.errors import InputError, UnknownLabel
from budgetron.learners.input.hashing import DICT_FEATURES, hashed_rows

RNG = np.random.default_rng(8)
N = 90
X = np.round(64 * RNG.normal(size=(N, 4))) / 64
Y = (X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * RNG.normal(size=N) > 0).astype(int)
TASKS = RNG.integers(4, size=N).tolist()
KERNEL = kernels.Gaussian(0.4)


def made(learner, **parameters):
    chosen = {"budget": 12, "kernel": KERNEL} | parameters
    return learner(**{name: chosen[name] for name in chosen if name in learner().get_params()})


def same(a, b):
    require_same(state_of(a), state_of(b), "two models")


@pytest.fixture
def storing(learner):
    """A learner that stores examples."""
    if made(learner).partial_fit(X[:2], [0, 1]).capacity_ == 0:
        pytest.skip("it stores no examples; tests/engine/budgetron has its tests")
    return learner


# ---- labels


@pytest.mark.parametrize(
    ("first", "second"), [(-1, 1), (0, 1), (1, -1), (1, 0), (True, False), (False, True), (-1.0, 1.0)]
)
def test_a_single_first_label_that_implies_the_other_is_accepted(learner, first, second):
    model = made(learner)
    model.learn_one(X[0], first, task="ann")
    model.learn_one(X[1], second, task="ann")
    assert model.classes_.tolist() == sorted([first, second])
    assert model.predict_one(X[0], task="ann") in (first, second)


def test_after_a_lone_first_label_the_model_is_as_if_classes_had_been_named(learner):
    for negative in (-1, 0):
        y = np.where(Y, 1, negative)
        first = int(np.flatnonzero(Y)[0])
        begun, named = made(learner), made(learner)
        begun.learn_one(X[first], 1)
        begun.partial_fit(X, y)
        named.partial_fit(X[[first]], [1], classes=[negative, 1]).partial_fit(X, y)
        assert begun.classes_.tolist() == [negative, 1]
        same(begun, named)


@pytest.mark.parametrize("label", ["spam", 2, "1"])
def test_another_lone_first_label_needs_classes(learner, label):
    model = made(learner)
    with pytest.raises(InputError, match="classes"):
        model.learn_one(X[0], label)
    assert not model.__sklearn_is_fitted__()
    model.learn_one(X[0], label, classes=[label, type(label)("3")])
    assert label in model.classes_.tolist()


def test_an_unknown_label_is_refused_once_the_classes_are_known(learner):
    model = made(learner).partial_fit(X, Y)
    with pytest.raises(UnknownLabel):
        model.learn_one(X[0], -1)
    settled = made(learner)
    settled.learn_one(X[0], -1)
    with pytest.raises(UnknownLabel):
        settled.learn_one(X[0], 0)


@pytest.mark.parametrize("names", [["ham", "spam"], [3, 7], [False, True], ["a", "b", "c"], [0.0, 1.0, 2.0]], ids=str)
def test_any_labels(learner, names):
    codes = np.arange(N) % len(names)
    labels = np.array(names)[codes]
    model, coded = made(learner).fit(X, labels, tasks=TASKS), made(learner).fit(X, codes, tasks=TASKS)
    assert model.classes_.tolist() == sorted(names)
    assert model.predict(X, tasks=TASKS).tolist() == np.array(names)[coded.predict(X, tasks=TASKS)].tolist()
    same(model, coded)


def test_the_sign_of_a_margin(learner):
    only = "gaussian_only" in learner.exemptions
    model = made(learner, kernel=KERNEL if only else kernels.Linear()).fit(X, Y, tasks=TASKS)
    margins = model.decision_function(X, tasks=TASKS)
    assert np.array_equal(model.predict(X, tasks=TASKS), (margins > 0).astype(int))
    if "no_mistake_no_change" in learner.exemptions:
        return  # it has a weight for the bias
    zero = np.zeros((1, 4))  # under a linear kernel
    assert model.decision_function(zero, tasks=[0]) == 0 and model.predict(zero, tasks=[0]) == model.classes_[0]


def test_margins_of_several_classes(learner):
    y = np.arange(N) % 3
    model = made(learner)
    assert model.predict_then_learn(X, y, tasks=TASKS).shape == (N, 3)
    margins = model.decision_function(X, tasks=TASKS)
    assert margins.shape == (N, 3) and np.array_equal(model.predict(X, tasks=TASKS), margins.argmax(axis=1))
    assert np.shape(model.learn_one(X[0], 2, task=0)) == (3,)


def test_fit_forgets_what_was_learned(learner):
    model = made(learner).fit(X, Y, tasks=TASKS).fit(X[:30, :3], Y[:30], tasks=TASKS[:30])
    same(model, made(learner).fit(X[:30, :3], Y[:30], tasks=TASKS[:30]))
    assert model.n_seen_ == 30 and model.n_features_in_ == 3


# ---- tasks


def test_tasks_are_any_hashables(learner):
    names = ["ann", ("bob", 2), uuid.UUID(int=5), datetime.date(2020, 1, 2)]
    model = made(learner).partial_fit(X, Y, tasks=[names[task] for task in TASKS])
    margins = model.decision_function(X, tasks=[names[task] for task in TASKS])
    same_margins = made(learner).partial_fit(X, Y, tasks=TASKS).decision_function(X, tasks=TASKS)
    # Budgetron, which hashes names too, does so only for weights that this small budget has no room for.
    if learner.__name__ == "Budgetron" or "renaming_tasks" not in learner.exemptions:
        assert np.array_equal(margins, same_margins)
    assert set(model.active_set_.task) <= set(names)


def test_equal_names_are_one_task(learner):
    model = made(learner).partial_fit(X, Y, tasks=[1] * N)
    for alias in (1.0, True, np.int64(1), np.float32(1)):
        assert np.array_equal(model.decision_function(X, tasks=[alias] * N), model.decision_function(X, tasks=[1] * N))


def test_without_tasks_there_is_one(storing):
    """If a stream has no tasks, a Budgetron uses the bytes of tasks for its shared part."""
    learner = storing
    alone, zero = made(learner).partial_fit(X, Y), made(learner).partial_fit(X, Y, tasks=[0] * N)
    same(alone, zero)
    assert np.array_equal(alone.decision_function(X), zero.decision_function(X, tasks=[0] * N))


CONTAINERS = [np.array, lambda tasks: np.array(tasks, dtype=np.int8), pd.Series, pl.Series, tuple, iter]


@pytest.mark.parametrize("container", CONTAINERS)
def test_tasks_in_any_container(learner, container):
    same(made(learner).partial_fit(X, Y, tasks=container(TASKS)), made(learner).partial_fit(X, Y, tasks=TASKS))


def test_task_column(learner):
    expected = made(learner).fit(X, Y, tasks=TASKS)
    for column in (0, 2, -1):
        place = column if column >= 0 else 4
        joined = np.insert(X, place, TASKS, axis=1)
        model = made(learner, task_column=column)
        same(model.fit(joined, Y), expected)
        assert np.array_equal(model.decision_function(joined), expected.decision_function(X, tasks=TASKS))
        again = made(learner, task_column=column)
        for row, label in zip(joined, Y, strict=True):
            again.learn_one(row, label)
        same(again, expected)
        sparse_model = made(learner, task_column=column).fit(sparse.csr_matrix(joined), Y)
        assert sparse_model.active_set_.task == made(learner).fit(sparse.csr_matrix(X), Y, tasks=TASKS).active_set_.task


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames(learner, library):
    frame = library.DataFrame({name: X[:, place] for place, name in enumerate("abcd")})
    users = library.Series([f"user {task}" for task in TASKS])
    labels = library.Series(["spam" if y else "ham" for y in Y])
    expected = made(learner).fit(X, labels.to_numpy(), tasks=users.to_numpy())
    model = made(learner).fit(frame, labels, tasks=users)
    same(model, expected)
    assert model.predict(frame, tasks=users).tolist() == expected.predict(X, tasks=list(users)).tolist()
    with_users = frame.assign(user=list(users)) if library is pd else frame.with_columns(users.alias("user"))
    column = made(learner, task_column="user").fit(with_users, labels)
    same(column, expected)
    assert column.predict(with_users).tolist() == model.predict(frame, tasks=users).tolist()


# ---- rows


def test_float32_stays_float32(storing):
    model = made(storing).partial_fit(X.astype(np.float32), Y, tasks=TASKS)
    assert model.active_set_.rows.dtype == np.float32
    sparse_model = made(storing).partial_fit(sparse.csr_matrix(X.astype(np.float32)), Y, tasks=TASKS)
    assert sparse_model.active_set_.rows.dtype == np.float32
    for other in (X, X.tolist(), (64 * X).astype(int)):
        assert made(storing).partial_fit(other, Y, tasks=TASKS).active_set_.rows.dtype == np.float64
    many, coins = np.tile(X, (8, 10)), RNG.integers(2, size=8 * N)
    small, large = (made(storing, budget=64).partial_fit(rows, coins) for rows in (many.astype(np.float32), many))
    assert small.memory_bytes_ < large.memory_bytes_


@pytest.mark.parametrize(
    "kind", [sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array, np.asfortranarray, np.ndarray.tolist]
)
def test_kinds_of_rows(learner, kind):
    base = sparse.csr_matrix(X) if sparse.issparse(kind(X)) else X
    same(made(learner).partial_fit(kind(X), Y, tasks=TASKS), made(learner).partial_fit(base, Y, tasks=TASKS))


def test_sparse_rows_unsorted_with_duplicates_and_zeros(learner):
    given = sparse.csr_matrix(
        (np.array([1.0, 2.0, 3.0, 0.0, 5.0]), np.array([2, 0, 2, 1, 3]), np.array([0, 3, 5])), shape=(2, 4)
    )
    kept = [part.copy() for part in (given.data, given.indices, given.indptr)]
    dense = np.array([[2.0, 0.0, 4.0, 0.0], [0.0, 0.0, 0.0, 5.0]])
    a, b = made(learner), made(learner)
    tidy = sparse.csr_matrix(dense)
    assert np.array_equal(a.predict_then_learn(given, [0, 1]), b.predict_then_learn(tidy, [0, 1]))
    same(a, b)
    assert all(np.array_equal(*pair) for pair in zip(kept, (given.data, given.indices, given.indptr), strict=True))


def test_dicts_are_hashed_features(learner):
    model = made(learner)
    rows = [
        {"words": 3, "from": "ann", "urgent": True},
        {"words": 1.5, "from": "bob"},
        {"size": 2, "urgent": False},
        {},
    ]
    for _ in range(10):
        for place, row in enumerate(rows):
            model.learn_one(row, place % 2, task="inbox")
    assert model.predict_one(rows[0], task="inbox") in (0, 1)
    assert sparse.issparse(model.active_set_.rows)
    a, b = made(learner), made(learner)
    assert a.learn_one({"x": 1.0, "y": 2.0}, 1) == b.learn_one({"y": 2.0, "x": 1.0}, 1)
    same(a, b)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("engine", ["core", "numpy"])
def test_a_dict_is_a_sparse_row_of_its_own(learner, engine, classes):
    """Single dicts take a shorter path than blocks of rows, with the same result."""
    rows = [{"a": float(a), "b": int(8 * b), "kind": "x" if c > 0 else "y", "on": d > 0, 7: d} for a, b, c, d in X]
    y = np.arange(N) % classes
    labels = list(range(classes))
    one, many = (made(learner, engine=engine) for _ in range(2))
    hashed = hashed_rows("test", rows, DICT_FEATURES)
    first = one.learn_one(rows[0], y[0], task=TASKS[0], classes=labels)
    margins = [
        first,
        *(one.learn_one(x, label, task=task) for x, label, task in zip(rows[1:], y[1:], TASKS[1:], strict=True)),
    ]
    many.partial_fit(hashed[:1], y[:1], tasks=TASKS[:1], classes=labels)
    assert np.array_equal(np.array(margins[1:]), many.predict_then_learn(hashed[1:], y[1:], tasks=TASKS[1:]))
    same(one, many)
    assert [one.predict_one(x, task=task) for x, task in zip(rows, TASKS, strict=True)] == many.predict(
        hashed, tasks=TASKS
    ).tolist()
    before = state_of(one)
    for wrong in ({"a": np.nan}, {"a": 10**400}, {"a": 1e300}):
        with pytest.raises(InputError, match=r"'a'|finite|small enough"):
            one.learn_one(wrong, 0, task=TASKS[0])
    require_same(before, state_of(one), "after a refusal")


def test_learn_one_is_a_block_of_one(learner):
    one, many = made(learner), made(learner)
    margins = many.predict_then_learn(X, Y, tasks=TASKS)
    assert [one.learn_one(x, y, task=task) for x, y, task in zip(X, Y, TASKS, strict=True)] == margins.tolist()
    assert [one.predict_one(x, task=task) for x, task in zip(X, TASKS, strict=True)] == many.predict(
        X, tasks=TASKS
    ).tolist()
    same(one, many)


# ---- looking inside


def test_what_is_stored(storing):
    model = made(storing).partial_fit(X, Y, tasks=TASKS)
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
    if "no_mistake_no_change" in learner.exemptions or model.capacity_ == 0:
        return  # its margins are not a sum over the stored examples alone
    active = model.active_set_
    for task in {*TASKS, "never seen"}:
        margins = KERNEL(X, active.rows) @ model.task_weights(task)
        assert margins == pytest.approx(model.decision_function(X, tasks=[task] * N), abs=1e-12)
    y = np.arange(N) % 3
    model = made(learner).partial_fit(X, y, tasks=TASKS)
    assert KERNEL(X, model.active_set_.rows) @ model.task_weights(2) == pytest.approx(
        model.decision_function(X, tasks=[2] * N), abs=1e-12
    )


def test_gamma_scale(storing):
    some, most = 1 / (4 * X[:32].var()), 1 / (4 * X[:64].var())
    for n, expected in ((31, 1 / 4), (32, some), (63, some), (90, most)):
        for cuts in ([], [5, 33], range(1, n)):
            model = made(storing, kernel=kernels.Gaussian())
            for rows in filter(len, np.split(np.arange(n), cuts)):
                model.partial_fit(X[rows], Y[rows], classes=np.unique(Y))
            assert model.kernel_.gamma == pytest.approx(expected, rel=1e-12)


def test_attributes_need_a_first_example(learner):
    model = made(learner)
    with pytest.raises(NotFittedError):
        model.predict(X)
    for name in ("n_stored_", "n_seen_", "n_mistakes_", "memory_bytes_"):
        assert not hasattr(model, name)
    with pytest.raises((NotFittedError, AttributeError)):
        _ = model.active_set_


def test_forget_task(storing):
    model = made(storing).partial_fit(X, Y, tasks=[f"user {task}" for task in TASKS])
    kept = [name for name in model.active_set_.task if name != "user 1"]
    model.forget_task("user 1")
    model.forget_task("user 1")
    model.forget_task("never seen")
    assert sorted(model.active_set_.task) == sorted(kept) and "user 1" not in model.budget_share_
    fresh = np.array(model.decision_function(X, tasks=["never seen"] * N))
    assert np.array_equal(model.decision_function(X, tasks=["user 1"] * N), fresh)
    model.partial_fit(X, Y, tasks=["user 1"] * N)
    assert "user 1" in model.active_set_.task


def test_forgetting_every_task_leaves_nothing(storing):
    model = made(storing).partial_fit(X, Y, tasks=TASKS)
    for task in range(4):
        model.forget_task(task)
    assert model.n_stored_ == 0 and model.budget_share_ == {}
    if "no_mistake_no_change" not in storing.exemptions:  # otherwise the shared part stays
        assert np.abs(model.decision_function(X, tasks=TASKS)).max() < 1e-12
    model.partial_fit(X, Y, tasks=TASKS)
    assert model.n_stored_ > 0


# ---- copies


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
    same(model, other)
    other.partial_fit(X[::-1], Y, tasks=names)
    require_same(before, state_of(model), "the original, after its copy learned")
    new = copied(made(learner))
    assert not new.__sklearn_is_fitted__()


def test_clone_has_learned_nothing(learner):
    model = made(learner, graph=graphs.complete(4)).partial_fit(X, Y, tasks=TASKS)
    new = clone(model)
    assert not new.__sklearn_is_fitted__() and new.get_params() == model.get_params()
    same(new.partial_fit(X, Y, tasks=TASKS), model)
    if "kernel" in model.get_params():
        assert model.set_params(kernel=kernels.Linear()).kernel == kernels.Linear()


def test_equal_seeds_equal_models(learner):
    if "random_state" not in learner().get_params():
        same(made(learner).fit(X, Y, tasks=TASKS), made(learner).fit(X, Y, tasks=TASKS))
        return
    drawing = learner.presets.get("bogd", {})  # the default of BudgetSgd draws nothing
    models = [made(learner, random_state=seed, **drawing).fit(X, Y, tasks=TASKS) for seed in (3, 3, 4)]
    same(*models[:2])
    margins = [model.decision_function(X, tasks=TASKS) for model in models]
    assert np.array_equal(margins[0], margins[1]) and not np.array_equal(margins[0], margins[2])


def test_tasks_classes_and_weights_are_keywords(learner):
    """A third positional argument would be taken for sample weights by users of scikit-learn, and for tasks by us."""
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
