"""Draw a small task graph as SVG: nodes on an ellipse, joined by lines. (uPlot cannot draw graphs.)

Colours come from the style sheet, so that the drawing follows light and dark mode.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from budgetron.report.page import escape, name_of

_WIDTH, _HEIGHT = 460.0, 380.0


def draw_graph(
    names: Sequence[str], edges: Sequence[tuple[int, int, float]], sizes: Sequence[float], caption: str
) -> str:
    """Return the SVG of a graph. Heavier edges are wider and darker lines. `sizes` are those of the nodes, 0 to 1."""
    # Equal angles, starting at the top.
    angle = 2 * np.pi * np.arange(len(names)) / len(names) - np.pi / 2
    outward = np.column_stack([np.cos(angle), np.sin(angle)])
    xy = [_WIDTH / 2, _HEIGHT / 2] + outward * [_WIDTH / 2 - 90, _HEIGHT / 2 - 34]
    heaviest = max((weight for _, _, weight in edges), default=1.0) or 1.0
    # More than 60 lines are drawn lighter, so that the nodes stay visible.
    opacity = min(1.0, 60 / max(len(edges), 1)) ** 0.5
    lines = "".join(
        f'<line class="edge" x1="{xy[i, 0]:.1f}" y1="{xy[i, 1]:.1f}" x2="{xy[j, 0]:.1f}" y2="{xy[j, 1]:.1f}" '
        f'stroke-width="{0.5 + 2 * opacity * weight / heaviest:.1f}" '
        f'opacity="{opacity * (0.2 + 0.5 * weight / heaviest):.2f}"/>'
        for i, j, weight in edges
    )
    nodes = []
    for name, (x, y), (to_x, to_y), size in zip(names, xy.tolist(), outward.tolist(), sizes, strict=True):
        radius = 4 + 9 * size**0.5
        anchor = "middle" if abs(to_x) < 0.5 else "start" if to_x > 0 else "end"
        nodes.append(
            f'<circle class="node" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"><title>{escape(name)}</title></circle>'
            f'<text x="{x + (radius + 8) * to_x:.1f}" y="{y + (radius + 10) * to_y + 4:.1f}" '
            f'text-anchor="{anchor}">{escape(name_of(name, 12))}</text>'
        )
    return (
        f'<svg class="graph" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" width="{_WIDTH:.0f}" role="img" '
        f'aria-label="{escape(caption)}">{lines}{"".join(nodes)}</svg>'
    )
