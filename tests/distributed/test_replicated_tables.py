"""The exchange of hashed tables and binned columns between replicas of a Budgetron.

A cell of the table, or a bin of a column, has weights and their sums of squared gradients. If it belongs to a single
feature or bin, and not to a pair, it also has a sum per class: its *mass*. The *baseline* has these numbers as they
were at the last exchange.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from budgetron import Budgetron
from budgetron.distributed import ReplicatedModel
from budgetron.distributed.replicas import table_and_bins
from budgetron.distributed.replicas.exchange import Baseline, combine, new_replica, shared_part, with_shared_part
from budgetron.distributed.replicas.keyed_weights import KeyedWeights, baseline, combined
from budgetron.engine.reference.rules.budgetron.parts.table import TAGS, WAYS

ENGINES = ("core", "numpy")


def texts(n, seed=0, words=400, length=12, n_tasks=12):
    """Rows of word counts. The label depends on the words, with small differences between tasks."""
    rng = np.random.default_rng(seed)
    frequency = 1 / np.arange(1, words + 1)
    columns = rng.choice(words, size=(n, length), p=frequency / frequency.sum())
    X = sparse.csr_matrix((np.ones(n * length), (np.repeat(np.arange(n), length), columns.ravel())), (n, words))
    effects = np.random.default_rng(99).normal(size=(n_tasks, words)) * 0.3 + np.random.default_rng(98).normal(
        size=words
    )
    tasks = rng.integers(0, n_tasks, size=n)
    return X, (np.asarray(X.multiply(effects[tasks]).sum(axis=1)).ravel() > 0).astype(int), tasks


def numbers(n, seed=0, is_sparse=False):
    """Rows of numbers, and a label that depends on thresholds."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(n, 5)), rng.integers(0, 12, size=n)
    y = ((X[:, 0] > 0.5) ^ (X[:, 1] > -0.3)).astype(int)
    return sparse.csr_matrix(X) if is_sparse else X, y, tasks


def replicas_of(stream, n, engine="core", budget="1 MiB", first=64):
    """Return n replicas, each of which has learned a part of the stream, a model that has learned all, and a baseline.

    All models began with the same plan, made from the first `first` rows. The baseline is their state at this start.
    """
    X, y, tasks = stream
    models, began = [], []
    for g in range(n + 1):
        model = Budgetron(budget, engine=engine).partial_fit(X[:2], [0, 1], tasks=tasks[:2])
        # Replace the engine, which has learned two rows, by a new one with the same settings.
        model._engine = new_replica(type(model._engine)(model._engine.settings), X[:first])
        began.append(shared_part(model._engine))
        chosen = slice(g, None, n) if g < n else slice(None)
        models.append(model.partial_fit(X[chosen], y[chosen], tasks=tasks[chosen]))
    return models[:n], models[n], Baseline.of(began[:n])


def keyed(numbers, key=3, counts=1, n_sums=2):
    """One key with these numbers: first `n_sums` sums, then a weight and the sum of its squared gradients."""
    numbers = np.array([numbers], dtype=np.float64)
    return KeyedWeights(np.array([key]), np.array([counts], np.int8), numbers[:, :n_sums], numbers[:, n_sums:], 1)


def test_sums_add_up_and_weights_become_their_mean_weighted_by_the_increases_of_the_sums():
    before = keyed([2.0, 1.0, 0.5, 4.0], counts=4)
    parts = [keyed([5.0, 1.0, 1.0, 6.0], counts=7), keyed([2.0, 2.0, -1.0, 5.0], counts=5), before]
    after = combined(parts, before, max_count=15)
    np.testing.assert_allclose(after.sums, [[2 + 3 + 0, 1 + 0 + 1]])
    np.testing.assert_allclose(after.weights, [[(3 * 1.0 + 1 * -1.0) / 4, (3 * 6.0 + 1 * 5.0) / 4]])
    assert after.counts.tolist() == [4 + 3 + 1]
    assert combined(parts, before, max_count=6).counts.tolist() == [6]


