"""Kernels of the user that return something wrong: the error names the kernel, and the model stays as it was."""

from __future__ import annotations

import numpy as np
import pytest

from budgetron import BudgetProjectron, Perceptron, RandomBudgetPerceptron
from budgetron.errors import InputError
from budgetron.kernels import Kernel, Linear

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)


class Mine(Kernel):
    """The linear kernel; while `is_on`, `change` is applied to its values."""

    def __init__(self, change):
        self.change, self.is_on = change, True

    def of_products(self, dot, sq_a, sq_b):
        return self.change(dot) if self.is_on else dot


WRONG = {
    "sum": (np.sum, r"shape \(60,\), like its arguments; got shape \(\)"),
    "column": (lambda dot: dot[..., None], r"shape \(60,\), like its arguments; got shape \(60, 1\)"),
    "matrix": (lambda dot: np.outer(dot, dot), r"got shape \(60, 60\)"),
    "list": (lambda dot: [1.0], r"got shape \(1,\)"),
    "number": (lambda dot: 1.0, r"got shape \(\)"),
    "complex": (lambda dot: dot + 0j, "real numbers of .*; got dtype complex128"),
    "nothing": (lambda dot: None, "real numbers of .*; got None"),
    "NaN": (lambda dot: dot * np.nan, r"without NaN; got NaN for dot = [\d.]+, sq_a = [\d.]+ and sq_b = [\d.]+\."),
}


@pytest.mark.parametrize(("change", "words"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("rule", [Perceptron, BudgetProjectron])
def test_a_wrong_result_of_a_kernel_is_reported_with_its_name(rule, change, words):
    with pytest.raises(InputError, match=f"^Mine: the result of of_products must be .*{words}"):
        rule(kernel=Mine(change)).partial_fit(X, Y)


def raise_an_error(dot):
    raise RuntimeError("mine")


@pytest.mark.parametrize("rule", [RandomBudgetPerceptron, BudgetProjectron])
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (np.sqrt, InputError, "^Mine: the result of of_products must be without NaN; got NaN for dot = -"),
        (lambda dot: dot if len(dot) == 30 else raise_an_error(dot), RuntimeError, "mine"),
    ],
    ids=["NaN of some pairs", "exception"],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in sqrt")
def test_a_kernel_that_fails_in_the_middle_of_a_block_leaves_the_model_unchanged(rule, change, error, words):
    """The checks before a block compute only k(x, x), which succeeds here.

    The kernel fails on pairs of different rows. Earlier rows of the block have been learned by then.
    """
    kernel = Mine(change)
    kernel.is_on = False
    model, other = (rule(budget=10, kernel=kernel).partial_fit(X[:30], Y[:30]) for _ in range(2))
    kernel.is_on = True
    with pytest.raises(error, match=words):
        model.partial_fit(X[30:], Y[30:])
    kernel.is_on = False
    for each in (model, other):
        assert each.n_seen_ == 30
        each.partial_fit(X[30:], Y[30:])
    np.testing.assert_array_equal(model.decision_function(X), other.decision_function(X))


def test_rows_that_are_not_finite_or_too_large_are_still_named():
    model = Perceptron(kernel=Mine(lambda dot: dot**2)).partial_fit(X, Y)
    for value, words in ((np.nan, "row 1 with NaN"), (np.inf, "row 1 with NaN"), (1e60, "row 1 with values up to")):
        with pytest.raises(InputError, match=f"^Perceptron: X must be .*{words}"):
            model.predict([[1.0, 2.0, 3.0], [value, 2.0, 3.0], [np.nan, 2.0, 3.0]])


def test_a_function_is_not_a_kernel_and_the_error_says_how_to_write_one():
    for kernel in (lambda a, b: a @ b, "rbf", Linear):
        with pytest.raises(InputError, match=r"^Perceptron: kernel must be a kernel .* a subclass of"):
            Perceptron(kernel=kernel).fit(X, Y)
