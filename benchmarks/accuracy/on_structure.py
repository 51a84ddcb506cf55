"""Items on synthetic streams: graphs, groups of tasks, opposed tasks, awkward streams, drift, several classes."""

from __future__ import annotations

import numpy as np
from bench import Bench, Row
from on_data import drift_of_flights, size
from one_pass import figures, learned
from peers import RATES, VOWPAL_RATES, adagrad, vowpal, vowpal_is_here
from scipy.special import expit
from sklearn.datasets import load_digits
from streams import AWKWARD, MUST_IMPROVE, SHIFTS, Stream, awkward, drifting, grid, grid_edges, kinds, opposed

from budgetron import BudgetProjectron, Budgetron, Forgetron, RandomBudgetPerceptron, SharedProjectron, graphs, kernels


def graph(bench: Bench) -> None:
    """Tasks on a grid: with the graph, with its nodes shuffled, with complete(), and the paper's learners."""
    streams = bench.orders_of(grid)
    edges = grid_edges()
    moved = np.random.default_rng(0).permutation(100)
    truth = graphs.from_edges(edges)
    shuffled = graphs.from_edges([(int(moved[i]), int(moved[j])) for i, j in edges])
    mine = bench.ours(streams, graph=truth, learner="Budgetron, the graph")
    wrong = bench.ours(streams, graph=shuffled, learner="Budgetron, shuffled graph")
    without = bench.ours(streams, learner="Budgetron, complete()")
    bench.at_most("grid, with its graph", mine["error"], 15.6)
    bench.at_most("grid, shuffled graph: points above complete()", wrong["error"] - without["error"], 0.3, " points")
    others = [bench.run(make.__name__, streams, lambda stream, make=make: _paper(make, stream, truth), 500)
              for make in (SharedProjectron, BudgetProjectron, Forgetron, RandomBudgetPerceptron)]  # fmt: skip
    best = min(others, key=lambda row: row["error"])
    below = mine["error"] < best["error"]
    bench.check(
        "grid: below every paper learner", f"{mine['error']:.2f} %", f"{best['learner']}: {best['error']:.2f} %", below
    )


def _paper(make: type, stream: Stream, truth: graphs.TaskGraph) -> Row:
    model = make(500, kernel=kernels.Linear(bias=1.0), graph=truth)
    margins, seconds = learned(model, stream.X, stream.y, stream.tasks, stream.classes)
    return figures(margins, stream.y) | {"micros": 1e6 * seconds / len(stream.y), "bytes": model.memory_bytes_}


def relations(bench: Bench) -> None:
    """Groups of related tasks that the learner does not know, and a pair of opposed tasks."""
    for k, target in ((40, 12.0), (200, 22.0)):
        streams = bench.orders_of(lambda seed, k=k: kinds(seed, n_tasks=k))
        mine = bench.ours(streams)
        bench.peer("AdaGrad, shared and own", streams, adagrad, RATES)
        bench.at_most(f"kinds, {k} tasks", mine["error"], target)
    draws = [opposed(seed) for seed in range(10 if bench.quick else 100)]
    similarities = [Budgetron().fit(s.X, s.y, tasks=s.tasks).task_similarity([0, 1, 2]) for s in draws]
    mean = np.mean(similarities, axis=0)
    bench.at_most("opposed pair, mean correlation", float(mean[0, 1]), -0.9, "")
    bench.at_most("unrelated pairs, largest mean correlation", float(max(abs(mean[0, 2]), abs(mean[1, 2]))), 0.13, "")


def weaknesses(bench: Bench) -> None:
    """Streams made to be awkward: none worse than version 0.1, four of them improved."""
    by_seed = [list(awkward(seed)) for seed in range(min(bench.orders, 3))]
    for place, name in enumerate(AWKWARD):
        streams = [stream[place].take(3000 if bench.quick else None) for stream in by_seed]
        mine, before = bench.ours(streams), bench.version_0_1(streams, 60)
        bench.no_worse(name, mine, before)
        if name in MUST_IMPROVE and before is not None:
            improved = mine["error"] < before["error"]
            bench.check(f"{name}: improved", f"{mine['error']:.2f} %", f"< {before['error']:.2f} %", improved)


def drift(bench: Bench) -> None:
    """Streams without drift, with sudden and with slow drift: no worse than version 0.1, better than Vowpal Wabbit."""
    n = 3000 if bench.quick else 20_000
    for form in ("linear", "text"):
        for name in SHIFTS:
            streams = [drifting(name, form, n, seed) for seed in range(min(bench.orders, 3))]
            mine = bench.ours(streams)
            bench.no_worse(f"{form}, {name}", mine, bench.version_0_1(streams, 60))
            if vowpal_is_here():
                other = bench.peer("Vowpal Wabbit -q", streams, vowpal, VOWPAL_RATES, nbytes=size("4 MiB"))
                bench.first(f"{form}, {name}", mine, [other])
    drift_of_flights(bench)


def multiclass(bench: Bench) -> None:
    """Digits in five tasks, as they are and with labels turned by task, against one two-class Budgetron per class."""
    X, y = load_digits(return_X_y=True)
    tasks = np.random.default_rng(0).integers(0, 5, size=len(y))
    for name, labels in (("digits", y), ("digits, turned by task", (y + 3 * tasks) % 10)):
        stream = Stream(name, X.astype(np.float64), labels.astype(np.int64), tasks)
        streams = bench.orders_of(
            lambda seed, stream=stream: stream.ordered(np.random.default_rng(seed).permutation(len(y)))
        )
        mine = bench.ours(streams)
        bench.no_worse(name, mine, bench.run("one Budgetron per class", streams, _one_against_rest, "4 MiB"))


def _one_against_rest(stream: Stream) -> Row:
    margins = [
        learned(Budgetron(), stream.X, (stream.y == c).astype(int), stream.tasks, [0, 1])[0] for c in stream.classes
    ]
    return figures(np.log(np.maximum(expit(np.stack(margins, axis=1)), 1e-15)), stream.y)
