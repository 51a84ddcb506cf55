"""A budget, in examples or in bytes, limits the total of all shards or replicas."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from scipy import sparse
from streams import stream

from budgetron import BudgetProjectron, Budgetron, Forgetron, SharedProjectron, graphs, kernels
from budgetron.distributed import ReplicatedModel, ShardedModel
from budgetron.distributed.directory import record
from budgetron.distributed.replicas.exchange import baseline_bytes
from budgetron.errors import InputError, TooFewBytes

KERNEL = kernels.Gaussian(gamma=0.3)


def rows(n, d, seed=0, n_tasks=300, is_sparse=False):
    """Random rows, labels and tasks; the labels need more than a linear model."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(n, d)), rng.integers(0, n_tasks, size=n).tolist()
    y = (X[:, 0] * X[:, 1] + 0.3 * X[:, 2] > 0).astype(int)
    return sparse.csr_matrix(np.where(np.abs(X) > 0.8, X, 0.0)) if is_sparse else X, y, tasks


def one_task_per_replica(model, tasks):
    """A task of each replica, in the order of the replicas."""
    replicas = model._placement.shards_of_tasks(tasks).tolist()
    return [tasks[replicas.index(replica)] for replica in range(model.replicas)]


@pytest.mark.parametrize("make", [Budgetron, SharedProjectron])
def test_replicas_divide_a_budget_of_examples(make):
    X, y, tasks = rows(1200, 4)
    with ReplicatedModel(make(budget=66, kernel=KERNEL), replicas=4, exchange_every=256, block=128) as model:
        model.partial_fit(X, y, tasks=tasks)
        shares = [model.learner_of(task).budget for task in one_task_per_replica(model, tasks)]
        assert shares == ([16] * 4 if make is Budgetron else [17, 17, 16, 16])
        assert model.budget == 66 and model.n_stored_ <= 66
        if make is SharedProjectron:  # a Budgetron stores no examples
            assert [shard.capacity for shard in model.shards_] == [17, 17, 16, 16] and model.capacity_ == 66


def test_shards_divide_a_budget_of_examples():
    X, y, tasks = stream(600, 1)
    learner = BudgetProjectron(budget=100, kernel=KERNEL, graph=graphs.disconnected())
    with ShardedModel(learner, shards=8) as model:
        model.partial_fit(X, y, tasks=tasks)
        assert [shard.capacity for shard in model.shards_] == [13, 13, 13, 13, 12, 12, 12, 12]


BYTE_CASES = [
    (ReplicatedModel, "replicas", Budgetron, graphs.complete(), "100 kB", False),
    (ReplicatedModel, "replicas", SharedProjectron, graphs.complete(), "300 kB", True),
    (ReplicatedModel, "replicas", Budgetron, graphs.complete(), "1 MB", False),
    (ReplicatedModel, "replicas", SharedProjectron, graphs.complete(), "200 kB", False),
    (ReplicatedModel, "replicas", Budgetron, graphs.complete(), "150 kB", True),  # only a table fits
    (ReplicatedModel, "replicas", Budgetron, graphs.complete(), "2 MB", True),  # a table and models of columns fit
    (ShardedModel, "shards", Budgetron, graphs.disconnected(), "100 kB", False),
    (ShardedModel, "shards", SharedProjectron, graphs.disconnected(), "300 kB", True),
]


@pytest.mark.parametrize(("kind", "number", "make", "graph", "budget", "is_sparse"), BYTE_CASES)
def test_the_bytes_of_all_shards_stay_within_the_budget_after_every_block(kind, number, make, graph, budget, is_sparse):
    X, y, tasks = rows(1500, 8, is_sparse=is_sparse)
    total = int(budget.split()[0]) * {"kB": 10**3, "MB": 10**6}[budget.split()[1]]
    with kind(make(budget=budget, kernel=KERNEL, graph=graph), **{number: 4}, block=128) as model:
        for start in range(0, 1500, 300):
            part = slice(start, start + 300)
            model.partial_fit(X[part], y[part], tasks=tasks[part])
            if kind is ReplicatedModel:
                model.exchange()
            assert model.memory_bytes_ <= total


def test_the_baseline_of_the_last_exchange_takes_the_planned_bytes():
    for d in (8, 300):  # with full covariances, and with diagonal ones
        X, y, tasks = rows(300, d)
        with ReplicatedModel(Budgetron(budget="800 kB", kernel=KERNEL), replicas=2) as model:
            model.partial_fit(X, y, tasks=tasks)
            settings = model.learner_of(tasks[0])._engine.settings
            assert settings.parameters.full_covariance == (d == 8)
            coordinator_bytes = model.memory_bytes_ - sum(shard.memory_bytes for shard in model.shards_)
            assert 0 < coordinator_bytes <= baseline_bytes(settings, replicas=2)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ReplicatedModel(Budgetron(budget=3), replicas=4),
         r"at least 4, one stored example per replica; got 3\. Raise the budget, or use 3 replicas or fewer"),
        (ShardedModel(Forgetron(budget=7, graph=graphs.disconnected()), shards=8),
         "at least 8, one stored example per shard; got 7"),
    ],
)  # fmt: skip
def test_a_budget_below_one_example_per_shard_is_rejected(model, words):
    X, y, tasks = stream(50, 1)
    with pytest.raises(InputError, match=words):
        model.partial_fit(X, y, tasks=tasks)


