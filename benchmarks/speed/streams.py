"""Streams for the measurements, and a model that learns a stream block by block.

`random_labels` is for comparisons of settings: on it all settings make the same share of mistakes, and so the same
number of updates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from budgetron.data import synthetic


class Stream(NamedTuple):
    X: Any
    y: np.ndarray
    tasks: np.ndarray

    def __getitem__(self, part: Any) -> Any:
        """A slice selects rows, an integer selects a field."""
        if isinstance(part, slice):
            return Stream(self.X[part], self.y[part], self.tasks[part])
        return tuple.__getitem__(self, part)


def noisy(n: int, d: int = 28, n_tasks: int = 8, dtype: str = "float64", seed: int = 0) -> Stream:
    """Related tasks with a tenth of the labels flipped; learners predict about a quarter of all labels wrongly."""
    stream = synthetic.stream(n, d=d, n_tasks=n_tasks, relatedness=0.7, noise=0.1, seed=seed).dataset
    return Stream(np.ascontiguousarray(stream.X, dtype=dtype), stream.y.astype(np.int64), stream.tasks)


def random_labels(n: int, d: int = 28, n_tasks: int = 8, seed: int = 0) -> Stream:
    """Random labels: half are mistakes for every learner, every graph and any number of tasks."""
    rng = np.random.default_rng(seed)
    return Stream(rng.standard_normal((n, d)), rng.integers(0, 2, n), rng.integers(0, n_tasks, n))


def text(n: int, d: int = 200_000, words: int = 160, n_tasks: int = 4, seed: int = 0) -> Stream:
    """Word counts by Zipf's law; 160 words make about 120 distinct ones."""
    stream = synthetic.stream(n, d=d, n_tasks=n_tasks, form="text", words=words, noise=0.05, seed=seed).dataset
    return Stream(stream.X, stream.y.astype(np.int64), stream.tasks)


class ModelOnStream:
    """A model that learns the blocks of a stream in a cycle."""

    def __init__(self, model: Any, stream: Stream, block: int) -> None:
        self.model, self.stream, self.block, self.start = model, stream, block, 0  # start: of the next block

    def fill(self, budget: int) -> ModelOnStream:
        """Learn until the budget is full."""
        for _ in range(4 * len(self.stream.y) // self.block):
            self.learn()
            if self.model.n_stored_ >= budget:
                return self
        raise RuntimeError(f"the stream does not fill a budget of {budget}")

    def next_block(self) -> Stream:
        part = self.stream[self.start : self.start + self.block]
        self.start = (self.start + self.block) % (len(self.stream.y) // self.block * self.block)
        return part

    def learn(self) -> None:
        part = self.next_block()
        classes = None if hasattr(self.model, "classes_") else [0, 1]
        self.model.partial_fit(part.X, part.y, tasks=part.tasks, classes=classes)
