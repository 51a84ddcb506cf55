"""Small pictures as SVG text: lines in panels side by side, and a matrix in shades. No library needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

COLOURS = (
    "#0072b2",
    "#56b4e9",
    "#d55e00",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#4d4d4d",
)  # told apart by all eyes
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM, _GAP = 300, 250, 40, 46, 40, 22
_LETTER = 6.2  # about the width of one, for laying out


@dataclass(frozen=True)
class Line:
    """One curve; `circles` are further points of its colour, drawn hollow."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    dashed: bool = False
    circles: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Panel:
    """One set of axes. `x_labels` name places of the x axis."""

    title: str
    lines: Sequence[Line]
    x_labels: Sequence[tuple[float, str]]
    x_title: str = ""
    y_title: str = ""


def line_chart(panels: Sequence[Panel], title: str) -> str:
    """Panels side by side with one legend below."""
    names: dict[str, Line] = {line.name: line for panel in panels for line in panel.lines}
    width = len(panels) * (_WIDTH + _GAP) + _GAP
    widest = 44 + _LETTER * max((len(name) for name in names), default=0)
    columns = max(1, int((width - 2 * _GAP) // widest))
    legend_rows = -(-len(names) // columns)
    height = _HEIGHT + 24 + 20 * legend_rows
    parts = [_panel(panel, _GAP + number * (_WIDTH + _GAP)) for number, panel in enumerate(panels)]
    for number, line in enumerate(names.values()):
        x = _GAP + (number % columns) * (width - 2 * _GAP) / columns
        y = _HEIGHT + 26 + 20 * (number // columns)
        parts.append(_stroke([(x, y), (x + 26, y)], line))
        parts.append(_text(x + 32, y + 4, line.name))
    return _document(width, height, title, parts)


def matrix_chart(matrix: Sequence[Sequence[float]], names: Sequence[str], title: str) -> str:
    """A square matrix of values in [0, 1] as shades, the value written in each cell."""
    size = max(26, min(54, 560 // max(len(names), 1)))
    margin = 10 + _LETTER * max((len(name) for name in names), default=0)
    parts = []
    for i, row in enumerate(matrix):
        parts.append(_text(margin - 6, 40 + (i + 0.6) * size, names[i], anchor="end"))
        parts.append(_text(margin + (i + 0.5) * size, 34, names[i], anchor="middle"))
        for j, value in enumerate(row):
            shade = min(max(value, 0.0), 1.0)
            red, green, blue = (round(255 + shade * (end - 255)) for end in (0, 114, 178))
            parts.append(
                f'<rect x="{margin + j * size}" y="{40 + i * size}" width="{size}" height="{size}" '
                f'fill="rgb({red},{green},{blue})" stroke="#fff"/>'
            )
            colour = "#fff" if shade > 0.55 else "#222"
            parts.append(
                _text(margin + (j + 0.5) * size, 44 + (i + 0.5) * size, f"{value:.2f}", "middle", colour)
            )
    extent = margin + len(names) * size + 10
    return _document(extent, 50 + len(names) * size, title, parts)


def _panel(panel: Panel, left: float) -> str:
    values = [y for line in panel.lines for y in (*line.y, *(y for _, y in line.circles))]
    low, high, step = _nice(min(values), max(values))
    places = [x for x, _ in panel.x_labels]
    x_low, x_high = min(places), max(places)

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / ((x_high - x_low) or 1.0)
        up = (y - low) / (high - low)
        room = _HEIGHT - _TOP - _BOTTOM
        return left + _LEFT + 12 + across * (_WIDTH - _LEFT - 30), _HEIGHT - _BOTTOM - up * room

    right = left + _WIDTH
    parts = [_text(left, 16, panel.title, weight="600")]
    tick = low
    while tick <= high + step / 2:
        y = at(x_low, tick)[1]
        parts.append(f'<path d="M{left + _LEFT:.1f} {y:.1f}H{right:.1f}" stroke="#e4e4e4"/>')
        parts.append(_text(left + _LEFT - 6, y + 4, f"{tick:g}", anchor="end"))
        tick = round(tick + step, 10)
    for x, label in panel.x_labels:
        parts.append(_text(at(x, low)[0], _HEIGHT - _BOTTOM + 16, label, anchor="middle"))
    for line in panel.lines:
        parts.append(_stroke([at(x, y) for x, y in zip(line.x, line.y, strict=True)], line))
        for x, y in line.circles:
            cx, cy = at(x, y)
            parts.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="3.4" fill="#fff" stroke="{line.colour}"/>')
    parts.append(_text((left + _LEFT + right) / 2, _HEIGHT - 6, panel.x_title, anchor="middle"))
    parts.append(_text(left, _TOP - 12, panel.y_title))
    return "".join(parts)


def _stroke(points: Sequence[tuple[float, float]], line: Line) -> str:
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="5 3"' if line.dashed else ""
    return f'<path d="{path}" fill="none" stroke="{line.colour}" stroke-width="1.8"{dash}/>'


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = "#222", weight: str = "") -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"{bold}>{escape(text)}</text>'


def _nice(low: float, high: float) -> tuple[float, float, float]:
    """Round limits around the values, and a round step of about a fifth of them."""
    span = (high - low) or 1.0
    power = 10.0
    while power > span:
        power /= 10
    while power * 10 <= span:
        power *= 10
    step = next(power * factor for factor in (0.1, 0.2, 0.5, 1, 2, 5) if power * factor * 6 >= span)
    first, last = step * int(low // step), step * -int(-high // step)
    return round(first, 10), round(last, 10), step


def _document(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="system-ui, sans-serif" font-size="11" role="img">'
        f'<title>{escape(title)}</title><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )
