"""The item `libraries`: Budgetron beside river, Vowpal Wabbit and scikit-learn, on sets that are installed by pip.

Every learner predicts and then learns one example after the other. The linear learners are tuned by a small grid on the
first fifth of the stream. Times are processor times of one pass with the chosen setting, through the interface that a
user of the library would take: a loop over dicts (river), a loop over rows (scikit-learn), the library's own loop over
a file (Vowpal Wabbit), blocks of 1,000 rows (Budgetron). `compared.py` writes errors and times into docs/compared.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bench import QUICK, Bench, Row, Skipped
from on_data import project_stream, size
from one_pass import learn_stream, metrics_of
from peers import VOWPAL_RATES, Floats, run_tuned, standardised, vowpal_is_installed, vowpal_timed
from scipy import sparse
from scipy.special import logit
from streams import Stream, in_order

from budgetron import Budgetron

ROWS = {"exam": None, "chem97": None, "flights": 30_000}
"""Set → the number of rows that are used; None for all. Flights stay in the order of time."""
BUDGET = "4 MiB"


def libraries(bench: Bench) -> None:
    """Budgetron, river, Vowpal Wabbit and scikit-learn, through their own interfaces, on data that pip installs."""
    if not vowpal_is_installed() or not river_is_installed():
        raise Skipped("river or vowpalwabbit is not installed: pip install 'budgetron[bench]'")
    for name, n_rows in ROWS.items():
        stream = project_stream(name).take(n_rows)
        if name == "flights":
            streams = [stream.take(QUICK) if bench.quick else stream]
        else:
            streams = bench.orders_of(lambda seed, stream=stream: in_order(stream, seed))
        ours, *others = (run(bench, learner, streams) for learner in LEARNERS)
        bench.is_best(name, ours, others)


def run(bench: Bench, learner: str, streams: list[Stream]) -> Row:
    """Tune a learner on the first fifth of each order, and run it over the whole order."""
    peer, grid = LEARNERS[learner]

    def run_one(stream: Stream) -> Row:
        seconds: list[float] = []

        def timed(part: Stream, **setting: Any) -> Floats:
            margins, elapsed = peer(part, **setting)
            seconds.append(elapsed)
            return margins

        margins, setting = run_tuned(timed, grid, stream)
        return metrics_of(margins, stream.y) | {"setting": setting, "micros": 1e6 * seconds[-1] / len(stream.y)}

    return bench.run(learner, streams, run_one, None)


def river_is_installed() -> bool:
    try:
        import river  # noqa: F401
    except ImportError:
        return False
    return True


def budgetron(stream: Stream) -> tuple[Floats, float]:
    begin = time.process_time()
    margins, _ = learn_stream(Budgetron(BUDGET), stream.X, stream.y, stream.tasks, stream.classes)
    return margins, time.process_time() - begin


# ---- river


def river_linear(stream: Stream, rate: float) -> tuple[Floats, float]:
    """Logistic regression with AdaGrad. Every feature, and the constant, has a shared weight and one per task."""
    from river import linear_model, optim

    def crossed(x: dict[str, float], task: int) -> dict[str, float]:
        return x | {f"{task}:{name}": value for name, value in x.items()} | {f"{task}:": 1.0}

    rows = [crossed(_named(row), task) for row, task in zip(standardised(stream.X), tasks_of(stream), strict=True)]
    return _river(linear_model.LogisticRegression(optim.AdaGrad(rate)), rows, stream)


def river_forest(stream: Stream) -> tuple[Floats, float]:
    """An adaptive random forest. The task enters as one feature: the mean label of its examples so far."""
    from river import compose, feature_extraction, forest, stats

    mean_of_task = feature_extraction.TargetAgg(by="task", how=stats.BayesianMean(prior=0.5, prior_weight=10))
    model = (compose.Discard("task") + mean_of_task) | forest.ARFClassifier(seed=0)
    rows = [_named(row) | {"task": task} for row, task in zip(stream.X, tasks_of(stream), strict=True)]
    return _river(model, rows, stream)


def _named(row: Floats) -> dict[str, float]:
    return {f"x{j}": value for j, value in enumerate(row.tolist())}


def _river(model: Any, rows: list[dict[str, float]], stream: Stream) -> tuple[Floats, float]:
    p, labels = np.empty(len(rows)), stream.y.astype(bool).tolist()
    begin = time.process_time()
    for t, (x, label) in enumerate(zip(rows, labels, strict=True)):
        p[t] = model.predict_proba_one(x).get(True, 0.5)  # no probability before the first positive example
        model.learn_one(x, label)
    return logit(np.clip(p, 1e-6, 1 - 1e-6)), time.process_time() - begin


# ---- Vowpal Wabbit and scikit-learn


def vowpal_linear(stream: Stream, rate: float) -> tuple[Floats, float]:
    return vowpal_timed(stream, size(BUDGET), rate, clock=time.process_time)


def sklearn_linear(stream: Stream, rate: float) -> tuple[Floats, float]:
    """SGDClassifier. Every feature, and the constant, has one column for all tasks and one column per task."""
    from sklearn.linear_model import SGDClassifier

    Z, tasks = np.hstack([standardised(stream.X), np.ones((len(stream.y), 1))]), tasks_of(stream)
    n, d = Z.shape
    columns = np.hstack([np.broadcast_to(np.arange(d), (n, d)), d * (tasks[:, None] + 1) + np.arange(d)])
    starts = np.arange(0, 2 * n * d + 1, 2 * d)
    X = sparse.csr_matrix((np.hstack([Z, Z]).ravel(), columns.ravel(), starts), shape=(n, d * (int(tasks.max()) + 2)))
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=rate, alpha=1e-6, fit_intercept=False)
    margins = np.zeros(n)
    begin = time.process_time()
    for t in range(n):
        x = X[t]
        if t:
            margins[t] = model.decision_function(x)[0]
        model.partial_fit(x, stream.y[t : t + 1], classes=[0, 1])
    return margins, time.process_time() - begin


def tasks_of(stream: Stream) -> Any:
    assert stream.tasks is not None
    return stream.tasks


LEARNERS: dict[str, tuple[Callable[..., tuple[Floats, float]], dict[str, list[Any]]]] = {
    "Budgetron": (budgetron, {}),
    "river: LogisticRegression": (river_linear, {"rate": [0.03, 0.1, 0.3]}),
    "river: ARFClassifier": (river_forest, {}),
    "Vowpal Wabbit": (vowpal_linear, VOWPAL_RATES),
    "scikit-learn: SGDClassifier": (sklearn_linear, {"rate": [0.003, 0.01, 0.03, 0.1]}),
}
"""Name → the function that makes one pass, and the grid of its settings."""
