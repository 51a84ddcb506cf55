"""The river wrapper: river's own checks, pipelines and evaluation, with tasks."""

from __future__ import annotations

import pickle
import subprocess
import sys

import makers
import numpy as np
import pandas as pd
import pytest

from budgetron import Budgetron, Forgetron, RandomBudgetPerceptron, graphs, kernels
from budgetron.checks.case import require_same, state_of
from budgetron.errors import InputError, InputTypeError
from budgetron.learners.input.hashing import DICT_FEATURES, hashed_rows

river_checks = pytest.importorskip("river.checks", reason="the extra `river` is not installed")
from river import compose, datasets, evaluate, metrics, preprocessing  # noqa: E402

from budgetron.compat.river import Classifier  # noqa: E402

RNG = np.random.default_rng(4)
N = 200
X = RNG.normal(size=(N, 3))
TASKS = [f"user {task}" for task in RNG.integers(3, size=N)]
Y = [bool((x[0] > 0) ^ (task == "user 2")) for x, task in zip(X, TASKS, strict=True)]
NAMES = ["a", "b", "c"]
DICTS = [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]
KERNEL = kernels.Gaussian(0.3)


def trained(classifier, **arguments):
    """Train a classifier one example at a time. Each argument of `learn_one` is given as a function of the task."""
    for x, y, task in zip(DICTS, Y, TASKS, strict=True):
        classifier.learn_one(x, y, **{name: value(task) for name, value in arguments.items()})
    return classifier


def all_checks():
    """Each check of river, for two kernels of Budgetron and for a learner without probabilities."""
    for model in (Budgetron(budget=20, kernel=KERNEL), Budgetron(budget=20), Forgetron(budget=20)):
        classifier = Classifier(model)
        for number, check in enumerate(river_checks.yield_checks(classifier)):
            kernel = "scale" if model.kernel == kernels.Gaussian() else "number"
            yield pytest.param(classifier, check, id=f"{type(model).__name__}-{kernel}-{check.__name__}-{number}")


@pytest.mark.parametrize(("classifier", "check"), list(all_checks()))
def test_the_wrapper_passes_the_checks_of_river(classifier, check):
    check(classifier.clone())


def test_no_check_of_river_is_skipped():
    for kernel in (kernels.Gaussian(), KERNEL, None):
        assert Classifier(Budgetron(kernel=kernel))._unit_test_skips() == set()


def test_the_wrapper_predicts_as_the_learner(learner):
    model = makers.made(learner, kernel=KERNEL)
    direct = makers.made(learner, kernel=KERNEL)
    direct.partial_fit(hashed_rows("test", DICTS, DICT_FEATURES), Y, tasks=TASKS)
    by_argument = trained(Classifier(model), task=lambda task: task)
    require_same(state_of(by_argument.learner), state_of(direct), "the wrapped and the direct learner")
    by_feature = Classifier(model, task="user")
    for x, y, task in zip(DICTS, Y, TASKS, strict=True):
        by_feature.learn_one({**x, "user": task}, y)
    require_same(state_of(by_feature.learner), state_of(direct), "the task as a feature")
    assert by_feature.predict_one({**DICTS[0], "user": TASKS[0]}) == direct.predict_one(DICTS[0], task=TASKS[0])
    assert not model.__sklearn_is_fitted__()


def test_named_features_make_dense_rows(learner):
    model = makers.made(learner, kernel=KERNEL)
    dense = trained(Classifier(model, features=NAMES), task=lambda task: task)
    direct = makers.made(learner, kernel=KERNEL).partial_fit(X, Y, tasks=TASKS)
    require_same(state_of(dense.learner), state_of(direct), "dense rows")
    full, part = {"a": 1.0, "b": 0.0, "c": 0.5}, {"c": 0.5, "a": 1.0, "new": 9.0}
    assert dense.learner.classes_.tolist() == [False, True]
    assert dense.predict_one(full, task="user 1") == dense.predict_one(part, task="user 1")
    with pytest.raises(InputTypeError, match="'b'"):
        dense.learn_one({"b": "text"}, True)


@pytest.mark.parametrize("features", [None, NAMES])
def test_data_frames_equal_dicts_one_by_one(features):
    frame = pd.DataFrame(X, columns=NAMES, index=range(100, 100 + N))
    model = Budgetron(budget=20, kernel=KERNEL)
    single, many = (Classifier(model, features=features) for _ in range(2))
    assert many.predict_many(frame).tolist() == [False] * N
    trained(single, task=lambda task: task)
    many.learn_many(frame, pd.Series(Y), task=TASKS)
    require_same(state_of(single.learner), state_of(many.learner), "one by one and at once")
    probabilities = many.predict_proba_many(frame, task=TASKS)
    assert probabilities.index.equals(frame.index) and probabilities.columns.tolist() == [False, True]
    expected = single.predict_proba_one(DICTS[3], task=TASKS[3])[True]
    assert probabilities[True].iloc[3] == pytest.approx(expected, abs=1e-12)
    assert many.predict_many(frame, task=TASKS).tolist() == (probabilities[True] > 0.5).tolist()
    by_feature = Classifier(model, task="user", features=features)
    by_feature.learn_many(frame.assign(user=TASKS), pd.Series(Y))
    require_same(state_of(by_feature.learner), state_of(many.learner), "the task as a column")


