"""python benchmarks/accuracy/picture.py [--to docs/figures/error-against-bytes.svg]

Draw errors against bytes, ours and the peers', from the rows in `results` that `run.py` left. Each panel says whether
its rows come from a complete stream. The README and the front page show it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from budgetron.engine.memory import budget_of
from budgetron.plots import COLOURS, as_svg, new_figure

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "error-against-bytes.svg"
OURS = "Budgetron"
PANELS = {
    "sentiment": ("text", "Is a review positive?", "4 departments"),
    "spam": ("text", "Is a message spam?", "3 mailboxes"),
    "ijcnn1": ("dense-bytes", "Is an engine misfiring?", "ijcnn1"),
    "magic04": ("dense-bytes", "Gamma ray or not?", "magic04"),
}
"""Streams with several budgets: the item of `run.py`, and what a reader should know of them."""
LEGENDS = {"ijcnn1": ("upper right", 1.4), "magic04": ("lower left", 1.08)}
"""Where no line runs: the corner of the legend, and the top of the axis as a multiple of the largest error."""
SHORT = {
    "AdaGrad, hashed, crossed": "AdaGrad", "Vowpal Wabbit -q": "Vowpal Wabbit",
    "random features, diagonal filter": "random features", "version 0.1": "Budgetron 0.1",
}  # fmt: skip


def size(row: dict[str, Any]) -> int:
    """The budget of a row in bytes."""
    budget = row["budget"] if isinstance(row["budget"], int) else budget_of("picture", row["budget"]).bytes
    assert budget is not None
    return int(budget)


def points(rows: list[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Learner → (bytes, error %), sorted by bytes. The bytes of a peer are its budget, ours are what was allocated."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        points.setdefault(row["learner"], []).append((float(row.get("bytes", size(row))), row["error"]))
    return {name: sorted(each) for name, each in points.items() if len(each) > 1}


def fewest(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """The number of sizes at which Budgetron has the fewest errors, and the number of sizes."""
    ours = {size(row): row["error"] for row in rows if row["learner"] == OURS}
    best = {budget: min(row["error"] for row in rows if size(row) == budget) for budget in ours}
    return sum(ours[budget] <= best[budget] for budget in ours), len(ours)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--to", type=Path, default=FIGURE)
    arguments = parser.parse_args()
    read = {
        item: json.loads((arguments.results / f"{item}.json").read_text(encoding="utf-8"))
        for item in dict.fromkeys(item for item, _, _ in PANELS.values())
    }
    figure = new_figure("picture", 6.2, 6.8)  # narrow, so that it can be read on a phone
    won = sizes = 0
    for ax, (stream, (item, title, about)) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        rows = [row for row in read[item]["rows"] if row["stream"] == stream and row["budget"] is not None]
        rows_used = "first 3,000 rows" if read[item]["quick"] else "whole stream"
        draw(ax, points(rows), f"{title}\n{about}; {rows_used}", *LEGENDS.get(stream, ("upper right", 1.08)))
        won, sizes = won + fewest(rows)[0], sizes + fewest(rows)[1]
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)
    figure.suptitle(
        f"Errors of one pass, against memory. Lower is better.\nBudgetron has the fewest at {won} of {sizes} sizes.",
        fontsize=13,
    )
    arguments.to.write_text(as_svg(figure) + "\n", encoding="utf-8")
    print(f"Wrote {arguments.to}")


def draw(ax: Any, lines: dict[str, list[tuple[float, float]]], title: str, legend: str, top: float) -> None:
    others = [name for name in lines if name != OURS]
    for place, name in enumerate([*others, OURS]):
        ours = name == OURS
        colour = COLOURS[0] if ours else (COLOURS[2:6])[place % 4]
        xs, ys = zip(*lines.get(name, [(1, 0)]), strict=True)
        width, order = (3, 3) if ours else (1.3, 2)
        ax.plot(xs, ys, marker="o", markersize=6 if ours else 4, color=colour, linewidth=width, zorder=order,
                label=SHORT.get(name, name))  # fmt: skip
    ax.set_xscale("log", base=2)
    ticks = [2**k for k in range(14, 26, 3 if max(map(len, lines.values())) > 3 else 2)]
    low, high = ax.get_xlim()
    shown = [tick for tick in ticks if low <= tick <= high]
    ax.set_xticks(shown, [f"{t // 2**20} MiB" if t >= 2**20 else f"{t // 2**10} KiB" for t in shown])
    ax.minorticks_off()
    ax.set_ylim(0, top * max(error for each in lines.values() for _, error in each))
    ax.set_ylabel("error, %")
    ax.tick_params(labelsize=11)
    ax.yaxis.label.set_size(11)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(title, loc="left", fontsize=11)
    drawn = ax.legend(fontsize=10, frameon=False, reverse=True, loc=legend, borderaxespad=0.1)
    drawn.get_texts()[0].set_fontweight("bold")  # ours


if __name__ == "__main__":
    main()
