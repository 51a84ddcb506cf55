"""The peers: other learners, in a few lines each. Each function returns the margins of one pass, predict then learn.

`run_tuned` chooses their parameters from a small grid on the first fifth of the stream, at least 200 rows.

    adagrad     logistic regression on standardised columns, shared and own weights per task
    hashed      the same in one hashed table of a given size, every feature crossed with the task
    rff         random Fourier features, logistic regression with a diagonal Gaussian filter
    fogd        random Fourier features, online gradient descent (Lu et al. 2016)
    nogd        Nyström features of the first rows, online gradient descent (Lu et al. 2016)
    ahpatron    stored examples; the half with smaller weights is projected on the other half (Liao et al. 2024). It
                is a learner of this library
    vowpal      Vowpal Wabbit, `-q` task × feature, where it is installed

`nbytes` is the budget in bytes. It determines the number of features: weights and frequencies count as float32, in
Vowpal Wabbit 16 bytes per weight. The budget of ahpatron counts all bytes of the model.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from streams import Stream

from budgetron import BudgetSgd, kernels

sys.path.append(str(Path(__file__).parents[1]))  # modules that several kinds of measurements share
from vowpal_file import write_vowpal

Floats = Any
Peer = Callable[..., Floats]


def run_tuned(peer: Peer, grid: Mapping[str, list[Any]], stream: Stream, **fixed: Any) -> tuple[Floats, dict[str, Any]]:
    """Choose the setting with the fewest errors on the first fifth, then run it over the whole stream.

    Returns the margins and the setting.
    """
    first = stream.take(max(200, len(stream.y) // 5))
    best, chosen = np.inf, {}
    for values in product(*grid.values()):
        setting = dict(zip(grid, values, strict=True))
        wrong = float(((peer(first, **fixed, **setting) > 0) != first.y).mean())
        if wrong < best:
            best, chosen = wrong, setting
    return peer(stream, **fixed, **chosen), chosen


def standardised(X: Floats) -> Floats:
    """Running z-scores: each row is scaled by the rows up to and including itself."""
    count = np.arange(1, len(X) + 1)[:, None]
    mean = np.cumsum(X, axis=0) / count
    spread = np.sqrt(np.maximum(np.cumsum(X * X, axis=0) / count - mean**2, 0))
    return np.clip(np.divide(X - mean, spread, out=np.zeros_like(X), where=spread > 1e-12), -10, 10)


def adagrad(stream: Stream, rate: float) -> Floats:
    """Row 0 of the weights is shared by all tasks; row i + 1 belongs to task i."""
    Z = np.hstack([standardised(stream.X), np.ones((len(stream.y), 1))])
    tasks = np.zeros(len(Z), dtype=int) if stream.tasks is None else np.unique(stream.tasks, return_inverse=True)[1]
    k = int(tasks.max()) + 2
    weights, squares, margins = np.zeros((k, Z.shape[1])), np.full((k, Z.shape[1]), 1e-8), np.zeros(len(Z))
    for t, (z, label, task) in enumerate(zip(Z, stream.y.tolist(), tasks.tolist(), strict=True)):
        rows = [0, task + 1]
        margins[t] = f = float(weights[rows].sum(axis=0) @ z)
        g = (label - expit(f)) * z
        squares[rows] += g * g
        weights[rows] += rate * g / np.sqrt(squares[rows])
    return margins


def hashed(stream: Stream, rate: float, nbytes: int) -> Floats:
    """Sparse rows are scaled to length 1. Dense ones are standardised, and have a constant."""
    is_sparse = sparse.issparse(stream.X)
    X = stream.X if is_sparse else np.hstack([standardised(stream.X), np.ones((len(stream.y), 1))])
    X = sparse.csr_matrix(X)
    cells = max(16, nbytes // 8)  # a cell: a weight and its sum of squared gradients
    weights, squares, margins = np.zeros(cells, np.float32), np.full(cells, 1e-8, np.float32), np.zeros(len(stream.y))
    tasks = np.zeros(len(stream.y), dtype=np.uint64) if stream.tasks is None else stream.tasks.astype(np.uint64)
    prime, other = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)  # odd factors of a multiplicative hash
    for t, label in enumerate(stream.y.tolist()):
        part = slice(X.indptr[t], X.indptr[t + 1])
        words = (X.indices[part].astype(np.uint64) + np.uint64(1)) * prime
        own = (words ^ (tasks[t] + np.uint64(7)) * other) * prime
        used = (np.concatenate([words, own]) >> np.uint64(20)) % np.uint64(cells)
        x = np.asarray(X.data[part], dtype=np.float32)
        x = np.tile(x / max(float(np.linalg.norm(x)), 1e-12) if is_sparse else x, 2)
        margins[t] = f = float(weights[used] @ x)
        g = np.float32(label - expit(f)) * x
        np.add.at(squares, used, g * g)
        np.add.at(weights, used, rate * g / np.sqrt(squares[used]))
    return margins


def _fourier(Z: Floats, D: int, gamma: float) -> Callable[[int], Floats]:
    """The features of row t, computed in blocks to save time."""
    frequencies = np.random.default_rng(0).normal(size=(Z.shape[1], D)) * np.sqrt(2 * gamma / Z.shape[1])
    matrices: dict[int, Floats] = {}

    def row(t: int) -> Floats:
        if t // 512 not in matrices:
            matrices.clear()
            phase = Z[t // 512 * 512 : t // 512 * 512 + 512] @ frequencies
            matrices[t // 512] = np.hstack([np.cos(phase), np.sin(phase)]) / np.sqrt(D)
        return matrices[t // 512][t % 512]

    return row


def rff(stream: Stream, nbytes: int, gamma: float, prior: float) -> Floats:
    """w and v are the means and the variances of the weights."""
    d = stream.X.shape[1]
    D = max(4, nbytes // (4 * d + 2 * 2 * 4))  # a frequency: d numbers, and mean and variance of two weights
    row, margins = _fourier(standardised(stream.X), D, gamma), np.zeros(len(stream.y))
    w, v = np.zeros(2 * D + 1), np.full(2 * D + 1, prior)
    for t, label in enumerate(stream.y.tolist()):
        z = np.append(row(t), 1.0)
        margins[t] = f = float(w @ z)
        p, vz = expit(f), v * z
        h = max(p * (1 - p), 1e-6)
        w += (label - p) / (1 + h * float(vz @ z)) * vz
        v /= 1 + h * vz * z
    return margins


def fogd(stream: Stream, nbytes: int, gamma: float, rate: float) -> Floats:
    d = stream.X.shape[1]
    D = max(4, nbytes // (4 * d + 2 * 4))  # a frequency: d numbers, and two weights
    row, margins = _fourier(standardised(stream.X), D, gamma), np.zeros(len(stream.y))
    w = np.zeros(2 * D)
    for t, label in enumerate(stream.y.tolist()):
        z = row(t)
        margins[t] = f = float(w @ z)
        w += rate * (label - expit(f)) * z
    return margins


def nogd(stream: Stream, nbytes: int, gamma: float, rate: float, share: float = 0.2) -> Floats:
    """A row's features: its kernel values with the first B rows, projected on the k = share · B top eigenvectors."""
    d = stream.X.shape[1]
    B = 4  # below: doubled while rows, eigenvectors and weights fit into nbytes as float32
    while 4 * (2 * B * d + max(1, int(2 * B * share)) * (2 * B + 1)) <= nbytes and len(stream.y) // 4 >= 2 * B:
        B *= 2
    Z, k = standardised(stream.X), max(1, int(B * share))
    stored = Z[:B]
    values, vectors = np.linalg.eigh(_gaussian(stored, stored, gamma / d) + 1e-8 * np.eye(B))
    to_features = vectors[:, -k:] / np.sqrt(np.maximum(values[-k:], 1e-8))
    w, margins = np.zeros(k), np.zeros(len(Z))
    for start in range(0, len(Z), 512):
        features = _gaussian(Z[start : start + 512], stored, gamma / d) @ to_features
        for t, z in enumerate(features, start=start):
            margins[t] = f = float(w @ z)
            w += rate * (int(stream.y[t]) - expit(f)) * z
    return margins


