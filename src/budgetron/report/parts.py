"""The pieces that every section is made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from budgetron.report.page import escape, name_of

Chart = dict[str, Any]  # see page/assets/charts.js


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading, and the charts that its script draws."""

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
    """A name as markup, kept from turning the text around it."""
    return f"<bdi>{escape(name_of(task))}</bdi>"


def chart(name: str, title: str, says: str, rows: str = "") -> str:
    """The place of a chart, what it shows in words, and its figures as a table for those who cannot see it."""
    figures = f"<details><summary>The figures as a table</summary>{rows}</details>" if rows else ""
    return (
        f'<figure><h3>{escape(title)}</h3><div class="chart" data-chart="{name}" role="group" '
        f'aria-label="{escape(says)}"></div><figcaption>{escape(says)}</figcaption>{figures}</figure>'
    )


def picture(title: str, svg: str, says: str, rows: str = "") -> str:
    """A picture, what it shows in words, and its figures."""
    figures = f"<details><summary>The figures as a table</summary>{rows}</details>" if rows else ""
    return f"<figure><h3>{escape(title)}</h3>{svg}<figcaption>{escape(says)}</figcaption>{figures}</figure>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "", caption: str = "") -> str:
    """A table of text; the first column names the row, the others are figures."""
    head = "".join(f'<th scope="col"{_number(place)}>{escape(text)}</th>' for place, text in enumerate(heads))
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="number">{escape(cell)}</td>' if place else f'<th scope="row"><bdi>{escape(cell)}</bdi></th>'
            for place, cell in enumerate(row)
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
    """Names and values, two columns of text."""
    body = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    return f'<div class="scroll"><table class="settings"><tbody>{body}</tbody></table></div>'


def rounded(value: float | None, digits: int = 4) -> float | None:
    """A number for JSON: short, and nothing where there is none."""
    return None if value is None or not math.isfinite(value) else round(float(value), digits)


def thinned(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many, evenly spread, the last always among them."""
    if len(items) <= most:
        return list(items)
    return [items[round((place + 1) * len(items) / most) - 1] for place in range(most)]


def _number(place: int) -> str:
    return ' class="number"' if place else ""
