"""The relations that a RelationPerceptron reports, and the error of `query_probability` before the first example."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from budgetron import RelationPerceptron


def fitted(**parameters):
    """Return a model of the tasks 0 and 1, which are alike, and three tasks: these two and one that was never seen."""
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(400, 5)), rng.integers(2, size=400)
    model = RelationPerceptron(**parameters).fit(X, (X[:, 0] > 0).astype(int), tasks=tasks)
    return model, [0, 1, "never seen"]


@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_spectral_relations_do_not_depend_on_the_number_of_tasks(engine):
    """A task without learned weights has C_ii = 1 for any number of tasks, because the spectral rule has no scale κ."""
    (model, names), (counted, _) = fitted(engine=engine), fitted(engine=engine, n_tasks=7)
    relations = model.task_relations(names)
    assert np.array_equal(relations, counted.task_relations(names))
    assert relations[2].tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_the_number_of_tasks_scales_the_other_relations(engine):
    model, names = fitted(relations="logdet", engine=engine, n_tasks=7)
    relations = model.task_relations(names)
    assert relations[2].tolist() == [0.0, 0.0, 7.0]


def test_questions_need_a_fitted_model():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        RelationPerceptron().query_probability(np.ones((1, 5)))
