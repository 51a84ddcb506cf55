"""Benchmark items (see `bench`) about graphs, groups of tasks, opposed tasks, awkward streams, drift and many classes.

Most of their streams are synthetic.
"""

from __future__ import annotations

import numpy as np
from bench import QUICK, Bench, Row
from on_data import drift_of_flights, named_streams, size
from one_pass import learn_stream, metrics_of
from peers import RATES, VOWPAL_RATES, adagrad, vowpal, vowpal_is_installed
from scipy.special import expit
from sklearn.datasets import load_digits
from streams import AWKWARD, MUST_IMPROVE, SHIFTS, Stream, awkward, drifting, grid, kinds, opposed

from budgetron import BudgetProjectron, Budgetron, Forgetron, RandomBudgetPerceptron, SharedProjectron, graphs, kernels
from budgetron.data import synthetic
from budgetron.engine.reference.rules.budgetron.sizes import belief_sets


def graph(bench: Bench) -> None:
    """Tasks on a grid: with the graph, with its nodes shuffled, with complete(), and the paper's learners."""
    streams = bench.orders_of(grid)
    edges = synthetic.grid_edges()
    permuted = np.random.default_rng(0).permutation(100)
    true_graph = graphs.from_edges(edges)
    shuffled = graphs.from_edges([(int(permuted[i]), int(permuted[j])) for i, j in edges])
    ours = bench.run_budgetron(streams, graph=true_graph, learner="Budgetron, the graph")
    wrong = bench.run_budgetron(streams, graph=shuffled, learner="Budgetron, shuffled graph")
    without = bench.run_budgetron(streams, learner="Budgetron, complete()")
    bench.at_most("grid, with its graph", ours["error"], 15.6)
    bench.at_most("grid, shuffled graph: points above complete()", wrong["error"] - without["error"], 0.3, " points")
    others = [
        bench.run(make.__name__, streams, lambda s, make=make: _run_paper_learner(make, s, true_graph), 500)
        for make in (SharedProjectron, BudgetProjectron, Forgetron, RandomBudgetPerceptron)
    ]
    best = min(others, key=lambda row: row["error"])
    below = ours["error"] < best["error"]
    bench.check(
        "grid: below every paper learner", f"{ours['error']:.2f} %", f"{best['learner']}: {best['error']:.2f} %", below
    )


def _run_paper_learner(make: type, stream: Stream, graph: graphs.TaskGraph) -> Row:
    model = make(500, kernel=kernels.Linear(bias=1.0), graph=graph)
    margins, seconds = learn_stream(model, stream.X, stream.y, stream.tasks, stream.classes)
    return metrics_of(margins, stream.y) | {"micros": 1e6 * seconds / len(stream.y), "bytes": model.memory_bytes_}


def relations(bench: Bench) -> None:
    """Tasks in kinds that the learner is not told, a pair of opposed tasks, and streams without known kinds."""
    for k, target in ((40, 12.0), (200, 22.0)):
        streams = bench.orders_of(lambda seed, k=k: kinds(seed, n_tasks=k))
        ours = bench.run_budgetron(streams)
        bench.run_peer("AdaGrad, shared and own", streams, adagrad, RATES)
        bench.at_most(f"kinds, {k} tasks", ours["error"], target)
    draws = [opposed(seed) for seed in range(10 if bench.quick else 100)]
    similarities = [Budgetron().fit(s.X, s.y, tasks=s.tasks).task_similarity([0, 1, 2]) for s in draws]
    mean = np.mean(similarities, axis=0)
    bench.at_most("opposed pair, mean correlation", float(mean[0, 1]), -0.9, "")
    largest = float(max(abs(mean[0, 2]), abs(mean[1, 2])))
    bench.at_most("unrelated pairs, largest absolute mean correlation", largest, 0.13, "")
    for name in ("school", "exam", "chem97", "flights", "grid", "users"):
        streams = named_streams(bench, name)
        ours, without = bench.run_budgetron(streams), _run_without_learned_relations(bench, streams)
        bench.at_most(f"{name}: points above Budgetron without kinds", ours["error"] - without["error"], 0.2, " points")


def _run_without_learned_relations(bench: Bench, streams: list[Stream]) -> Row:
    """Budgetron without the belief that learns kinds of tasks. No parameter leaves it out."""
    dimensions = belief_sets.LATENT
    belief_sets.LATENT = 0
    try:
        return bench.run_budgetron(streams, learner="Budgetron without kinds")
    finally:
        belief_sets.LATENT = dimensions


def weaknesses(bench: Bench) -> None:
    """Streams made to be awkward: none worse than version 0.1, four of them improved."""
    by_seed = [list(awkward(seed)) for seed in range(min(bench.orders, 3))]
    for i, name in enumerate(AWKWARD):
        streams = [streams_of_seed[i].take(QUICK if bench.quick else None) for streams_of_seed in by_seed]
        ours, before = bench.run_budgetron(streams), bench.run_version_0_1(streams, 60)
        bench.no_worse(name, ours, before)
        if name in MUST_IMPROVE and before is not None:
            improved = ours["error"] < before["error"]
            bench.check(f"{name}: improved", f"{ours['error']:.2f} %", f"< {before['error']:.2f} %", improved)


def drift(bench: Bench) -> None:
    """No, sudden and slow drift, against version 0.1 and Vowpal Wabbit; and flights, against Vowpal Wabbit."""
    n = QUICK if bench.quick else 20_000
    for form in ("linear", "text"):
        for name in SHIFTS:
            streams = [drifting(name, form, n, seed) for seed in range(min(bench.orders, 3))]
            ours = bench.run_budgetron(streams)
            bench.no_worse(f"{form}, {name}", ours, bench.run_version_0_1(streams, 60))
            if vowpal_is_installed():
                other = bench.run_peer("Vowpal Wabbit -q", streams, vowpal, VOWPAL_RATES, nbytes=size("4 MiB"))
                bench.is_best(f"{form}, {name}", ours, [other])
    drift_of_flights(bench)


def multiclass(bench: Bench) -> None:
    """Digits in five tasks, with the same labels and with other labels per task, against one Budgetron per class."""
    X, y = load_digits(return_X_y=True)
    tasks = np.random.default_rng(0).integers(0, 5, size=len(y))
    for name, labels in (("digits", y), ("digits, labels rotated by task", (y + 3 * tasks) % 10)):
        stream = Stream(name, X.astype(np.float64), labels.astype(np.int64), tasks)
        streams = bench.orders_of(
            lambda seed, stream=stream: stream.ordered(np.random.default_rng(seed).permutation(len(y)))
        )
        ours = bench.run_budgetron(streams)
        budget = f"{len(stream.classes)} × 4 MiB"
        bench.no_worse(name, ours, bench.run("one Budgetron per class", streams, _one_against_rest, budget))


def _one_against_rest(stream: Stream) -> Row:
    models = [Budgetron("4 MiB") for _ in stream.classes]
    margins = [
        learn_stream(model, stream.X, (stream.y == c).astype(int), stream.tasks, [0, 1])[0]
        for model, c in zip(models, stream.classes, strict=True)
    ]
    metrics = metrics_of(np.log(np.maximum(expit(np.stack(margins, axis=1)), 1e-15)), stream.y)
    return metrics | {"bytes": sum(model.memory_bytes_ for model in models)}
