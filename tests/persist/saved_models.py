"""Small models of many kinds, for tests of saving and loading."""

from __future__ import annotations

import itertools
from io import BytesIO

import numpy as np
import pytest
from scipy import sparse

import budgetron
from budgetron import graphs, io, kernels

TASKS = ["ann", "bob", "cid", "dan", "eve"]


def stream(n, is_sparse=False, dtype="float64", classes=2, seed=0):
    """Examples of five tasks with 20 % random labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 12)) * (rng.random((n, 12)) < 0.4)
    X[:, 0] += 0.1
    y = ((X[:, 1] + 0.7 * X[:, 2] > 0).astype(int) + (X[:, 3] > 0) * (classes > 2)) % classes
    y = np.where(rng.random(n) < 0.2, rng.integers(classes, size=n), y)
    X = X.astype(dtype)
    return sparse.csr_matrix(X) if is_sparse else X, y, [TASKS[i] for i in rng.integers(len(TASKS), size=n)]


GRAPHS = {
    "complete": graphs.complete(),
    "complete-n": graphs.complete(n_tasks=5, coupling=2.0),
    "pooled": graphs.complete(coupling=float("inf")),
    "disconnected": graphs.disconnected(),
    "clusters": graphs.clusters({"ann": 0, "bob": 0, "cid": 1}, coupling=3.0),
    "edges": graphs.from_edges([("ann", "bob"), ("bob", "cid")], weights=[2.0, 0.5], tasks=TASKS),
    "similarity": graphs.from_similarity(np.eye(5) + 0.3, tasks=TASKS),
    "large": graphs.from_edges(list(itertools.pairwise([*TASKS, *(f"other {i}" for i in range(1100))]))),
}
KERNELS = [kernels.Gaussian(0.4), kernels.Polynomial(2, 1.0), kernels.Linear(0.5, normalize=True), kernels.Gaussian()]
LEARNERS = {
    "Perceptron": {},
    "RandomBudgetPerceptron": {"random_state": 7},
    "Forgetron": {},
    "BudgetProjectron": {},
    "SharedProjectron": {"max_task_rows": 4},
    "Budgetron": {"max_task_rows": 5},
    "BudgetSgd": {"maintenance": "nystrom", "step": "constant", "rank": 0.5},
    "Projectron": {"plus": True, "when_full": "evict"},
}


def model_of(name, graph="complete", budget=12, kernel=KERNELS[0], **more):
    """A new learner by name, with the parameters that the tests vary."""
    parameters = {**LEARNERS[name], "graph": GRAPHS[graph], "budget": budget, "kernel": kernel, **more}
    if name == "Perceptron":
        del parameters["budget"]
    return getattr(budgetron, name)(**parameters)


def combinations():
    """The learners in `LEARNERS` on every graph that they accept, with varying stores, classes, kernels and budgets.

    Without --long, only every second combination of graph and kernel is tested.
    """
    variants = itertools.cycle(itertools.product(
        [(False, "float64"), (True, "float32"), (False, "float32"), (True, "float64")], [2, 3], [12, None, "220 KiB"],
    ))  # fmt: skip
    for name in LEARNERS:
        is_budgetron = name == "Budgetron"
        for i, graph in enumerate(GRAPHS):
            if is_budgetron and graph == "large":
                continue  # an example may update ten task rows on this graph, more than the max_task_rows of 5
            for number, kernel in enumerate([KERNELS[0], KERNELS[2], None] if is_budgetron else KERNELS):
                (is_sparse, dtype), classes, budget = next(variants)
                yield pytest.param(
                    lambda a=(name, graph, budget, kernel): model_of(*a),
                    {"is_sparse": is_sparse, "dtype": dtype, "classes": classes},
                    id=f"{name}-{graph}-{number}-{'sparse' if is_sparse else 'dense'}-{dtype}-{classes}-{budget}",
                    marks=[] if (i + number) % 2 == 0 else [pytest.mark.long],
                )


def small_models():
    """A few models by name, chosen so that together they have many kinds of arrays and settings."""
    models = {
        "random": model_of("RandomBudgetPerceptron", "clusters", 6),
        "forgetron": model_of("Forgetron", "large", 6),
        "inverse": model_of("BudgetProjectron", "edges", 6, eta=0.1),
        "factor": model_of("BudgetProjectron", "similarity", 6, KERNELS[1]),
        "shared": model_of("SharedProjectron", "clusters", 6),
        "shared-edges": model_of("SharedProjectron", "edges", "60 KiB"),
        "budgetron": model_of("Budgetron", "complete", "100 KiB", class_weight={0: 2.0}),
        "budgetron-edges": model_of("Budgetron", "edges", "200 KiB"),
        "budgetron-sparse": model_of("Budgetron", "complete-n", "20 KiB"),
        "budgetron-first-rows": model_of("Budgetron", "clusters", "60 KiB"),
        "budgetron-frequent-columns": model_of("Budgetron", "complete", "200 KiB"),
        "nystrom": model_of("BudgetSgd", "complete", 6),
    }
    sparse_models = ("shared", "random", "budgetron-sparse", "budgetron-first-rows", "budgetron-frequent-columns")
    for i, (name, model) in enumerate(models.items()):
        # A Budgetron on sparse rows keeps its first rows, at least 16, and begins again with a plan made from them.
        n = 15 if name == "budgetron-first-rows" else 120
        X, y, tasks = stream(n, is_sparse=name in sparse_models, classes=2 + i % 2)
        model.partial_fit(X, y, tasks=tasks)
    return models | {
        "columns": from_files(b"1,red,2024-02-29"),
        "columns-sparse": from_files(b"1,red,just some words", text=["more"]),
    }


def from_files(row, **more):
    """A model that has learned from a file with rows like `row`, and knows the columns of the file."""
    rows = [row, b",blue,", row.replace(b"1,", b"2.5,"), row.replace(b"red", b"green")] * 10
    lines = [b"%b,%b,%b" % example for example in zip([b"ann", b"7"] * 20, rows, [b"no", b"yes"] * 20, strict=True)]
    with io.read(BytesIO(b"\n".join([b"task,size,colour,more,label", *lines])), **more) as file:
        model = model_of("RandomBudgetPerceptron", "complete", 6)
        for block in file:
            model.partial_fit(block.X, block.y, tasks=block.tasks)
    model._columns = file.columns
    return model


def same_state(a, b):
    """Assert that the engines of two models have the same state, bit for bit."""
    a, b = a._engine.state(), b._engine.state()
    assert a.keys() == b.keys()
    for name in a:
        left, right = np.asarray(a[name]), np.asarray(b[name])
        assert left.dtype == right.dtype and left.shape == right.shape, name
        assert left.tobytes() == right.tobytes(), name
