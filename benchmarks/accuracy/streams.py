"""The streams of the benchmark: real sets in seeded orders, and synthetic ones with a known task structure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron import data
from budgetron.data import synthetic
from budgetron.data.synthetic import RelatedTasks, Shift

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Stream:
    """Examples in the order in which they come. `tasks` is None for a set without tasks."""

    name: str
    X: Any
    y: NDArray[np.int64]
    tasks: NDArray[Any] | None = None

    @property
    def classes(self) -> list[int]:
        return list(range(int(self.y.max()) + 1))

    def take(self, n: int | None) -> Stream:
        return (
            self
            if n is None
            else replace(self, X=self.X[:n], y=self.y[:n], tasks=None if self.tasks is None else self.tasks[:n])
        )

    def ordered(self, order: NDArray[Any]) -> Stream:
        return replace(self, X=self.X[order], y=self.y[order], tasks=None if self.tasks is None else self.tasks[order])


# ---- real sets


@lru_cache
def kernel_set(folder: Path, name: str) -> tuple[Stream, NDArray[Any]]:
    """One of the classic sets for online kernel learning, and its stored orders, if any."""
    with np.load(folder / "kernel" / f"{name}.npz") as file:
        _, codes = np.unique(file["y"], return_inverse=True)
        return Stream(name, file["X"].astype(np.float64), codes.astype(np.int64)), file["orders"]


@lru_cache
def project_set(name: str) -> Stream:
    """A data set that `budgetron datasets` lists, with its features unchanged and its tasks numbered."""
    dataset = data.load(name)
    tasks = np.unique(dataset.tasks, return_inverse=True)[1]
    return Stream(name, dataset.X if name != "school" else np.asarray(dataset.X), dataset.y.astype(np.int64), tasks)


def in_order(stream: Stream, seed: int, stored: NDArray[Any] | None = None) -> Stream:
    """The stream in the stored order of this seed, or in a random one if no valid order is stored."""
    if stored is not None and stored.size and seed < len(stored):
        order = np.asarray(stored[seed]).astype(np.int64).ravel()
        order = order - order.min()  # some files count rows from 1
        if len(order) == len(stream.y) == len(np.unique(order)):
            return stream.ordered(order)
    return stream.ordered(np.random.default_rng(seed).permutation(len(stream.y)))


# ---- synthetic streams with a known structure


def kinds(seed: int, n_tasks: int = 40) -> Stream:
    """Tasks of four kinds. Tasks of different kinds are unrelated."""
    return replace(_related(synthetic.kinds(n_tasks=n_tasks, seed=seed)), name=f"kinds, {n_tasks} tasks")


def grid(seed: int) -> Stream:
    """Tasks on a grid of 10 × 10, whose weights vary smoothly."""
    return _related(synthetic.grid(seed=seed))


def _related(drawn: RelatedTasks) -> Stream:
    dataset = drawn.dataset
    return Stream(dataset.name, dataset.X, dataset.y.astype(np.int64), dataset.tasks)


def opposed(seed: int, d: int = 10, n: int = 100) -> Stream:
    """The training part, 2n examples, of a set like the synthetic one of Saha et al. (2011): w₁ = −w₂, w₃ unrelated.

    Unlike in `synthetic.opposed`, the weights do not have mean 0, and the rows do not have unit length.
    """
    rng = np.random.default_rng(seed)
    first, third = rng.normal(size=(2, d))
    third -= first * (first @ third) / (first @ first)
    X, tasks = rng.normal(size=(3 * n, d)), rng.permutation(np.repeat([0, 1, 2], n))
    y = (X * np.array([first, -first, third])[tasks]).sum(1) > 0
    return Stream("opposed", X, y.astype(np.int64), tasks).take(2 * n)


def users(seed: int, n: int = 300_000, k: int = 100_000, d: int = 20) -> Stream:
    """Many users with few labels each: their weights are shared weights plus differences half as large."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(n, d)), rng.integers(k, size=n)
    own = 0.5 * np.random.default_rng(1000 + seed).normal(size=(k, d))
    y = (X * (rng.normal(size=d) + own[tasks])).sum(1) + 0.5 * rng.normal(size=n) > 0
    return Stream(f"{k:,} users", X, y.astype(np.int64), tasks)


SHIFTS = {
    "still": None,
    "abrupt, alike": Shift(angle=120.0, begin=0.5, end=0.5),
    "abrupt, each its own": Shift(angle=120.0, begin=0.5, end=0.5, alike=False),
    "gradual, alike": Shift(angle=180.0, begin=0.0, end=1.0),
    "gradual, each its own": Shift(angle=180.0, begin=0.0, end=1.0, alike=False),
}


def drifting(name: str, form: str, n: int, seed: int) -> Stream:
    """Eight related tasks whose weights change as `SHIFTS[name]` says, on dense rows ("linear") or on word counts."""
    stream = synthetic.stream(n, d=2000 if form == "text" else 50, n_tasks=8, relatedness=0.8, noise=0.05, form=form,
                            shift=SHIFTS[name], seed=seed).dataset  # fmt: skip
    return Stream(f"{form}: {name}", stream.X, stream.y.astype(np.int64), stream.tasks)


