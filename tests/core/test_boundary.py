"""The boundary between Python and C++ rejects everything that the engine cannot process."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from budgetron.engine import native
from budgetron.engine.settings import make_settings
from budgetron.graphs import complete, from_similarity
from budgetron.kernels import Gaussian

pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")
_core = native._core
NAMES = _core.Names(None, None, False) if native.available else None


def settings(**more):
    """Return settings for _core.make, with some of them replaced."""
    similarity = more.pop("similarity", None) or _core.clique(1.0, 0.5)
    chosen = make_settings(
        rule="budget_projectron", kernel=Gaussian(gamma=1.0), graph=complete(), n_features=3, capacity=10, eta=0.1
    )
    plain = native._core_settings(chosen, similarity)
    return {**plain, **more}


@pytest.fixture(params=["dense", "sparse"])
def after_two_examples(request):
    """An engine for rows of three columns, after it has learned two examples, and a function that makes such rows."""
    is_sparse = request.param == "sparse"
    learner = _core.make(settings(sparse=is_sparse))

    def rows(X, dtype=np.float64):
        X = np.asarray(X, dtype=dtype)
        if not is_sparse:
            return _core.rows(X)
        X = sparse.csr_matrix(X)
        return _core.csr(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data)

    learner.learn(rows([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), *columns([0, 1]))
    return learner, rows


def columns(labels, task_ids=None):
    """Return labels, task ids and clusters as the arrays that the engine expects."""
    task_ids = np.zeros(len(labels), np.int64) if task_ids is None else np.array(task_ids, np.int64)
    return np.array(labels, np.int32), task_ids, task_ids


@pytest.mark.parametrize("name, value", [
    ("rule", "projektron"), ("rule", ""), ("kernel", "gauss"), ("n_outputs", 0), ("n_outputs", 2), ("d", 0),
    ("d", 2**31), ("degree", 0), ("parameters", {"eta": "x"}), ("pool", 100), ("capacity", 2**50), ("kernel", "none"),
])  # fmt: skip
def test_invalid_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        _core.make(settings(**{name: value}))


@pytest.mark.parametrize("rule, parameters, message", [
    ("budget_projectron", {"more": 1}, "no parameter more"), ("shared_projectron", {"max_task_rows": 1}, "at least 2"),
    ("shared_projectron", {"max_task_rows": 2.5}, "whole number"),
    ("shared_projectron", {"max_task_rows": 2**50}, "2\\*\\*40"),
    ("budget_sgd", {"step": 3, "maintenance": 5, "radius": 0.5}, "radius"),
])  # fmt: skip
def test_invalid_parameters_of_a_rule_are_refused(rule, parameters, message):
    with pytest.raises(ValueError, match=message):
        _core.make(settings(rule=rule, parameters=parameters))


def test_an_invalid_similarity_is_refused():
    with pytest.raises((ValueError, TypeError)):
        _core.make({**settings(), "similarity": None})


def test_rows_of_another_precision_are_refused(after_two_examples):
    learner, rows = after_two_examples
    single = rows([[1.0, 2.0, 3.0]], np.float32)
    for call in (lambda: learner.learn(single, *columns([0])), lambda: learner.first_bad_row(single),
                 lambda: learner.margins(single, *columns([0])[1:])):  # fmt: skip
        with pytest.raises(TypeError, match=r"float64 rows; got .* float32"):
            call()
    assert learner.n_seen == 2


def test_one_row_of_another_kind_is_left_to_python():
    learner = _core.make(settings())
    for x in (np.ones(3, np.float32), np.ones(3, ">f8"), np.ones(6)[::2], np.ones((1, 3)), [1.0, 1.0, 1.0], {}, None):
        assert learner.learn_one(NAMES, x, 0, 0, 0, 1.0) is NotImplemented  # to be converted, or rejected, in Python
        assert learner.margin_one(NAMES, x, 0, 0) is NotImplemented
    assert learner.n_seen == 0


def test_a_sparse_engine_refuses_dense_rows_and_a_dense_engine_sparse_rows():
    dense, one_sparse = _core.rows(np.ones((1, 3))), sparse.csr_matrix(np.ones((1, 3)))
    packed = _core.csr(one_sparse.indptr.astype(np.int64), one_sparse.indices, one_sparse.data)
    for is_sparse, rows in ((True, dense), (False, packed)):
        learner = _core.make(settings(sparse=is_sparse))
        with pytest.raises(TypeError, match="sparse"):
            learner.learn(rows, *columns([0]))


@pytest.mark.parametrize("label", [-1, 2, 2**31 - 1])
def test_labels_outside_the_classes_are_refused(after_two_examples, label):
    learner, rows = after_two_examples
    with pytest.raises(ValueError, match="label"):
        learner.learn(rows([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]), *columns([0, label]))
    assert learner.n_seen == 2


def test_one_label_outside_the_classes_is_refused():
    learner = _core.make(settings(n_outputs=3))
    with pytest.raises(ValueError, match="label"):
        learner.learn_one(NAMES, np.ones(3), 3, 0, 0, 1.0)
    learner.learn_one(NAMES, np.ones(3), 2, 0, 0, 1.0)


@pytest.mark.parametrize("width", [2, 4])
def test_rows_of_another_width_are_refused(width):
    learner = _core.make(settings())
    with pytest.raises(ValueError, match="columns"):
        learner.learn(_core.rows(np.ones((1, width))), *columns([0]))
    assert learner.learn_one(NAMES, np.ones(width), 0, 0, 0, 1.0) is NotImplemented


def test_a_sparse_column_beyond_the_width_is_refused():
    learner = _core.make(settings(sparse=True))
    rows = _core.csr(np.array([0, 1]), np.array([3], np.int32), np.array([1.0]))
    with pytest.raises(ValueError, match="columns"):
        learner.learn(rows, *columns([0]))


@pytest.mark.parametrize("indptr, indices", [
    ([0, 2], [1, 1]), ([0, 2], [2, 1]), ([0, 1], [-1]), ([0, 3], [0, 1]),
    ([0, 2, 1], [0, 1]), ([-1, 1], [0, 1]), ([], [0]),
])  # fmt: skip
def test_invalid_csr_arrays_are_refused(indptr, indices):
    """`_core.csr` checks the row starts, and every call that reads the rows checks the columns."""
    learner = _core.make(settings(sparse=True))
    arrays = np.array(indptr, np.int64), np.array(indices, np.int32), np.ones(len(indices))
    task = np.zeros(1, np.int64)
    for call in (
        lambda rows: learner.learn(rows, *columns([0])),
        lambda rows: learner.margins(rows, task, task),
        lambda rows: learner.query("products", rows, task, task),
        lambda rows: learner.load({}, {}, rows),
    ):
        with pytest.raises(ValueError, match="_core"):
            call(_core.csr(*arrays))
    for call in (
        lambda: learner.learn_one(NAMES, arrays, 0, 0, 0, 1.0),
        lambda: learner.margin_one(NAMES, arrays, 0, 0),
    ):
        with pytest.raises(ValueError, match="_core"):
            call()
    assert learner.n_seen == 0


@pytest.mark.parametrize("task_id", [-1, 3, 2**62])
@pytest.mark.parametrize("rule", ["perceptron", "budget_projectron", "shared_projectron"])
def test_tasks_that_an_explicit_graph_does_not_have_are_refused(rule, task_id):
    learner = _core.make(settings(rule=rule, capacity=0, parameters={}, similarity=_core.dense_graph(np.eye(3), 1.0)))
    row = _core.rows(np.ones((1, 3)))
    for call in (
        lambda: learner.learn(row, *columns([0], [task_id])),
        lambda: learner.margins(row, *columns([0], [task_id])[1:]),
        lambda: learner.learn_one(NAMES, np.ones(3), 0, task_id, 0, 1.0),
        lambda: learner.task_weights(task_id, 0),
    ):
        with pytest.raises(ValueError, match="graph"):
            call()
    assert learner.n_seen == 0


def test_arrays_of_other_lengths_are_refused(after_two_examples):
    learner, rows = after_two_examples
    two = rows([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    labels, task_ids, clusters = columns([0, 1])
    for wrong in ((labels[:1], task_ids, clusters), (labels, task_ids[:1], clusters), (labels, task_ids, clusters[:1])):
        with pytest.raises(ValueError, match="one entry per row"):
            learner.learn(two, *wrong)
    with pytest.raises(ValueError, match="one entry per row"):
        learner.learn(two, labels, task_ids, clusters, np.ones(1))
    with pytest.raises(ValueError, match="one entry per row"):
        learner.margins(two, task_ids[:1], clusters)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_invalid_weights_are_refused(after_two_examples, weight):
    learner, rows = after_two_examples
    with pytest.raises(ValueError, match="weight"):
        learner.learn(rows([[1.0, 2.0, 3.0]]), *columns([0]), np.array([weight]))


def test_explicit_graphs_are_accepted_by_the_core():
    graph = from_similarity(np.eye(3), ["a", "b", "c"])
    assert native.graph_bytes(graph) > 3 * 3 * 8
