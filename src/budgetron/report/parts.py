"""HTML parts that all sections use: headings, tables, and elements in which charts are drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from budgetron.evaluate import Point
from budgetron.report.page import escape, name_of

Chart = dict[str, Any]  # see page/assets/charts.js


@dataclass(frozen=True)
class Section:
    """A section of the page with a heading, and the descriptions of its charts for charts.js."""

    name: str
    title: str
    markup: str
    charts: Mapping[str, Chart] = field(default_factory=dict)

    def html(self) -> str:
        return (
            f'<section id="{self.name}" aria-labelledby="{self.name}-title">'
            f'<h2 id="{self.name}-title">{escape(self.title)}</h2>{self.markup}</section>'
        )


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def named(task: Any) -> str:
    """Return a name as HTML. <bdi> keeps right-to-left text from reordering the text around it."""
    return f"<bdi>{escape(name_of(task))}</bdi>"


def chart(name: str, title: str, caption: str, rows: str = "") -> str:
    """Return the element of a chart with a caption. `rows` is a table of its numbers, for readers who see no charts."""
    return figure(title, chart_element(name, caption), caption, rows)


def line_chart(points: Sequence[Point], label: str, values: Sequence[Any], form: str) -> Chart:
    """Describe a chart with one line over the points of a curve."""
    series = [{"label": label, "values": list(values)}]
    return {"x": [point.position for point in points], "xLabel": "examples", "format": form, "series": series}


def chart_element(name: str, caption: str, small: bool = False) -> str:
    """Return the element in which charts.js draws the chart of this name."""
    kind = "chart small" if small else "chart"
    return f'<div class="{kind}" data-chart="{escape(name)}" role="group" aria-label="{escape(caption)}"></div>'


def figure(title: str, markup: str, caption: str, rows: str = "") -> str:
    """Return a <figure> element with a heading, a caption and, with `rows`, a folded table of its numbers."""
    # Folded, because most readers see the same numbers in the chart.
    numbers = f"<details><summary>The numbers as a table</summary>{rows}</details>" if rows else ""
    return f"<figure><h3>{escape(title)}</h3>{markup}<figcaption>{escape(caption)}</figcaption>{numbers}</figure>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "", caption: str = "") -> str:
    """Return a table. The first column names the row, the others are numbers."""
    head = "".join(f'<th scope="col"{_number(column)}>{escape(text)}</th>' for column, text in enumerate(heads))
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="number">{escape(cell)}</td>' if column else f'<th scope="row"><bdi>{escape(cell)}</bdi></th>'
            for column, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(caption or heads[0])}">'
        f'<table class="{kind}">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values."""
    body = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    return f'<div class="scroll"><table class="settings"><tbody>{body}</tbody></table></div>'


def rounded(value: float | None, digits: int = 6) -> float | None:
    """Round a number for JSON; None if it is not finite.

    The page rounds the number again, to three or four digits. If this function rounded to three or four digits too, the
    last digit would often be wrong.
    """
    return None if value is None or not math.isfinite(value) else round(float(value), digits)


def thinned(items: Sequence[Any], limit: int) -> list[Any]:
    """Return at most `limit` of the items, evenly spread, including the last one."""
    if len(items) <= limit:
        return list(items)
    return [items[round((i + 1) * len(items) / limit) - 1] for i in range(limit)]


def _number(column: int) -> str:
    return ' class="number"' if column else ""
