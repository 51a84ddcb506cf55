"""Changing the budget of a fitted model."""

from __future__ import annotations

import numpy as np
import pytest

import budgetron
from budgetron import kernels
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


def begun(rule, engine="auto", budget=40):
    X, y, tasks = stream()
    return rule(budget=budget, kernel=KERNEL, engine=engine).partial_fit(X, y, tasks=tasks)


@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize("rule", SHRINKING)
def test_surplus_examples_are_evicted_and_learning_continues(rule, engine):
    X, y, tasks = stream()
    model = begun(rule, engine)
    stayed = set(model.active_set_.arrival.tolist())
    model.resize(25)
    assert model.n_stored_ <= 25 == model.capacity_ == model.budget
    assert set(model.active_set_.arrival.tolist()) <= stayed
    model.partial_fit(X, y, tasks=tasks)
    assert model.n_stored_ <= 25
    model.resize(60)
    model.partial_fit(X, y, tasks=tasks)
    assert 25 < model.n_stored_ <= 60


@pytest.mark.parametrize("rule", [*SHRINKING, budgetron.Forgetron])
def test_more_capacity_alone_changes_no_prediction(rule):
    X, _, tasks = stream()
    model = begun(rule)
    before = model.decision_function(X, tasks=tasks)
    model.resize(70)
    np.testing.assert_allclose(model.decision_function(X, tasks=tasks), before, rtol=1e-9, atol=1e-12)


def test_a_projection_keeps_more_than_forgetting():
    """A projection keeps the part of an evicted example that the others span; dropping loses all of it."""
    X, _, tasks = stream()
    lost = {}
    for rule in (budgetron.BudgetProjectron, budgetron.RandomBudgetPerceptron):
        model = begun(rule, budget=60)
        before = model.decision_function(X, tasks=tasks)
        model.resize(45)
        lost[rule] = np.abs(model.decision_function(X, tasks=tasks) - before).mean() / np.abs(before).mean()
    assert lost[budgetron.BudgetProjectron] < lost[budgetron.RandomBudgetPerceptron]


def test_refusals_change_nothing():
    X, _, tasks = stream()
    model = begun(budgetron.Forgetron)
    before = model.decision_function(X, tasks=tasks)
    for budget, words in ((20, "at least 40, the number"), (0, "an integer >= 1"), ("1 MiB", "an integer >= 1")):
        with pytest.raises(InputError, match=words):
            model.resize(budget)
    np.testing.assert_array_equal(model.decision_function(X, tasks=tasks), before)
    with pytest.raises(InputError, match="a number of stored examples, both before and after"):
        begun(budgetron.SharedProjectron, budget=None).resize(10)


@pytest.mark.parametrize("budget", [40, "64 KiB"])
def test_the_parts_of_a_budgetron_keep_their_sizes(budget):
    X, _, tasks = stream()
    model = begun(budgetron.Budgetron, budget=budget)
    before, memory = model.decision_function(X, tasks=tasks), model.memory_bytes_
    with pytest.raises(InputError, match=r"budget must be .*got .*Train a new model|both before and after"):
        model.resize(20)
    np.testing.assert_array_equal(model.decision_function(X, tasks=tasks), before)
    assert model.memory_bytes_ == memory and model.budget == budget
