"""Measure the cost of one update, as ratios within one run.

Rules that remove an example, and bpa-s, are compared with RandomBudgetPerceptron, the others with BudgetProjectron.

    python benchmarks/related/cost.py            prints a table, and writes cost.json beside this file

All learners take turns on the same blocks. Time is processor time of the thread. The figure is the median over the
turns of several copies of a model: at B = 500 some copies are up to a third slower than other copies of the same
model, because their arrays have other addresses.

A *step* is an example that the rule learns from: a mistake for RandomBudgetPerceptron, BudgetProjectron and projectron,
a margin below a threshold for the other rules. The rules of the first comparison learn a stream in which every example
belongs to a new, unrelated task, in every turn. So all margins are 0, and every example is a step for every rule. The
other rules need related examples: they learn random labels of one task. There, the time of a prediction is subtracted
for each example that was not a step.
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
from budgetron.engine.records import Outcome

CHEAP = ("bsgd-remove", "bpa-s", "bogd", "bogd++")  # they evict an example without B² operations
OTHERS = ("bsgd-project", "bsgd-merge", "bnorma", "bpa-p", "nogd", "ahpatron")
COPIES, TURNS = 5, 5
D = 20  # columns


def learner_of(model: Any, X: Any, y: Any, tasks: Any) -> Callable[[], tuple[float, float]]:
    """Return a function that learns the block again, and returns the seconds per step and the share of steps."""
    model.partial_fit(X, y, tasks=tasks)
    block = model.validate(X, y, tasks=tasks)
    engine, n, turn = model._engine, len(y), 0
    threshold = model.margin if isinstance(model, BudgetSgd) else 1.0 if getattr(model, "plus", False) else 0.0

    def learn_again() -> tuple[float, float]:
        nonlocal turn
        turn += tasks is not None  # with tasks, the ids below are new in every turn
        task_ids, clusters = block.task_ids + turn * n, block.clusters + turn * n
        begin = time.thread_time()
        engine.margins(block.rows, task_ids, clusters)
        predicting = time.thread_time() - begin
        begin = time.thread_time()
        margins, flags = engine.learn(block.rows, block.codes, task_ids, clusters)
        seconds = time.thread_time() - begin
        # Codes are 0 and 1, so this is the label (−1 or 1) times the margin.
        is_step = (2 * block.codes - 1) * margins < threshold if threshold > 0 else (flags & Outcome.MISTAKE) > 0
        steps = int(is_step.sum())
        seconds_of_others = (n - steps) * predicting / n
        return (seconds - seconds_of_others) / max(steps, 1), steps / n

    return learn_again


def measured(models: dict[str, Any], X: Any, y: Any, tasks: Any) -> dict[str, tuple[float, float]]:
    """Learner → seconds per step and share of steps, medians over the turns of all copies."""
    copies = [{name: learner_of(clone(model), X, y, tasks) for name, model in models.items()} for _ in range(COPIES)]
    turns = [[learn_again() for learn_again in copy.values()] for _ in range(TURNS) for copy in copies]
    per_model = zip(models, np.swapaxes(turns, 0, 1), strict=True)
    return {name: tuple(np.median(values, axis=0)) for name, values in per_model}


def compared(B: int, dtype: str) -> list[dict[str, Any]]:
    """The cost of a step of every learner with B stored examples, and its ratio to the cost of the reference rule."""
    rng = np.random.default_rng(B)
    n, kernel = 4000 if B <= 200 else 1500, kernels.Gaussian(1 / D)
    X, y = rng.normal(size=(n, D)).astype(dtype), rng.integers(2, size=n)
    parameters = {"budget": B, "kernel": kernel}
    unrelated = parameters | {"graph": graphs.disconnected()}
    cheap = {"RandomBudgetPerceptron": RandomBudgetPerceptron(**unrelated)}
    cheap |= {name: BudgetSgd.preset(name, **unrelated) for name in CHEAP}
    others = {"BudgetProjectron": BudgetProjectron(**parameters)}
    others |= {name: BudgetSgd.preset(name, **parameters) for name in OTHERS}
    others |= {name: Projectron.preset(name, **parameters) for name in ("projectron", "projectron++")}
    rows = []
    for models, tasks in ((cheap, np.arange(n)), (others, None)):
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
        line = "{B:4} {dtype} {learner:24}{microseconds:9.2f} µs ×{ratio:5.2f} {against}, {steps:.0%} steps"
        print(line.format(**row))
    (Path(__file__).parent / "cost.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
