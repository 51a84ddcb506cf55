"""Labels of every learner: their types, classes that are named or found, and the sign of margins."""

from __future__ import annotations

import numpy as np
import pytest
from contract_streams import KERNEL, TASKS, N, X, Y, assert_same_model, made

from budgetron import Budgetron, kernels
from budgetron.errors import InputError, UnknownLabel


@pytest.mark.parametrize(
    ("first", "second"), [(-1, 1), (0, 1), (1, -1), (1, 0), (True, False), (False, True), (-1.0, 1.0)]
)
def test_a_single_first_label_that_implies_the_other_is_accepted(learner, first, second):
    model = made(learner)
    model.learn_one(X[0], first, task="ann")
    model.learn_one(X[1], second, task="ann")
    assert model.classes_.tolist() == sorted([first, second])
    assert model.predict_one(X[0], task="ann") in (first, second)


def test_a_single_first_label_gives_the_same_model_as_named_classes(learner):
    for negative in (-1, 0):
        y = np.where(Y, 1, negative)
        first = int(np.flatnonzero(Y)[0])
        without_classes, with_classes = made(learner), made(learner)
        without_classes.learn_one(X[first], 1)
        without_classes.partial_fit(X, y)
        with_classes.partial_fit(X[[first]], [1], classes=[negative, 1]).partial_fit(X, y)
        assert without_classes.classes_.tolist() == [negative, 1]
        assert_same_model(without_classes, with_classes)


@pytest.mark.parametrize("label", ["spam", 2, "1"])
def test_a_single_first_label_that_implies_no_other_needs_classes(learner, label):
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


BOOLEANS, WORDS = Y.astype(bool), np.where(Y, "true", "false")


@pytest.mark.parametrize(("first", "second"), [
    (WORDS, BOOLEANS), (BOOLEANS, WORDS), (WORDS, BOOLEANS.astype(object)), (BOOLEANS.astype(object), WORDS),
    (WORDS, BOOLEANS.reshape(-1, 1)),
], ids=["booleans", "words", "boolean objects", "words of objects", "a column of booleans"])  # fmt: skip
def test_score_takes_both_spellings_of_boolean_labels(learner, first, second):
    model = made(learner).partial_fit(X, first, tasks=TASKS)
    expected = model.score(X, first, tasks=TASKS)
    assert 0.5 < expected == model.score(X, second, tasks=TASKS)
    model.partial_fit(X, second.ravel(), tasks=TASKS)  # learning takes both, too


def test_score_refuses_booleans_if_the_classes_are_other_words(learner):
    model = made(learner).partial_fit(X, np.where(Y, "spam", "ham"), tasks=TASKS)
    with pytest.raises(UnknownLabel, match=rf"^{learner.__name__}: y must be one of the known classes"):
        model.score(X, BOOLEANS, tasks=TASKS)


@pytest.mark.parametrize("names", [["ham", "spam"], [3, 7], [False, True], ["a", "b", "c"], [0.0, 1.0, 2.0]], ids=str)
def test_labels_of_any_type_are_learned(learner, names):
    codes = np.arange(N) % len(names)
    labels = np.array(names)[codes]
    model, coded = made(learner).fit(X, labels, tasks=TASKS), made(learner).fit(X, codes, tasks=TASKS)
    assert model.classes_.tolist() == sorted(names)
    assert model.predict(X, tasks=TASKS).tolist() == np.array(names)[coded.predict(X, tasks=TASKS)].tolist()
    assert_same_model(model, coded)


def test_a_positive_margin_means_the_second_class(learner):
    only = "gaussian_only" in learner.exemptions
    model = made(learner, kernel=KERNEL if only else kernels.Linear()).fit(X, Y, tasks=TASKS)
    margins = model.decision_function(X, tasks=TASKS)
    assert np.array_equal(model.predict(X, tasks=TASKS), (margins > 0).astype(int))
    if not only and learner is not Budgetron:  # a Budgetron has weights for the bias
        zero = np.zeros((1, 4))  # its margin is 0 under a linear kernel
        assert model.decision_function(zero, tasks=[0]) == 0 and model.predict(zero, tasks=[0]) == model.classes_[0]


def test_the_predicted_class_has_the_largest_margin(learner):
    y = np.arange(N) % 3
    model = made(learner)
    assert model.predict_then_learn(X, y, tasks=TASKS).shape == (N, 3)
    margins = model.decision_function(X, tasks=TASKS)
    assert margins.shape == (N, 3) and np.array_equal(model.predict(X, tasks=TASKS), margins.argmax(axis=1))
    assert np.shape(model.learn_one(X[0], 2, task=0)) == (3,)


def test_fit_forgets_what_was_learned(learner):
    model = made(learner).fit(X, Y, tasks=TASKS).fit(X[:30, :3], Y[:30], tasks=TASKS[:30])
    assert_same_model(model, made(learner).fit(X[:30, :3], Y[:30], tasks=TASKS[:30]))
    assert model.n_seen_ == 30 and model.n_features_in_ == 3
