"""Helpers for drawing with matplotlib, shared by all plots of the package.

matplotlib is the optional extra `plot`, so it is imported only when something is drawn.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from io import StringIO
from typing import Any

from budgetron.errors import import_extra, input_error, is_integer, shown

# Six colours of Okabe and Ito, which people with colour blindness can tell apart too, and a grey.
COLOURS = ("#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#4d4d4d")
MANY = 20  # the default of `top`: more bars, or rows of a matrix, cannot be read in one plot


def axes_for(who: str, ax: Any) -> Any:
    """Return `ax`, or the axes of a new figure if it is None."""
    pyplot = import_extra(who, "matplotlib.pyplot", "plot")
    return pyplot.subplots(layout="constrained")[1] if ax is None else ax


def new_figure(who: str, width: float, height: float) -> Any:
    """Return an empty figure of this size in inches. pyplot does not keep it, so it is freed after use."""
    return import_extra(who, "matplotlib.figure", "plot").Figure((width, height), layout="constrained")


def as_svg(figure: Any) -> str:
    """Return a figure as an SVG element. Equal figures give equal text with the same version of matplotlib."""
    matplotlib = import_extra("plots", "matplotlib", "plot")
    buffer = StringIO()
    # Text stays text, so that it can be searched and the file stays small; the salt fixes the generated ids.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "budgetron"}):
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = buffer.getvalue()
    return text[text.index("<svg") :]  # without the XML declaration, which must not occur inside an HTML page


def checked_top(who: str, top: Any) -> int:
    """Validate the number of bars to draw."""
    if not is_integer(top) or top < 1:
        raise input_error(who, "top", "an integer >= 1", shown(top))
    return int(top)


def bars(ax: Any, names: Sequence[Hashable], values: Sequence[float], label: str, colour: str) -> None:
    """Draw horizontal bars, the first at the top."""
    positions = range(len(names))
    ax.barh(positions, values, color=colour)
    ax.set_yticks(positions, [plain_text(name) for name in names])
    ax.invert_yaxis()
    ax.set_xlabel(label)


def matrix(ax: Any, names: Sequence[Hashable], values: Any, label: str, signed: bool) -> Any:
    """Draw a square matrix of values from 0 to 1, or from −1 to 1 if `signed`. Returns the axes."""
    image = ax.imshow(values, vmin=-1.0 if signed else 0.0, vmax=1.0, cmap="RdBu" if signed else "Blues")
    texts = [plain_text(name) for name in names]
    ax.set_xticks(range(len(texts)), texts, rotation=45, ha="right")
    ax.set_yticks(range(len(texts)), texts)
    ax.figure.colorbar(image, ax=ax, label=label)
    return ax


def plain_text(name: Hashable) -> str:
    """Return a name as the text of a tick: shortened, and with `$` escaped, which starts a formula in matplotlib."""
    text = str(name)
    return (text if len(text) <= 60 else text[:59] + "…").replace("$", r"\$")
