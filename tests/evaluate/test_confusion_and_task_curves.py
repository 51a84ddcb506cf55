"""The confusion table, curves per task, beliefs over time, and the order of tasks."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from budgetron import Budgetron, Forgetron, RandomBudgetPerceptron, evaluate, kernels
from budgetron.data import synthetic
from budgetron.evaluate.metrics.confusion import MAX_CLASSES
from budgetron.evaluate.task_curves import MAX_POSITIONS

STREAM = synthetic.stream(900, d=6, n_tasks=5, relatedness=0.7, noise=0.1, task_skew=1.0, seed=3).dataset
X, Y, TASKS = STREAM.X, STREAM.y, STREAM.tasks


def model() -> Forgetron:
    return Forgetron(budget=20, kernel=kernels.Gaussian(gamma=0.2))


@pytest.mark.parametrize("names", [["ham", "spam"], ["a", "b", "c"]])
def test_confusion_equals_that_of_scikit_learn(names: list[str]) -> None:
    rng = np.random.default_rng(0)
    labels = np.array(names)[(np.digitize(X[:, 0], [-0.4, 0.4]) + rng.integers(0, 2, len(X)) // 2) % len(names)]
    margins = model().predict_then_learn(X, labels, tasks=TASKS, classes=names)
    predicted = (margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)
    result = evaluate.progressive(model(), (X, labels, TASKS), window=100)
    assert result.confusion is not None and result.confusion.classes == tuple(names)
    assert (result.confusion.counts == confusion_matrix(labels, np.array(names)[predicted], labels=names)).all()
    assert json.loads(json.dumps(result.to_dict()))["confusion"]["classes"] == names


def test_no_confusion_table_for_too_many_classes() -> None:
    labels = np.arange(MAX_CLASSES + 1)
    stream = (np.eye(MAX_CLASSES + 1), labels, labels % 3)
    assert evaluate.progressive(RandomBudgetPerceptron(3, kernels.Linear()), stream).confusion is None


@pytest.mark.parametrize("window", [pytest.param(1, marks=pytest.mark.long), 7, 100, 5000])
def test_curves_per_task_equal_plain_counts(window: int) -> None:
    wrong = (model().predict_then_learn(X, Y, tasks=TASKS) > 0) != Y
    result = evaluate.progressive(model(), (X, Y, TASKS), window=window)
    assert result.task_curves.keys() == result.per_task.keys()
    for task, curve in result.task_curves.items():
        assert 1 <= len(curve.position) <= MAX_POSITIONS and curve.position[-1] == len(Y)
        for position, n, errors in zip(curve.position, curve.n, curve.errors, strict=True):
            assert n == (TASKS[:position] == task).sum() and errors == wrong[:position][TASKS[:position] == task].sum()
        assert sum(curve.windows()[0]) == curve.n[-1] and sum(curve.windows()[1]) == curve.errors[-1]


def test_the_curve_records_beliefs_over_time() -> None:
    """Beliefs are the models that a Budgetron averages; the curve has the weight of each."""
    learner = Budgetron(budget=200)
    result = evaluate.progressive(learner, STREAM, window=300)
    assert list(result.curve[-1].beliefs) == learner.beliefs_
    assert result.curve[0].beliefs != result.curve[-1].beliefs
    assert all(sum(weight for _, weight in point.beliefs) == pytest.approx(1) for point in result.curve)
    assert json.dumps(result.to_dict()["curve"][0]["beliefs"])


def test_tasks_are_sorted_by_the_lower_confidence_limit() -> None:
    """The lower ends of Wilson's interval at z = 3, computed by hand.

    40 errors of 100 give 0.267, 3 of 3 give 3/12, 2 of 20 give 0.016, and 0 of 50 give 0.
    """
    result = evaluate.progressive(model(), STREAM)
    rows = {
        task: replace(result.overall, n=n, error=errors / n)
        for task, (errors, n) in {"fine": (0, 50), "thrice": (3, 3), "some": (2, 20), "often": (40, 100)}.items()
    }
    worst = replace(result, per_task=rows).worst_first()
    assert [task for task, _ in worst] == ["often", "thrice", "some", "fine"]
    assert [row.error_at_least for _, row in worst] == pytest.approx([0.26725, 0.25, 0.01595, 0.0], abs=1e-5)
