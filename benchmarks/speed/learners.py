"""Dense streams: a Gaussian kernel row, a mistake of a projection learner, and an update of Budgetron."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from measure import Row, compared, seconds
from streams import ModelOnStream, noisy, random_labels
from yardsticks import EXAMPLES, gemv_and_exp, symmetric_pass

from budgetron import BudgetProjectron, Budgetron, RandomBudgetPerceptron, SharedProjectron, kernels

GAUSSIAN = kernels.Gaussian(gamma=0.02)


def gaussian_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """mtrbp (`RandomBudgetPerceptron`) in block calls, compared with the bare arithmetic of its kernel row."""
    for d, budget, reach in ((28, 1000, 1.25), (28, 100, 1.6), (784, 1000, 1.25)):
        for dtype in ("float32", "float64"):
            block = 400 if d == 784 else 2000
            stream = noisy(block * (4 if quick else 8) + 4 * budget, d, dtype=dtype)
            model = RandomBudgetPerceptron(budget=budget, kernel=kernels.Gaussian(gamma=0.5 / d))
            runner = ModelOnStream(model, stream, block).fill(budget)
            row = Row(
                name=f"gaussian-d{d}-B{budget}-{dtype}",
                work=f"Gaussian, d={d}, B={budget}, {dtype}, block calls, mtrbp",
                yardstick="BLAS gemv + vector exp over B",
                unit="×",
                reach=reach,
            )
            done = compared(row, runner.learn, gemv_and_exp(budget, d, dtype), block, EXAMPLES, repetitions)
            yield replace(done, detail={"mistakes": model.n_mistakes_ / model.n_seen_})


def projection_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """One mistake with a full budget, including its kernel row."""
    for budget in (500,) if quick else (500, 1000):
        for learner in (BudgetProjectron, SharedProjectron):
            model = learner(budget=budget, kernel=GAUSSIAN)
            runner = ModelOnStream(model, random_labels(8 * budget), 200).fill(budget)
            per_mistake = PerMistake(runner)
            row = Row(
                name=f"projection-{learner.__name__}-B{budget}",
                work=f"{learner.__name__}, B={budget}, per mistake on a full budget",
                yardstick="BLAS dsymv + dsyr over B×B doubles",
                unit="×",
                reach=1.0,
            )
            done = compared(row, per_mistake, symmetric_pass(budget, 20), 1, 20, repetitions)
            yield replace(done, detail={"of which the kernel row, µs": per_mistake.row_us})


class PerMistake:
    """Seconds per mistake: (time to learn − time to predict) / mistakes, plus the time of one kernel row."""

    def __init__(self, runner: ModelOnStream) -> None:
        self.runner, self.row_us = runner, 0.0

    def __call__(self) -> float:
        model, start = self.runner.model, self.runner.start
        part = self.runner.next_block()
        predicting = seconds(lambda: model.decision_function(part.X, tasks=part.tasks))
        self.runner.start, before = start, model.n_mistakes_  # learn the block that was predicted
        learning = seconds(self.runner.learn)
        kernel_row = predicting / len(part.y)
        self.row_us = kernel_row * 1e6
        updating = max(0.0, learning - predicting)
        return updating / max(1, model.n_mistakes_ - before) + kernel_row


def budgetron_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """All models of a Budgetron, compared with one product and one update of the matrix of its widest filter.

    A filter is a linear model with a covariance matrix of its weights.
    """
    for budget in ("256 KiB",) if quick else ("256 KiB", "1 MiB"):
        runner = scaled_budgetron(budget)
        settings = runner.model._engine.settings
        width = settings.n_features + 1 + 2 * settings.parameters.filter_frequencies
        row = Row(
            name=f"flagship-{budget.replace(' ', '')}",
            work=f"Budgetron in {budget}, all models, labels at random",
            yardstick=f"BLAS dsymv + dsyr over {width}×{width} doubles, its widest filter",
            unit="×",
            reach=4.0,
        )
        yield compared(row, runner.learn, symmetric_pass(width, 20), 200, 20, repetitions)


def scaled_budgetron(budget: str) -> ModelOnStream:
    """A Budgetron that has estimated the scales of its columns, on random labels.

    With other labels, the filters would skip examples that they predict confidently.
    """
    model = Budgetron(budget=budget, kernel=GAUSSIAN)
    ModelOnStream(model, random_labels(4000), 500).learn()
    return ModelOnStream(model, random_labels(4000), 200)


def float32_effect(rows: list[dict[str, Any]]) -> dict[str, float]:
    """How much faster float32 is, from the Gaussian rows."""
    times = {row["name"]: row["work_us"] for row in rows if row["name"].startswith("gaussian-")}
    pairs = {name.removesuffix("-float64") for name in times if name.endswith("-float64")}
    return {
        pair.removeprefix("gaussian-"): times[f"{pair}-float64"] / times[f"{pair}-float32"]
        for pair in sorted(pairs)
        if f"{pair}-float32" in times
    }
