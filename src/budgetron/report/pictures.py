"""Small pictures as SVG in the page: they follow light and dark through the style sheet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from budgetron.report.page import escape, name_of

Floats = NDArray[np.float64]


def sparkline(points: Sequence[tuple[float, float]], reference: float, says: str) -> str:
    """A curve in the unit square, over a dashed line at `reference`."""
    width, height = 150.0, 48.0

    def at(x: float, y: float) -> str:
        return f"{2 + x * (width - 4):.1f} {2 + (1 - y) * (height - 4):.1f}"

    dot = "".join('<circle class="dot" cx="{}" cy="{}" r="2.5"/>'.format(*at(*point).split()) for point in points[-1:])
    path = "M" + "L".join(at(*point) for point in points)
    return _svg(
        width,
        height,
        says,
        f'<rect class="box" x="1" y="1" width="{width - 2}" height="{height - 2}"/>'
        f'<path class="reference" d="M{at(0, reference)}L{at(1, reference)}"/><path class="line" d="{path}"/>{dot}',
    )


def matrix(values: Floats, names: Sequence[str], says: str) -> str:
    """A square matrix of values from −1 to 1: the larger a square, the larger the value; hollow ones are negative."""
    n = len(names)
    size = max(9.0, min(34.0, 420.0 / n))
    left = 12 + 6.3 * min(16, max(len(name) for name in names))
    written = size >= 26
    parts = []
    for i in range(n):
        y = 8 + i * size
        parts.append(_text(left - 6, y + size / 2 + 4, name_of(names[i], 16), "end") if size >= 11 else "")
        for j in range(n):
            value = float(np.clip(values[i, j], -1, 1))
            x = left + j * size
            side = (size - 2) * (0.15 + 0.85 * abs(value))
            kind = "cell" if value >= 0 else "minus"
            pair = f"{names[i]} and {names[j]}: {values[i, j]:.2f}"
            if abs(value) >= 0.005:
                parts.append(
                    f'<rect class="{kind}" x="{x + (size - side) / 2:.1f}" y="{y + (size - side) / 2:.1f}" '
                    f'width="{side:.1f}" height="{side:.1f}" opacity="{0.15 + 0.4 * abs(value):.2f}">'
                    f"<title>{escape(pair)}</title></rect>"
                )
            if written:
                parts.append(_text(x + size / 2, y + size / 2 + 4, f"{values[i, j]:.1f}".replace("-", "−"), "middle"))
    return _svg(left + n * size + 8, 16 + n * size, says, "".join(parts))


def network(
    names: Sequence[str], places: Floats, edges: Sequence[tuple[int, int, float]], sizes: Sequence[float], says: str
) -> str:
    """Nodes at places in the unit square, joined by lines as wide as they weigh; `sizes` are from 0 to 1."""
    width, height = 460.0, 380.0
    xy = np.column_stack([90 + places[:, 0] * (width - 180), 34 + places[:, 1] * (height - 68)])
    heaviest = max((weight for _, _, weight in edges), default=1.0) or 1.0
    faint = min(1.0, 60 / max(len(edges), 1)) ** 0.5  # so that many lines do not hide the rest
    outward = xy - xy.mean(axis=0)
    outward /= np.maximum(np.sqrt((outward**2).sum(axis=1, keepdims=True)), 1.0)
    lines = "".join(
        f'<line class="edge" x1="{xy[i, 0]:.1f}" y1="{xy[i, 1]:.1f}" x2="{xy[j, 0]:.1f}" y2="{xy[j, 1]:.1f}" '
        f'stroke-width="{0.5 + 2 * faint * weight / heaviest:.1f}" '
        f'opacity="{faint * (0.2 + 0.5 * weight / heaviest):.2f}"/>'
        for i, j, weight in edges
    )
    nodes = "".join(
        f'<circle class="node" cx="{x:.1f}" cy="{y:.1f}" r="{4 + 9 * size**0.5:.1f}">'
        f"<title>{escape(name)}</title></circle>"
        + _text(x + (12 + 9 * size**0.5) * to_x, y + (14 + 9 * size**0.5) * to_y + 4, name_of(name, 12), _anchor(to_x))
        for name, (x, y), (to_x, to_y), size in zip(names, xy.tolist(), outward.tolist(), sizes, strict=True)
    )
    return _svg(width, height, says, lines + nodes)


def reliability(bins: Sequence[dict[str, float]], says: str) -> str:
    """What came true against what was said; the dashed line is where both agree."""
    side, left, top = 300.0, 44.0, 10.0
    most = max((row["n"] for row in bins), default=1)

    def at(x: float, y: float) -> tuple[float, float]:
        return left + x * side, top + (1 - y) * side

    grid = "".join(
        f'<line class="axis" x1="{left}" x2="{left + side}" y1="{at(0, t)[1]:.1f}" y2="{at(0, t)[1]:.1f}"/>'
        + _text(left - 6, at(0, t)[1] + 4, f"{100 * t:.0f} %", "end", "soft")
        + _text(at(t, 0)[0], top + side + 16, f"{100 * t:.0f} %", "middle", "soft")
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    places = [at(row["predicted"], row["came_true"]) for row in bins]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places) if places else ""
    dots = "".join(
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{2.5 + 6 * (row["n"] / most) ** 0.5:.1f}">'
        f"<title>said {row['predicted']:.1%}, came true {row['came_true']:.1%}, {row['n']:,} examples</title></circle>"
        for (x, y), row in zip(places, bins, strict=True)
    )
    (x0, y0), (x1, y1) = at(0, 0), at(1, 1)
    return _svg(
        left + side + 24,
        top + side + 42,
        says,
        f'{grid}<path class="reference" d="M{x0} {y0}L{x1} {y1}"/><path class="line" d="{path}"/>{dots}'
        + _text(left + side / 2, top + side + 34, "probability that was given", "middle", "soft"),
    )


def _anchor(to_x: float) -> str:
    return "middle" if abs(to_x) < 0.5 else "start" if to_x > 0 else "end"


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    classed = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{classed}>{escape(text)}</text>'


def _svg(width: float, height: float, says: str, inside: str) -> str:
    return (
        f'<svg class="picture" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img" '
        f'aria-label="{escape(says)}">{inside}</svg>'
    )