def test_a_feature_gets_the_weights_of_the_only_replica_that_saw_it_and_unseen_features_stay():
    before = keyed([2.0, 1.0, 0.5, 4.0])
    only = combined([before, keyed([2.5, 1.0, 0.8, 4.5]), before], before, max_count=15)
    np.testing.assert_allclose(only.weights, [[0.8, 4.5]])
    unseen = combined([before, before], before, max_count=15)
    np.testing.assert_array_equal(unseen.weights, before.weights)
    np.testing.assert_array_equal(unseen.sums, before.sums)
    new = combined([keyed([1.0, 0.0, 0.3, 1.0], key=7), before], before, max_count=15)
    assert new.keys.tolist() == [3, 7]
    np.testing.assert_allclose(new.weights, [[0.5, 4.0], [0.3, 1.0]])


def test_a_cell_that_began_again_counts_in_full():
    before = keyed([2.0, 1.0, 0.5, 4.0], counts=9)
    after = combined([keyed([0.0, 0.5, -0.2, 0.1], counts=1), keyed([2.0, 2.5, 0.9, 5.0], counts=9)], before, 15)
    np.testing.assert_allclose(after.sums, [[2.0, 1.0 + 0.5 + 1.5]])
    np.testing.assert_allclose(after.weights[0, 0], (0.5 * -0.2 + 1.5 * 0.9) / 2)
    assert after.counts.tolist() == [10]
    # One sum that is smaller than before is enough to show that a cell began again, because sums only grow.
    after = combined([keyed([0.0, 9.0, 0.1, 1.0])] * 3, before, 15)
    np.testing.assert_allclose(after.sums, [[2.0, 1.0 + 3 * 9.0]])


def test_sums_do_not_exceed_the_largest_sum_that_a_model_file_may_have():
    before = KeyedWeights(np.array([3]), np.zeros(1, np.int8), np.zeros((1, 2), np.float32), np.zeros((1, 2)), 1)
    full = KeyedWeights(before.keys, before.counts, np.full((1, 2), 2.0**24, np.float32), before.weights, 1)
    np.testing.assert_array_equal(combined([full, full], before, 15).sums, full.sums)


def test_the_means_of_keys_without_sums_are_weighted_by_squared_gradients():
    before, parts = keyed([0.1, 1.0], n_sums=0), [keyed([0.4, 3.0], n_sums=0), keyed([-0.2, 2.0], n_sums=0)]
    after = combined(parts, before, max_count=15)
    np.testing.assert_allclose(after.weights, [[(2 * 0.4 - 0.2) / 3, (2 * 3.0 + 2.0) / 3]])


def test_a_baseline_has_the_smallest_sums_of_each_key_and_the_weights_of_the_smallest_amount():
    parts = [keyed([2.0, 1.0, 0.5, 4.0]), keyed([1.0, 1.5, 0.7, 3.0]), keyed([1.0, 0.0, 0.1, 1.0], key=1)]
    least = baseline(parts)
    assert least.keys.tolist() == [1, 3]
    np.testing.assert_array_equal(least.sums, [[1.0, 0.0], [1.0, 1.0]])
    np.testing.assert_array_equal(least.weights, [[0.1, 1.0], [0.7, 3.0]])