# ---- streams made to be awkward


def linear(rng: np.random.Generator, d: int = 10, k: int = 10, cosine: float = 0.8, noise: float = 0.05) -> Stream:
    """k tasks; the weights of two tasks have this cosine on average."""
    n = 6_000
    X, tasks = rng.standard_normal((n, d)), rng.integers(0, k, n)
    weights = np.sqrt(cosine) * rng.standard_normal(d) + np.sqrt(1 - cosine) * rng.standard_normal((k, d))
    truth = (X * weights[tasks]).sum(axis=1) > 0
    return Stream("linear", X, (truth ^ (rng.random(n) < noise)).astype(np.int64), tasks)


def _with_changed_rows(
    change: Callable[[Floats, np.random.Generator], Floats],
) -> Callable[[np.random.Generator], Stream]:
    def make(rng: np.random.Generator) -> Stream:
        plain = linear(rng)
        return replace(plain, X=change(plain.X, rng))

    return make


def _ill_conditioned(rng: np.random.Generator) -> Stream:
    left, _, right = np.linalg.svd(rng.standard_normal((20, 20)))
    Z = rng.standard_normal((6_000, 20))
    y = (Z @ rng.standard_normal(20) > 0).astype(np.int64)
    return Stream("", Z @ left @ np.diag(np.logspace(0, -2, 20)) @ right, y, np.zeros(6_000, dtype=np.int64))


def _rare_positives(rng: np.random.Generator) -> Stream:
    plain = linear(rng)
    score = plain.X[:, 0] + plain.X[:, 1] + 0.5 * rng.standard_normal(len(plain.X))
    return replace(plain, y=(score > np.quantile(score, 0.99)).astype(np.int64))


def _one_example_per_task(rng: np.random.Generator) -> Stream:
    X = linear(rng).X
    return Stream("", X, (X[:, 0] + X[:, 1] > 0).astype(np.int64), np.arange(len(X)))


def _repeated_rows(rng: np.random.Generator) -> Stream:
    plain = linear(rng)
    return plain.ordered(rng.integers(0, 50, len(plain.X)))


def _separable(rng: np.random.Generator) -> Stream:
    plain = linear(rng)
    clear = plain.ordered(np.flatnonzero(np.abs(plain.X[:, 0]) > 0.3))
    return replace(clear, y=(clear.X[:, 0] > 0).astype(np.int64))


def _with_outlier(row: int) -> Callable[[Floats, np.random.Generator], Floats]:
    def change(X: Floats, _: np.random.Generator) -> Floats:
        X[row] = 1e9
        return X

    return change


AWKWARD: dict[str, Callable[[np.random.Generator], Stream]] = {
    "plain": linear,
    "columns from 1e-4 to 1e4, off centre": _with_changed_rows(
        lambda X, rng: (X + 100 * rng.standard_normal(10)) * 10.0 ** rng.uniform(-4, 4, 10)
    ),
    "ten constant columns": _with_changed_rows(lambda X, _: np.hstack([X, np.full_like(X, 7.0)])),
    "d = 50, nearly alike, 2 % noise": lambda rng: linear(rng, d=50, cosine=0.95, noise=0.02),
    "unrelated tasks": lambda rng: linear(rng, k=20, cosine=0.0),
    "each row ten noisy copies": _with_changed_rows(
        lambda X, rng: np.hstack([X + 0.1 * rng.standard_normal(X.shape) for _ in range(10)])
    ),
    "condition number 100": _ill_conditioned,
    "one example per task": _one_example_per_task,
    "1 % positive": _rare_positives,
    "40 % noise": lambda rng: linear(rng, noise=0.4),
    "separable": _separable,
    "fifty rows, again and again": _repeated_rows,
    "mean that wanders off": _with_changed_rows(lambda X, _: X + np.linspace(0, 50, len(X))[:, None]),
    "one row of 1e9, early": _with_changed_rows(_with_outlier(5)),
    "a first row of 1e9": _with_changed_rows(_with_outlier(0)),
    "-999 in 0.5 % of the cells": _with_changed_rows(lambda X, rng: np.where(rng.random(X.shape) < 0.005, -999.0, X)),
    "heavy tails": _with_changed_rows(lambda X, _: np.sign(X) * np.expm1(1.5 * X**2)),
}
MUST_IMPROVE = (  # the streams on which version 0.1 was weak, and which this version must improve
    "heavy tails",
    "a first row of 1e9",
    "-999 in 0.5 % of the cells",
    "columns from 1e-4 to 1e4, off centre",
)


def awkward(seed: int) -> Iterator[Stream]:
    """The streams of `AWKWARD`, in this order. The first one is not awkward, for comparison."""
    for name, make in AWKWARD.items():
        yield replace(make(np.random.default_rng(seed)), name=name)
