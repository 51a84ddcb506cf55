"""Compare two ways to ask for labels, by `should_ask` and at random: errors against the number of labels.

    python benchmarks/accuracy/asking.py [--orders 5] [--docs docs/how-to/training/asking.md]

A `Budgetron` predicts every example, and learns only those whose label was asked for. Random asking gets as many labels
as `should_ask`, and the same first 50. The sets are Spam and Sentiment (in BUDGETRON_DATA) and Chem97, in seeded
orders. With --docs, the script replaces the table and the picture of that page.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from streams import Stream, in_order, project_set

from budgetron import Budgetron
from budgetron.learners.asking import FIRST_LABELS

SETS = {"spam": "Spam A", "sentiment": "Sentiment", "chem97": "Chem97"}
SHARES = (0.03, 0.1, 0.3)
BEGIN, END = "<!-- written by benchmarks/accuracy/asking.py -->", "<!-- end -->"


def errors_and_labels(stream: Stream, share: float, chosen: NDArray[np.bool_] | None = None) -> tuple[float, int]:
    """Return the share of wrong predictions and the number of learned labels.

    The model learns the labels in `chosen` or, if that is None, those that `should_ask` requests.
    """
    model, wrong, asked = Budgetron(), 0, 0
    assert stream.tasks is not None
    for i in range(len(stream.y)):
        x, task, label = stream.X[i : i + 1], [stream.tasks[i]], int(stream.y[i])
        is_fitted = asked > 0
        wrong += (model.decision_function(x, tasks=task)[0] > 0) != label if is_fitted else label != 0
        if chosen is None:
            row = x if hasattr(x, "indptr") else x[0]
            wanted = model.should_ask(row, task=task[0] if is_fitted else None, share=share)
        else:
            wanted = bool(chosen[i])
        if wanted:
            asked += 1
            model.partial_fit(x, [label], tasks=task, classes=[0, 1])
    return wrong / len(stream.y), asked


def both_ways(stream: Stream, share: float, seed: int) -> list[float]:
    """Return the errors of random asking and of `should_ask`, and the share of labels, which is the same for both."""
    asked, labels = errors_and_labels(stream, share)
    chosen = np.zeros(len(stream.y), dtype=bool)
    others = np.random.default_rng(1000 + seed).permutation(np.arange(FIRST_LABELS, len(chosen)))
    chosen[[*range(FIRST_LABELS), *others[: labels - FIRST_LABELS]]] = True
    return [errors_and_labels(stream, share, chosen)[0], asked, labels / len(stream.y)]


Curve = dict[float, tuple[float, float, float, float]]


def measured(name: str, orders: int) -> Curve:
    """Share → errors of random asking and of `should_ask`, the share of labels of both, and a standard error.

    The first three are means over the orders. The last is the standard error of the difference in errors.
    """
    curve: Curve = {}
    for share in SHARES:
        streams = [in_order(project_set(name), seed) for seed in range(orders)]
        errors = np.array([both_ways(stream, share, seed) for seed, stream in enumerate(streams)])
        chance, asked, labels = errors.mean(axis=0).tolist()
        differences = errors[:, 1] - errors[:, 0]  # paired by order: an order may be hard for both ways
        error = float(differences.std(ddof=1) / np.sqrt(orders)) if orders > 1 else np.nan
        curve[share] = chance, asked, labels, error
        change = f"{asked / chance - 1:+.1%} ± {error / chance:.1%}"
        print(f"{SETS[name]:10} {labels:6.1%}: random {chance:.2%}, asked {asked:.2%} ({change})", flush=True)
    return curve


def table(curves: dict[str, Curve], orders: int) -> str:
    """The table of the page."""
    head = f"Means of {orders} orders: the share of labels that were learned, and the error of all predictions."
    lines = [head, "The last column is the change in errors, with its standard error over the orders.", ""]
    lines += ["| set | labels | random | `should_ask` | errors |", "|---|---|---|---|---|"]
    for name, curve in curves.items():
        for chance, asked, labels, error in curve.values():
            change = f"{asked / chance - 1:+.1%}".replace("-", "−") + f" ± {error / chance:.1%}"
            line = f"| {SETS[name]} | {labels:.1%} | {chance:.2%} | {asked:.2%} | {change} |"
            lines.append(line.replace("%", " %"))
    return "\n".join(lines)


def draw(curves: dict[str, Curve], path: Path) -> None:
    """The picture of the page: errors against labels."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(curves), figsize=(10, 3.2), layout="constrained")
    for ax, (name, curve) in zip(np.atleast_1d(axes), curves.items(), strict=True):
        for way, (label, colour) in enumerate((("random", "#888888"), ("asked for", "#0b5cad"))):
            labels, errors = ([100 * row[column] for row in curve.values()] for column in (2, way))
            ax.plot(labels, errors, "o-", color=colour, label=label)
        ax.set(title=SETS[name], xlabel="labels, % of all", xscale="log")
        ax.set_xticks([3, 10, 30], labels=["3", "10", "30"])
        ax.minorticks_off()
        ax.set_ylim(bottom=0 if name == "spam" else None)
    np.atleast_1d(axes)[0].set_ylabel("errors, % of all predictions")
    np.atleast_1d(axes)[0].legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--docs", type=Path)
    arguments = parser.parse_args()
    curves = {name: measured(name, arguments.orders) for name in SETS}
    if arguments.docs is not None:
        draw(curves, arguments.docs.parents[2] / "figures" / "asking.png")
        text = arguments.docs.read_text(encoding="utf-8")
        new = f"{BEGIN}\n{table(curves, arguments.orders)}\n{END}"
        arguments.docs.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: new, text, flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main()
