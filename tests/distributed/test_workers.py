"""Adding, removing and losing workers, pins, shares of the budget, attributes, and rejected input.

Most workers are threads of one process.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
from streams import local_run, random_graph, stream

import budgetron
from budgetron import graphs, kernels
from budgetron.distributed import ShardedModel, WorkersLost
from budgetron.distributed.workers.worker_group import WorkerGroup
from budgetron.distributed.workers.worker_pool import WorkerLost, WorkerPool
from budgetron.errors import InputError

KERNEL = kernels.Gaussian(gamma=0.4)


def projectron(budget=60, **parameters):
    return budgetron.BudgetProjectron(budget=budget, kernel=KERNEL, graph=graphs.disconnected(), **parameters)


@pytest.mark.parametrize("on_disk", [False, True])
def test_adding_and_removing_workers_changes_no_margin(tmp_path, on_disk):
    X, y, tasks = stream(600, 1)
    expected, _ = local_run(projectron(), X, y, tasks, 6, [0, 1])
    with ShardedModel(projectron(), shards=6, directory=tmp_path / "model" if on_disk else None) as model:
        margins = []
        for step, start in enumerate(range(0, 600, 100)):
            part = slice(start, start + 100)
            margins.append(model.predict_then_learn(X[part], y[part], tasks=tasks[part]))
            if step < 3:
                assert model.add_worker() == f"worker-{step + 1}"
            else:
                model.remove_worker(f"worker-{step - 3}")
            assert sorted(shard for worker in model.workers_ for shard in worker["shards"]) == list(range(6))
        np.testing.assert_array_equal(np.concatenate(margins), expected)
        with pytest.raises(InputError, match="and not the last"):
            model.remove_worker("worker-3")


def test_a_busy_task_is_found_and_its_shard_pinned_to_a_worker():
    X, y, tasks = stream(800, 4)
    with ShardedModel(projectron(), shards=6, workers=3) as model:
        model.partial_fit(X, y, tasks=tasks)
        (task, count, shard), *_ = model.busy_tasks(3)
        assert count == max(tasks.count(name) for name in tasks) == tasks.count(task)
        assert model.pin(task, "worker-2") == shard
        assert model.shards_[shard].worker == "worker-2"
        model.remove_worker("worker-2")
        assert model.shards_[shard].worker in ("worker-0", "worker-1")
        with pytest.raises(InputError, match="worker must be one of"):
            model.pin(task, "unknown")


def test_other_shards_learn_while_shards_move():
    """Four threads learn different tasks while workers are added and removed.

    The tasks of a thread have a shard of their own. So the margins are those of one learner with the budget of a shard.
    """
    learner = projectron(budget=80)
    streams = []
    for number in range(4):
        tasks = [f"{number}:{task}" for task in range(5)]
        streams.append(stream(400, number, tasks=tasks))
    pins = {f"{number}:{task}": 2 * number for number in range(4) for task in range(5)}
    with ShardedModel(learner, shards=8, workers=2, pins=pins) as model:
        first = [(X[:5], y[:5], tasks[:5]) for X, y, tasks in streams]
        heads = [model.predict_then_learn(*block[:2], tasks=block[2], classes=[0, 1]) for block in first]
        results, failures = [list() for _ in streams], []

        def send(number):
            X, y, tasks = streams[number]
            try:
                for start in range(5, 400, 15):
                    part = slice(start, start + 15)
                    results[number].append(model.predict_then_learn(X[part], y[part], tasks=tasks[part]))
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(4):
            model.remove_worker(model.add_worker())
        for thread in threads:
            thread.join()
        assert not failures
        for number, (X, y, tasks) in enumerate(streams):
            alone = projectron(budget=80 // 8)  # the share of one of the eight shards
            expected = alone.predict_then_learn(X, y, tasks=tasks, classes=[0, 1])
            np.testing.assert_array_equal(np.concatenate([heads[number], *results[number]]), expected)


RULES = {
    "random": budgetron.RandomBudgetPerceptron,
    "projectron": budgetron.BudgetProjectron,
    "shared": budgetron.SharedProjectron,
    "forgetron": budgetron.Forgetron,
}


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_shares_follow_demand_within_the_total_and_a_full_forgetron_keeps_its_shares(tmp_path, rule, on_disk):
    X, y, tasks = stream(1500, 6)
    rng = np.random.default_rng(0)
    # The labels of one task are pure noise, so its mistakes never stop.
    busiest = max(tasks, key=tasks.count)
    y = np.where([task == busiest for task in tasks], rng.integers(0, 2, size=1500), y)
    learner = RULES[rule](budget=48, kernel=KERNEL, graph=graphs.disconnected())
    directory = tmp_path / "model" if on_disk else None
    with ShardedModel(learner, shards=4, shares="demand", rebalance_every=300, directory=directory) as model:
        capacities = []
        for start in range(0, 1500, 100):
            part = slice(start, start + 100)
            model.partial_fit(X[part], y[part], tasks=tasks[part])
            capacities.append([shard.capacity for shard in model.shards_])
            assert model.n_stored_ <= sum(capacities[-1]) <= 48
        shard = int(model._placement.shards_of_tasks([busiest])[0])
        if rule == "forgetron":  # a shard of a Forgetron gives away only unused capacity, and here all shards are full
            assert capacities[-1] == [12] * 4
        else:
            assert capacities[-1][shard] == max(capacities[-1]) > 12
            assert sum(capacities[-1]) == 48
        margins = model.decision_function(X[:50], tasks=tasks[:50])
    if on_disk:  # the shares survive reopening
        with ShardedModel.open(directory, workers=2) as model:
            assert [shard.capacity for shard in model.shards_] == capacities[-1]
            np.testing.assert_array_equal(model.decision_function(X[:50], tasks=tasks[:50]), margins)


def test_a_rejected_block_changes_no_shard():
    X, y, tasks = stream(300, 7)
    with ShardedModel(projectron(), shards=4, workers=2) as model:
        model.partial_fit(X, y, tasks=tasks)
        before = model.decision_function(X, tasks=tasks)
        spoiled = X.copy()
        spoiled[250, 1] = np.nan
        for block in ((spoiled, y, tasks), (X, np.full(300, 7), tasks), (X[:, :3], y, tasks), (X, y, tasks[:-1])):
            with pytest.raises(InputError):
                model.partial_fit(*block[:2], tasks=block[2])
        np.testing.assert_array_equal(model.decision_function(X, tasks=tasks), before)
        assert model.n_seen_ == 300


def test_a_task_that_the_graph_does_not_name_is_rejected():
    X, y, tasks = stream(60, 7)
    learner = budgetron.Forgetron(budget=20, kernel=KERNEL, graph=random_graph("edges", 1))
    with ShardedModel(learner, shards=2) as model:
        model.partial_fit(X, y, tasks=tasks)
        with pytest.raises(KeyError, match="one of the graph's 24 tasks"):
            model.predict(X[:1], tasks=["unknown"])


def test_attributes_of_a_sharded_model_are_those_of_its_shards():
    X, y, tasks = stream(500, 9)
    with ShardedModel(projectron(), shards=4, workers=2) as model:
        assert not hasattr(model, "n_seen_")
        model.partial_fit(X, y, tasks=tasks)
        shards = model.shards_
        assert model.n_seen_ == 500 == sum(shard.n_seen for shard in shards)
        assert sum(model.budget_share_.values()) == pytest.approx(1.0)
        assert model.memory_bytes_ == sum(shard.memory_bytes for shard in shards) > 0
        task = next(iter(model.budget_share_))
        assert len(model.task_weights(task)) == shards[int(model._placement.shards_of_tasks([task])[0])].n_stored
        model.forget_task(task)
        assert task not in model.budget_share_
        assert model.score(X, y, tasks=tasks) > 0.5
    with pytest.raises(InputError, match="or was closed"):
        model.predict(X, tasks=tasks)


class SilentPool(WorkerPool):
    """A pool whose workers accept any shard. The worker `silent` answers no call except `own`."""

    def __init__(self, silent, restarts):
        self.silent, self.restarts = silent, restarts

    def start_worker(self, name):
        pass

    stop_worker = close = start_worker

    def send(self, name, method, *arguments):
        return name, method

    def result(self, future):
        name, method = future
        if name == self.silent and method != "own":
            raise WorkerLost(name)
        return name

    def restart_worker(self, name, is_last):
        return self.restarts


def test_the_error_names_the_shards_whose_worker_is_lost():
    group = WorkerGroup(SilentPool("worker-0", restarts=True), 6, 1, "ShardedModel")
    group.begin(2, None)
    lost = [shard for shard, owner in group.owner.items() if owner == "worker-0"]
    assert 0 not in lost
    assert len(lost) > 1
    with pytest.raises(WorkersLost, match=f"no worker answers for shards {', '.join(map(str, lost))}[.] No"):
        group.call_all("statistics")
    with pytest.raises(WorkersLost, match=f"no worker answers for shard {lost[0]}[.] No"):
        group.call_owner(lost[0], "statistics")
    without_shards = WorkerGroup(SilentPool("worker-0", restarts=False), 0, 1, "ShardedModel")
    without_shards.begin(1, None)
    with pytest.raises(WorkersLost, match=r"no worker answers\. No"):
        without_shards.call_all("ping")
