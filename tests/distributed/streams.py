"""Streams and graphs for the tests of distributed models, and the local run that a sharded run must equal."""

from __future__ import annotations

import itertools

import numpy as np
from scipy import sparse
from sklearn.base import clone

from budgetron import graphs
from budgetron.distributed.split.placement import Placement
from budgetron.distributed.split.shares import first_shares

TASKS = [f"user {number}" if number % 3 else number for number in range(24)]


def stream(n, seed, n_classes=2, is_sparse=False, tasks=TASKS):
    """Rows, labels and tasks. Each task labels rows by its own rule, and some tasks are far busier than others."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    task_numbers = np.minimum(rng.geometric(0.12, size=n) - 1, len(tasks) - 1)
    rotated = X[:, 0] * np.cos(task_numbers) + X[:, 1] * np.sin(task_numbers)  # each task has its own angle
    y = np.digitize(rotated, np.linspace(-1, 1, n_classes + 1)[1:-1]) if n_classes > 2 else (rotated > 0).astype(int)
    if is_sparse:
        X = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    return X, y, [tasks[number] for number in task_numbers]


def random_graph(kind, seed, tasks=TASKS):
    """A graph of several components over the tasks."""
    rng = np.random.default_rng(seed)
    group = dict(zip(tasks, rng.integers(0, 7, size=len(tasks)).tolist(), strict=True))
    if kind == "disconnected":
        return graphs.disconnected()
    if kind == "clusters":
        return graphs.clusters({task: group[task] for task in tasks[:-4]}, coupling=1.5)
    edges = [pair for pair in itertools.combinations(tasks, 2) if group[pair[0]] == group[pair[1]]]
    edges = [edge for edge in edges if rng.random() < 0.7] or edges[:1]
    if kind == "large":  # too many tasks for a dense inverse
        fillers = [(f"filler {number}", f"partner {number}") for number in range(520)]
        return graphs.from_edges(edges + fillers, tasks=tasks)
    weights = rng.uniform(0.2, 3.0, size=len(edges))
    explicit = graphs.from_edges(edges, weights=weights, tasks=tasks)
    if kind == "edges":
        return explicit
    assert kind == "similarity"
    return graphs.from_similarity(graphs.similarity_matrix(explicit) * 2.0, tasks=explicit.tasks)


def local_run(learner, X, y, tasks, n_shards, classes, pins=None, whole_graph=False):
    """Learn the rows one by one with one local learner per shard. Returns the margins and the learners.

    A learner has its shard's part of the graph, or the whole graph with `whole_graph`.
    """
    placement = Placement(learner.graph, n_shards, pins)
    budgets = first_shares(getattr(learner, "budget", None), n_shards)
    models = []
    for shard in range(n_shards):
        model = clone(learner)
        if "budget" in model.get_params():
            model.set_params(budget=budgets[shard])
        if not whole_graph:
            model.set_params(graph=placement.graph_of(shard))
        models.append(model)
    margins = []
    for row, (label, task) in enumerate(zip(y, tasks, strict=True)):
        shard = int(placement.shards_of_tasks([task])[0])
        margins.append(models[shard].predict_then_learn(X[row : row + 1], [label], tasks=[task], classes=classes)[0])
    return np.array(margins), models
