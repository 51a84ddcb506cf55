"""Peers side by side: examples a second at which online error, F and memory, each after a small recorded search.

Every candidate predicts a row before it learns it. The grid is searched on the first part of the stream; the best
setting then runs over all of it. What a peer cannot do is said in `CANNOT`.
"""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sparse import write_vowpal
from streams import Stream, noisy, text

from budgetron import Budgetron, RandomBudgetPerceptron, SharedProjectron, data, kernels

CANNOT = {
    "river": "no relation between tasks: one model for all, or one a task; no bound on what one a task takes",
    "scikit-learn": "no tasks; the kernel maps must see data or draw a width beforehand; every call pays for checks",
    "Vowpal Wabbit": "linear (with crossed features) only; tasks by crossing; one pass reads a file",
    "Budgetron": "a graph of tasks inside Budgetron itself is complete or none; see SharedProjectron for others",
}
BATCH = 100
Run = Callable[[Stream, Mapping[str, Any]], tuple[np.ndarray, Any]]  # predicted labels, and the model


@dataclass(frozen=True)
class Peer:
    name: str
    library: str
    run: Run
    grid: Mapping[str, Sequence[Any]]
    dense_only: bool = False
    most: int = 10**9  # examples: a slow peer gets the beginning of the stream


def streams(quick: bool) -> Iterator[tuple[str, Stream]]:
    n = 1000 if quick else 6000
    yield "dense noisy, 20 tasks", noisy(n, d=20, n_tasks=20)
    yield "sparse text, 8 tasks", text(n, d=50_000, words=80, n_tasks=8)
    for name in () if quick else ("chem97", "school", "sentiment", "spam"):
        try:
            found = data.load(name).shuffled(seed=0).take(n) if data.is_available(name) else None
        except Exception:  # a set that is not here is left out, whatever the reason
            found = None
        if found is not None:
            yield name, Stream(found.X, found.y.astype(np.int64), found.tasks)


def ours(learner: Any, **fixed: Any) -> Run:
    def run(stream: Stream, setting: Mapping[str, Any]) -> tuple[np.ndarray, Any]:
        setting = dict(setting)
        gamma = setting.pop("gamma", None)
        kernel = {} if gamma is None else {"kernel": kernels.Gaussian(gamma)}
        model = learner(**fixed, **kernel, **setting)
        margins = model.predict_then_learn(stream.X, stream.y, tasks=stream.tasks, classes=[0, 1])
        return margins > 0, model

    return run


def river(make: Callable[..., Any], per_task: bool = False) -> Run:
    def run(stream: Stream, setting: Mapping[str, Any]) -> tuple[np.ndarray, Any]:
        models: dict[Any, Any] = {}
        predicted = np.zeros(len(stream.y), dtype=bool)
        labels, tasks = (stream.y == 1).tolist(), stream.tasks.tolist()
        for place, x in enumerate(_dicts(stream.X)):
            task = tasks[place] if per_task else None
            model = models.get(task) or models.setdefault(task, make(**setting))
            predicted[place] = bool(model.predict_one(x))
            model.learn_one(x, labels[place])
        return predicted, models

    return run


def _dicts(X: Any) -> Iterator[dict[int, float]]:
    if isinstance(X, np.ndarray):
        yield from (dict(enumerate(row)) for row in X.tolist())
        return
    for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield dict(zip(X.indices[start:end].tolist(), X.data[start:end].tolist(), strict=True))


def scikit(features: Callable[[float], Any] | None, batch: int) -> Run:
    """SGD on the rows or on a kernel map of them; the map is fitted on the first batch of 100, as it may be."""

    def run(stream: Stream, setting: Mapping[str, Any]) -> tuple[np.ndarray, Any]:
        from sklearn.linear_model import SGDClassifier

        setting = dict(setting)
        lift = features(setting.pop("gamma")) if features else None
        if lift is not None:
            lift.fit(stream.X[:BATCH])
        model = SGDClassifier(loss="log_loss", random_state=0, **setting)
        predicted = np.zeros(len(stream.y), dtype=bool)
        for start in range(0, len(stream.y), batch):
            part = slice(start, start + batch)
            rows = stream.X[part] if lift is None else lift.transform(stream.X[part])
            if start:
                predicted[part] = model.predict(rows) == 1
            model.partial_fit(rows, stream.y[part], classes=[0, 1])
        return predicted, (lift, model)

    return run


def vowpal(crossed: bool) -> Run:
    """The C++ loop over a file; predictions are what it made before each update."""

    def run(stream: Stream, setting: Mapping[str, Any]) -> tuple[np.ndarray, Any]:
        import vowpalwabbit

        with tempfile.TemporaryDirectory() as folder:
            path, out, model = (Path(folder) / name for name in ("stream.vw", "predicted", "model"))
            write_vowpal(stream, path, crossed)
            options = f"--loss_function logistic -b 20 -l {setting['l']} --quiet --no_stdin -p {out} -f {model}"
            start = (time.perf_counter(), time.process_time())
            vowpalwabbit.Workspace(f"{options} -d {path}" + (" -q tf" if crossed else "")).finish()
            took = min(time.perf_counter() - start[0], time.process_time() - start[1])  # it has two threads
            predicted = np.array([float(line.split()[0]) > 0 for line in out.read_text().splitlines()])
            return predicted, _Timed(took, model.stat().st_size)

    return run


