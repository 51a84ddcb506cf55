"""A model that is saved and loaded continues bit for bit: many learners, and every kind of graph, store and label."""

from __future__ import annotations

import copy
import datetime
import decimal
import enum
import fractions
import pickle
import uuid

import joblib
import numpy as np
import pandas as pd
import pytest
from saved_models import GRAPHS, LEARNERS, combinations, model_of, same_state, stream
from scipy import sparse

import budgetron
from budgetron import graphs, kernels
from budgetron.engine import native
from budgetron.engine.reference.rules.budgetron.mixture import DROP_AFTER


def reloaded(model, path, **more):
    """Save a model and load it again."""
    model.save(path)
    return budgetron.load(path, **more)


def copy_by_joblib(model, path):
    joblib.dump(model, path)
    return joblib.load(path)


COPIES = {
    "load": reloaded,
    "pickle": lambda model, path: pickle.loads(pickle.dumps(model)),
    "joblib": copy_by_joblib,
    "deepcopy": lambda model, path: copy.deepcopy(model),
}


def check_continues_equally(model, again, X, y, tasks):
    """Assert that a model and its copy have the same state, and still have it after further learning."""
    same_state(model, again)
    assert model.decision_function(X, tasks=tasks).tobytes() == again.decision_function(X, tasks=tasks).tobytes()
    assert (
        model.predict_then_learn(X, y, tasks=tasks).tobytes() == again.predict_then_learn(X, y, tasks=tasks).tobytes()
    )
    same_state(model, again)
    assert model.active_set_.task == again.active_set_.task
    assert model.budget_share_ == again.budget_share_
    assert np.array_equal(model.classes_, again.classes_) and model.classes_.dtype == again.classes_.dtype
    assert model.capacity_ == again.capacity_ and model.kernel_ == again.kernel_


@pytest.mark.parametrize(("make", "kind"), list(combinations()))
def test_a_loaded_model_continues_bit_for_bit(make, kind, tmp_path):
    model = make()
    X, y, tasks = stream(260, **kind)
    model.partial_fit(X[:150], y[:150], tasks=tasks[:150], classes=np.unique(y))
    check_continues_equally(model, reloaded(model, tmp_path / "m"), X[150:], y[150:], tasks[150:])


