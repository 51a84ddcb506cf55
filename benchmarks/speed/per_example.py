"""Measure the µs per example of every learner except Perceptron against the number of tasks, B, and bytes.

    python benchmarks/speed/per_example.py [--draw] [--to docs/figures/time-per-example.svg]
    python benchmarks/speed/per_example.py --quick --numbers trial.json --to trial.svg

The numbers are written to per_example.json beside this file, and drawn; --draw only draws that file. docs/speed.md
shows the picture.

All learners get the same stream: d = 28, related tasks, a tenth of the labels flipped. The kernel is
Gaussian with γ = 0.02; `Budgetron` has its default kernel, and the linear learners have none. Budgets are full before
the measurement, except 2 MiB: about 5,000 examples fit into it, and most learners that evict or merge examples
have stored 2,000 to 4,700 by then. Learners take turns, block by block; a point is the median of the thread's processor
time over the turns.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import blas_one_thread  # noqa: F401  before NumPy is imported
import numpy as np
from measure import seconds
from streams import ModelOnStream, noisy

from budgetron import kernels
from budgetron.engine.memory import budget_of
from budgetron.learners.registry import learner_class, learner_names
from budgetron.plots import COLOURS, as_svg, new_figure

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "time-per-example.svg"
BLOCK, TURNS, TASKS, BUDGET = 250, 5, 8, 200
AXES: dict[str, tuple[Any, ...]] = {
    "tasks": (4, 100, 1000, 10_000),
    "B": (50, 200, 1000),
    "bytes": ("64 KiB", "256 KiB", "2 MiB"),
}
TITLES = {"tasks": f"tasks, B = {BUDGET}", "B": f"B, stored examples, {TASKS} tasks", "bytes": f"bytes, {TASKS} tasks"}
UNBOUNDED = ("Perceptron",)  # left out: it stores every mistake, so its time grows with the stream
LINEAR = ("LinearPerceptron", "RelationPerceptron")  # they store weights, not examples, and take no budget
MAX_TASKS = {"RelationPerceptron": 100}  # its matrix over all pairs of tasks makes it slow with many tasks


def candidates() -> dict[str, Any]:
    """Every learner but the Perceptron, with the published presets of BudgetSgd, by the name that the picture shows."""
    learners: dict[str, Any] = {name: learner_class(name) for name in learner_names() if name not in UNBOUNDED}
    sgd = learners.pop("BudgetSgd")
    return learners | {
        preset: lambda preset=preset, **parameters: sgd.preset(preset, **parameters) for preset in sgd.presets
    }


def model_of(name: str, make: Any, axis: str, value: Any) -> Any | None:
    """The model of a point; None where the learner has no such setting, or would be too slow."""
    if name in LINEAR:
        if axis != "tasks" or (name in MAX_TASKS and value > MAX_TASKS[name]):
            return None
        return make()
    budget = BUDGET if axis == "tasks" else value
    parameters = {} if name == "Budgetron" else {"kernel": kernels.Gaussian(gamma=0.02)}
    return make(budget=budget, **parameters)


def point(axis: str, value: Any, quick: bool) -> dict[str, float]:
    """Microseconds per example by learner."""
    stored = {"tasks": BUDGET, "B": value, "bytes": 1000}[axis]
    warm = (4 if quick else 6) * stored // BLOCK + 4
    turns = 2 if quick else TURNS
    stream = noisy((warm + turns) * BLOCK, n_tasks=value if axis == "tasks" else TASKS)
    runners = {}
    for name, make in candidates().items():
        model = model_of(name, make, axis, value)
        if model is None:
            continue
        runners[name] = ModelOnStream(model, stream, BLOCK)
        for _ in range(warm):
            runners[name].learn()
    times = np.array([[seconds(runner.learn) for runner in runners.values()] for _ in range(turns)]) / BLOCK * 1e6
    return dict(zip(runners, np.median(times, axis=0).round(3).tolist(), strict=True))


def measured(quick: bool) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for axis, values in AXES.items():
        for value in values[:2] if quick else values:
            results.setdefault(axis, {})[str(value)] = point(axis, value, quick)
            print(axis, value, results[axis][str(value)], flush=True)
    return results


def position(axis: str, value: str) -> float:
    """Where a value is on the x axis."""
    return float(budget_of("per_example", value).bytes or 0) if axis == "bytes" else float(value)


def spread_out(heights: list[float], gap: float) -> list[float]:
    """Heights of labels, in ascending order, moved so that neighbours are at least `gap` apart."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    shift = float(np.mean(placed)) - float(np.mean(heights))
    return [height - shift for height in placed]


def picture(results: dict[str, Any]) -> Any:
    names = sorted({name for points in results.values() for times in points.values() for name in times})
    style = {
        name: (COLOURS[i % len(COLOURS)], ("-", "--", ":", "-.")[i // len(COLOURS)]) for i, name in enumerate(names)
    }
    figure = new_figure("per_example", 15, 7.5)
    panels = figure.subplots(1, len(results), sharey=True)
    for panel, (axis, points) in zip(panels, results.items(), strict=True):
        ends = []
        for name in names:
            curve = [(position(axis, value), times[name]) for value, times in points.items() if name in times]
            if not curve:
                continue
            colour, line = style[name]
            panel.plot(*zip(*curve, strict=True), color=colour, linestyle=line, marker="o", markersize=3, linewidth=1.3)
            ends.append((np.log10(curve[-1][1]), curve[-1][0], name))
        ends.sort()
        right = max(x for _, x, _ in ends)
        for height, (y, x, name) in zip(spread_out([end[0] for end in ends], 0.08), ends, strict=True):
            panel.annotate(
                name, (x, 10**y), (right * 1.5, 10**height), color=style[name][0], fontsize=8, va="center",
                arrowprops={"arrowstyle": "-", "color": style[name][0], "linewidth": 0.4, "shrinkA": 0, "shrinkB": 2},
            )  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel=TITLES[axis])
        low = min(position(axis, value) for value in points)
        panel.set_xlim(low / 1.3, right * (right / low) ** 0.75)
        ticks = list(points)
        panel.set_xticks(
            [position(axis, value) for value in ticks], [f"{int(v):,}" if v.isdigit() else v for v in ticks]
        )
        panel.minorticks_off()
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", alpha=0.25)
    panels[0].set_ylabel("µs per example")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a trial with fewer points; needs --numbers and --to")
    parser.add_argument("--draw", action="store_true", help="draw the numbers of the last run")
    parser.add_argument("--numbers", type=Path, default=HERE / "per_example.json")
    parser.add_argument("--to", type=Path, default=FIGURE)
    arguments = parser.parse_args()
    if arguments.quick and (arguments.numbers == HERE / "per_example.json" or arguments.to == FIGURE):
        parser.error("--quick would replace the published numbers; name other files with --numbers and --to")
    if not arguments.draw:
        arguments.numbers.write_text(json.dumps(measured(arguments.quick), indent=1) + "\n", encoding="utf-8")
    arguments.to.write_text(
        as_svg(picture(json.loads(arguments.numbers.read_text(encoding="utf-8")))), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
