"""Single rows and dicts take a shortcut through the core. The results equal the results of blocks bit for bit."""

from __future__ import annotations

import enum
import threading
import time
from types import MappingProxyType

import numpy as np
import pytest
from scipy import sparse

from budgetron import Budgetron, RandomBudgetPerceptron, graphs, kernels
from budgetron.engine import native
from budgetron.errors import InputError
from budgetron.graphs.hashed_names import feature_columns
from budgetron.learners.input.hashing import _entries, hashed_rows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)


class Colour(str, enum.Enum):  # noqa: UP042 (a member is equal to "red", but names another task)
    RED = "red"


TASKS = {
    "none": [None] * 60,
    "integers": [i % 3 for i in range(60)],
    "strings": [f"user {i % 3}" for i in range(60)],
    "large": [(10**30, -(2**61), 2**61 - 1, "red", Colour.RED, ("a", 1), 1.5, np.int64(7))[i % 8] for i in range(60)],
}
GRAPHS = {"complete": graphs.complete(), "disconnected": graphs.disconnected(),
          "clusters": graphs.clusters({0: "a", 1: "a", "user 0": "a", "user 1": "b"})}  # fmt: skip


def state(model):
    return {name: np.asarray(values).tobytes() for name, values in model._engine.state().items()}


def blocks_of_one(model, rows, y, tasks):
    task_lists = [None if task is None else [task] for task in tasks]
    return [model.predict_then_learn(rows[i : i + 1], y[i : i + 1], tasks=task_lists[i])[0] for i in range(len(y))]


