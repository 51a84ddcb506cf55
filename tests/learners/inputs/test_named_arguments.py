"""Calls with an unknown argument, or with a positional argument that must be named, get an error with a remedy."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from budgetron import Budgetron, Perceptron
from budgetron.errors import InputError, InputTypeError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y, TASKS = (X[:, 0] > 0).astype(int), np.arange(40) % 4


@pytest.fixture(params=[Perceptron, Budgetron], scope="module")
def fitted(request):
    return request.param().fit(X, Y, tasks=TASKS)


@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict_then_learn", "score"])
def test_tasks_and_weights_must_be_named(fitted, method):
    who = type(fitted).__name__
    words = f"^{who}: the arguments of {method} must be X, y and, by name, tasks.*; got 3 positional .* tasks=…$"
    before = fitted.n_seen_
    with pytest.raises(InputTypeError, match=words):
        getattr(fitted, method)(X, Y, TASKS)
    assert fitted.n_seen_ == before


@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_tasks_to_predict_must_be_named(fitted, method):
    with pytest.raises(InputTypeError, match=f"{method} must be X and, by name, tasks.*; got 2 positional"):
        getattr(fitted, method)(X, TASKS)


def test_a_similar_name_is_suggested(fitted):
    with pytest.raises(InputTypeError, match=r"explain must be x and, by name, task, .*; got tasks=\. Did .* task=\?"):
        fitted.explain(X, tasks=TASKS)
    with pytest.raises(InputTypeError, match=r"got task=\. Did you mean tasks=\?"):
        fitted.predict(X, task=1)
    with pytest.raises(InputTypeError, match=r"got weird=\.$"):
        fitted.partial_fit(X, Y, weird=1)


def test_other_errors_and_signatures_are_unchanged(fitted):
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'") as error:
        fitted.fit(X)
    assert not isinstance(error.value, InputError)
    with pytest.raises(InputError, match="y must be one label for each row; got None"):
        fitted.fit(X, None)
    parameters = inspect.signature(type(fitted).fit).parameters
    assert list(parameters) == ["self", "X", "y", "tasks", "sample_weight", "offset"]
    assert parameters["tasks"].kind is inspect.Parameter.KEYWORD_ONLY
    assert fitted.get_metadata_routing().fit.requests["tasks"] is True
