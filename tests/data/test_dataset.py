"""`DataSet`, and the two functions that scale X."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from budgetron.data import DataSet, standardized, unit_norm
from budgetron.errors import InputError


def numbered(n: int = 50, X=None) -> DataSet:
    """A data set in which the number of a row determines its x, y and task, so that tests notice mixed-up rows."""
    X = np.arange(n, dtype=float)[:, None] if X is None else X
    return DataSet("numbered", X, np.arange(n) % 2, np.arange(n) % 5, time_ordered=True)


def test_shuffled_keeps_rows_together_and_records_the_seed() -> None:
    original = numbered()
    shuffled = original.shuffled(seed=3)
    order = shuffled.X[:, 0].astype(int)
    assert sorted(order) == list(range(50)) and (order != np.arange(50)).any()
    assert (shuffled.y == order % 2).all() and (shuffled.tasks == order % 5).all()
    assert shuffled.shuffle_seed == 3 and not shuffled.time_ordered
    assert (original.X[:, 0] == np.arange(50)).all() and original.shuffle_seed is None


def test_shuffled_is_reproducible_and_the_seed_matters() -> None:
    assert np.array_equal(numbered().shuffled(1).X, numbered().shuffled(1).X)
    assert not np.array_equal(numbered().shuffled(1).X, numbered().shuffled(2).X)


def test_a_second_shuffle_is_rejected() -> None:
    with pytest.raises(InputError, match="already shuffled, with seed 1"):
        numbered().shuffled(1).shuffled(2)


def test_sparse_rows_are_shuffled_in_the_same_order() -> None:
    dense, as_sparse = numbered(), numbered(X=sparse.csr_matrix(np.arange(50.0)[:, None]))
    assert np.array_equal(dense.shuffled(9).X, as_sparse.shuffled(9).X.toarray())


def test_take_returns_the_first_examples() -> None:
    assert numbered().take(7).X[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert (numbered().take(7).n, numbered().take(999).n, numbered().take(0).n) == (7, 50, 0)
    for wrong in (-1, 2.5, True, "7"):
        with pytest.raises(InputError, match=r"DataSet\.take: n must be an integer >= 0"):
            numbered().take(wrong)  # type: ignore[arg-type]


def test_a_data_set_is_frozen_and_its_lengths_agree() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        numbered().name = "other"  # type: ignore[misc]
    with pytest.raises(InputError, match="X, y and tasks must be of the same length; got 3, 2 and 3"):
        DataSet("uneven", np.eye(3), np.zeros(2, dtype=int), np.zeros(3))


@pytest.mark.parametrize(
    "form", [np.asarray, sparse.csr_matrix, sparse.csr_array], ids=["array", "csr_matrix", "csr_array"]
)
def test_unit_norm_scales_every_row_to_length_one_and_leaves_zero_rows(form) -> None:
    counts = np.random.default_rng(0).poisson(0.7, size=(40, 6)).astype(float)
    counts[5] = 0
    matrix = form(counts)
    scaled = unit_norm(matrix)
    assert sparse.issparse(scaled) == sparse.issparse(matrix)
    rows = scaled.toarray() if sparse.issparse(scaled) else scaled
    lengths = np.linalg.norm(rows, axis=1)
    empty = ~counts.any(axis=1)
    assert empty[5] and np.allclose(lengths[~empty], 1) and (rows[empty] == 0).all()
    assert np.allclose(rows * np.linalg.norm(counts, axis=1)[:, None], counts)
    assert np.array_equal(matrix.toarray() if sparse.issparse(matrix) else matrix, counts)  # the input is not changed


def test_standardized_columns_have_mean_zero_and_variance_one() -> None:
    X = np.random.default_rng(0).normal(5, 3, size=(200, 3))
    X[:, 1] = 4
    scaled = standardized(X)
    assert np.allclose(scaled.mean(axis=0), 0) and np.allclose(scaled.std(axis=0), [1, 0, 1])
