"""Placement of tasks and shards, and the division of a budget."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import TASKS, random_graph

import budgetron
from budgetron import graphs
from budgetron.distributed import Placement, ShardedModel, workers_of
from budgetron.distributed.split.placement import splitmix64
from budgetron.distributed.split.routing import cuts
from budgetron.distributed.split.shares import divide, rebalanced_shares, unused_only
from budgetron.errors import InputError


@pytest.mark.parametrize("kind", ["disconnected", "clusters", "edges", "similarity", "large"])
def test_components_are_never_divided(kind):
    graph = random_graph(kind, 2)
    placement = Placement(graph, 5)
    for component in graph.components(TASKS):
        assert len(set(placement.shards_of_tasks(component).tolist())) == 1


def test_the_hash_is_splitmix64():
    """The published first outputs of splitmix64 for the seeds 0 and 1."""
    assert [int(value) for value in splitmix64(np.array([0, 1]))] == [0xE220A8397B1DCDAF, 0x910A2DEC89025CC1]


def test_consecutive_integers_are_spread_evenly():
    counts = np.bincount(Placement(graphs.disconnected(), 16).shards_of_tasks(np.arange(16_000)), minlength=16)
    assert counts.min() > 850 and counts.max() < 1150  # 1000 ± about 5 standard deviations


def test_explicit_components_are_assigned_by_size():
    edges = [(f"{name}{i}", f"{name}{i + 1}") for name, size in (("a", 9), ("b", 5), ("c", 4)) for i in range(size)]
    shards = Placement(graphs.from_edges(edges), 2).shards_of_tasks(["a0", "b0", "c0"]).tolist()
    assert shards == [0, 1, 1]  # 10 tasks in shard 0, and 6 + 5 in shard 1


def test_a_graph_is_restricted_to_components_without_cutting_them():
    graph = graphs.from_edges([(1, 2), (3, 4)], weights=[0.3, 2.0])
    part = graph.restricted(np.array([2, 3]))
    assert part.tasks == (3, 4) and part.similarity(3, 4) == graph.similarity(3, 4)
    with pytest.raises(InputError, match="indices must be those of all tasks of one or more components"):
        graph.restricted(np.array([1, 2]))


def test_pinned_tasks_and_their_components_are_placed_on_the_given_shard():
    pairs = graphs.from_edges([(1, 2), (3, 4), (5, 6)])
    assert Placement(pairs, 3, {2: 0, 5: 0}).shards_of_tasks([1, 2, 5, 6]).tolist() == [0, 0, 0, 0]
    groups = graphs.clusters({"ann": 1, "bob": 1, "cid": 2})
    assert Placement(groups, 64, {"bob": 7}).shards_of_tasks(["ann", "bob"]).tolist() == [7, 7]
    with pytest.raises(InputError, match="pins must be one shard per component"):
        Placement(pairs, 3, {1: 0, 2: 1})
    with pytest.raises(InputError, match="pins must be a shard from 0 to 2"):
        Placement(pairs, 3, {1: 3})


@given(st.integers(1, 60), st.integers(1, 9), st.data())
def test_shards_are_balanced_over_workers_and_pins_hold(n_shards, n_workers, data):
    workers = [f"w{i}" for i in range(n_workers)]
    before = workers_of(n_shards, workers)
    loads = [list(before.values()).count(worker) for worker in workers]
    assert max(loads) <= -(-n_shards // n_workers) and sorted(before) == list(range(n_shards))
    pinned = {0: data.draw(st.sampled_from(workers))}
    assert workers_of(n_shards, workers, pinned)[0] == pinned[0]


def test_one_more_of_many_workers_moves_about_its_share():
    before = workers_of(1000, [f"w{i}" for i in range(20)])
    after = workers_of(1000, [f"w{i}" for i in range(21)])
    moved = sum(before[shard] != after[shard] for shard in before)
    assert 40 <= moved <= 160  # about 1000/21 = 48 must move; a plain modulus would move 940


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_dividing_a_block_by_shard_keeps_the_order_and_all_rows(shards):
    parts = list(cuts(np.array(shards), np.arange(100, 100 + len(shards))))
    assert sorted(row for cut in parts for row in cut.rows.tolist()) == list(range(100, 100 + len(shards)))
    for cut in parts:
        assert (np.diff(cut.rows) > 0).all() and all(shards[row - 100] == cut.shard for row in cut.rows)


@given(st.data())
def test_shares_add_up_to_the_budget(data):
    weights = data.draw(st.lists(st.floats(0, 100), min_size=1, max_size=12))
    total = data.draw(st.integers(len(weights), 500))
    shares = divide(total, weights)
    assert sum(shares) == total and min(shares) >= 1
    capacities = divide(total, [1] * len(weights))
    mistakes = data.draw(st.lists(st.integers(0, 99), min_size=len(weights), max_size=len(weights)))
    assert sum(rebalanced_shares(total, capacities, mistakes)) == total
    stored = [data.draw(st.integers(0, capacity)) for capacity in capacities]
    reduced = unused_only(rebalanced_shares(total, capacities, mistakes), capacities, stored)
    assert sum(reduced) <= total and all(now >= n for now, n in zip(reduced, stored, strict=True))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"shards": 0}, "shards must be an integer >= 1"),
        ({"block": 64}, "block must be an integer >= 128"),
        ({"backend": "spark"}, 'backend must be "local" or "ray"'),
        ({"shares": "fair"}, 'shares must be "fixed" or "demand"'),
        ({"pins": ["ann"]}, "pins must be a mapping"),
        ({"shards": 200}, "budget must be at least 200, one stored example per shard"),
        ({"learner": budgetron.Budgetron(budget=100)}, "shards must be 1 if the graph has one component"),
        ({"learner": "Budgetron"}, "learner must be a learner of budgetron"),
        ({"backend": "ray"}, "directory must be a folder that all nodes share"),
    ],
)
def test_invalid_parameters_of_a_sharded_model_are_rejected(parameters, words):
    learner = budgetron.Forgetron(budget=100, graph=graphs.disconnected())
    model = ShardedModel(**{"learner": learner, "shards": 2, **parameters})
    with pytest.raises(InputError, match=words):
        model.partial_fit([[0.0, 1.0], [1.0, 0.0]], [0, 1], tasks=["ann", "bob"])
