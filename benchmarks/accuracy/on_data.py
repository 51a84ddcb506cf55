"""Items on real sets: text, dense rows, the sets of the paper, and many tasks in few bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from bench import QUICK, SLACK, Bench, Row, Skipped
from peers import KERNEL_PEERS, RATES, VOWPAL_RATES, adagrad, hashed, vowpal, vowpal_is_installed, vowpal_timed
from streams import Stream, grid, in_order, kernel_set, kinds, project_set, users

from budgetron import data
from budgetron.engine.memory import budget_of

TEXT = {"sentiment": {"4 MiB": (15.8, 0.352), "32 MiB": (15.1, None)}, "spam": {"4 MiB": (0.75, 0.026)}}
"""Set → budget → targets: the error in percent and the log loss."""
AT_COUNT = {"german": 24.9, "spambase": 7.3, "a9a": 15.3, "ijcnn1": 3.9, "dna": 8.8, "satimage": 11.9}
"""Set → the target error in percent, with a budget of 100 examples (200 for dna and satimage)."""
AT_BYTES = {"ijcnn1": (3.2, 2.3, 2.2), "magic04": (14.9, 14.3, 14.0)}
"""Set → the target errors in percent, in 40, 200 and 800 KiB."""


def size(budget: str) -> int:
    """The bytes of a budget such as "4 MiB"."""
    n_bytes = budget_of("benchmark", budget).bytes
    assert n_bytes is not None
    return n_bytes


def project_stream(name: str) -> Stream:
    """A set of `budgetron datasets`."""
    if not data.is_available(name):
        raise Skipped(f"{name} is not on this machine (budgetron datasets fetch {name})")
    return project_set(name)


def kernel_stream(bench: Bench, name: str) -> tuple[Stream, Any]:
    """A classic set for online kernel learning, and its stored orders."""
    if not (bench.data / "kernel" / f"{name}.npz").exists():
        raise Skipped(f"{name} is not in {bench.data.name}/kernel")
    return kernel_set(bench.data, name)


def named_streams(bench: Bench, name: str) -> list[Stream]:
    """Return the orders of a stream by its name. Flights stay in the order of time."""
    if name in ("ijcnn1", "magic04", "a9a"):
        stream, stored = kernel_stream(bench, name)
        return bench.orders_of(lambda seed: in_order(stream, seed, stored))
    if name == "users":
        return bench.orders_of(users)
    if name in ("kinds", "grid"):
        return bench.orders_of(kinds if name == "kinds" else grid)
    stream = project_stream(name)
    if name == "flights":
        return [stream.take(QUICK if bench.quick else 100_000)]
    return bench.orders_of(lambda seed: in_order(stream, seed))


def linear_peers(bench: Bench, streams: list[Stream], nbytes: int) -> list[Row]:
    """AdaGrad and, where it is installed, Vowpal Wabbit: linear, with every feature crossed with the task."""
    rows = [bench.run_peer("AdaGrad, hashed, crossed", streams, hashed, RATES, nbytes=nbytes)]
    if vowpal_is_installed():
        rows.append(bench.run_peer("Vowpal Wabbit -q", streams, vowpal, VOWPAL_RATES, nbytes=nbytes))
    return rows


def text(bench: Bench) -> None:
    """Sparse rows at five sizes, against Vowpal Wabbit and AdaGrad at equal bytes."""
    for name, targets in TEXT.items():
        stream = project_stream(name)
        streams = bench.orders_of(lambda seed, stream=stream: in_order(stream, seed))
        for budget in ("64 KiB", "256 KiB", "1 MiB", "4 MiB", "32 MiB")[: 3 if bench.quick else 5]:
            ours = bench.run_budgetron(streams, budget)
            others = linear_peers(bench, streams, size(budget))
            error, loss = targets.get(budget, (None, None))
            if error is not None:
                bench.at_most(f"{name}, {budget}", ours["error"], error)
                bench.is_best(f"{name}, {budget}", ours, others)
            if loss is not None:
                bench.at_most(f"{name}, {budget}, log loss", ours["log_loss"], loss, "")
            if budget != "32 MiB":
                bench.no_worse(f"{name}, {budget}, against version 0.1", ours, bench.run_version_0_1(streams, budget))


def text_speed(bench: Bench) -> None:
    """Examples per second on Sentiment, against Vowpal Wabbit's C++ loop with task × feature crossing."""
    if not vowpal_is_installed():
        raise Skipped("vowpalwabbit is not installed")
    stream = in_order(project_stream("sentiment"), 0)
    ours, theirs = [], []
    for _ in range(1 if bench.quick else 5):  # in turns, so that other load on the machine slows both
        ours.append(bench.run_budgetron([stream], "32 MiB")["micros"])
        theirs.append(1e6 * vowpal_timed(stream, size("32 MiB"), 0.5)[1] / len(stream.y))
    bench.at_least("speed on text, relative to Vowpal Wabbit -q", min(theirs) / min(ours), 0.7, " ×")


