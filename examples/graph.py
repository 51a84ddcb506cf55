"""Use a task graph: 24 weather stations along a river, each similar to its neighbours.

Each station is a task. An edge joins each station to the next one, and a tributary joins the river at station 8. The
labels are generated from that graph (budgetron.data.synthetic), so the graph is known to be right. The program compares
the learner with this graph, without a graph, with all stations equally related, and with a shuffled river.

    python examples/graph.py [FIGURE.svg]        (the figure needs the extra `plot`)
"""

from __future__ import annotations

import random
import sys
from itertools import pairwise

from budgetron import BudgetProjectron, evaluate, graphs, kernels
from budgetron.data import synthetic
from budgetron.plots import COLOURS, as_svg, new_figure

RIVER = [f"river {km:02}" for km in range(16)]
STREAM = [f"stream {km:02}" for km in range(8)]
EDGES = [*pairwise(RIVER), *pairwise(STREAM), (STREAM[-1], RIVER[8])]
STRENGTH = 8.0  # weight of an edge: how strongly neighbours are coupled


def shuffled(edges: list[tuple[str, str]], seed: int) -> list[tuple[str, str]]:
    """Return the same graph with permuted names."""
    names = [*RIVER, *STREAM]
    other = dict(zip(names, random.Random(seed).sample(names, len(names)), strict=True))
    return [(other[a], other[b]) for a, b in edges]


def main(figure: str | None = None) -> None:
    river = graphs.from_edges(EDGES, weights=[STRENGTH] * len(EDGES))
    stream, _ = synthetic.stream(4000, d=60, graph=river, noise=0.05, seed=3)
    print(f"{stream.n:,} readings of {len(river.tasks)} stations on a river with a tributary\n")

    first, second, far = RIVER[0], RIVER[1], STREAM[0]
    scale = river.similarity(first, first) ** 0.5
    for other in (second, RIVER[4], far):
        alike = river.similarity(first, other) / scale / river.similarity(other, other) ** 0.5
        print(f"how alike {first!r} and {other!r} are: {alike:.2f}")

    wrong_graph = graphs.from_edges(shuffled(EDGES, seed=1), weights=[STRENGTH] * len(EDGES))
    choices = {
        "no graph: each alone": graphs.disconnected(),
        "all stations alike": graphs.complete(coupling=4.0),
        "one model for all": graphs.complete(coupling=float("inf")),
        "a river, names shuffled": wrong_graph,
        "the river": river,
    }
    print(f"\n{'BudgetProjectron(300)':26}{'wrong':>7}{'last 1,000':>12}")
    last_errors = {}
    for name, graph in choices.items():
        model = BudgetProjectron(budget=300, kernel=kernels.Linear(), graph=graph)
        result = evaluate.progressive(model, stream, window=1000)
        last_errors[name] = 100 * result.curve[-1].window.error
        print(f"{name:26}{result.overall.error:7.1%}{result.curve[-1].window.error:12.1%}")
    if figure:
        draw(figure, last_errors)


def draw(path: str, last_errors: dict[str, float]) -> None:
    """Draw the stations with the graph, and the errors in the last 1,000 readings with each choice of a graph."""
    picture = new_figure("graph", 7, 3.2)
    river, bars = picture.subplots(1, 2, width_ratios=(1, 1.3))
    places = {name: (0.0, -km) for km, name in enumerate(RIVER)}
    places |= {name: (8.0 - km, km - 16.0) for km, name in enumerate(STREAM)}
    for a, b in EDGES:
        river.plot(*zip(places[a], places[b], strict=True), color=COLOURS[1], zorder=1)
    river.scatter(*zip(*places.values(), strict=True), color=COLOURS[0], s=22, zorder=2)
    river.set_axis_off()
    river.set_title("24 stations", fontsize=10)
    colours = [COLOURS[0] if name == "the river" else COLOURS[3] for name in last_errors]
    bars.barh(list(last_errors), list(last_errors.values()), color=colours)
    bars.invert_yaxis()
    bars.set_xlabel("wrong in the last 1,000, %")
    with open(path, "w", encoding="utf-8") as file:
        file.write(as_svg(picture) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
