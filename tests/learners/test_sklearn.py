"""scikit-learn's own checks, and tasks in its pipelines and searches."""

from __future__ import annotations

import warnings

import makers
import numpy as np
import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from budgetron import graphs, kernels

RNG = np.random.default_rng(12)
N = 240
TASKS = RNG.integers(3, size=N)
X = RNG.normal(size=(N, 4))
Y = ((X[:, 0] > 0) ^ (TASKS == 2)).astype(int)  # the labels of the third task are reversed


def made(learner):
    return makers.made(learner, kernel=kernels.Gaussian(0.1), graph=graphs.disconnected())


def test_the_checks_of_scikit_learn_pass(learner):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("ignore", SkipTestWarning)
        checks = check_estimator(
            learner(), on_fail=None, expected_failed_checks=dict(learner.expected_failed_checks)
        )
    failed = [(check["check_name"], check["exception"]) for check in checks if check["status"] == "failed"]
    assert not failed
    assert sum(check["status"] == "passed" for check in checks) > 30


def test_tasks_reach_a_learner_in_a_pipeline(learner, routing):
    pipeline = make_pipeline(StandardScaler(), made(learner)).fit(X, Y, tasks=TASKS)
    scaled = StandardScaler().fit_transform(X)
    without_pipeline = made(learner).fit(scaled, Y, tasks=TASKS)
    assert np.array_equal(pipeline.predict(X, tasks=TASKS), without_pipeline.predict(scaled, tasks=TASKS))
    score = pipeline.score(X, Y, tasks=TASKS)
    assert score == without_pipeline.score(scaled, Y, tasks=TASKS) > pipeline.score(X, Y, tasks=TASKS * 0)


def test_cross_val_score_gives_each_fold_its_tasks(learner, routing):
    folds = KFold(4)
    scores = cross_val_score(made(learner), X, Y, cv=folds, params={"tasks": TASKS})
    expected = [
        made(learner).fit(X[a], Y[a], tasks=TASKS[a]).score(X[b], Y[b], tasks=TASKS[b]) for a, b in folds.split(X)
    ]
    assert scores.tolist() == expected
    assert scores.mean() > cross_val_score(made(learner), X, Y, cv=folds).mean() + 0.1


def test_a_task_column_works_without_metadata_routing(learner):
    model = made(learner).set_params(task_column=0)
    predicted = cross_val_predict(model, np.column_stack([TASKS, X]), Y, cv=KFold(4))
    expected = [
        made(learner).fit(X[a], Y[a], tasks=TASKS[a]).predict(X[b], tasks=TASKS[b]) for a, b in KFold(4).split(X)
    ]
    assert np.array_equal(predicted, np.concatenate(expected))


def test_a_grid_search_routes_tasks_to_the_learner(learner, routing):
    if not {"graph", "kernel"} <= learner().get_params().keys():
        pytest.skip("this learner has no graph or kernel to choose")
    grid = {"graph": [graphs.complete(coupling=float("inf")), graphs.disconnected()]}
    search = GridSearchCV(made(learner), grid, cv=3).fit(X, Y, tasks=TASKS)
    assert search.best_params_["graph"] == graphs.disconnected()
    assert search.score(X, Y, tasks=TASKS) == search.best_estimator_.score(X, Y, tasks=TASKS)
    other = kernels.Gaussian(1.0) if "gaussian_only" in learner.exemptions else kernels.Linear()
    inside_pipeline = GridSearchCV(
        make_pipeline(StandardScaler(), made(learner)),
        {f"{learner.__name__.lower()}__kernel": [other, kernels.Gaussian(0.1)]},
        cv=3,
    ).fit(X, Y, tasks=TASKS)
    assert inside_pipeline.best_estimator_.predict(X, tasks=TASKS).shape == (N,)
