"""Settings of small Budgetrons, and streams for them.

The settings are made without the planner (`sizes/plan.py`), so tests with these settings do not depend on the planner's
constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from budgetron import graphs
from budgetron.engine.settings import make_settings

N_TASKS = 5
GRAPHS = {
    "complete": graphs.complete(),
    "disconnected": graphs.disconnected(),
    "pooled": graphs.complete(coupling=float("inf")),
    "clusters": graphs.clusters({0: "a", 1: "a", 2: "b", 3: "b"}, coupling=2.0),
    "edges": graphs.from_edges([(0, 1), (1, 2), (2, 3)], weights=[2.0, 0.5, 1.0], tasks=range(N_TASKS)),
}


def small_settings(
    graph="complete", d=4, n_outputs=1, is_sparse=False, dtype="float64", full_covariance=True, frequencies=9,
    mixed=False, bins=8, frequent=(), **more
):  # fmt: skip
    """Return settings with small parts of every kind. If `bins` or `frequencies` is 0, parts of that kind are left out.

    A model on sparse rows has a table only. `frequent` adds the parts for dense rows, which see the columns of
    `frequent` that are below `d`. With `mixed`, the first filter learns by AdaGrad. With `mixed` and two classes, three
    filters also assume that some labels are random.
    """
    if isinstance(graph, str):
        graph = GRAPHS[graph]
    clique = isinstance(graph, graphs.Clique)
    shared, own = not clique or graph.coupling != 0, not clique or graph.coupling != float("inf")
    parameters: dict[str, Any] = {"shared": shared, "own": own, "clustered": clique and graph.mapped is not None}
    if parameters["clustered"]:
        parameters["cluster_share"] = graph.coupling / (1 + graph.coupling)
    if is_sparse:
        parameters |= {"cells": 56, "table_rates": [0.2, 1.0], "keeps": [0.98, 1.0], "signs": [0.0, 1.0],
                       "pairs": 3 if shared else 0,
                       "frequent_columns": [column for column in frequent if column < d]}  # fmt: skip
    if not is_sparse or frequent:
        parameters |= {"filters": [(1.0, 0.1, 0.0), (3.0, 10.0, 0.1), *[(3.0, 0.1, 0.0)] * 3], "latent": 3,
                  "full_covariance": full_covariance, "short_rows": 2 if own else 0}  # fmt: skip
        if shared and bins:
            parameters |= {"bins": bins, "bin_pairs": True, "bin_cells": 24 if own else 0}
        if frequencies:
            width = (len(parameters["frequent_columns"]) if is_sparse else d) + 1 + 2 * frequencies
            parameters |= {"frequencies": frequencies, "rates": [0.1, 1.0], "owns": [0.1, 1.0], "own_cells": 3 * width}
            if full_covariance:
                parameters |= {"fourier_filter": 2, "filter_frequencies": frequencies // 2, "fourier_cells": 3,
                          "bandwidths": [0.5, 8.0], "bank_frequencies": frequencies // 3}  # fmt: skip
        if mixed:
            lapses = [0.1, 0.2, 0.0, 0.05, 0.0] if n_outputs == 1 else []
            parameters |= {"filter_rates": [2.0, 0.0, 0.0, 0.0, 0.0], "filter_lapses": lapses}
        if not clique:
            parameters["plain_filter"] = 0
    return make_settings(
        rule="budgetron", kernel=None, graph=graph, n_features=d, n_outputs=n_outputs, sparse=is_sparse, dtype=dtype,
        capacity=1, **(parameters | more),
    )  # fmt: skip


def small_stream(n, d=4, classes=2, is_sparse=False, dtype="float64", seed=0):
    """Return rows with some zeros, the codes of their classes, which depend on the task, and tasks."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.choice([1.0, 5.0], size=d) + rng.choice([0.0, 2.0], size=d)
    X[rng.random(X.shape) < 0.3] = 0.0
    tasks = rng.integers(N_TASKS, size=n)
    concept = rng.normal(size=(d, classes)) + rng.normal(size=(N_TASKS, d, classes))
    codes = (np.einsum("nd,ndc->nc", X, concept[tasks]) + rng.normal(size=(n, classes))).argmax(axis=1)
    X = X.astype(dtype)
    return sparse.csr_matrix(X) if is_sparse else X, codes.astype(np.int32), tasks


def learn_rows(engine, X, codes, tasks, weights=None):
    ids, clusters = engine.settings.graph.locate(list(tasks))
    return engine.learn(X, np.asarray(codes, np.int32), ids, clusters, weights)
