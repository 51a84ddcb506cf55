"""What all items of the benchmark use: options, runs of learners, means over orders, and checks of targets.

An item is one of the functions that `run.py` lists. It receives a `Bench`. The methods `run_...` of a `Bench` run
learners and append to its `rows`; its checks compare figures with targets and append to its `checks`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from one_pass import learn_stream, metrics_of, save_stream
from peers import Peer, run_tuned
from streams import Stream

from budgetron import Budgetron

Row = dict[str, Any]
HERE = Path(__file__).parent
QUICK = 3000
"""Rows of a stream with --quick."""
SLACK = 0.1
"""Percentage points by which our error may always exceed the other one in `no_worse` and `is_best`; see `slack`."""


class Skipped(Exception):
    """An item cannot run, because its data or a program it needs is missing."""


@dataclass
class Bench:
    """One item while it runs: its rows and its checks."""

    data: Path
    orders: int
    quick: bool
    python_0_1: str | None  # the Python of an environment with version 0.1
    rows: list[Row] = field(default_factory=list)
    checks: list[Row] = field(default_factory=list)
    others: dict[str, list[Row]] = field(default_factory=dict)  # rows of other items, from this run or recorded

    # ---- runs

    def orders_of(self, make: Callable[[int], Stream]) -> list[Stream]:
        """Call `make` with each seed, and return one stream per order."""
        streams = [make(seed) for seed in range(self.orders)]
        return [stream.take(QUICK) for stream in streams] if self.quick else streams

    def run_budgetron(
        self, streams: Iterable[Stream], budget: Any = "4 MiB", learner: str = "Budgetron", **settings: Any
    ) -> Row:
        """Budgetron on every order, with default parameters except `settings`."""
        return self.run(learner, streams, lambda stream: _run_budgetron(stream, budget, settings), budget)

    def run_peer(self, name: str, streams: Iterable[Stream], peer: Peer, grid: Any, **fixed: Any) -> Row:
        """Another learner, tuned on the first fifth of each order."""

        def run_one(stream: Stream) -> Row:
            margins, setting = run_tuned(peer, grid, stream, **fixed)
            return metrics_of(margins, stream.y) | {"setting": setting}

        return self.run(name, streams, run_one, fixed.get("nbytes"))

    def run_version_0_1(self, streams: Iterable[Stream], budget: Any) -> Row | None:
        """The same pass by version 0.1 in its own environment; None if there is no such environment."""
        if self.python_0_1 is None:
            return None
        return self.run("version 0.1", streams, lambda stream: in_python(str(self.python_0_1), stream, budget), budget)

    def run(self, learner: str, streams: Iterable[Stream], run_one: Callable[[Stream], Row], budget: Any) -> Row:
        """Run a learner on every order, and record and print the means of its metrics."""
        streams = list(streams)
        each = [run_one(stream) for stream in streams]
        row: Row = {
            "stream": streams[0].name,
            "learner": learner,
            "budget": budget,
            "n": len(streams[0].y),
            "orders": len(each),
        }
        row["each"] = [round(measured["error"], 4) for measured in each]
        for name in each[0]:
            values = [measured[name] for measured in each]
            row[name] = values[0] if isinstance(values[0], dict) else round(float(np.mean(values)), 5)
        self.rows.append(row)
        extra = f"  {row['bytes'] / 1024:8.0f} KiB" if "bytes" in row else ""
        print(
            f"  {row['stream']:38s} {learner:34s} {budget!s:>9}  error {row['error']:6.2f}  "
            f"log loss {row['log_loss']:.4f}  ECE {row['ece']:.3f} ({row['ece_drawn']:.3f}){extra}",
            flush=True,
        )
        return row

    # ---- checks

    def at_most(self, what: str, figure: float, target: float, unit: str = " %") -> None:
        self.check(what, f"{beside(figure, target)}{unit}", f"≤ {target:g}{unit}", figure <= target)

    def at_least(self, what: str, figure: float, target: float, unit: str = "") -> None:
        self.check(what, f"{beside(figure, target)}{unit}", f"≥ {target:g}{unit}", figure >= target)

    def no_worse(self, what: str, ours: Row, other: Row | None) -> None:
        """Check that our error is at most the other one, within `slack`."""
        if other is None:
            return self.check(what, f"{ours['error']:.2f} %", "version 0.1 (not given)", None)
        name = f"{other['learner']}: {other['error']:.2f} %"
        return self.check(what, f"{ours['error']:.2f} %", name, ours["error"] <= other["error"] + slack(ours, other))

    def is_best(self, what: str, ours: Row, others: Iterable[Row]) -> None:
        """Check that our error is at most the lowest of the others, within `slack`."""
        best = min(others, key=lambda row: row["error"], default=None)
        if best is not None:
            self.no_worse(f"{what}, against the best peer", ours, best)

    def check(self, what: str, figure: str, target: str, met: bool | None) -> None:
        met = None if met is None else bool(met)
        self.checks.append({"what": what, "figure": figure, "target": target, "met": met})
        word = "not compared" if met is None else "met" if met else "MISSED"
        print(f"  {word:12s} {what}: {figure}, target {target}", flush=True)


def beside(figure: float, target: float) -> str:
    """The figure with four digits, or with more if it would look equal to the target although it differs."""
    digits = 4
    while float(f"{figure:.{digits}g}") == target != figure and digits < 12:
        digits += 1
    return f"{figure:.{digits}g}"


def slack(ours: Row, other: Row) -> float:
    """The difference that a target allows: 0.1 points, or two standard errors of the paired differences if larger."""
    differences = np.array(ours["each"]) - np.array(other["each"])
    error = differences.std(ddof=1) / np.sqrt(len(differences)) if len(differences) > 1 else 0.0
    return float(max(SLACK, 2 * error))


def _run_budgetron(stream: Stream, budget: Any, settings: dict[str, Any]) -> Row:
    model = Budgetron(budget, **settings)
    margins, seconds = learn_stream(model, stream.X, stream.y, stream.tasks, stream.classes)
    return metrics_of(margins, stream.y) | {"micros": 1e6 * seconds / len(stream.y), "bytes": model.memory_bytes_}


def in_python(python: str, stream: Stream, budget: Any) -> Row:
    """One pass in another process, with the version of Budgetron that is installed for that Python."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.npz"
        save_stream(path, stream.X, stream.y, stream.tasks)
        command = [python, str(HERE / "one_pass.py"), str(path), str(budget).replace("None", "none")]
        # With PYTHONPATH, the environment of Budgetron 0.1 would import this checkout.
        env = {name: value for name, value in os.environ.items() if python == PYTHON or name != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise Skipped(f"{python}: {done.stderr.strip().splitlines()[-1]}")
    row: Row = json.loads(done.stdout)
    row["micros"] = 1e6 * row.pop("seconds") / len(stream.y)
    return row


def interleaved(bench: Bench, stream: Stream, budgets: dict[str, tuple[str, Any]], repeats: int = 3) -> dict[str, Row]:
    """Run every (Python, budget) in turn, `repeats` times, and return the fastest pass of each.

    Taking turns spreads other load on the machine evenly over the contestants.
    """
    best: dict[str, Row] = {}
    for _ in range(1 if bench.quick else repeats):
        for name, (python, budget) in budgets.items():
            measured = in_python(python, stream, budget)
            if name not in best or measured["micros"] < best[name]["micros"]:
                best[name] = measured
    for name, measured in best.items():
        budget = budgets[name][1]
        about = {"stream": stream.name, "learner": name, "budget": budget, "n": len(stream.y), "orders": 1}
        bench.rows.append(about | measured)
        took = f"error {measured['error']:6.2f}  {measured['micros']:8.1f} µs"
        print(f"  {stream.name:38s} {name:34s} {budget!s:>9}  {took}", flush=True)
    return best


PYTHON = sys.executable