@pytest.mark.parametrize("tasks", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_are_learned_as_blocks_are(graph, dtype, tasks):
    rows = X.astype(dtype)
    single, many = (RandomBudgetPerceptron(8, kernels.Gaussian(0.5), graph, random_state=0) for _ in range(2))
    for model in (single, many):
        model.partial_fit(rows[:2], [0, 1], tasks=None if tasks[0] is None else tasks[:2])
    assert [single.learn_one(x, int(y), task=t) for x, y, t in zip(rows, Y, tasks, strict=True)] == blocks_of_one(
        many, rows, Y, tasks
    )
    assert state(single) == state(many)
    assert single.active_set_.task == many.active_set_.task
    predicted = many.predict(rows, tasks=None if tasks[0] is None else tasks)
    assert [single.predict_one(x, task=t) for x, t in zip(rows, tasks, strict=True)] == predicted.tolist()


def test_every_learner_predicts_one_row_as_a_block(learner):
    labels = np.array(["a", "b", "c"])[RNG.integers(0, 3, 60)]
    for y in (Y, labels):
        single, many = learner(), learner()
        for model in (single, many):
            model.partial_fit(X[:4], y[:4], classes=np.unique(y).tolist())
        margins = [single.learn_one(x, label) for x, label in zip(X, y.tolist(), strict=True)]
        assert np.array_equal(margins, many.predict_then_learn(X, y))
        assert state(single) == state(many)
        predicted = [single.predict_one(x) for x in X]
        assert predicted == many.predict(X).tolist()
        assert {type(label) for label in predicted} == {type(y[0].item())}


@pytest.mark.parametrize("x", [
    [0.5, 1.0, -2.0, 0.25], np.array([1, 2, 3, 4]), np.ones(8)[::2], np.ones(4, ">f8"), np.ones(4, np.float32),
    memoryview(np.ones(4)), np.array([True, False, True, True]), (1, 2.5, 3, 4), np.ma.array(np.ones(4)),
], ids=["list", "integers", "strided", "big-endian", "float32", "view", "flags", "tuple", "masked"])  # fmt: skip
def test_single_rows_of_other_types_are_converted(x):
    single, many = (RandomBudgetPerceptron(8, kernels.Gaussian(0.5)).partial_fit(X, Y) for _ in range(2))
    as_array = np.asarray(x, dtype=np.float64)
    assert single.predict_one(x) == many.predict(as_array[None])[0]
    assert single.learn_one(x, 1) == many.predict_then_learn(as_array[None], [1])[0]
    assert state(single) == state(many)


def features(rng, n):
    """Random dicts: repeated and colliding names, numbers of every kind, strings, zeros."""
    kinds = [0.0, -0.0, 1, -3, True, 2.5, 1e-300, "x", "é", "", np.float64(0.5), np.float32(0.1), np.int64(4)]
    names = ["a", "b", 1, "1", "a=x", "é", 10**20, "", *(f"word {i}" for i in range(20))]
    return [
        {names[j]: kinds[rng.integers(len(kinds))] for j in rng.permutation(len(names))[: rng.integers(0, 12)]}
        for _ in range(n)
    ]


@pytest.mark.skipif(not native.available, reason="built without a compiler")
@pytest.mark.parametrize("width", [3, 50, 2**18], ids=lambda width: f"{width} columns")
def test_the_core_reads_dicts_as_the_definition_does(width):
    n_read_by_core = 0
    for dicts in (features(np.random.default_rng(seed), 20) for seed in range(60)):
        expected = [_entries("test", entry, width) for entry in dicts]
        for entry, (columns, values) in zip(dicts, expected, strict=True):
            hashed = native.hashed_rows([entry], feature_columns(width))
            if any(type(value) in (np.float32, np.int64) for value in entry.values()):
                assert hashed is NotImplemented
                continue
            n_read_by_core += 1
            assert (hashed[0].tolist(), hashed[1].tolist()) == ([0, len(columns)], columns)
            assert hashed[2].tobytes() == np.array(values).tobytes()
        matrix = hashed_rows("test", dicts, width)
        assert matrix.indices.tolist() == [column for columns, _ in expected for column in columns]
        assert matrix.data.tolist() == [value for _, values in expected for value in values]
    assert n_read_by_core > 300


@pytest.mark.parametrize("make_model", [
    lambda: RandomBudgetPerceptron(8, kernels.Gaussian(0.5), random_state=0), lambda: Budgetron(kernel=None),
], ids=["mtrbp", "Budgetron"])  # fmt: skip
def test_dicts_are_learned_as_the_hashed_block_is(make_model):
    dicts = features(np.random.default_rng(1), 200)
    long = [{f"word {i}": 1.0 for i in range(100)}]  # more entries than the core's working memory is allocated for
    dicts = dicts[:50] + long + dicts[50:] + long
    y = [len(entry) % 2 for entry in dicts]
    tasks = [f"user {i % 5}" for i in range(len(dicts))]
    single, many = make_model(), make_model()
    rows = hashed_rows("test", dicts, 2**18)
    for model in (single, many):
        model.partial_fit(rows[:2], [0, 1], tasks=tasks[:2])
    mappings = list(map(MappingProxyType, dicts))  # a mapping that is not a dict is read in Python
    third = make_model().partial_fit(rows[:2], [0, 1], tasks=tasks[:2])
    margins = blocks_of_one(many, rows, np.array(y), tasks)
    assert [single.learn_one(x, label, task=t) for x, label, t in zip(dicts, y, tasks, strict=True)] == margins
    assert [third.learn_one(x, label, task=t) for x, label, t in zip(mappings, y, tasks, strict=True)] == margins
    assert state(single) == state(many) == state(third)
    assert [single.predict_one(x, task=t) for x, t in zip(dicts, tasks, strict=True)] == many.predict(
        rows, tasks=tasks
    ).tolist()
    assert single.memory_bytes_ == many.memory_bytes_


BAD_DICTS = [{"a": np.nan}, {"a": 1e200}, {"a": 10**400}, {"a": {1}}, {"a": 1j}, 3.0, None, [1.0]]


@pytest.mark.parametrize("bad", BAD_DICTS)
def test_invalid_dicts_are_refused_and_change_nothing(bad):
    model = Budgetron(kernel=None)
    model.learn_one({"a": 1.0}, 1, classes=[0, 1], task="ann")
    model.learn_one({"b": 1.0}, 0, task="ann")
    before = state(model)
    for call in (lambda: model.learn_one(bad, 1, task="ann"), lambda: model.predict_one(bad, task="ann"),
                 lambda: model.learn_one({"a": 1.0}, 2, task="ann"),
                 lambda: model.learn_one({"a": 1.0}, [1], task="ann"),
                 lambda: model.learn_one({"a": 1.0}, 1), lambda: model.predict_one({"a": 1.0}),
                 lambda: model.learn_one({"a": 1.0}, 1, task=[])):  # fmt: skip
        with pytest.raises(InputError, match=r"^Budgetron: "):
            call()
    assert state(model) == before


def test_weights_of_examples_and_classes_count():
    by_example, without = Budgetron(kernel=None), Budgetron(kernel=None)
    by_class = Budgetron(kernel=None, class_weight={1: 2.0})
    for model in (by_example, by_class, without):
        model.partial_fit(X[:2], [0, 1], sample_weight=[0.0, 0.0])
    for x, y in zip(X, Y.tolist(), strict=True):
        by_example.learn_one(x, y, sample_weight=2.0 if y else 1.0)
        by_class.learn_one(x, y)
        without.learn_one(x, y)
    assert state(by_example) == state(by_class) != state(without)


def test_single_sparse_rows_equal_blocks_and_dense_ones_are_refused():
    rows = sparse.csr_matrix(np.where(X > 0, X, 0.0))
    single, many = (RandomBudgetPerceptron(8, kernels.Gaussian(0.5)).partial_fit(rows[:2], [0, 1]) for _ in range(2))
    assert [single.learn_one(rows[i], int(Y[i])) for i in range(60)] == many.predict_then_learn(rows, Y).tolist()
    row = tuple(X[0].tolist())
    for not_sparse in (X[0], row, row[:2], (row[:3], [0, 1, 2], [1.0] * 3)):
        with pytest.raises(InputError, match="a dict or a sparse row"):
            single.learn_one(not_sparse, 1)
        with pytest.raises(InputError, match="a dict or a sparse row"):
            single.predict_one(not_sparse)
    dense = RandomBudgetPerceptron(8).partial_fit(X, Y)
    assert dense.predict_one(rows[5]) == dense.predict(rows[5])[0]  # a dense model converts sparse rows
    margin = dense.decision_function(rows[5])[0]
    assert dense.learn_one(rows[5], 1) == margin
    with pytest.raises(InputError, match="either dicts or rows"):
        dense.learn_one({"a": 1.0}, 1)


def test_a_row_waits_for_a_thread_that_holds_the_model():
    model = RandomBudgetPerceptron(8, kernels.Gaussian(0.5)).partial_fit(X, Y)
    learned = threading.Event()

    def learn():
        model.learn_one(X[0], 1)
        learned.set()

    thread = threading.Thread(target=learn)
    with model._guard:
        thread.start()
        while not (learned.is_set() or model._guard.waiting):
            time.sleep(0.001)
        assert not learned.is_set()
        model.learn_one(X[1], 0)  # the thread that holds the lock does not wait for it
        assert model.n_seen_ == 61
    thread.join()
    assert model.n_seen_ == 62
    assert not model._guard.waiting and model._guard.held.acquire(False)
