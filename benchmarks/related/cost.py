"""The cost of one update, as ratios within one run: removal against RandomBudgetPerceptron, the others against
BudgetProjectron.

    python benchmarks/related/cost.py            prints a table, and writes cost.json beside this file

All learners take turns on the same blocks. Time is processor time of the thread, and the median over the turns of
several copies counts: some models are up to a third slower at B = 500, whatever their rule, because of the addresses
that their arrays happen to have.
Rules with removal learn a stream in which every example is a new, unrelated task, also in the next turn: all decision
values are 0, so every example is an update for every rule. Projection and merging need related examples: they learn
random labels of one task, and the time of a prediction is subtracted where an example was no step. A step is a mistake
of a Perceptron, and a margin below 1 for the others: skipping an example, for instance, costs as much as storing it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from budgetron import BudgetProjectron, BudgetSgd, Projectron, RandomBudgetPerceptron, graphs, kernels

REMOVAL = ("bsgd-remove", "bpa-s", "bogd", "bogd++")
OTHERS = ("bsgd-project", "bsgd-merge", "bnorma", "bpa-p", "nogd", "ahpatron")
COPIES, TURNS = 5, 5
D = 20


def learned(model: Any, X: Any, y: Any, tasks: Any) -> Callable[[], tuple[float, float]]:
    """Return a function that learns the block once more: seconds per step, and the share of steps."""
    model.partial_fit(X, y, tasks=tasks)
    block = model.validate(X, y, tasks=tasks)
    engine, n, turn = model._engine, len(y), 0
    below = model.margin if isinstance(model, BudgetSgd) else 1.0 if getattr(model, "plus", False) else 0.0

    def once() -> tuple[float, float]:
        nonlocal turn
        turn += tasks is not None
        task_ids, clusters = block.task_ids + turn * n, block.clusters + turn * n
        begin = time.thread_time()
        engine.margins(block.rows, task_ids, clusters)
        predicting = time.thread_time() - begin
        begin = time.thread_time()
        margins, flags = engine.learn(block.rows, block.codes, task_ids, clusters)
        seconds = time.thread_time() - begin
        # A step is a mistake for rules that learn from mistakes only, and a margin below the threshold for the others.
        steps = (2 * block.codes - 1) * margins < below if below > 0 else (flags & 1) > 0
        updates = int(steps.sum())
        right = (n - updates) * predicting / n
        return (seconds - right) / max(updates, 1), updates / n

    return once


def measured(models: dict[str, Any], X: Any, y: Any, tasks: Any) -> dict[str, tuple[float, float]]:
    copies = [{name: learned(clone(model), X, y, tasks) for name, model in models.items()} for _ in range(COPIES)]
    turns = [[once() for once in runs.values()] for _ in range(TURNS) for runs in copies]
    per_model = zip(models, np.swapaxes(turns, 0, 1), strict=True)
    return {name: tuple(np.median(values, axis=0)) for name, values in per_model}


def compared(B: int, dtype: str) -> list[dict[str, Any]]:
    rng = np.random.default_rng(B)
    n, kernel = (4000, kernels.Gaussian(1 / D)) if B <= 200 else (1500, kernels.Gaussian(1 / D))
    X, y = rng.normal(size=(n, D)).astype(dtype), rng.integers(2, size=n)
    parameters = {"budget": B, "kernel": kernel}
    apart = parameters | {"graph": graphs.disconnected()}
    removal = {"RandomBudgetPerceptron": RandomBudgetPerceptron(**apart)}
    removal |= {name: BudgetSgd.preset(name, **apart) for name in REMOVAL}
    removal["bpa-s"].skip = False  # bpa-s skips examples that are near no stored one: here, every example
    others = {"BudgetProjectron": BudgetProjectron(**parameters)}
    others |= {name: BudgetSgd.preset(name, **parameters) for name in OTHERS}
    others |= {name: Projectron.preset(name, **parameters) for name in ("projectron", "projectron++")}
    rows = []
    for models, tasks in ((removal, np.arange(n)), (others, None)):
        costs = measured(models, X, y, tasks)
        against = next(iter(models))
        for name, (seconds, share) in costs.items():
            rows.append({"B": B, "dtype": dtype, "learner": name, "microseconds": round(1e6 * seconds, 3),
                         "steps": round(share, 3), "against": against,
                         "ratio": round(seconds / costs[against][0], 2)})  # fmt: skip
    return rows


def main() -> None:
    rows = [row for B in (100, 500) for dtype in ("float32", "float64") for row in compared(B, dtype)]
    for row in rows:
        told = "{B:4} {dtype} {learner:24}{microseconds:9.2f} µs ×{ratio:5.2f} {against}, {steps:.0%} steps"
        print(told.format(**row))
    (Path(__file__).parent / "cost.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
