"""Concept drift: forty machines with twelve sensors each, whose readings change their meaning half-way.

The readings are generated (budgetron.data.synthetic), so the best possible error is known. The machines are 80 %
related, and one label in twenty is wrong. At reading 10,000 of 20,000 the decision rule of every machine turns by 60
degrees. The learners are not told; the table shows how fast each of them recovers.

    python examples/sensors.py
"""

from __future__ import annotations

from budgetron import Budgetron, Forgetron, Perceptron, RandomBudgetPerceptron, SharedProjectron, evaluate, kernels
from budgetron.data import synthetic

WINDOW = 1000


def main() -> None:
    shift = synthetic.Shift.abrupt(at=0.5, angle=60.0)
    stream, answer = synthetic.stream(
        20_000, d=12, n_tasks=40, relatedness=0.8, noise=0.05, form="linear", shift=shift, seed=1
    )
    best = (answer.labels != stream.y).mean()
    print(
        f"{stream.n:,} readings of 40 machines, a change at 10,000; "
        f"the best possible predictor is wrong for {best:.1%}\n"
    )

    kernel = kernels.Linear(bias=1.0)
    models = {
        "Perceptron, no budget": Perceptron(kernel=kernel),
        "RandomBudgetPerceptron": RandomBudgetPerceptron(budget=200, kernel=kernel, random_state=0),
        "Forgetron": Forgetron(budget=200, kernel=kernel),
        "SharedProjectron": SharedProjectron(budget=200, kernel=kernel),
        "Budgetron": Budgetron(budget=200),
    }
    ends = (1_000, 10_000, 11_000, 12_000, 20_000)
    print("errors in the thousand readings before reading")
    print(f"{'':24}" + "".join(f"{end:>9,}" for end in ends) + f"{'stored':>9}")
    for name, model in models.items():
        points = {point.position: point for point in evaluate.progressive(model, stream, window=WINDOW).curve}
        print(f"{name:24}" + "".join(f"{points[end].window.error:9.1%}" for end in ends) + f"{model.n_stored_:9,}")


if __name__ == "__main__":
    main()