@pytest.mark.parametrize("engine", ENGINES)
def test_masses_of_features_add_up_to_those_of_one_learner(engine):
    """The mass that a row adds does not depend on earlier rows, so the masses are those of one table with all rows."""
    models, one, last = replicas_of(texts(240), 3, engine)
    after = combine(None, [shared_part(model._engine) for model in models], last)
    expected = shared_part(one._engine).keyed
    for g, part in enumerate(after):
        received = shared_part(with_shared_part(models[g]._engine, part)).keyed
        # Compare only the cells of features. Cells of pairs have no masses. They also differ, because a replica sees
        # each feature less often than one learner does, and so it forms a pair later.
        features, of_one = (part["table"].rows(part["table"].sums.sum(axis=1) > 0) for part in (received, expected))
        np.testing.assert_array_equal(features.keys, of_one.keys)
        np.testing.assert_array_equal(features.counts, of_one.counts)
        np.testing.assert_allclose(features.sums, of_one.sums, rtol=1e-5)
        np.testing.assert_allclose(received["table vectors"].sums, expected["table vectors"].sums, rtol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_cells_of_tasks_and_weights_of_beliefs_stay_in_their_replica(engine):
    """The *beliefs* are the models that a Budgetron mixes."""
    models, _, last = replicas_of(texts(400), 2, engine)
    after = combine(None, [shared_part(model._engine) for model in models], last)
    for model, part in zip(models, after, strict=True):
        before, state = model._engine.state(), with_shared_part(model._engine, part).state()
        np.testing.assert_array_equal(state["belief_weight"], before["belief_weight"])
        settings, own = model._engine.settings, []
        for numbers in (before, state):
            _, of_tasks = table_and_bins._features(settings, numbers)
            cells = np.asarray(numbers["table_cells"]).reshape(settings.parameters.cells, -1)[of_tasks]
            tags = np.asarray(numbers["table_tags"])[of_tasks]
            own.append({(bucket, tag): tuple(row) for bucket, tag, row in
                        zip((of_tasks // WAYS).tolist(), tags.tolist(), cells.tolist(), strict=True)})  # fmt: skip
        assert own[0] == own[1] and len(own[0]) > 50


def test_a_full_bucket_keeps_the_features_with_the_largest_counts():
    models, _, last = replicas_of(texts(600, words=3000, length=30), 2, budget="40 KiB")
    now = [shared_part(model._engine) for model in models]
    together = combined([part.keyed["table"] for part in now], last.keyed["table"], 15)
    kept = combine(None, now, last)[0].keyed["table"]
    n_cells, bucket = np.bincount(together.keys // TAGS), together.keys // TAGS
    assert (n_cells > WAYS).any() and np.bincount(kept.keys // TAGS).max() == WAYS
    is_kept = np.isin(together.keys, kept.keys)
    for full in np.flatnonzero(n_cells > WAYS):
        counts, chosen = together.counts[bucket == full], is_kept[bucket == full]
        assert counts[chosen].min() >= counts[~chosen].max()
    # Every replica must have only the cells that were kept. Any other cell would be counted again at the next exchange.
    for model in models:
        received = shared_part(with_shared_part(model._engine, combine(None, now, last)[0])).keyed["table"]
        assert np.isin(received.keys, kept.keys).all() and len(received.keys) > 100


@pytest.mark.parametrize("stream", [texts(300), numbers(300, is_sparse=True), numbers(300)])
def test_a_shared_part_can_be_received_again(stream):
    models, _, last = replicas_of(stream, 2, budget="100 KiB")
    part = combine(None, [shared_part(model._engine) for model in models], last)[0]
    once = with_shared_part(models[0]._engine, part)
    twice = with_shared_part(once, part).state()
    for name, numbers_once in once.state().items():
        np.testing.assert_array_equal(twice[name], numbers_once, err_msg=name)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_bins_of_replicas_have_the_same_edges_and_add_up(engine, is_sparse):
    models, one, last = replicas_of(numbers(300, is_sparse=is_sparse), 3, engine)
    assert one._engine.settings.parameters.bin_pairs
    after = combine(None, [shared_part(model._engine) for model in models], last)
    expected = shared_part(one._engine).keyed
    names = [name for name in expected if name.startswith("bin")]
    assert len(names) == 3
    for g, part in enumerate(after):
        received = shared_part(with_shared_part(models[g]._engine, part)).keyed
        for name in names:
            np.testing.assert_array_equal(received[name].keys, expected[name].keys)
            np.testing.assert_allclose(received[name].sums, expected[name].sums, rtol=1e-5)
            np.testing.assert_array_equal(received[name].weights, part.keyed[name].weights)


def test_bins_with_different_edges_are_not_exchanged():
    # Ten rows are too few for 64 edges, so each replica finds its own edges.
    models, _, last = replicas_of(numbers(300), 2, first=10)
    now = [shared_part(model._engine) for model in models]
    for part, own in zip(combine(None, now, last), now, strict=True):
        assert part.keyed.keys() == own.keyed.keys() and own.keyed
        for name, weights in own.keyed.items():
            np.testing.assert_array_equal(part.keyed[name].weights, weights.weights)


def test_one_replica_equals_the_learner_if_its_table_is_full():
    """A single replica exchanges nothing: an exchange would move cells within buckets, and change later evictions."""
    X, y, tasks = texts(1500, words=3000, length=30)
    expected = Budgetron("40 KiB").predict_then_learn(X, y, tasks=tasks)
    with ReplicatedModel(Budgetron("40 KiB"), replicas=1, exchange_every=128, block=128) as model:
        np.testing.assert_array_equal(model.predict_then_learn(X, y, tasks=tasks), expected)
        assert model.n_exchanges_ == 11 and model.exchange() == 0


def test_replicas_on_sparse_rows_have_one_plan():
    """The first block determines the plan of all replicas, also of those that get none of its rows."""
    for stream, has_frequent_columns in ((texts(300), False), (numbers(300, is_sparse=True), True)):
        X, y, tasks = stream
        with ReplicatedModel(Budgetron("1 MiB"), replicas=3) as model:
            model.partial_fit(X[:64], y[:64], tasks=[0] * 64, classes=[0, 1])
            model.partial_fit(X[64:], y[64:], tasks=tasks[64:])
            shards = model._placement.shards_of_tasks(range(12)).tolist()
            settings = [model.learner_of(shards.index(g))._engine.settings for g in range(3)]
        assert settings[0] == settings[1] == settings[2] and not settings[0].parameters.first_rows
        assert bool(settings[0].parameters.frequent_columns) == has_frequent_columns


@pytest.mark.parametrize(("stream", "loss"), [(texts(6000, words=2000), 1 / 2), (numbers(3000, is_sparse=True), 3 / 4)])
def test_replicas_on_sparse_rows_stay_close_to_one_learner(stream, loss):
    """Replicas without exchanges make more errors than one learner.

    With exchanges, less than the fraction `loss` of these additional errors remains.
    """
    X, y, tasks = stream
    error = {"one": np.mean((Budgetron("1 MiB").predict_then_learn(X, y, tasks=tasks) > 0) != y)}
    for every in (256, 10**9):
        with ReplicatedModel(Budgetron("4 MiB"), replicas=4, exchange_every=every, block=128) as model:
            error[every] = np.mean((model.predict_then_learn(X, y, tasks=tasks) > 0) != y)
    assert error[10**9] > error["one"] + 0.02
    assert error[256] - error["one"] < loss * (error[10**9] - error["one"])


def test_a_restart_counts_nothing_twice(tmp_path):
    X, y, tasks = texts(600)
    options = {"replicas": 3, "exchange_every": 256, "block": 128}

    def masses(model):
        """The total mass of each class in every replica."""
        return np.array([part.keyed["table vectors"].sums[0] for part in model._parts()])

    with ReplicatedModel(Budgetron("1 MiB"), directory=tmp_path / "m", **options) as model:
        model.partial_fit(X[:256], y[:256], tasks=tasks[:256])
        exchanged = masses(model)
        assert model.n_exchanges_ == 1
        np.testing.assert_array_equal(exchanged, exchanged[[0, 0, 0]])
        model.partial_fit(X[256:400], y[256:400], tasks=tasks[256:400])
        before, expected = masses(model), model.decision_function(X, tasks=tasks)
    with ReplicatedModel.open(tmp_path / "m") as model:
        np.testing.assert_array_equal(model.decision_function(X, tasks=tasks), expected)
        model.partial_fit(X[400:500], y[400:500], tasks=tasks[400:500])
        new = (masses(model) - before).sum(axis=0)
        model.exchange()
        after = masses(model)
    # After a restart the baseline is the smallest mass of any replica. What each replica has beyond it is exchanged,
    # together with what is learned after the restart.
    least = before.min(axis=0)
    np.testing.assert_allclose(after, (least + (before - least).sum(axis=0) + new)[None].repeat(3, axis=0))
    assert (after <= exchanged + (before - exchanged).sum(axis=0) + new).all()


def test_own_weights_of_tasks_are_not_in_the_shared_part():
    """Tasks of other replicas never use these weights, and the weights would occupy cells that features need."""
    X, y, tasks = texts(2000, n_tasks=4)
    _, one, _ = replicas_of((X, y, tasks), 1)
    part, own = table_and_bins._features(one._engine.settings, one._engine.state())
    n_cells = int((np.asarray(one._engine.state()["table_tags"]) > 0).sum())
    assert len(part.keys) + len(own) == n_cells
    # Tasks have own weights of a word that has occurred at least three times, so certainly of the frequent words.
    words, frequent = len(np.unique(X.indices)), (X.getnnz(axis=0) >= 20).sum()
    assert words * 0.99 <= (part.sums.sum(axis=1) > 0).sum() <= words
    assert len(own) > 2 * frequent > 100
