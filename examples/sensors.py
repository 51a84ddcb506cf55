"""Concept drift: forty machines with twelve sensors each, whose readings change their meaning half-way.

The readings are generated (budgetron.data.synthetic), so the best possible error is known. The machines are 80 %
related, and one label in twenty is wrong. At reading 10,000 of 20,000 the weight vector that decides the labels of a
machine is rotated by 60 degrees. The learners are not told; the table shows how fast each of them recovers.

    python examples/sensors.py [FIGURE.svg]        (the figure needs the extra `plot`)
"""

from __future__ import annotations

import sys

from budgetron import Budgetron, Forgetron, Perceptron, RandomBudgetPerceptron, SharedProjectron, evaluate, kernels
from budgetron.data import synthetic
from budgetron.plots import COLOURS, as_svg, new_figure

WINDOW = 1000


def main(figure: str | None = None) -> None:
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
    print("errors in the last thousand readings, after this many readings")
    print(f"{'':24}" + "".join(f"{end:>9,}" for end in ends) + f"{'stored':>9}")
    curves = {}
    for name, model in models.items():
        curves[name] = evaluate.progressive(model, stream, window=WINDOW).curve
        points = {point.position: point for point in curves[name]}
        print(f"{name:24}" + "".join(f"{points[end].window.error:9.1%}" for end in ends) + f"{model.n_stored_:9,}")
    if figure:
        draw(figure, {name: [(p.position, 100 * p.window.error) for p in curve] for name, curve in curves.items()})


def draw(path: str, curves: dict[str, list[tuple[int, float]]]) -> None:
    """Draw the errors in the last thousand readings, over time."""
    picture = new_figure("sensors", 6, 3.6)
    ax = picture.subplots()
    # SharedProjectron has nearly the curve of the Perceptron, which is drawn first and wider, so that both can be seen.
    widths = {"Perceptron, no budget": 4.5, "Budgetron": 2.4}
    for (name, curve), colour in zip(curves.items(), (*COLOURS[2:6], COLOURS[0]), strict=True):
        ax.plot(*zip(*curve, strict=True), color=colour, label=name, linewidth=widths.get(name, 1.3))
    ax.axvline(10_000, color=COLOURS[-1], linestyle=":")
    ax.set_xlabel("readings; the dotted line is the change")
    ax.set_ylabel("wrong in the last 1,000, %")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, fontsize=8)
    with open(path, "w", encoding="utf-8") as file:
        file.write(as_svg(picture) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
