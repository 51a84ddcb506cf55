"""The bytes of a Budgetron: the planner's formula bounds the core's own count, and a budget is kept and used."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from budgetron import Budgetron, graphs
from budgetron.engine import memory, native
from budgetron.errors import TooFewBytes

pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")
FORMS = [
    {}, {"full_covariance": False}, {"frequencies": 0}, {"frequencies": 120}, {"d": 60}, {"d": 60, "n_outputs": 7},
    {"dtype": "float32"}, {"latent": 0}, {"max_task_rows": 300},
    {"filters": [(1.0, 0.1, 0.0)], "frequencies": 0, "latent": 0},
    {"is_sparse": True}, {"is_sparse": True, "frequent": (1, 3)},
    {"is_sparse": True, "cells": 20_000}, {"is_sparse": True, "n_outputs": 9, "cells": 3000},
]  # fmt: skip


@pytest.mark.parametrize("graph", ["complete", "disconnected", "pooled", "clusters", "edges"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_bytes_of_bounds_the_memory_of_the_core(form, graph, make_settings, stream, learn):
    """The bound holds after every block, and is close once all task rows exist."""
    settings = make_settings(graph, **({"max_task_rows": 5} | form))
    rows = {name: form[name] for name in ("d", "is_sparse", "dtype") if name in form}
    X, codes, tasks = stream(300, classes=max(2, form.get("n_outputs", 1)), **rows)
    if graph != "edges":
        tasks = np.arange(300) % 290
    engine, bound = native.Engine(settings), memory.bytes_of(settings, True)
    for start in (0, 1, 40):
        stop = {0: 1, 1: 40, 40: 300}[start]
        learn(engine, X[start:stop], codes[start:stop], tasks[start:stop])
        assert engine.memory_bytes() <= bound
    if graph != "edges" or "max_task_rows" not in form:  # five tasks cannot use more than five rows
        assert bound <= 1.35 * engine.memory_bytes() + 16 * 1024


def dense_stream(n, rng):
    X, users = rng.normal(size=(n, 10)), rng.integers(50_000, size=n)
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int), users


def sparse_stream(n, rng):
    row_nonzeros = 40
    indices = rng.integers(20_000, size=n * row_nonzeros)
    X = sparse.csr_matrix((rng.random(n * row_nonzeros), indices, np.arange(n + 1) * row_nonzeros), shape=(n, 20_000))
    return X, rng.integers(2, size=n), rng.integers(40, size=n)


@pytest.mark.parametrize("budget", ["100 KiB", "1 MiB"])
@pytest.mark.parametrize("make_stream", [dense_stream, sparse_stream])
def test_budgets_are_kept_and_used(make_stream, budget):
    limit = {"100 KiB": 100 * 2**10, "1 MiB": 2**20}[budget]
    rng, model = np.random.default_rng(5), Budgetron(budget=budget)
    for n in [1, 1, 7, 50, *[4000] * (15 if make_stream is dense_stream else 3)]:
        X, y, tasks = make_stream(n, rng)
        model.partial_fit(X, y, tasks=tasks, classes=[0, 1])
        assert model.memory_bytes_ <= limit
    assert model.memory_bytes_ >= 0.9 * limit


def test_a_budget_is_kept_if_beliefs_are_dropped_within_a_call():
    """At the start of a call, the rows of new tasks are reserved, for all beliefs that the model has at that time."""
    rng, model = np.random.default_rng(1), Budgetron(budget="512 KiB")
    X, users = rng.normal(size=(300_000, 20)), rng.integers(100_000, size=300_000)
    own = np.random.default_rng(1001).normal(size=(100_000, 20))
    y = (X * (rng.normal(size=20) + 0.5 * own[users])).sum(1) + 0.5 * rng.normal(size=len(X)) > 0
    for start in range(0, 12_000, 1000):
        block = slice(start, start + 1000)
        model.partial_fit(X[block], y[block], tasks=users[block], classes=[False, True])
        assert model.memory_bytes_ <= 512 * 2**10


@pytest.mark.parametrize("count", [60, 100, 250])
@pytest.mark.parametrize("d, classes", [(4, 2), (25, 3), (120, 2)])
def test_a_number_of_examples_limits_everything_but_the_rows_of_tasks(d, classes, count):
    rng, model = np.random.default_rng(count), Budgetron(budget=count)
    for _ in range(4):
        X = rng.normal(size=(1500, d))
        radius = (X[:, :4] ** 2).sum(axis=1)  # a curved boundary, so that the model grows
        model.partial_fit(X, np.digitize(radius, [2, 5][: classes - 1]), classes=range(classes))
        assert model.memory_bytes_ <= 8 * count * (d + 2 * count)


@pytest.mark.parametrize("graph", ["complete", "disconnected", "pooled", "edges"])
@pytest.mark.parametrize("budget", ["32 KiB", "96 KiB", "5 MiB"])
@pytest.mark.parametrize("shape", [(3, 2), (40, 9), (400, 2)], ids=str)
def test_any_byte_budget_is_kept_or_refused(shape, budget, graph, all_graphs):
    """A budget that is too small is refused at the first block. The message says how many bytes suffice."""
    d, classes = shape
    rng = np.random.default_rng(6)
    X, y, tasks = rng.normal(size=(400, d)), rng.integers(classes, size=400), rng.integers(5, size=400)
    model = Budgetron(budget=budget, graph=all_graphs[graph])
    limit = int(budget.split()[0]) * (2**20 if "MiB" in budget else 2**10)
    try:
        model.partial_fit(X[:1], y[:1], tasks=tasks[:1], classes=range(classes))
    except TooFewBytes as error:
        assert "budget must be at least" in str(error) and error.needed > limit
        Budgetron(budget=f"{error.needed} B", graph=all_graphs[graph]).partial_fit(X, y, tasks=tasks)
        return
    for at in range(1, 400, 21):
        model.partial_fit(X[at : at + 21], y[at : at + 21], tasks=tasks[at : at + 21])
        assert model.memory_bytes_ <= limit


def test_models_share_the_factor_of_their_graph(make_settings):
    """A factor of A⁻¹ takes more than 100 bytes per task and does not count as memory of a model, so it is shared."""
    one, two = (native.Engine(make_settings("edges")) for _ in range(2))
    assert one._similarity is two._similarity
    graph = graphs.from_edges([(task, task + 1) for task in range(131)])
    other = native.Engine(replace(make_settings("edges"), graph=graph))
    assert other._similarity is not one._similarity
    del other, graph
    gc.collect()
    assert all(held.n_tasks != 132 for held in native._FACTORED)  # a graph that is no longer used frees its factor