def test_tasks_pass_through_pipelines_and_evaluation():
    """One user's labels are reversed, so the error is high if a step of the pipeline loses the task."""
    def error(stream, model):
        return 1 - evaluate.progressive_val_score(stream, model, metrics.Accuracy()).get()

    model = RandomBudgetPerceptron(budget=200, kernel=KERNEL, graph=graphs.disconnected())
    stream = [(x, y, {"task": task}) for x, y, task in zip(DICTS, Y, TASKS, strict=True)]
    with_tasks = error(stream, preprocessing.StandardScaler() | Classifier(model))
    without_tasks = error([example[:2] for example in stream], preprocessing.StandardScaler() | Classifier(model))
    assert with_tasks < 0.25 < without_tasks

    inside_x = [({**x, "user": task}, y) for x, y, task in zip(DICTS, Y, TASKS, strict=True)]
    scaled = compose.Discard("user") | preprocessing.StandardScaler()
    assert error(inside_x, (scaled + compose.Select("user")) | Classifier(model, task="user")) == with_tasks
    delayed = evaluate.progressive_val_score(stream, Classifier(model), metrics.Accuracy(), delay=20)
    assert 0.5 < delayed.get() < 1.0


def test_the_wrapper_learns_more_than_two_classes():
    rows = list(datasets.ImageSegments().take(300))
    labels = sorted({y for _, y in rows})
    model = preprocessing.StandardScaler() | Classifier(Budgetron(budget=50), classes=labels)
    assert model._multiclass and set(model.predict_proba_one(rows[0][0])) == set(labels)
    assert evaluate.progressive_val_score(rows, model, metrics.Accuracy()).get() > 0.5


def test_weights_reach_the_learner():
    weighted, unweighted = (Classifier(Budgetron(budget=20, kernel=KERNEL)) for _ in range(2))
    trained(weighted, w=lambda task: 3.0 if task == "user 1" else 1.0)
    trained(unweighted)
    x = DICTS[0]
    assert weighted.predict_proba_one(x) != unweighted.predict_proba_one(x)
    with pytest.raises(InputError, match="sample_weight"):
        Classifier(Forgetron()).learn_one(x, True, w=2.0)


def test_a_clone_forgets_and_a_pickle_does_not():
    classifier = trained(Classifier(Budgetron(budget=20, kernel=KERNEL)), task=lambda task: task)
    assert classifier.clone().predict_proba_one(DICTS[0]) == {False: 0.5, True: 0.5}
    unpickled = pickle.loads(pickle.dumps(classifier))
    assert unpickled.predict_proba_one(DICTS[0], task="user 2") == classifier.predict_proba_one(DICTS[0], task="user 2")
    continued = Classifier(classifier.learner)
    continued.learn_one(DICTS[0], True, task="user 2")
    assert (continued.learner.n_seen_, classifier.learner.n_seen_) == (N + 1, N)
    assert classifier._raw_memory_usage == classifier.learner.memory_bytes_


def test_invalid_learners_and_options_are_refused_by_the_wrapper():
    with pytest.raises(InputTypeError, match="a learner"):
        Classifier(preprocessing.StandardScaler())
    with pytest.raises(InputError, match="task_column"):
        Classifier(Budgetron(task_column=0))
    with pytest.raises(InputError, match="'user'"):
        Classifier(Budgetron(), task="user").predict_one({"a": 1.0})
    with pytest.raises(NotImplementedError, match="Budgetron"):
        Classifier(Forgetron()).predict_proba_one({"a": 1.0})


def test_without_river_the_extra_is_named():
    code = "import sys; sys.modules['river'] = None; import budgetron.compat.river"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert result.returncode and "pip install 'budgetron[river]'" in result.stderr


def test_an_example_without_its_task_is_refused():
    with_tasks = trained(Classifier(Budgetron(budget=20, kernel=KERNEL)), task=lambda task: task)
    for call in (with_tasks.predict_one, with_tasks.predict_proba_one, lambda x: with_tasks.learn_one(x, True)):
        with pytest.raises(InputError, match="task must be given, since the model was trained with tasks"):
            call(DICTS[0])


def test_errors_about_labels_say_where_a_classifier_gets_its_classes():
    remedy = r" Name all: Classifier\(model, classes=\[\.\.\.\]\)\.$"
    frame = pd.DataFrame({"a": [1.0]})
    with pytest.raises(InputError, match="only 'ham'." + remedy):
        Classifier(Budgetron()).learn_one({"a": 1.0}, "ham")
    with pytest.raises(InputError, match="only 'ham'." + remedy):
        Classifier(Budgetron()).learn_many(frame, pd.Series(["ham"]))
    classifier = Classifier(Budgetron(), classes=["ham", "spam"])
    classifier.learn_many(frame, pd.Series(["ham"]))
    with pytest.raises(InputError, match="got 'post'." + remedy):
        classifier.learn_one({"a": 1.0}, "post")
    with pytest.raises(InputError, match="'post'.*" + remedy):
        classifier.learn_many(frame, pd.Series(["post"]))
