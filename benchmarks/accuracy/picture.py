"""Draw the picture of the README and the front page: errors of Budgetron and of other learners against their memory.

    python benchmarks/accuracy/picture.py [--to docs/figures/error-against-bytes.svg]

There is one panel per stream. The script measures nothing: it reads the results that `run.py` has recorded in
`results`, and the table that `make demo` prints and the README shows.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgetron.engine.memory import budget_of
from budgetron.plots import COLOURS, as_svg, new_figure

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FIGURE = ROOT / "docs" / "figures" / "error-against-bytes.svg"
OURS = "Budgetron"
ITEMS = ("text", "dense-bytes", "many-tasks", "classic")
"""The items of `run.py` whose results are read."""
PANELS = {
    "sentiment": ("text", "Is a review positive?", "4 departments"),
    "spam": ("text", "Is a message spam?", "3 mailboxes"),
    "chem97": ("many-tasks", "Is a student's grade good?", "2,410 schools"),
    "ijcnn1": ("dense-bytes", "Is an engine misfiring?", "no tasks (ijcnn1)"),
    "magic04": ("dense-bytes", "Gamma ray or not?", "no tasks (magic04)"),
}
"""Streams with several budgets: the item of `run.py`, the question that is learned, and the tasks."""
NAMES = {
    OURS: OURS,
    "version 0.1": "Budgetron 0.1",
    "AdaGrad, hashed, crossed": "AdaGrad",
    "Vowpal Wabbit -q": "Vowpal Wabbit",
    "random features, diagonal filter": "Fourier features",
    "FOGD": "FOGD",
    "NOGD": "NOGD",
    "Ahpatron": "Ahpatron",
    "SharedProjectron": "SharedProjectron",
}
"""Learners in the results and in the README's table → their names in the legend, in the order of the legend."""
DASHED = ("#8c510a", "#000000")  # brown and black, dashed because they are close to colours of the palette
LEARNER_COLOURS = dict(zip(NAMES.values(), (*COLOURS, *DASHED), strict=True))
"""One colour per learner, the same in all panels."""


@dataclass(frozen=True)
class Measurement:
    """The error of one learner on one stream within one budget."""

    learner: str
    budget: int | None
    bytes: float
    error: float  # in percent


def measured(rows: list[dict[str, Any]], stream: str) -> Iterator[Measurement]:
    """The rows of one stream that have a budget in bytes, for the learners of the legend.

    Where the results do not say how many bytes were allocated, the budget is taken as the memory.
    """
    for row in rows:
        if row["stream"] == stream and row["budget"] is not None and row["learner"] in NAMES:
            budget = _bytes(row["budget"])
            yield Measurement(row["learner"], budget, float(row.get("bytes", budget)), row["error"])


def other_learners_on_chem97(classic: list[dict[str, Any]]) -> Iterator[Measurement]:
    """Version 0.1 from the item `classic`; SharedProjectron from the README's table of `make demo`."""
    for row in classic:
        if row["stream"] == "chem97" and row["learner"] == "version 0.1":
            yield Measurement(row["learner"], None, float(row["bytes"]), row["error"])
    table = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^  SharedProjectron +([\d.]+) .* ([\d.]+ [KM]iB) ", table, re.MULTILINE)
    assert len(lines) == 2, "the README's table has SharedProjectron with two budgets"
    for (error, size), budget in zip(lines, (None, _bytes("64 KiB")), strict=True):
        yield Measurement("SharedProjectron", budget, float(_bytes(size)), float(error))


def _bytes(size: int | str) -> int:
    count = size if isinstance(size, int) else budget_of("picture", size).bytes
    assert count is not None
    return count


def budgets_won(rows: list[Measurement]) -> tuple[int, int]:
    """At how many budgets Budgetron is the best learner, and at how many it can be compared with another one."""
    ours = {row.budget: row.error for row in rows if row.learner == OURS}
    others: dict[int | None, float] = {}
    for row in rows:
        if row.learner != OURS and row.budget in ours:
            others[row.budget] = min(row.error, others.get(row.budget, row.error))
    return sum(ours[budget] <= error for budget, error in others.items()), len(others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--to", type=Path, default=FIGURE)
    arguments = parser.parse_args()
    results = {item: json.loads((arguments.results / f"{item}.json").read_text(encoding="utf-8")) for item in ITEMS}
    figure = new_figure("picture", 6.2, 9.6)  # narrow, so that it can be read on a phone
    panels = list(figure.subplots(3, 2).flat)
    won = compared = 0
    for ax, (stream, (item, question, about)) in zip(panels[:-1], PANELS.items(), strict=True):
        rows = list(measured(results[item]["rows"], stream))
        if stream == "chem97":
            rows += other_learners_on_chem97(results["classic"]["rows"])
        draw(ax, rows, f"{question}\n{about}" + ("; first 3,000 rows" if results[item]["quick"] else ""))
        here, of = budgets_won(rows)
        won, compared = won + here, compared + of
    draw_legend(panels[-1])
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)
    figure.suptitle(
        "Errors in one pass against memory. Lower is better.\n"
        f"Budgetron has the fewest in {won} of {compared} comparisons\nwithin the same budget.",
        fontsize=13,
    )
    arguments.to.write_text(as_svg(figure) + "\n", encoding="utf-8")
    print(f"Wrote {arguments.to}")


def draw(ax: Any, rows: list[Measurement], title: str) -> None:
    """Draw one panel: a line per learner, or a single point where a learner was measured once."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        curves.setdefault(NAMES[row.learner], []).append((row.bytes, row.error))
    for name, points in curves.items():
        bytes_used, errors = zip(*sorted(points), strict=True)
        style = _style(name)
        if len(points) == 1:
            style["zorder"] = 4  # a line would hide a single point
        ax.plot(bytes_used, errors, **style)
    ax.set_xscale("log", base=2)
    low, high = ax.get_xlim()
    ticks = [2**power for power in range(14, 26, 3 if high / low > 2**7 else 2)]
    shown = [tick for tick in ticks if low <= tick <= high]
    ax.set_xticks(shown, [f"{t // 2**20} MiB" if t >= 2**20 else f"{t // 2**10} KiB" for t in shown])
    ax.minorticks_off()
    ax.set_ylim(0, 1.08 * max(row.error for row in rows))
    ax.set_ylabel("error, %")
    ax.set_xlabel("memory of the model (log scale)", fontsize=10)
    ax.tick_params(labelsize=11)
    ax.yaxis.label.set_size(11)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(title, loc="left", fontsize=11)


def draw_legend(ax: Any) -> None:
    """Fill the last cell with the legend of all panels."""
    ax.axis("off")
    for name in LEARNER_COLOURS:
        ax.plot([], [], label=name, **_style(name))
    legend = ax.legend(fontsize=11, frameon=False, loc="center left", borderaxespad=0.0)
    legend.get_texts()[0].set_fontweight("bold")  # Budgetron


def _style(name: str) -> dict[str, Any]:
    ours = name == OURS
    width, marker, order = (3, 6, 3) if ours else (1.3, 4, 2)
    dashes = "--" if LEARNER_COLOURS[name] in DASHED else "-"
    return {
        "color": LEARNER_COLOURS[name], "linewidth": width, "linestyle": dashes,
        "marker": "o", "markersize": marker, "zorder": order,
    }  # fmt: skip


if __name__ == "__main__":
    main()
