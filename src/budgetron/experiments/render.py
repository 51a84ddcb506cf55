"""Render the table in the terminal, as Markdown and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from budgetron.experiments.algorithms import BASELINE, BUDGETRON_SAME_BYTES, BUDGETRON_SAME_EXAMPLES, SAME_BYTES_AS
from budgetron.experiments.blocks import TableBlock
from budgetron.experiments.findings import NOISE, Finding
from budgetron.experiments.printed import COLUMNS
from budgetron.experiments.table import Key, Table

FIGURE = "f-against-budget.svg"
_HEADS = [f"{graph} {share} %" for graph, share in COLUMNS]
_HOW_TO_READ = (
    "F-measure in per cent: mean ± standard error over the orders, then in brackets the printed value and "
    "our value minus it. C is the complete task graph, D the disconnected one. The percentage in the head of a column "
    "is the budget B, as a share of the number of examples that k Perceptrons (one per task, without a limit) store."
)
_ROW_NOTES = {
    BUDGETRON_SAME_BYTES: f"is limited to the bytes that {SAME_BYTES_AS} takes in the same cell",
    BUDGETRON_SAME_EXAMPLES: "is from version 0.1: it stores B examples, and uses only the parts of its model that use "
    "the kernel",
}


def markdown(table: Table, findings: Sequence[Finding], heading: str = "##", figure: str = FIGURE) -> str:
    """Render the table and the findings as Markdown, with a link to the figure."""
    lines = [f"{table.n_orders} orders, version {', '.join(sorted(table.versions))}. {_how_to_read(table)}", ""]
    for block in table.blocks:
        lines += [f"{heading} {block.title}, {block.formula}", "", _baseline(table, block), ""]
        lines += [*_rows(table, block, "F", "f_measure"), ""]
        lines += [*_rows(table, block, "error rate, %", "error"), ""]
    lines += [f"![F against budget]({figure})", ""]
    if findings:
        lines += [f"{heading} Expected, and found", "", _about_checks(table), ""]
        for finding in findings:
            lines.append(f"- **{'yes' if finding.holds else 'no'}**: {finding.expected}. Found: {finding.found}.")
            lines += [f"    - {exception}" for exception in finding.exceptions]
    return "\n".join(lines).rstrip() + "\n"


def html(table: Table, findings: Sequence[Finding], figure: str) -> str:
    """Render one self-contained HTML page; `figure` is SVG text."""
    body = [f"<h1>Table 1</h1><p>{escape(_how_to_read(table))} {table.n_orders} orders.</p>", figure]
    for block in table.blocks:
        body.append(
            f"<h2>{escape(block.title)}, {escape(block.formula)}</h2><p>{escape(_baseline(table, block))}</p>"
        )
        body += [
            _html_rows(table, block, "F", "f_measure"),
            _html_rows(table, block, "error rate, %", "error"),
        ]
    if findings:
        body.append(f"<p>{escape(_about_checks(table))}</p>")
    for finding in findings:
        exceptions = "".join(f"<li>{escape(exception)}</li>" for exception in finding.exceptions)
        verdict = "yes" if finding.holds else "no"
        body.append(
            f"<p><b>{verdict}</b>: {escape(finding.expected)}. Found: {escape(finding.found)}.</p><ul>{exceptions}</ul>"
        )
    style = (
        "body{font:15px system-ui,sans-serif;max-width:80em;margin:2em auto;padding:0 1em;color:#222}"
        "table{border-collapse:collapse;margin:1em 0}td,th{padding:.35em .8em;border-bottom:1px solid #ddd;"
        "text-align:right}td:first-child,th:first-child{text-align:left}small{color:#666;display:block}"
        "svg{max-width:100%;height:auto}"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Budgetron: Table 1</title>'
        f"<style>{style}</style><body>{''.join(body)}</body></html>\n"
    )


def terminal(table: Table, findings: Sequence[Finding]) -> Any:
    """Render for the terminal, with rich."""
    from rich.box import SIMPLE
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    legend = (
        "Each cell: F in %; the printed F, and ours minus it; the error in %. C: complete graph, D: disconnected. "
        "25 %: the budget B, as a share of what k Perceptrons (one per task, without a limit) store."
    )
    parts: list[Any] = [Text(" ".join([legend, *_row_notes(table)]) + "\n")]
    for block in table.blocks:
        grid = RichTable(
            title=f"{block.title}, {block.formula}",
            caption=_baseline(table, block),
            box=SIMPLE,
            padding=(0, 0, 0, 1),
            title_justify="left",
            caption_justify="left",
        )
        grid.add_column("algorithm")
        for head in _HEADS:
            grid.add_column(head, justify="right")
        for name in table.rows(block):
            cells = []
            for column in COLUMNS:
                key = (block.name, name, *column)
                f, wrong = table.estimate(key), table.estimate(key, "error")
                # Three lines per cell: our F, the printed value with the difference, and the error rate.
                text = Text(str(f) if f is not None else "–")
                text.append(f"\n{_printed_and_difference(table, key, bare=True)}", style="cyan")
                text.append(f"\nerr {'–' if wrong is None else f'{wrong.mean:.1f}'}", style="dim")
                cells.append(text)
            grid.add_row(name, *cells)
        parts.append(grid)
    if findings:
        parts.append(Text(_about_checks(table) + "\n"))
    for finding in findings:
        text = Text("✓ " if finding.holds else "✗ ", style="bold green" if finding.holds else "bold red")
        text.append(f"{finding.expected}: {finding.found}", style="default")
        for exception in finding.exceptions:
            text.append(f"\n    {exception}", style="dim")
        parts.append(text)
    return Group(*parts)


def _how_to_read(table: Table) -> str:
    return " ".join([_HOW_TO_READ, *_row_notes(table)])


def _row_notes(table: Table) -> list[str]:
    """Return a sentence about each row of Budgetron that the table has."""
    present = {name for block in table.blocks for name in table.rows(block)}
    return [f'The row "{name}" {note}.' for name, note in _ROW_NOTES.items() if name in present]


def _about_checks(table: Table) -> str:
    """Return what the findings cover, and how they treat noise."""
    left_out = [f'"{block.title}"' for block in table.blocks if not block.in_paper]
    without = f" {' and '.join(left_out)} is not part of the paper's table, and is left out." if left_out else ""
    return (
        f"F in per cent is compared in the blocks of the paper.{without} Where two rows or columns are compared, a "
        f"difference of at most {NOISE:.0f} standard errors counts as noise, and does not refute what is expected."
    )


def _baseline(table: Table, block: TableBlock) -> str:
    """Return a sentence about the baseline of a block."""
    key = (block.name, BASELINE, "D", None)
    stored = table.median(key, "stored")
    printed = table.printed(key)
    return (
        f"k Perceptrons, unlimited: F {table.estimate(key)} (printed {printed}), "
        f"error {table.estimate(key, 'error')} %, {stored:,.0f} stored"
    )


def _printed_and_difference(table: Table, key: Key, bare: bool = False) -> str:
    """Return the printed value, and our value minus the printed one."""
    printed, own = table.printed(key), table.estimate(key)
    if printed is None or own is None:
        return ""
    difference = f"{own.mean - printed:+.1f}"
    return f"{printed:.1f} {difference}" if bare else f"({printed:.1f}, {difference})"


def _cell(table: Table, key: Key, figure: str) -> str:
    own = table.estimate(key, figure)
    if own is None:
        return "–"
    return f"{own} {_printed_and_difference(table, key)}".rstrip() if figure == "f_measure" else str(own)


def _rows(table: Table, block: TableBlock, title: str, figure: str) -> list[str]:
    lines = [f"| {title} | {' | '.join(_HEADS)} |", "|---|" + "---:|" * len(_HEADS)]
    for name in table.rows(block):
        cells = [_cell(table, (block.name, name, *column), figure) for column in COLUMNS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _html_rows(table: Table, block: TableBlock, title: str, figure: str) -> str:
    heads = "".join(f"<th>{escape(head)}</th>" for head in (title, *_HEADS))
    rows = []
    for name in table.rows(block):
        cells = []
        for column in COLUMNS:
            key = (block.name, name, *column)
            own = table.estimate(key, figure)
            small = f"<small>{_printed_and_difference(table, key)}</small>" if figure == "f_measure" else ""
            cells.append(f"<td>{'–' if own is None else own}{small}</td>")
        rows.append(f"<tr><td>{escape(name)}</td>{''.join(cells)}</tr>")
    return f"<table><tr>{heads}</tr>{''.join(rows)}</table>"