@pytest.mark.parametrize("copy_model", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("name", LEARNERS)
def test_every_way_of_copying_gives_a_model_that_continues(name, copy_model, tmp_path):
    for is_sparse in (False, True):
        X, y, tasks = stream(160, is_sparse)
        model = model_of(name).partial_fit(X[:100], y[:100], tasks=tasks[:100])
        check_continues_equally(model, copy_model(model, tmp_path / "m"), X[100:], y[100:], tasks[100:])


@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize("kernel", [kernels.Gaussian(0.4), None], ids=["kernel", "none"])
def test_dropped_beliefs_and_forgotten_tasks_stay_dropped_after_loading(kernel, engine, tmp_path):
    """Change the state so that all parts but one have been idle for long. Then each further example drops a part."""
    X, y, tasks = stream(300)
    model = budgetron.Budgetron(budget="4 MiB", kernel=kernel, engine=engine)
    model.partial_fit(X[:100], y[:100], tasks=tasks[:100], classes=[0, 1])
    before, state = len(model.beliefs_), model._engine.state()
    state["part_idle"] = np.where(np.arange(len(state["part_idle"])) == 0, 0, DROP_AFTER)
    state["n_seen"] = DROP_AFTER + 100
    others = len(state["belief_weight"]) - 1
    state["belief_weight"] = np.array([1 - 1e-6 * others, *[1e-6] * others])
    memory = model.memory_bytes_
    model._engine = type(model._engine).restore(model._engine.settings, state)
    model.partial_fit(X[100:102], y[100:102], tasks=tasks[100:102])
    assert len(model.beliefs_) < before and model.memory_bytes_ < memory
    assert sum(weight for _, weight in model.beliefs_) == pytest.approx(1.0)
    model.forget_task("bob")
    check_continues_equally(model, reloaded(model, tmp_path / "m"), X[200:], y[200:], tasks[200:])


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_either_engine_reads_what_the_other_wrote(name, is_sparse, tmp_path):
    if not native.available:
        pytest.skip("built without a compiler")
    # A Budgetron stores weights in float32, and the core and NumPy add in different orders; see `Case.tolerance`.
    tolerance = 1e-5 if name == "Budgetron" else 1e-9
    for graph, classes in (("complete", 2), ("disconnected", 3), ("edges", 2)):
        X, y, tasks = stream(160, is_sparse, classes=classes)
        for writer, reader in (("core", "numpy"), ("numpy", "core"), ("numpy", "numpy")):
            model = model_of(name, graph, engine=writer)
            model.partial_fit(X[:100], y[:100], tasks=tasks[:100])
            again = reloaded(model, tmp_path / "m", engine=reader)
            assert isinstance(again._engine, native.Engine) == (reader == "core")
            before, after = (m.predict_then_learn(X[100:], y[100:], tasks=tasks[100:]) for m in (model, again))
            assert np.allclose(before, after, rtol=tolerance, atol=tolerance)
            if writer == reader:
                same_state(model, again)


class Colour(enum.Enum):
    RED = 1


NAMES = [
    "plain", "ünïcode ∑", "half \ud800", b"bytes\xff", 7, -3, 2**70, 1.5, float("inf"), -0.0, None, 1 + 2j,
    ("a", 1, (2.5, b"x")), frozenset({"a", 3, ("b",)}), datetime.date(2024, 2, 29),
    datetime.datetime(2024, 1, 1, 12, 30, 1, 5), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2))), datetime.time(1, 2, 3),
    datetime.timedelta(days=-1, microseconds=7), uuid.UUID(int=5), decimal.Decimal("1.50"), fractions.Fraction(-3, 7),
]  # fmt: skip


@pytest.mark.parametrize("task", NAMES, ids=lambda name: "frozenset" if isinstance(name, frozenset) else repr(name))
def test_task_names_of_every_type_are_saved(task, tmp_path):
    model = budgetron.Perceptron(kernel=kernels.Linear())
    model.predict_then_learn([[1.0], [2.0], [3.0]], [0, 1, 0], tasks=[task, task, "other"])
    again = reloaded(model, tmp_path / "m")
    names = again.active_set_.task
    assert names == model.active_set_.task and list(map(type, names)) == list(map(type, model.active_set_.task))
    for graph in (graphs.clusters({task: 0, "other": 0}), graphs.from_edges([(task, "other")])):
        model = budgetron.Forgetron(graph=graph).fit([[1.0], [2.0]], [0, 1], tasks=[task, "other"])
        assert reloaded(model, tmp_path / "m").graph == graph


def test_a_task_whose_name_has_no_json_form_is_shown_by_its_id(tmp_path):
    model = budgetron.Perceptron(kernel=kernels.Linear())
    model.predict_then_learn([[1.0], [0.5]], [1, 0], tasks=[Colour.RED, "blue"])
    again = reloaded(model, tmp_path / "m")
    assert again.active_set_.task[1] == "blue" and again.active_set_.task[0].startswith("#")
    assert (
        again.decision_function([[1.0]], tasks=[Colour.RED])
        == model.decision_function([[1.0]], tasks=[Colour.RED])
        != 0
    )


@pytest.mark.parametrize(
    "labels",
    [["ham", "spam"], [b"a", b"b"], [-1, 1], [False, True], [1.0, 2.0, 3.0], np.array(["a", "b"], dtype="U9"),
     np.array([3, 9], dtype=np.uint8), np.array([0, 1], dtype=np.float32),
     np.array(["x", "y", "half \ud800"], dtype=object),
     np.array([1, 2], dtype=">i4"), np.array([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)], dtype=object)],
    ids=repr,
)  # fmt: skip
def test_labels_of_every_type_are_saved(labels, tmp_path):
    labels = np.asarray(labels)
    X = np.arange(12.0).reshape(-1, 1)
    y = labels[np.arange(12) % len(labels)]
    model = budgetron.Budgetron(class_weight={labels.tolist()[0]: 2.0}).partial_fit(X, y)
    again = reloaded(model, tmp_path / "m")
    assert again.predict(X).tolist() == model.predict(X).tolist() and again.class_weight == model.class_weight
    assert again.classes_.dtype == model.classes_.dtype.newbyteorder("=")
    if labels.dtype.isnative:  # otherwise the dtypes differ: a loaded model has labels in native byte order
        check_continues_equally(model, again, X, y, None)


