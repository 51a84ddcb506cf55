"""Learn 2,410 related tasks with about thirteen examples each: will a pupil get a good grade in chemistry?

Chem97 has 31,022 pupils in British schools: average grade at sixteen, age and sex. The label says whether a pupil gets
grade A or B at eighteen. One school has too few pupils to learn from, and one model for all ignores that schools
differ. Each pupil is predicted, then learned, once.

    python examples/schools.py [FIGURE.svg]        (needs the extra `data`; the figure also `plot`)
"""

from __future__ import annotations

import sys

from budgetron import Budgetron, data, evaluate, graphs
from budgetron.plots import COLOURS, as_svg, new_figure


def main(figure: str | None = None) -> None:
    pupils = data.load("chem97").shuffled(seed=0)
    stream = (data.standardized(pupils.X), pupils.y, pupils.tasks)
    schools = len(set(pupils.tasks.tolist()))
    print(f"{pupils.n:,} pupils of {schools:,} schools; always predicting no is wrong for {pupils.y.mean():.1%}\n")

    models = {
        "one model for all schools": Budgetron(graph=graphs.complete(coupling=float("inf"))),
        "one model per school": Budgetron(graph=graphs.disconnected()),
        "related models": Budgetron(),
        "the same in 64 KiB": Budgetron(budget="64 KiB"),
    }
    print(f"{'':28}{'wrong':>7}{'log loss':>10}{'calibration':>13}{'memory':>11}")
    results = {}
    for name, model in models.items():
        results[name] = result = evaluate.progressive(model, stream, window=2000, max_tasks=schools)
        assert result.calibration is not None
        print(
            f"{name:28}{result.overall.error:7.1%}{result.overall.log_loss:10.3f}{result.calibration.ece:13.1%}"
            f"{model.memory_bytes_ // 1024:7,} KiB"
        )

    best = results["related models"]
    print("\nThe schools with the clearest errors:")
    for school, row in best.worst_first()[:3]:
        print(f"  school {school}: {row.error:.0%} of {row.n} pupils wrong")
    belief, weight = max(models["related models"].beliefs_, key=lambda pair: pair[1])
    print(f"\nThe belief with the largest weight, {weight:.1f}: {belief}")
    if figure:
        draw(figure, results)


def draw(path: str, results: dict[str, evaluate.Validation]) -> None:
    """Draw the errors of the last 2,000 pupils, over time."""
    picture = new_figure("schools", 6, 3.4)
    ax = picture.subplots()
    for (name, result), colour in zip(results.items(), (COLOURS[3], COLOURS[2], COLOURS[0], COLOURS[1]), strict=True):
        points = [(point.position, 100 * point.window.error) for point in result.curve]
        ax.plot(*zip(*points, strict=True), color=colour, label=name)
    ax.set_xlabel("pupils")
    ax.set_ylabel("wrong in the last 2,000, %")
    ax.legend(frameon=False)
    with open(path, "w", encoding="utf-8") as file:
        file.write(as_svg(picture) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