def dense(bench: Bench) -> None:
    """The classic sets at a number of examples: no worse than version 0.1 (or its known errors, if it is not given)."""
    for name, known in AT_COUNT.items():
        stream, stored = kernel_stream(bench, name)
        streams = bench.orders_of(lambda seed, stream=stream, stored=stored: in_order(stream, seed, stored))
        budget = 200 if name in ("dna", "satimage") else 100
        ours, before = bench.run_budgetron(streams, budget), bench.run_version_0_1(streams, budget)
        constant = 100 * (1 - np.bincount(stream.y).max() / len(stream.y))
        what = f"{name} (constant guess: {constant:.1f} %)"
        if before is None:
            bench.at_most(what, ours["error"], known + SLACK)
        else:
            bench.no_worse(what, ours, before)


def dense_bytes(bench: Bench) -> None:
    """ijcnn1 and magic04 at 40, 200 and 800 KiB, against kernel learners at equal bytes."""
    for name, targets in AT_BYTES.items():
        stream, stored = kernel_stream(bench, name)
        streams = bench.orders_of(lambda seed, stream=stream, stored=stored: in_order(stream, seed, stored))
        for kib, target in zip((40, 200, 800), targets, strict=True):
            ours = bench.run_budgetron(streams, f"{kib} KiB")
            others = [
                bench.run_peer(peer, streams, run, grid, nbytes=1024 * kib)
                for peer, (run, grid) in KERNEL_PEERS.items()
            ]
            bench.at_most(f"{name}, {kib} KiB", ours["error"], target)
            bench.is_best(f"{name}, {kib} KiB", ours, others)


def classic(bench: Bench) -> None:
    """School, Exam, Chem97 and flights in the order of time: no worse than version 0.1, defaults of both."""
    for name in ("school", "exam", "chem97", "flights"):
        streams = named_streams(bench, name)
        ours = bench.run_budgetron(streams)
        bench.run_peer("AdaGrad, shared and own", streams, adagrad, RATES)
        bench.no_worse(name, ours, bench.run_version_0_1(streams, 500))


def many_tasks(bench: Bench) -> None:
    """Chem97 with its 2,410 schools, against Vowpal Wabbit and AdaGrad at equal bytes, and 100,000 synthetic users."""
    stream = project_stream("chem97")
    streams = bench.orders_of(lambda seed: in_order(stream, seed))
    targets = {"64 KiB": 21.6, "1 MiB": 21.4}
    for budget in ("64 KiB", "256 KiB", "1 MiB", "4 MiB"):
        ours = bench.run_budgetron(streams, budget)
        if budget in targets:
            bench.at_most(f"Chem97, {budget}", ours["error"], targets[budget])
        bench.is_best(f"Chem97, {budget}", ours, linear_peers(bench, streams, size(budget)))
    streams = bench.orders_of(users)
    for budget in ("64 KiB", "1 MiB"):
        ours = bench.run_budgetron(streams, budget)
        bench.check(f"100,000 users, {budget}", f"{ours['error']:.2f} %", "none named", None)


def drift_of_flights(bench: Bench) -> Row | None:
    """Used by the item on drift: flights in the order of time, against Vowpal Wabbit."""
    stream = project_stream("flights").take(QUICK if bench.quick else 100_000)
    ours = bench.run_budgetron([stream])
    if vowpal_is_installed():
        bench.is_best(
            "flights", ours, [bench.run_peer("Vowpal Wabbit -q", [stream], vowpal, VOWPAL_RATES, nbytes=size("4 MiB"))]
        )
    return ours
