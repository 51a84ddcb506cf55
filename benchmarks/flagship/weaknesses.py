"""python benchmarks/flagship/weaknesses.py [--quick]

Streams made to be awkward. Budgetron as it comes (B = 60), against what one writes in ten lines: online logistic
regression on running z-scores with shared and own weights (SGD, AdaGrad; the better of two rates, with hindsight), and
a batch one without tasks, fitted anew whenever the stream has doubled (its robust scaling knows the whole stream).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from common import Row, averaged, check, quick, save
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import RobustScaler

from budgetron import Budgetron

Floats = NDArray[np.float64]
Case = tuple[Floats, NDArray[np.int64], NDArray[np.int64]]


def linear(rng: np.random.Generator, d: int = 10, k: int = 10, alike: float = 0.8, noise: float = 0.05) -> Case:
    """Tasks whose weights have this cosine, on average."""
    n = 6_000
    X, tasks = rng.standard_normal((n, d)), rng.integers(0, k, n)
    weights = np.sqrt(alike) * rng.standard_normal(d) + np.sqrt(1 - alike) * rng.standard_normal((k, d))
    truth = (X * weights[tasks]).sum(axis=1) > 0
    return X, (truth ^ (rng.random(n) < noise)).astype(np.int64), tasks


def changed(change: Callable[[Floats, np.random.Generator], Floats]) -> Callable[[np.random.Generator], Case]:
    def case(rng: np.random.Generator) -> Case:
        X, y, tasks = linear(rng)
        return change(X, rng), y, tasks

    return case


def ill_conditioned(rng: np.random.Generator) -> Case:
    left, _, right = np.linalg.svd(rng.standard_normal((20, 20)))
    mixing = left @ np.diag(np.logspace(0, -2, 20)) @ right
    Z = rng.standard_normal((6_000, 20))
    return Z @ mixing, (Z @ rng.standard_normal(20) > 0).astype(np.int64), np.zeros(6_000, dtype=np.int64)


def rare(rng: np.random.Generator) -> Case:
    X, _, tasks = linear(rng)
    score = X[:, 0] + X[:, 1] + 0.5 * rng.standard_normal(len(X))
    return X, (score > np.quantile(score, 0.99)).astype(np.int64), tasks


def lonely(rng: np.random.Generator) -> Case:
    X, _, _ = linear(rng)
    return X, (X[:, 0] + X[:, 1] > 0).astype(np.int64), np.arange(len(X))


def repeated(rng: np.random.Generator) -> Case:
    X, y, tasks = linear(rng)
    rows = rng.integers(0, 50, len(X))
    return X[rows], y[rows], tasks[rows]


def separable(rng: np.random.Generator) -> Case:
    X, _, tasks = linear(rng)
    keep = np.abs(X[:, 0]) > 0.3
    return X[keep], (X[keep, 0] > 0).astype(np.int64), tasks[keep]


def outlier(X: Floats, rng: np.random.Generator) -> Floats:
    X[5] = 1e9
    return X


def sentinels(X: Floats, rng: np.random.Generator) -> Floats:
    return np.where(rng.random(X.shape) < 0.005, -999.0, X)


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "plain": linear,
    "columns from 1e-4 to 1e4, off centre": changed(
        lambda X, rng: (X + 100 * rng.standard_normal(10)) * 10.0 ** rng.uniform(-4, 4, 10)
    ),
    "ten constant columns": changed(lambda X, _: np.hstack([X, np.full_like(X, 7.0)])),
    "d = 50, nearly alike, 2 % noise": lambda rng: linear(rng, d=50, alike=0.95, noise=0.02),
    "unrelated tasks": lambda rng: linear(rng, k=20, alike=0.0),
    "each row ten noisy copies": changed(
        lambda X, rng: np.hstack([X + 0.1 * rng.standard_normal(X.shape) for _ in range(10)])
    ),
    "condition number 100": ill_conditioned,
    "one example a task": lonely,
    "1 % positive": rare,
    "40 % noise": lambda rng: linear(rng, noise=0.4),
    "separable": separable,
    "fifty rows, again and again": repeated,
    "mean that wanders off": changed(lambda X, _: X + np.linspace(0, 50, len(X))[:, None]),
    "one row of 1e9, early": changed(outlier),
    "-999 in 0.5 % of the cells": changed(sentinels),
    "heavy tails": changed(lambda X, _: np.sign(X) * np.expm1(1.5 * X**2)),
}


def online(case: Case, rate: float, adagrad: bool) -> float:
    X, y, tasks = case
    count = np.arange(1, len(X) + 1)[:, None]
    mean = np.cumsum(X, axis=0) / count
    spread = np.sqrt(np.maximum(np.cumsum(X * X, axis=0) / count - mean**2, 0))
    Z = np.divide(X - mean, spread, out=np.zeros_like(X), where=spread > 1e-12)
    Z = np.hstack([Z, np.ones((len(X), 1))])
    weights: dict[Any, Floats] = {None: np.zeros(Z.shape[1])}
    squares: dict[Any, Floats] = {}
    wrong = 0
    for z, label, task in zip(Z, y, tasks.tolist(), strict=True):
        f = (weights[None] + weights.setdefault(task, np.zeros(len(z)))) @ z
        wrong += (f > 0) != label
        gradient = (label - expit(f)) * z
        for part in (None, task):
            if adagrad:
                squares[part] = squares.get(part, 1e-8) + gradient**2
            weights[part] += rate * gradient / (np.sqrt(squares[part]) if adagrad else 1.0)
    return 100 * wrong / len(y)


def refitted(case: Case) -> float:
    X, y, _ = case
    Z = np.clip(RobustScaler().fit_transform(X), -5, 5)
    at = len(y) // 16
    wrong = min(y[:at].sum(), at - y[:at].sum())
    while at < len(y):
        new = slice(at, 2 * at)
        wrong += (LogisticRegression(max_iter=300).fit(Z[:at], y[:at]).predict(Z[new]) != y[new]).sum()
        at *= 2
    return float(100 * wrong / len(y))


def figures(case: Case) -> Row:
    X, y, tasks = case
    model = Budgetron(60)
    blocks = [slice(at, at + 1_000) for at in range(0, len(y), 1_000)]
    margins = np.concatenate([model.predict_then_learn(X[b], y[b], tasks=tasks[b], classes=[0, 1]) for b in blocks])
    return {
        "error": 100 * ((margins > 0) != y).mean(),
        "log_loss": np.logaddexp(0, -np.where(y == 1, margins, -margins)).mean(),
        "sgd": min(online(case, rate, adagrad=False) for rate in (0.01, 0.1)),
        "adagrad": min(online(case, rate, adagrad=True) for rate in (0.1, 0.3)),
        "refitted": refitted(case),
    }


def main() -> None:
    is_quick = quick()
    rows: list[Row] = []
    checks: list[Row] = []
    for name, make in CASES.items():
        seeds = range(1 if is_quick else 3)
        row = {"stream": name} | averaged([figures(make(np.random.default_rng(seed))) for seed in seeds])
        best = min(row["sgd"], row["adagrad"], row["refitted"])
        check(checks, f"{name}: at most 0.5 points behind the best baseline", row["error"] <= best + 0.5,
              f"{row['error']:.2f} against {best:.2f}")  # fmt: skip
        rows.append(row)
    save("weaknesses", rows, checks, is_quick)


if __name__ == "__main__":
    main()
