"""The table of a Budgetron for sparse rows: which features have cells, their own weights, steps and pairs.

A row of `table_cells` has the typical size, the masses, the weights per belief, and their sums G of squared gradients.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from budgetron.engine import native, reference
from budgetron.engine.reference.rules.budgetron.features.hashing import mix64
from budgetron.engine.reference.rules.budgetron.parts.table import MAX_COUNT, TAGS, WAYS

needs_core = pytest.mark.skipif(not native.available, reason="built without a compiler")
ENGINES = [pytest.param(native.Engine, marks=needs_core), reference.Engine]


def one_feature(index: int) -> sparse.csr_matrix:
    return sparse.csr_matrix(([1.0], ([0], [index])), shape=(1, 5000))


@pytest.mark.parametrize("kind", ENGINES)
def test_a_frequent_feature_keeps_its_cell_and_rare_ones_give_way(kind, make_settings, learn):
    """A table of one bucket: a feature is found by its tag, and a new feature takes a cell with the lowest count."""
    engine = kind(make_settings("pooled", is_sparse=True, d=5000, cells=WAYS))
    tag_of = lambda index: max(1, int(mix64(np.int64(index))) % TAGS)  # noqa: E731
    counts = lambda: {tags // (MAX_COUNT + 1): tags % (MAX_COUNT + 1) for tags in engine.state()["table_tags"].tolist()}  # noqa: E731
    for _ in range(20):
        learn(engine, one_feature(0), [1], [0])
    for index in range(1, WAYS):
        learn(engine, one_feature(index), [0], [0])
    assert counts() == {tag_of(0): MAX_COUNT} | {tag_of(index): 1 for index in range(1, WAYS)}
    frequent = np.asarray(engine.state()["table_cells"]).reshape(WAYS, -1)[0].copy()
    learn(engine, one_feature(100), [0], [0])  # finds no cell, and lowers the first of the lowest counts
    assert tag_of(100) not in counts() and counts()[tag_of(1)] == 0
    learn(engine, one_feature(100), [0], [0])  # takes that cell
    assert counts()[tag_of(100)] == 1 and tag_of(1) not in counts()
    for index in range(200, 300):
        learn(engine, one_feature(index), [0], [0])
    assert counts()[tag_of(0)] == MAX_COUNT
    np.testing.assert_array_equal(np.asarray(engine.state()["table_cells"]).reshape(WAYS, -1)[0], frequent)


@pytest.mark.parametrize("kind", ENGINES)
def test_a_feature_has_own_weights_from_its_third_occurrence_on(kind, make_settings, learn):
    """The second cell that is used from the beginning is the bias of the task."""
    engine = kind(make_settings("complete", is_sparse=True, d=5000, cells=64))
    used = []
    for _ in range(4):
        learn(engine, one_feature(7), [1], [3])
        used.append(int(np.count_nonzero(engine.state()["table_tags"])))
    assert used == [2, 2, 3, 3]


@pytest.mark.parametrize("kind", ENGINES)
def test_feature_2_of_task_5_has_another_cell_than_feature_5_of_task_2(kind, make_settings, learn):
    """Tasks and features are small integers in many data sets. A symmetric hash would give both pairs one cell."""
    settings = make_settings("disconnected", is_sparse=True, d=10, cells=4096)
    engine = kind(settings)
    row = lambda feature: sparse.csr_matrix(([1.0], ([0], [feature])), shape=(1, 10))  # noqa: E731
    before = kind(settings).margins(row(5), np.array([2]), np.array([2]))
    learn(engine, row(2), [1], [5])
    bias = np.mean(engine.state()["table_bias"])
    after = engine.margins(row(5), np.array([2]), np.array([2]))
    same = engine.margins(row(2), np.array([5]), np.array([5]))
    assert before == 0 < bias < same
    assert after < 0.75 * same  # the bias is common to all tasks, the weight of feature 2 is not


@pytest.mark.parametrize("kind", ENGINES)
def test_tasks_have_a_bias_of_their_own_even_if_every_word_is_new(kind, make_settings, learn):
    engine = kind(make_settings("complete", is_sparse=True, d=5000, cells=4096))
    for index in range(60):
        learn(engine, one_feature(index), [index % 2], [index % 2])
    unknown = sparse.vstack([one_feature(4000)] * 3).tocsr()
    tasks = np.array([0, 1, 2])
    never, always, neither = np.asarray(engine.margins(unknown, tasks, tasks)).ravel()
    assert never < neither - 0.2 < neither + 0.2 < always


@pytest.mark.parametrize("kind", ENGINES)
def test_a_first_small_gradient_makes_a_small_step(kind, make_settings, learn):
    """Plain AdaGrad would move a new weight by its rate, however certain the model is of the label already."""
    engine = kind(make_settings("pooled", is_sparse=True, d=5000, cells=4096))
    for _ in range(300):
        learn(engine, one_feature(0), [0], [0])
    weights = lambda: np.abs(np.asarray(engine.state()["table_cells"]).reshape(4096, -1)[:, -4:-2])  # noqa: E731
    before = weights().max(axis=0)
    both = sparse.csr_matrix(np.eye(1, 5000) + np.eye(1, 5000, 1))
    learn(engine, both, [0], [0])
    new = np.sort(weights(), axis=0)[-2]  # of feature 1, which is the only other feature
    assert (new > 0).all() and (new < 0.2 * before).all()


@pytest.mark.parametrize("kind", ENGINES)
def test_steps_of_a_belief_on_sizes_do_not_shrink_to_nothing(kind, make_settings, learn):
    """The sum of squared gradients of this belief decays by 2 % per step. No square is above 1: the sum is below 50."""
    engine = kind(make_settings("disconnected", is_sparse=True, d=10, cells=64))
    row = sparse.csr_matrix(([1.0], ([0], [3])), shape=(1, 10))
    for label in [0, 1] * 200:
        learn(engine, row, [label], [0])
    on_sizes, on_signs = np.asarray(engine.state()["table_cells"]).reshape(64, -1)[:, -2:].max(axis=0)
    assert 5 < on_sizes < 50
    assert on_signs > 80  # AdaGrad: 400 squares of about 1/4


def row_of(*columns):
    return sparse.csr_matrix((np.ones(len(columns)), columns, [0, len(columns)]), shape=(1, 5000))


@pytest.mark.parametrize("kind", ENGINES)
def test_a_belief_on_pairs_learns_what_no_weight_of_a_single_feature_can(kind, make_settings, learn):
    """The label says whether exactly one of two features has its first value (exclusive or)."""
    engine = kind(make_settings("pooled", is_sparse=True, d=5000, cells=256))
    rng = np.random.default_rng(0)
    for _ in range(300):
        first, second = rng.integers(2, size=2)
        learn(engine, row_of(first, 2 + second), [int(first != second)], [0])
    rows = sparse.vstack([row_of(first, 2 + second) for first in (0, 1) for second in (0, 1)]).tocsr()
    margins = np.asarray(engine.margins(rows, np.zeros(4, np.int64), np.zeros(4, np.int64))).ravel()
    assert ((margins > 1) == [False, True, True, False]).all() and ((margins < -1) == [True, False, False, True]).all()
    assert engine.state()["belief_weight"][-1] > 0.9


@pytest.mark.parametrize("kind", ENGINES)
def test_only_frequent_features_of_short_rows_form_pairs(kind, make_settings, learn):
    engine = kind(make_settings("pooled", is_sparse=True, d=5000, cells=256))  # `pairs` is 3
    used = lambda: int(np.count_nonzero(engine.state()["table_tags"]))  # noqa: E731
    for _ in range(MAX_COUNT):
        learn(engine, row_of(1, 2, 3), [1], [0])
    assert used() == 3
    learn(engine, row_of(1, 2, 3, 4), [1], [0])  # too long
    assert used() == 4
    learn(engine, row_of(1, 3, 4), [1], [0])  # one pair; feature 4 is rare
    assert used() == 5
    learn(engine, row_of(1, 3), [0], [0])  # the same pair
    assert used() == 5
