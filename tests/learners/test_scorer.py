"""`budgetron.scorer` predicts with the tasks of each fold; scikit-learn's own scorers raise an error with a remedy."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import get_scorer, make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, TunedThresholdClassifierCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from budgetron import Budgetron, Forgetron, scorer
from budgetron.errors import InputError

RNG = np.random.default_rng(5)
TASKS = RNG.integers(3, size=240)
X = RNG.normal(size=(240, 3))
Y = ((X[:, 0] > 0) ^ (TASKS == 2)).astype(int)  # the labels of the third task are reversed
FOLDS = KFold(3)


def expected(metric):
    values = []
    for train, test in FOLDS.split(X):
        model = Budgetron(budget=30).fit(X[train], Y[train], tasks=TASKS[train])
        values.append(metric(model, test))
    return values


def test_a_scorer_predicts_with_the_tasks_of_its_fold(routing):
    def auc(model, test):
        return roc_auc_score(Y[test], model.decision_function(X[test], tasks=TASKS[test]))

    options = {"cv": FOLDS, "params": {"tasks": TASKS}}
    assert cross_val_score(Budgetron(budget=30), X, Y, scoring=scorer("roc_auc"), **options).tolist() == expected(auc)
    of_own = scorer(make_scorer(roc_auc_score, response_method="decision_function"))
    assert cross_val_score(Budgetron(budget=30), X, Y, scoring=of_own, **options).tolist() == expected(auc)


@pytest.mark.parametrize("name", ["accuracy", "f1", "neg_log_loss", "neg_brier_score", "average_precision"])
def test_names_of_scorers_work_in_pipelines_and_searches(routing, name):
    pipeline = make_pipeline(StandardScaler(), Budgetron(budget=30))
    search = GridSearchCV(pipeline, {"budgetron__budget": [20, 30]}, scoring=scorer(name), cv=FOLDS)
    search.fit(X, Y, tasks=TASKS)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all() and search.score(X, Y, tasks=TASKS) > -1
    fitted = pipeline.fit(X, Y, tasks=TASKS)
    assert scorer(name)(fitted, X, Y, tasks=TASKS) > scorer(name)(fitted, X, Y, tasks=TASKS * 0)


def test_several_metrics_with_sample_weights(routing):
    scoring = {"auc": scorer("roc_auc"), "hits": scorer("accuracy").set_score_request(sample_weight="importance")}
    search = GridSearchCV(Budgetron(budget=30), {"budget": [30]}, scoring=scoring, refit="auc", cv=FOLDS)
    weights = (TASKS == 2).astype(float)
    cv_results = search.fit(X, Y, tasks=TASKS, importance=weights).cv_results_

    def hits(model, test):
        return model.score(X[test], Y[test], tasks=TASKS[test], sample_weight=weights[test])

    assert cv_results["mean_test_hits"][0] == pytest.approx(np.mean(expected(hits)))
    assert cv_results["mean_test_auc"][0] > 0.8


def test_scorers_of_scikit_learn_itself_fail_with_the_remedy(routing):
    with pytest.warns(UserWarning, match=r"scoring=budgetron\.scorer\(\.\.\.\), or put the task into a column of X"):
        scores = cross_val_score(Budgetron(budget=30), X, Y, cv=FOLDS, scoring="accuracy", params={"tasks": TASKS})
    assert np.isnan(scores).all()
    with pytest.raises(InputError, match=r"task_column="):
        TunedThresholdClassifierCV(Budgetron(budget=30)).fit(X, Y, tasks=TASKS)
    with pytest.raises(AttributeError, match=r"TunedThresholdClassifierCV passes no tasks.*task_column="):
        TunedThresholdClassifierCV(Budgetron(budget=30), scoring=scorer("f1")).fit(X, Y, tasks=TASKS)


def test_with_a_task_column_every_scorer_works():
    rows = np.column_stack([TASKS, X])
    assert cross_val_score(Budgetron(budget=30, task_column=0), rows, Y, scoring="roc_auc", cv=FOLDS).mean() > 0.8
    tuned = TunedThresholdClassifierCV(Budgetron(budget=30, task_column=0), scoring="f1", cv=FOLDS).fit(rows, Y)
    assert (tuned.predict(rows) == Y).mean() > 0.8


def test_without_tasks_a_scorer_is_that_of_scikit_learn():
    model = Forgetron(budget=10).fit(X, Y)
    assert scorer("roc_auc")(model, X, Y) == get_scorer("roc_auc")(model, X, Y)
    for wrong in ("nonsense", 7, None):
        with pytest.raises(InputError, match="scoring must be the name of a scorer"):
            scorer(wrong)