@dataclass(frozen=True)
class _Timed:
    """What writing the file costs is not Vowpal Wabbit's time; the model is sized as it saves it."""

    seconds: float
    memory_bytes_: int


def candidates() -> Iterator[Peer]:
    yield Peer("Budgetron", "Budgetron", ours(Budgetron), {"budget": [300]})
    yield Peer("Budgetron(kernel=None)", "Budgetron", ours(Budgetron, kernel=None), {"budget": [300]})
    gammas = {"gamma": ["scale", 0.01, 0.05]}
    yield Peer("SharedProjectron", "Budgetron", ours(SharedProjectron, budget=300), gammas)
    yield Peer("RandomBudgetPerceptron", "Budgetron", ours(RandomBudgetPerceptron, budget=300), gammas)
    yield from _river_peers()
    yield from _scikit_peers()
    try:
        import vowpalwabbit  # noqa: F401
    except ImportError:
        return
    rates = {"l": [0.1, 0.5, 2.0]}
    yield Peer("VW plain", "Vowpal Wabbit", vowpal(crossed=False), rates)
    yield Peer("VW task-crossed", "Vowpal Wabbit", vowpal(crossed=True), rates)


def _river_peers() -> Iterator[Peer]:
    try:
        from river import compose, feature_extraction, linear_model, optim
    except ImportError:
        return

    def logistic(rate: float) -> Any:
        return linear_model.LogisticRegression(optimizer=optim.SGD(rate))

    def sampled(gamma: float, rate: float) -> Any:
        lift = feature_extraction.RBFSampler(gamma=gamma, n_components=100, seed=0)
        return compose.Pipeline(lift, logistic(rate))

    rates = {"rate": [0.01, 0.1, 1.0]}
    yield Peer("river Perceptron", "river", river(linear_model.Perceptron), {})
    yield Peer("river logistic", "river", river(logistic), rates)
    yield Peer("river logistic, one a task", "river", river(logistic, per_task=True), rates)
    grid = {"gamma": [0.01, 0.05], "rate": [0.1, 1.0]}
    yield Peer("river RBFSampler + logistic", "river", river(sampled), grid, dense_only=True, most=1500)


def _scikit_peers() -> Iterator[Peer]:
    from sklearn.kernel_approximation import Nystroem, RBFSampler

    alphas = {"alpha": [1e-5, 1e-4, 1e-3]}
    lifted = {"gamma": [0.01, 0.05], "alpha": [1e-4, 1e-3]}

    def nystroem(gamma: float) -> Any:
        return Nystroem(gamma=gamma, n_components=100, random_state=0)

    def sampler(gamma: float) -> Any:
        return RBFSampler(gamma=gamma, n_components=300, random_state=0)

    for batch, how in ((1, "one at a time"), (BATCH, "batches of 100")):
        most = 1000 if batch == 1 else 10**9
        yield Peer(f"SGD, {how}", "scikit-learn", scikit(None, batch), alphas, most=most)
        yield Peer(f"Nystroem + SGD, {how}", "scikit-learn", scikit(nystroem, batch), lifted, most=most)
        yield Peer(f"RBFSampler + SGD, {how}", "scikit-learn", scikit(sampler, batch), lifted, most=most)


def compare(quick: bool) -> list[dict[str, Any]]:
    """One record for each stream and peer."""
    records = []
    for name, stream in streams(quick):
        for peer in candidates():
            if not (peer.dense_only and not isinstance(stream.X, np.ndarray)):
                records.append({"stream": name} | _measured(peer, stream, quick))
    return records


def _measured(peer: Peer, stream: Stream, quick: bool) -> dict[str, Any]:
    whole = stream[: min(peer.most, 300 if quick else peer.most)]
    settings = [dict(zip(peer.grid, values, strict=True)) for values in product(*peer.grid.values())]
    tuning = whole[: max(200, len(whole.y) // 5)]
    tried = [(_error(peer.run(tuning, setting)[0], tuning), place) for place, setting in enumerate(settings)]
    best = settings[min(tried)[1]] if len(settings) > 1 else settings[0]
    times: list[float] = []
    while len(times) < (1 if quick else 5) and sum(times) < 1.0:  # slow ones once: their noise is a smaller share
        start = time.process_time()
        predicted, model = peer.run(whole, best)
        times.append(getattr(model, "seconds", None) or time.process_time() - start)
    took = float(np.median(times))
    right = whole.y == 1
    found, wrong = int((predicted & right).sum()), int((predicted != right).sum())
    return {
        "peer": peer.name,
        "library": peer.library,
        "n": len(whole.y),
        "examples_per_second": len(whole.y) / took,
        "slowest_and_fastest": [len(whole.y) / max(times), len(whole.y) / min(times)],
        "runs": len(times),
        "stored": getattr(model, "n_stored_", None),
        "error": _error(predicted, whole),
        "f": 2 * found / max(1, 2 * found + wrong),
        "bytes": int(getattr(model, "memory_bytes_", None) or len(pickle.dumps(model))),
        "grid": {name: list(values) for name, values in peer.grid.items()},
        "chosen": best,
    }


def _error(predicted: np.ndarray, stream: Stream) -> float:
    return float(np.mean(predicted != (stream.y == 1)))