@pytest.mark.parametrize(("first", "then"), [(1, -1), (1, 0), (True, False), (1.0, -1.0), (0, 1), (-1, 1)])
def test_a_model_that_knows_one_of_two_classes_is_saved(first, then, tmp_path):
    model = budgetron.Forgetron(kernel=kernels.Linear(1.0)).partial_fit([[1.0, 2.0]], [first])
    again = reloaded(model, tmp_path / "m")
    assert again._classes.settled == model._classes.settled
    check_continues_equally(model, again, np.array([[0.5, -1.0], [2.0, 2.0]]), [then, first], None)


def test_parameters_columns_and_graphs_are_kept(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0], "user": ["ann", "bob"]})
    model = budgetron.SharedProjectron(budget=np.int64(9), eta=np.float32(0.5), task_column="user", max_task_rows=None)
    model.fit(frame, ["x", "y"])
    again = reloaded(model, tmp_path / "m")
    assert again.feature_names_in_.tolist() == ["a", "b"] and again.n_features_in_ == 2
    assert again.get_params() == model.get_params() and again.predict(frame).tolist() == model.predict(frame).tolist()
    model.set_params(graph=GRAPHS["edges"], kernel=kernels.Gaussian(3.0), budget="1 MiB")
    again = reloaded(model, tmp_path / "m")
    assert again.get_params() == model.get_params() and again._graph == graphs.complete()


def test_a_model_that_learned_dicts_continues(tmp_path):
    model = budgetron.Budgetron(budget=4, kernel=None)
    rows = [{"a": 1.0, "kind": "x"}, {"b": 2.0}, {"a": -1.0, "kind": "y"}]
    for row, label in zip(rows, [1, 0, 1], strict=True):
        model.learn_one(row, label, task="ann")
    again = reloaded(model, tmp_path / "m")
    assert again.predict_proba_one(rows[0], task="ann") == model.predict_proba_one(rows[0], task="ann")
    assert again.learn_one(rows[1], 1, task="ann") == model.learn_one(rows[1], 1, task="ann")


def test_models_without_tasks_and_with_long_task_names_continue(tmp_path):
    X, y, tasks = stream(200)
    for graph in ("complete", "clusters", "disconnected"):
        model = model_of("SharedProjectron", graph).partial_fit(X[:100], y[:100])
        check_continues_equally(model, reloaded(model, tmp_path / "m"), X[100:], y[100:], None)
    model = model_of("RandomBudgetPerceptron", budget="20 KiB").partial_fit(X, y, tasks=[task * 60 for task in tasks])
    again = reloaded(model, tmp_path / "m")
    assert again.active_set_.task == model.active_set_.task and again._names.limit == model._names.limit
    assert any(str(task).startswith("#") for task in model.active_set_.task)


def test_sparse_stores_continue_to_grow_after_loading(tmp_path):
    rng = np.random.default_rng(1)
    X = sparse.csr_matrix(rng.normal(size=(900, 40)) * (rng.random((900, 40)) < 0.3))
    y = rng.integers(2, size=900)
    for name in ("Perceptron", "BudgetProjectron", "SharedProjectron", "Budgetron"):
        model = model_of(name, "complete", None)
        model.partial_fit(X[:500], y[:500], tasks=np.arange(500) % 9)
        model.forget_task(3)
        check_continues_equally(model, reloaded(model, tmp_path / "m"), X[500:], y[500:], np.arange(400) % 9)
