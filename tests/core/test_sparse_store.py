"""The inverted index compared with NumPy: integers in 16 bits, other values, and the conversion of the index."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as at_most
from hypothesis import strategies as st
from scipy import sparse

from budgetron import RandomBudgetPerceptron, graphs, kernels
from budgetron.engine import native, reference
from budgetron.engine.settings import make_settings

pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")


@st.composite
def streams(draw):
    """Draw blocks of sparse rows with small or large integers, integers beyond 16 bits, or fractions.

    Some features are frequent. Returns the number of features, the blocks, the budget, and the largest number of
    non-zeros that may be stored (None: no limit).
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    d = draw(st.sampled_from([3, 40, 3000]))
    probabilities = 1.0 / np.arange(1, d + 1) ** draw(st.sampled_from([0.5, 1.0, 2.0]))
    blocks = []
    kinds = st.sampled_from(["counts", "hundreds", "large", "beyond", "fractions"])
    for kind in draw(st.lists(kinds, min_size=1, max_size=6)):
        is_nonzero = rng.random((150, d)) < probabilities
        values = {
            "counts": rng.integers(1, 5, is_nonzero.shape),
            "hundreds": rng.integers(-300, 301, is_nonzero.shape),
            "large": rng.integers(-32767, 32768, is_nonzero.shape),
            "beyond": rng.integers(-(2**20), 2**20, is_nonzero.shape),
            "fractions": rng.integers(-64, 64, is_nonzero.shape) / 16,
        }[kind]
        blocks.append(sparse.csr_matrix(np.where(is_nonzero, values, 0)))
    return d, blocks, draw(st.sampled_from([1, 20, 200])), draw(st.sampled_from([None, 64, 2000]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_and_rows_are_those_of_numpy(dtype):
    """Compare exactly: with a linear kernel and numbers of few digits, no order of summation causes rounding."""

    @at_most(max_examples=15)
    @given(streams())
    def check(stream):
        d, blocks, capacity, pool = stream
        settings = make_settings(
            rule="random_budget_perceptron", kernel=kernels.Linear(),
            graph=graphs.disconnected(), n_features=d, sparse=True, dtype=dtype,
            capacity=capacity, pool=pool, seed=3,
        )  # fmt: skip
        engines = native.Engine(settings), reference.Engine(settings)
        rng = np.random.default_rng(0)
        for block in blocks:
            block = block.astype(dtype)
            n = block.shape[0]
            codes, tasks = rng.integers(0, 2, n).astype(np.int32), rng.integers(0, 3, n)
            (margins, flags), (expected, expected_flags) = (
                engine.learn(block, codes, tasks, tasks) for engine in engines
            )
            np.testing.assert_array_equal(margins, expected)
            np.testing.assert_array_equal(flags, expected_flags)
            forgotten = int(rng.integers(0, 3))
            for engine in engines:
                engine.forget(forgotten)
            stored, expected_stored = (engine.active() for engine in engines)
            np.testing.assert_array_equal(stored["arrival"], expected_stored["arrival"])
            assert (stored["rows"] != expected_stored["rows"]).nnz == 0
            restored = native.Engine.restore(settings, engines[0].state())
            np.testing.assert_array_equal(
                restored.margins(block, tasks, tasks), engines[0].margins(block, tasks, tasks)
            )

    check()


def test_counts_take_less_memory_than_other_numbers():
    rng = np.random.default_rng(0)
    X = sparse.random(600, 2_000, density=0.05, format="csr", random_state=1)  # features that many rows share
    X.data = rng.integers(1, 9, X.nnz).astype(float)
    y = rng.integers(0, 2, 600)
    counts, fractions = (
        RandomBudgetPerceptron(budget=200, kernel=kernels.Linear()).fit(rows, y) for rows in (X, X * 0.3)
    )
    assert counts.memory_bytes_ < 0.8 * fractions.memory_bytes_
    mixed = counts.partial_fit(X[:1] * 0.3, [1 - counts.predict(X[:1] * 0.3)[0]])  # a mistake, so the row is stored
    assert mixed.memory_bytes_ > 0.8 * fractions.memory_bytes_  # one fraction converts all 16-bit values to float64


@pytest.mark.parametrize("fraction", [1.0, 0.3], ids=["counts", "fractions"])
def test_a_million_features_that_occur_once_take_bounded_memory(fraction):
    model = RandomBudgetPerceptron(budget=100, kernel=kernels.Linear(bias=1.0))
    rows, width = 5_000, 5
    rng = np.random.default_rng(0)
    sizes = []
    for block in range(40):
        first = block * rows * width
        indices = np.arange(first, first + rows * width)
        X = sparse.csr_matrix(
            (np.full(rows * width, fraction), indices, np.arange(0, rows * width + 1, width)),
            shape=(rows, 40 * rows * width),
        )
        model.partial_fit(X, rng.integers(0, 2, rows), tasks=rng.integers(0, 10**6, rows), classes=[0, 1])
        sizes.append(model.memory_bytes_)
    assert max(sizes) <= 1.05 * sizes[1], sizes
