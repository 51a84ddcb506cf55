"""Microseconds to predict and learn one dict: river's models, and ours through river's interface.

    python benchmarks/speed/dicts.py

Times are processor times, the minimum over rounds in shuffled order, because other programs may use the machine.
"""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
from river import linear_model

from budgetron import Budgetron, RandomBudgetPerceptron, kernels
from budgetron.compat.river import Classifier

N, ROUNDS = 2000, 5


def streams() -> dict[str, list[dict[str, float]]]:
    """20 measurements per example; and 60 draws from 20,000 words by Zipf's law, which give about 32 distinct words."""
    rng = np.random.default_rng(0)
    numbers = [{f"x{i}": value for i, value in enumerate(row)} for row in rng.normal(size=(N, 20)).tolist()]
    words = [{f"word {word}": 1.0 for word in (rng.zipf(1.3, size=60) % 20_000).tolist()} for _ in range(N)]
    return {"20 measurements": numbers, "60 draws (about 32 distinct words)": words}


def models(names: list[str] | None) -> dict[str, Any]:
    """The models to compare; `names` are the features of dense rows."""
    models: dict[str, Any] = {
        "river: LogisticRegression": linear_model.LogisticRegression(),
        "river: Perceptron": linear_model.Perceptron(),
        "RandomBudgetPerceptron(200), hashed": Classifier(RandomBudgetPerceptron(200, kernels.Gaussian(0.05))),
        "Budgetron(kernel=None), hashed": Classifier(Budgetron(kernel=None)),
        "Budgetron(200), hashed": Classifier(Budgetron(200)),
    }
    if names:
        models["RandomBudgetPerceptron(200), features named"] = Classifier(
            RandomBudgetPerceptron(200, kernels.Gaussian(0.05)), features=names
        )
        models["Budgetron(kernel=None), features named"] = Classifier(Budgetron(kernel=None), features=names)
        models["Budgetron(200), features named"] = Classifier(Budgetron(200), features=names)
    return models


def seconds(model: Any, rows: list[dict[str, float]], labels: list[bool]) -> float:
    start = time.process_time()
    for x, y in zip(rows, labels, strict=True):
        model.predict_one(x)
        model.learn_one(x, y)
    return time.process_time() - start


def main() -> None:
    for title, rows in streams().items():
        labels = [x.get("x0", 0.0) + x.get("word 3", 0.0) > 0 for x in rows]
        names = list(rows[0]) if "x0" in rows[0] else None
        seconds_of: dict[str, list[float]] = {name: [] for name in models(names)}
        for round_ in range(ROUNDS):
            fresh = list(models(names).items())
            random.Random(round_).shuffle(fresh)
            for name, model in fresh:
                seconds_of[name].append(seconds(model, rows, labels))
        print(f"{title}, predict and learn one")
        for name, times in seconds_of.items():
            print(f"  {name:44}{1e6 * min(times) / N:6.0f} µs")


if __name__ == "__main__":
    main()
