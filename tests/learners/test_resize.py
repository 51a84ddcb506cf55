"""Changing the budget of a fitted model."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse

import budgetron
from budgetron import kernels
from budgetron.engine import native
from budgetron.engine.memory import bytes_of
from budgetron.errors import InputError

KERNEL = kernels.Gaussian(gamma=0.4)
SHRINKING = [
    budgetron.RandomBudgetPerceptron,
    budgetron.BudgetProjectron,
    budgetron.SharedProjectron,
]


def stream(n=500):
    rng = np.random.default_rng(3)
    X, tasks = rng.normal(size=(n, 3)), rng.integers(0, 6, size=n)
    return X, (X[:, 0] * X[:, 1] > 0.1 * tasks).astype(int), tasks


def fitted(rule, engine="auto", budget=40):
    X, y, tasks = stream()
    return rule(budget=budget, kernel=KERNEL, engine=engine).partial_fit(X, y, tasks=tasks)


@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize("rule", SHRINKING)
def test_surplus_examples_are_evicted_and_learning_continues(rule, engine):
    X, y, tasks = stream()
    model = fitted(rule, engine)
    stored_before = set(model.active_set_.arrival.tolist())
    model.resize(25)
    assert model.n_stored_ <= 25 == model.capacity_ == model.budget
    assert set(model.active_set_.arrival.tolist()) <= stored_before
    model.partial_fit(X, y, tasks=tasks)
    assert model.n_stored_ <= 25
    model.resize(60)
    model.partial_fit(X, y, tasks=tasks)
    assert 25 < model.n_stored_ <= 60


@pytest.mark.parametrize("rule", [*SHRINKING, budgetron.Forgetron])
def test_more_capacity_changes_no_prediction(rule):
    X, _, tasks = stream()
    model = fitted(rule)
    before = model.decision_function(X, tasks=tasks)
    model.resize(70)
    np.testing.assert_allclose(model.decision_function(X, tasks=tasks), before, rtol=1e-9, atol=1e-12)


def test_eviction_by_projection_loses_less_than_removal():
    """A projection keeps the part of an evicted example that the others span; removal loses all of it."""
    X, _, tasks = stream()
    change = {}
    for rule in (budgetron.BudgetProjectron, budgetron.RandomBudgetPerceptron):
        model = fitted(rule, budget=60)
        before = model.decision_function(X, tasks=tasks)
        model.resize(45)
        change[rule] = np.abs(model.decision_function(X, tasks=tasks) - before).mean() / np.abs(before).mean()
    assert change[budgetron.BudgetProjectron] < change[budgetron.RandomBudgetPerceptron]


def test_an_invalid_new_budget_is_refused_and_changes_nothing():
    X, _, tasks = stream()
    model = fitted(budgetron.Forgetron)
    before = model.decision_function(X, tasks=tasks)
    for budget, words in ((20, "at least 40, the number"), (0, "an integer >= 1"), ("1 MiB", "an integer >= 1")):
        with pytest.raises(InputError, match=words):
            model.resize(budget)
    np.testing.assert_array_equal(model.decision_function(X, tasks=tasks), before)
    with pytest.raises(InputError, match="a number of stored examples, both before and after"):
        fitted(budgetron.SharedProjectron, budget=None).resize(10)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("rule", [budgetron.BudgetProjectron, budgetron.SharedProjectron, budgetron.Forgetron])
def test_a_size_in_bytes_of_other_learners_cannot_change(rule, is_sparse):
    """A number of examples could make the model larger than the size that the user asked for."""
    X, y, tasks = stream()
    model = rule(budget="64 KiB").partial_fit(sparse.csr_matrix(X) if is_sparse else X, y, tasks=tasks)
    before = model.memory_bytes_
    with pytest.raises(InputError, match="a number of stored examples, both before and after"):
        model.resize(2000)
    assert model.budget == "64 KiB" and model.memory_bytes_ == before


@pytest.mark.parametrize("before", [None, "64 KiB"])
@pytest.mark.parametrize("rule", [budgetron.SharedProjectron, budgetron.Forgetron])
def test_the_remedy_for_another_kind_of_budget_is_a_new_model(rule, before):
    model = fitted(rule, budget=before)
    for budget in (10, "1 MiB"):
        message = (f"got a model with budget={before!r}. Train a new model: "
                   f"{rule.__name__}(budget={budget!r}, ...).")  # fmt: skip
        with pytest.raises(InputError, match=re.escape(message)):
            model.resize(budget)


@pytest.mark.parametrize("rule", [budgetron.Perceptron, budgetron.LinearPerceptron, budgetron.RelationPerceptron])
def test_a_learner_without_a_budget_says_so_and_names_learners_with_one(rule):
    X, y, tasks = stream()
    parameters = {"n_tasks": 6} if "n_tasks" in rule().get_params() else {}
    model = rule(**parameters).partial_fit(X, y, tasks=tasks)
    expected = (f"{rule.__name__}: resize is for learners with a budget; got 10. "
                "Train a learner that has one, such as Budgetron(budget=10).")  # fmt: skip
    with pytest.raises(InputError, match=f"^{re.escape(expected)}$"):
        model.resize(10)


@pytest.mark.parametrize("before", [None, "64 KiB", 40])
def test_a_fourier_sgd_cannot_be_resized_whatever_its_budget_is(before):
    with pytest.raises(InputError, match=r"unchanged, because its random features are fixed; got 10\. Train a new"):
        fitted(budgetron.FourierSgd, budget=before).resize(10)


# ---- Budgetron: other sizes of its parts


def rings(n, is_sparse=False, seed=4):
    """Return dense rows with a circular boundary, or sparse rows of words. Each word is evidence for one class."""
    rng = np.random.default_rng(seed)
    if not is_sparse:
        X = rng.normal(size=(n, 4))
        return X, ((X[:, :2] ** 2).sum(axis=1) > 1.4).astype(int)
    words = rng.integers(4000, size=(n, 12))
    X = sparse.csr_matrix((np.ones(words.size), words.ravel(), np.arange(0, words.size + 1, 12)), shape=(n, 4000))
    return X, (np.where(words % 2, 1.0, -1.0).sum(axis=1) + 0.1 > 0).astype(int)


@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_a_resized_budgetron_keeps_its_accuracy(is_sparse, engine, tmp_path):
    """More bytes change no margin of a dense model and few predictions of a sparse one. Fewer bytes cost accuracy."""
    n = 3000 if engine == "auto" else 600
    X, y = rings(n, is_sparse)
    test, truth = rings(n // 2, is_sparse, seed=5)
    model = budgetron.Budgetron(budget="256 KiB", engine=engine).partial_fit(X, y)
    before = model.decision_function(test)
    error = np.mean((before > 0) != truth)
    model.resize("1 MiB")
    after = model.decision_function(test)
    if is_sparse:
        # A bucket of the larger table may cover hashes of two old buckets, and then has room for half of their cells.
        assert np.mean((after > 0) == (before > 0)) > 0.9
    else:
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)
    assert model.budget == "1 MiB"
    model.resize("128 KiB")
    assert model.memory_bytes_ <= 128 * 2**10
    error_after = np.mean((model.decision_function(test) > 0) != truth)
    assert error_after < 0.5 * (0.5 + error)
    model.save(tmp_path / "m")
    loaded = budgetron.load(tmp_path / "m", engine=engine)
    for resized in (model, loaded):
        resized.partial_fit(X[: n // 2], y[: n // 2])
        assert resized.memory_bytes_ <= 128 * 2**10
    np.testing.assert_array_equal(model.decision_function(test), loaded.decision_function(test))


def test_new_weights_of_a_resized_budgetron_begin_with_small_steps():
    """The squares G of new AdaGrad weights begin with a quarter of the mean G of old weights, as in a model that grows.

    With G = 0, the first step of every new weight would be as long as the step size λ.
    """
    X, y = rings(600)
    model = budgetron.Budgetron(budget="14 KiB").partial_fit(X, y)
    before = model._engine.state()
    model.resize("256 KiB")
    after = model._engine.state()
    for k in range(3):
        n_old, n_new = (int(state[f"adagrad{k}_frequencies"][0]) for state in (before, after))
        squares = after[f"adagrad{k}_squares"][0, 5:]  # the first five belong to the four columns and the bias
        assert n_old < n_new and len(squares) == 2 * n_new
        np.testing.assert_allclose(squares[2 * n_old :], squares[: 2 * n_old].mean() / 4, rtol=1e-5)


def test_the_rows_of_the_tasks_updated_last_remain_in_a_smaller_budget():
    """Every task has a row at first. The first tasks learn again at the end, so their rows count as new."""
    rng, n_tasks = np.random.default_rng(6), 500
    order = [*range(n_tasks), *range(20)]
    X, tasks = rng.normal(size=(2 * len(order), 5)), [f"user {t}" for t in order for _ in range(2)]
    model = budgetron.Budgetron(budget="2 MiB").partial_fit(X, X[:, 0] > 0, tasks=tasks)
    before = model._engine.state()
    ids, _ = model._engine.settings.graph.locate([f"user {t}" for t in order[20:]])
    assert before["row_id"].tolist() == list(ids)  # the task that was updated last has the last row
    model.resize("1 MiB")
    after, n_before = model._engine.state(), len(before["row_id"])
    n_after = len(after["row_id"])
    assert 20 < n_after < n_before and model.memory_bytes_ <= 2**20
    for name in ("row_id", "row_common", "row_count", "row_values"):
        np.testing.assert_array_equal(after[name], before[name][n_before - n_after :])
    model.partial_fit(X, X[:, 0] > 0, tasks=tasks)
    assert model.memory_bytes_ <= 2**20


@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_resized_budgetron_may_gain_and_lose_own_weights_for_bins(n_classes, engine):
    """A model that has little more memory than its beliefs need has no own weights for bins."""
    rng = np.random.default_rng(8)
    X, tasks = rng.normal(size=(300, 4)), rng.integers(7, size=300)
    y = (np.abs(X[:, 0]) + 0.3 * (tasks % 2) > 0.7).astype(int) + (X[:, 1] > 1) * (n_classes - 2)
    model = budgetron.Budgetron(budget="4 MiB", engine=engine).partial_fit(X, y, tasks=tasks)
    assert model._engine.settings.parameters.bin_cells > 0
    for kib in range(2000, 100, -50):
        try:
            model.resize(f"{kib} KiB")
        except InputError:  # too small for the beliefs
            break
    assert model._engine.settings.parameters.bin_cells == 0
    model.partial_fit(X, y, tasks=tasks)
    model.resize("4 MiB")
    assert model._engine.settings.parameters.bin_cells > 0
    model.partial_fit(X, y, tasks=tasks)
    assert np.mean(model.predict(X, tasks=tasks) == y) > 0.8


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_a_budgetron_with_a_budget_of_examples_can_grow(is_sparse):
    X, y = rings(2000, is_sparse)
    model = budgetron.Budgetron(budget=100).partial_fit(X, y)
    larger = budgetron.Budgetron(budget=300).partial_fit(X, y)
    model.resize(300)
    model.partial_fit(X, y)
    planned = bytes_of(larger._engine.settings, native.available)  # of a new model with this budget
    assert model.budget == 300 and model.memory_bytes_ <= 1.05 * planned + 4096


def test_a_budgetron_that_cannot_be_resized_is_as_before():
    X, y = rings(500)
    model = budgetron.Budgetron(budget="256 KiB").partial_fit(X, y)
    before, memory = model.decision_function(X), model.memory_bytes_
    for budget, words in (("9 KiB", "for the beliefs that the model has"), (None, "a number of examples"),
                          ("many", "a size such as")):  # fmt: skip
        with pytest.raises(InputError, match=words):
            model.resize(budget)
    np.testing.assert_array_equal(model.decision_function(X), before)
    assert model.memory_bytes_ == memory and model.budget == "256 KiB"


@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_a_budget_that_is_too_small_for_the_beliefs_is_answered_with_one_that_suffices(is_sparse, engine):
    X, y = rings(100, is_sparse)
    model = budgetron.Budgetron(budget="4 MiB", engine=engine).partial_fit(X, y, tasks=np.arange(100) % 7)
    with pytest.raises(InputError, match=r'^Budgetron: budget must be at least "\d+ KiB" for .*; got 1024 by') as error:
        model.resize("1 KiB")
    needed = int(re.search(r'at least "(\d+) KiB"', str(error.value))[1])
    with pytest.raises(InputError, match=f'at least "{needed} KiB"'):
        model.resize(f"{needed - 1} KiB")
    model.resize(f"{needed} KiB")
    assert model.memory_bytes_ <= needed * 2**10


def test_a_number_of_examples_that_is_too_small_for_the_beliefs_is_answered_with_one_that_suffices():
    X, y = rings(100)
    model = budgetron.Budgetron(budget=300).partial_fit(X, y)
    with pytest.raises(InputError, match=r"^Budgetron: budget must be at least \d+ for .*; got 1\.") as error:
        model.resize(1)
    needed = int(re.search(r"at least (\d+) ", str(error.value))[1])
    with pytest.raises(InputError, match=f"at least {needed} "):
        model.resize(needed - 1)
    model.resize(needed)
    assert model.budget == needed
