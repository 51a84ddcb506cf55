"""Plot F against the budget, one panel per block of the table. Lines are our runs, circles the printed values."""

from __future__ import annotations

from typing import Any

from budgetron.experiments.algorithms import BASELINE
from budgetron.experiments.blocks import TableBlock
from budgetron.experiments.printed import GRAPHS, SHARES
from budgetron.experiments.table import ROWS, Table
from budgetron.plots import COLOURS, as_svg, new_figure

# Budgets are spaced evenly: 5, 10 and 25 % would crowd the left side of a linear axis.
_POSITION = {share: position for position, share in enumerate(sorted(SHARES))}


def f_against_budget(table: Table) -> str:
    """Return the figure as SVG."""
    return as_svg(draw_f_against_budget(table))


def draw_f_against_budget(table: Table) -> Any:
    """Return the figure; solid lines are the complete graph, dashed ones the disconnected graph."""
    figure = new_figure("reproduce", 3.4 * max(len(table.blocks), 1), 3.9)
    axes = figure.subplots(1, max(len(table.blocks), 1), squeeze=False)[0]
    for ax, block in zip(axes, table.blocks, strict=False):
        _draw_block(ax, table, block)
    names = {label: line for ax in axes for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(names.values(), names.keys(), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def _draw_block(ax: Any, table: Table, block: TableBlock) -> None:
    """Draw the panel of one block."""
    for name in table.rows(block):
        colour = COLOURS[ROWS.index(name) % len(COLOURS)]
        for graph in GRAPHS:
            cells = {share: table.estimate((block.name, name, graph, share)) for share in sorted(SHARES)}
            run = {share: cell.mean for share, cell in cells.items() if cell is not None}
            style = "-" if graph == "C" else "--"
            positions = [_POSITION[share] for share in run]
            ax.plot(positions, list(run.values()), style, color=colour, label=f"{name}, {graph}")
            if block.in_paper:
                printed = {share: table.printed((block.name, name, graph, share)) for share in run}
                known = [(_POSITION[share], value) for share, value in printed.items() if value is not None]
                if known:
                    ax.plot(*zip(*known, strict=True), "o", markersize=4, markerfacecolor="white", color=colour)
    baseline = table.estimate((block.name, BASELINE, "D", None))
    if baseline is not None:
        ax.axhline(baseline.mean, color="0.3", linestyle=":", label="k Perceptrons, unlimited")
    ax.set_title(block.title, fontsize=10, loc="left")
    ax.set_xticks(list(_POSITION.values()), [f"{share} %" for share in _POSITION])
    ax.set_xlabel("budget, as a share of what k Perceptrons store", fontsize=8)
    ax.set_ylabel("F, %")
    ax.tick_params(labelsize=8)