def ahpatron(stream: Stream, nbytes: int, gamma: float) -> Floats:
    """`BudgetSgd` with its preset "ahpatron". Its budget counts all bytes of the model. It has no probabilities."""
    Z = standardised(stream.X)
    kernel = kernels.Gaussian(gamma / Z.shape[1])
    model = BudgetSgd.preset("ahpatron", budget=f"{nbytes} B", kernel=kernel)
    return model.predict_then_learn(Z.astype(np.float32), stream.y, classes=stream.classes)


def _gaussian(a: Floats, b: Floats, gamma: float) -> Floats:
    return np.exp(-gamma * np.maximum((a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2 * a @ b.T, 0))


def vowpal_is_installed() -> bool:
    try:
        import vowpalwabbit  # noqa: F401
    except ImportError:
        return False
    return True


def vowpal(stream: Stream, nbytes: int, rate: float) -> Floats:
    return vowpal_timed(stream, nbytes, rate)[0]


def vowpal_timed(
    stream: Stream, nbytes: int, rate: float, clock: Callable[[], float] = time.perf_counter
) -> tuple[Floats, float]:
    """Margins, and the seconds of Vowpal Wabbit's C++ loop over a file, minus the seconds for an empty file."""
    import vowpalwabbit

    bits = max(8, int(np.log2(nbytes / 16)))  # a cell of Vowpal Wabbit has a weight and three more numbers
    with tempfile.TemporaryDirectory() as folder:
        path, empty, out = (Path(folder) / name for name in ("stream.vw", "empty.vw", "predicted"))
        X = stream.X if sparse.issparse(stream.X) else standardised(stream.X)
        write_vowpal(path, X, stream.y, stream.tasks)
        empty.write_text("")
        seconds = []
        for file in (empty, path):
            begin = clock()
            options = f"--loss_function logistic -b {bits} -l {rate} -q tf --quiet --no_stdin -p {out}"
            vowpalwabbit.Workspace(f"{options} -d {file}").finish()
            seconds.append(clock() - begin)
        margins = np.array([float(line.split()[0]) for line in out.read_text().splitlines()])
    return margins, seconds[1] - seconds[0]


RATES = {"rate": [0.1, 0.3, 1.0]}
VOWPAL_RATES = {"rate": [0.1, 0.5, 2.0]}
KERNEL_PEERS: dict[str, tuple[Peer, dict[str, list[Any]]]] = {
    "random features, diagonal filter": (rff, {"gamma": [0.5, 2.0], "prior": [1.0, 10.0]}),
    "FOGD": (fogd, {"gamma": [0.5, 2.0], "rate": [0.3, 1.0, 3.0]}),
    "NOGD": (nogd, {"gamma": [0.5, 2.0], "rate": [0.3, 1.0, 3.0]}),
    "Ahpatron": (ahpatron, {"gamma": [0.5, 2.0]}),
}
