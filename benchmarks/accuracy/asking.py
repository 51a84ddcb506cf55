"""Errors against labels: asking for the labels that `should_ask` wants, or for a random share of them.

    python benchmarks/accuracy/asking.py [--orders 3] [--docs docs/how-to/asking.md]

Every example is predicted by a `Budgetron`; it learns those whose label was asked for. Both ways learn the first 20.
The sets are Spam and Sentiment (in BUDGETRON_DATA) and Chem97, in seeded orders. With --docs the table and the picture
of the page are replaced.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
from streams import Stream, in_order, project_set

from budgetron import Budgetron
from budgetron.learners.asking import FIRST_LABELS

SETS = {"spam": "Spam A", "sentiment": "Sentiment", "chem97": "Chem97"}
SHARES = (0.02, 0.05, 0.1, 0.2, 0.5)
BEGIN, END = "<!-- written by benchmarks/accuracy/asking.py -->", "<!-- end -->"


def errors_and_labels(stream: Stream, share: float, seed: int, by_chance: bool) -> tuple[float, float]:
    """The share of wrong predictions, and of labels that were learned."""
    rng, model = np.random.default_rng(seed), Budgetron()
    wrong = asked = 0
    assert stream.tasks is not None
    for place in range(len(stream.y)):
        x, task, label = stream.X[place : place + 1], [stream.tasks[place]], int(stream.y[place])
        begun = asked > 0
        wrong += (model.decision_function(x, tasks=task)[0] > 0) != label if begun else label != 0
        if by_chance:
            wanted = rng.random() < share or asked < FIRST_LABELS
        else:
            row = x if hasattr(x, "indptr") else x[0]
            wanted = model.should_ask(row, task=task[0] if begun else None, share=share)
        if wanted:
            asked += 1
            model.partial_fit(x, [label], tasks=task, classes=[0, 1])
    return wrong / len(stream.y), asked / len(stream.y)


Curve = dict[float, tuple[tuple[float, float], tuple[float, float]]]


def measured(name: str, orders: int) -> Curve:
    """Share → errors and labels of random asking, and of `should_ask`; means over the orders."""
    curve: Curve = {}
    for share in SHARES:
        streams = [in_order(project_set(name), seed) for seed in range(orders)]
        found = [
            np.mean([errors_and_labels(one, share, seed, by_chance) for seed, one in enumerate(streams)], axis=0)
            for by_chance in (True, False)
        ]
        (chance, asked) = ((float(pair[0]), float(pair[1])) for pair in found)
        curve[share] = chance, asked
        print(f"{SETS[name]:10} {share:5.0%}: random {chance[0]:.2%} of {chance[1]:.1%}, "
              f"asked {asked[0]:.2%} of {asked[1]:.1%} ({asked[0] / chance[0] - 1:+.0%})", flush=True)  # fmt: skip
    return curve


def table(curves: dict[str, Curve], orders: int) -> str:
    """The table of the page."""
    lines = [f"Means of {orders} orders; error of all predictions, and the share of labels that were learned.", ""]
    lines += ["| set | share | random | asked | errors |", "|---|---|---|---|---|"]
    for name, curve in curves.items():
        for share, ((chance, n_chance), (asked, n_asked)) in curve.items():
            change = f"{asked / chance - 1:+.0%}".replace("-", "−")
            figures = f"{chance:.2%} ({n_chance:.1%}) | {asked:.2%} ({n_asked:.1%})"
            lines.append(f"| {SETS[name]} | {share:.0%} | {figures} | {change} |".replace("%", " %"))
    return "\n".join(lines)


def draw(curves: dict[str, Curve], path: Path) -> None:
    """The picture of the page: errors against labels."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(curves), figsize=(10, 3.2), layout="constrained")
    for ax, (name, curve) in zip(np.atleast_1d(axes), curves.items(), strict=True):
        for place, (label, colour) in enumerate((("random", "#888888"), ("asked for", "#0b5cad"))):
            points = [pair[place] for pair in curve.values()]
            ax.plot([100 * n for _, n in points], [100 * e for e, _ in points], "o-", color=colour, label=label)
        ax.set(title=SETS[name], xlabel="labels, % of all", xscale="log")
        ax.set_ylim(bottom=0 if name == "spam" else None)
    np.atleast_1d(axes)[0].set_ylabel("errors, % of all predictions")
    np.atleast_1d(axes)[0].legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--docs", type=Path)
    given = parser.parse_args()
    curves = {name: measured(name, given.orders) for name in SETS}
    if given.docs is not None:
        draw(curves, given.docs.parent.parent / "figures" / "asking.png")
        text = given.docs.read_text(encoding="utf-8")
        new = f"{BEGIN}\n{table(curves, given.orders)}\n{END}"
        given.docs.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: new, text, flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main()
