"""Engines and streams for the tests of the reference engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from budgetron import graphs, kernels
from budgetron.engine.reference import Engine
from budgetron.engine.settings import make_settings

Stream = tuple[np.ndarray, np.ndarray, np.ndarray]


class Run:
    """An engine, with methods that convert lists of rows, class codes and tasks to the arrays that it accepts."""

    def __init__(self, rule: str, n_features: int, **settings: Any) -> None:
        chosen: dict[str, Any] = {"kernel": kernels.Linear(), "graph": graphs.complete()} | settings
        self.settings = make_settings(rule=rule, n_features=n_features, **chosen)
        self.engine = Engine(self.settings)

    def block(self, X: Any) -> Any:
        X = np.asarray(X, dtype=self.settings.dtype)
        return scipy.sparse.csr_matrix(X) if self.settings.sparse else X

    def learn(self, X: Any, codes: Any, tasks: Any = None) -> tuple[np.ndarray, np.ndarray]:
        task_ids, clusters = self.settings.graph.locate([0] * len(codes) if tasks is None else tasks)
        return self.engine.learn(self.block(X), np.asarray(codes, dtype=np.int32), task_ids, clusters)

    def margins(self, X: Any, tasks: Any = None) -> np.ndarray:
        task_ids, clusters = self.settings.graph.locate([0] * len(X) if tasks is None else tasks)
        return self.engine.margins(self.block(X), task_ids, clusters)

    def weights_of(self, task: Any) -> np.ndarray:
        task_ids, clusters = self.settings.graph.locate([task])
        return self.engine.task_weights(int(task_ids[0]), int(clusters[0]))

    @property
    def arrivals(self) -> list[int]:
        return list(self.engine.active()["arrival"])

    @property
    def coef(self) -> np.ndarray:
        return self.engine.active()["coef"]


@pytest.fixture
def run() -> type[Run]:
    return Run


@pytest.fixture
def stream() -> Callable[..., Stream]:
    """Return a function that makes n random examples: rows of norm about 1, noisy linear labels, and tasks.

    Five rows occur twice.
    """

    def make(n: int, n_features: int, n_tasks: int = 1, n_classes: int = 2, seed: int = 0) -> Stream:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, n_features)) / np.sqrt(n_features)
        X[rng.random(X.shape) < 0.3] = 0.0
        X[n // 2:n // 2 + 5] = X[:5]
        concept = rng.normal(size=(n_features, n_classes))
        codes = np.argmax(X @ concept + 0.4 * rng.normal(size=(n, n_classes)), axis=1)
        return X, codes.astype(np.int32), rng.integers(n_tasks, size=n)

    return make
