"""Rows of every learner: arrays, sparse matrices, dicts, and single rows."""

from __future__ import annotations

import numpy as np
import pytest
from contract_streams import RNG, TASKS, N, X, Y, assert_same_model, made
from scipy import sparse

from budgetron.checks.case import require_same, state_of
from budgetron.errors import InputError
from budgetron.learners.input.hashing import DICT_FEATURES, hashed_rows


def test_float32_stays_float32(storing_learner):
    model = made(storing_learner).partial_fit(X.astype(np.float32), Y, tasks=TASKS)
    assert model.active_set_.rows.dtype == np.float32
    sparse_model = made(storing_learner).partial_fit(sparse.csr_matrix(X.astype(np.float32)), Y, tasks=TASKS)
    assert sparse_model.active_set_.rows.dtype == np.float32
    for other in (X, X.tolist(), (64 * X).astype(int)):
        assert made(storing_learner).partial_fit(other, Y, tasks=TASKS).active_set_.rows.dtype == np.float64
    # Rows of 40 columns and random labels, so that the budget is full and rows are most of the memory.
    wide, labels = np.tile(X, (8, 10)), RNG.integers(2, size=8 * N)
    as_float32 = made(storing_learner, budget=64).partial_fit(wide.astype(np.float32), labels)
    as_float64 = made(storing_learner, budget=64).partial_fit(wide, labels)
    assert as_float32.memory_bytes_ < as_float64.memory_bytes_


@pytest.mark.parametrize(
    "kind", [sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array, np.asfortranarray, np.ndarray.tolist]
)
def test_every_kind_of_row_gives_the_same_model(learner, kind):
    base = sparse.csr_matrix(X) if sparse.issparse(kind(X)) else X
    expected = made(learner).partial_fit(base, Y, tasks=TASKS)
    assert_same_model(made(learner).partial_fit(kind(X), Y, tasks=TASKS), expected)


def test_unsorted_sparse_rows_with_duplicates_and_zeros_equal_canonical_rows(learner):
    matrix = sparse.csr_matrix(
        (np.array([1.0, 2.0, 3.0, 0.0, 5.0]), np.array([2, 0, 2, 1, 3]), np.array([0, 3, 5])), shape=(2, 4)
    )
    copies = [part.copy() for part in (matrix.data, matrix.indices, matrix.indptr)]
    dense = np.array([[2.0, 0.0, 4.0, 0.0], [0.0, 0.0, 0.0, 5.0]])
    a, b = made(learner), made(learner)
    canonical = sparse.csr_matrix(dense)
    assert np.array_equal(a.predict_then_learn(matrix, [0, 1]), b.predict_then_learn(canonical, [0, 1]))
    assert_same_model(a, b)
    assert all(np.array_equal(*pair) for pair in zip(copies, (matrix.data, matrix.indices, matrix.indptr), strict=True))


def test_dicts_are_hashed_features(learner):
    model = made(learner)
    rows = [
        {"words": 3, "from": "ann", "urgent": True},
        {"words": 1.5, "from": "bob"},
        {"size": 2, "urgent": False},
        {},
    ]
    for _ in range(10):
        for number, row in enumerate(rows):
            model.learn_one(row, number % 2, task="inbox")
    assert model.predict_one(rows[0], task="inbox") in (0, 1)
    assert sparse.issparse(model.active_set_.rows)
    a, b = made(learner), made(learner)
    assert a.learn_one({"x": 1.0, "y": 2.0}, 1) == b.learn_one({"y": 2.0, "x": 1.0}, 1)
    assert_same_model(a, b)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("engine", ["core", "numpy"])
def test_a_dict_gives_the_same_result_as_its_hashed_sparse_row(learner, engine, classes):
    """Single dicts take a shorter path than blocks of rows, with the same result."""
    rows = [{"a": float(a), "b": int(8 * b), "kind": "x" if c > 0 else "y", "on": d > 0, 7: d} for a, b, c, d in X]
    y = np.arange(N) % classes
    labels = list(range(classes))
    single, blockwise = (made(learner, engine=engine) for _ in range(2))
    hashed = hashed_rows("test", rows, DICT_FEATURES)  # with as many columns as `learn_one` hashes dicts into
    first = single.learn_one(rows[0], y[0], task=TASKS[0], classes=labels)
    margins = [
        first,
        *(single.learn_one(x, label, task=task) for x, label, task in zip(rows[1:], y[1:], TASKS[1:], strict=True)),
    ]
    blockwise.partial_fit(hashed[:1], y[:1], tasks=TASKS[:1], classes=labels)
    assert np.array_equal(np.array(margins[1:]), blockwise.predict_then_learn(hashed[1:], y[1:], tasks=TASKS[1:]))
    assert_same_model(single, blockwise)
    assert [single.predict_one(x, task=task) for x, task in zip(rows, TASKS, strict=True)] == blockwise.predict(
        hashed, tasks=TASKS
    ).tolist()
    before = state_of(single)
    for wrong in ({"a": np.nan}, {"a": 10**400}, {"a": 1e300}):
        with pytest.raises(InputError, match=r"'a'|finite|small enough"):
            single.learn_one(wrong, 0, task=TASKS[0])
    require_same(before, state_of(single), "after a refusal")


def test_learn_one_is_a_block_of_one(learner):
    single, blockwise = made(learner), made(learner)
    margins = blockwise.predict_then_learn(X, Y, tasks=TASKS)
    assert [single.learn_one(x, y, task=task) for x, y, task in zip(X, Y, TASKS, strict=True)] == margins.tolist()
    assert [single.predict_one(x, task=task) for x, task in zip(X, TASKS, strict=True)] == blockwise.predict(
        X, tasks=TASKS
    ).tolist()
    assert_same_model(single, blockwise)