@pytest.mark.parametrize(
    ("make_model", "number", "total"),
    [
        (lambda budget, n: ReplicatedModel(SharedProjectron(budget=budget, kernel=KERNEL), replicas=n), "replica",
         60_000),
        (lambda budget, n: ReplicatedModel(Budgetron(budget=budget, kernel=KERNEL), replicas=n), "replica", 30_000),
        (lambda budget, n: ShardedModel(Forgetron(budget=budget, kernel=KERNEL, graph=graphs.disconnected()), shards=n),
         "shard", 60_000),
    ],
)  # fmt: skip
def test_too_few_bytes_are_rejected_with_a_remedy(make_model, number, total):
    """The remedies in the message work: the stated number of bytes, and the stated number of shards or replicas."""
    X, y, tasks = rows(300, 20)
    model = make_model(f"{total} B", 8)
    with pytest.raises(TooFewBytes, match=f"for 8 {number}s") as rejected:
        model.partial_fit(X, y, tasks=tasks)
    assert not hasattr(model, "_workers")
    bytes_needed = re.search(r"at least (\d+) bytes", str(rejected.value))[1]
    assert rejected.value.needed == int(bytes_needed)
    parts = re.search(rf"use (\d+) {number}s? or fewer", str(rejected.value))[1]
    with make_model(f"{bytes_needed} B", 8) as enough:
        enough.partial_fit(X, y, tasks=tasks)
        assert enough.memory_bytes_ <= int(bytes_needed)
    with make_model(f"{total} B", int(parts)) as fewer:
        fewer.partial_fit(X, y, tasks=tasks)
        assert fewer.memory_bytes_ <= total
    with pytest.raises(InputError, match="at least"):
        make_model(f"{total} B", int(parts) + 1).partial_fit(X, y, tasks=tasks)


def test_after_a_rejected_budget_the_first_block_has_determined_nothing():
    X, y, tasks = rows(300, 60)
    model = ShardedModel(Forgetron(budget="110 kB", kernel=KERNEL, graph=graphs.disconnected()), shards=8)
    with pytest.raises(InputError, match="at least"):
        model.partial_fit(X, y, tasks=tasks)
    with model:
        model.partial_fit(X[:, :2], y, tasks=tasks)  # narrower rows take fewer bytes
        assert model.n_features_in_ == 2 and model.memory_bytes_ <= 110_000


def test_rebalancing_keeps_the_total_at_every_step_and_after_an_interruption(tmp_path, monkeypatch):
    X, y, tasks = stream(900, 3)
    learner = BudgetProjectron(budget=40, kernel=KERNEL, graph=graphs.disconnected())
    options = {"shares": "demand", "rebalance_every": 10**9, "block": 128}
    model = ShardedModel(learner, shards=4, directory=tmp_path / "m", **options)
    model.partial_fit(X[:600], y[:600], tasks=tasks[:600])
    call_owner, sums = model._workers.call_owner, []

    def failing_call_owner(shard, method, *arguments):
        if method == "resize" and len(sums) == 2:
            raise OSError("the disk is gone in the middle of it")
        answer = call_owner(shard, method, *arguments)
        sums.append(model.capacity_)
        return answer

    monkeypatch.setattr(model._workers, "call_owner", failing_call_owner)
    with pytest.raises(OSError, match="in the middle"):
        model.rebalance()
    assert len(sums) == 2 and max(sums) <= 40
    model.close()
    with ShardedModel.open(tmp_path / "m", workers=2) as again:
        assert again.capacity_ == sums[-1]
        again.partial_fit(X[600:], y[600:], tasks=tasks[600:])
        assert sum(again.rebalance()) == again.capacity_ == 40
        again.add_worker()
        assert again.capacity_ == 40 and again.n_stored_ <= 40


@pytest.mark.parametrize(("budget", "total"), [(16, 48), ("60 kB", "180000 B"), (None, None)])
def test_replicas_of_format_1_keep_their_budgets(tmp_path, monkeypatch, budget, total):
    """In format 1 every replica had the whole budget. Each keeps it, and the budget of the model becomes the sum."""
    X, y, tasks = rows(600, 4)
    with monkeypatch.context() as patched:
        patched.setattr(ReplicatedModel, "_first_budgets", lambda self, validator=None: [budget] * 3)
        learner = Budgetron(budget=budget, kernel=KERNEL)
        with ReplicatedModel(learner, replicas=3, directory=tmp_path / "m", exchange_every=256, block=128) as model:
            model.partial_fit(X[:400], y[:400], tasks=tasks[:400])
            capacities = [shard.capacity for shard in model.shards_]
            expected = model.decision_function(X, tasks=tasks)
    stored_record = json.loads((tmp_path / "m" / record.NAME).read_text())
    (tmp_path / "m" / record.NAME).write_text(json.dumps({**stored_record, "format": 1}))
    for _ in range(2):  # the first `open` writes the record in the new format
        with ReplicatedModel.open(tmp_path / "m") as model:
            assert [shard.capacity for shard in model.shards_] == capacities and model.budget == total
            np.testing.assert_array_equal(model.decision_function(X, tasks=tasks), expected)


def test_shards_of_format_1_keep_their_budgets(tmp_path):
    X, y, tasks = stream(300, 5)
    learner = BudgetProjectron(budget=40, kernel=KERNEL, graph=graphs.disconnected())
    with ShardedModel(learner, shards=4, directory=tmp_path) as model:
        model.partial_fit(X, y, tasks=tasks)
    stored_record = json.loads((tmp_path / record.NAME).read_text())
    (tmp_path / record.NAME).write_text(json.dumps({**stored_record, "format": 1}))
    with ShardedModel.open(tmp_path) as model:
        assert model.budget == model.capacity_ == 40


def test_a_budgetron_has_no_examples_to_move():
    X, y, tasks = stream(50, 1)
    model = ShardedModel(Budgetron(budget=40, graph=graphs.disconnected()), shards=4, shares="demand")
    with pytest.raises(InputError, match='shares must be "fixed" for a Budgetron'):
        model.partial_fit(X, y, tasks=tasks)
