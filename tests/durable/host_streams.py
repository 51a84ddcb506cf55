"""Streams and models for the tests of durable models."""

from __future__ import annotations

import numpy as np

import budgetron
from budgetron import kernels
from budgetron.learners.lifecycle.saved import content_of


def stream(n=300, d=5, seed=0):
    """Examples of three tasks, with so much noise that every model makes some mistakes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n) > 0).astype(int)
    return X, y, rng.choice(["ann", "bob", "cyd"], size=n).tolist()


def blocks(n=300, size=20, seed=0):
    """The stream in blocks of `size` examples: (X, y, tasks) each."""
    X, y, tasks = stream(n, seed=seed)
    return [(X[i : i + size], y[i : i + size], tasks[i : i + size]) for i in range(0, n, size)]


def same_model(first, other):
    """Whether the files of two models are identical, byte for byte."""
    return content_of(first) == content_of(other)


def learn_without_host(make_model, learned_blocks, classes=None):
    """A model without a host that learned the blocks, and its margins."""
    model = make_model()
    margins = [model.predict_then_learn(*block[:2], tasks=block[2], classes=classes) for block in learned_blocks]
    return model, margins


def close_without_snapshot(host):
    """Close the files of a host without a snapshot, so that the next open has to replay the log, as after a kill."""
    host._state.log.close()
    if host._state.directory_lock is not None:
        host._state.directory_lock.release()


MODELS = {
    "random": lambda: budgetron.RandomBudgetPerceptron(budget=30, kernel=kernels.Gaussian(gamma=0.2)),
    "budgetron": lambda: budgetron.Budgetron(budget=20),
    "shared": lambda: budgetron.SharedProjectron(budget=20),
}
