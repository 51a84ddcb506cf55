"""F against budget, one panel a block: lines are ours (C solid, D dashed), circles are printed."""

from __future__ import annotations

from budgetron.charts import COLOURS, Line, Panel, line_chart
from budgetron.experiments.algorithms import BASELINE
from budgetron.experiments.blocks import TableBlock
from budgetron.experiments.printed import GRAPHS, SHARES
from budgetron.experiments.table import ROWS, Table

_PLACE = {share: float(place) for place, share in enumerate(sorted(SHARES))}


def f_against_budget(table: Table) -> str:
    """The figure as SVG."""
    return line_chart([_panel(table, block) for block in table.blocks], "F-measure against budget")


def _panel(table: Table, block: TableBlock) -> Panel:
    lines = [_line(table, block, name, graph) for name in table.rows(block) for graph in GRAPHS]
    baseline = table.estimate((block.name, BASELINE, "D", None))
    if baseline is not None:
        ends = [min(_PLACE.values()), max(_PLACE.values())]
        lines.append(Line("k Perceptrons, unlimited", ends, [baseline.mean] * 2, colour="#444444", dashed=True))
    return Panel(
        title=block.title,
        lines=lines,
        x_labels=[(place, f"{share} %") for share, place in _PLACE.items()],
        x_title="budget, of what k Perceptrons store",
        y_title="F, %",
    )


def _line(table: Table, block: TableBlock, name: str, graph: str) -> Line:
    cells = {share: table.estimate((block.name, name, graph, share)) for share in sorted(SHARES)}
    run = {share: cell for share, cell in cells.items() if cell is not None}
    shown = [
        (_PLACE[share], value) for share in run if (value := table.printed((block.name, name, graph, share)))
    ]
    return Line(
        name=f"{name}, {graph}",
        x=[_PLACE[share] for share in run],
        y=[cell.mean for cell in run.values()],
        colour=COLOURS[ROWS.index(name) % len(COLOURS)],
        dashed=graph == "D",
        circles=shown if block.in_paper else (),
    )
