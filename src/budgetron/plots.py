"""What the plots of models and validations share: axes of matplotlib, which is imported when a plot is asked for."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from budgetron.errors import import_extra, is_whole, refuse, shown

MANY = 20  # bars that can be read


def axes_for(who: str, ax: Any) -> Any:
    """The axes given, or those of a new figure."""
    pyplot = import_extra(who, "matplotlib.pyplot", "plot")
    return pyplot.subplots(layout="constrained")[1] if ax is None else ax


def checked_top(who: str, top: Any) -> int:
    """How many bars at most."""
    if not is_whole(top) or top < 1:
        raise refuse(who, "top", "an integer >= 1", shown(top))
    return int(top)


def bars(ax: Any, names: Sequence[Hashable], values: Sequence[float], label: str, colour: str) -> None:
    """Horizontal bars, the first at the top. Names are shown as they are: `$` starts no formula."""
    places = range(len(names))
    ax.barh(places, values, color=colour)
    ax.set_yticks(places, [plain_text(name) for name in names])
    ax.invert_yaxis()
    ax.set_xlabel(label)


def plain_text(name: Hashable) -> str:
    """A name as matplotlib must write it, short enough for a label."""
    text = str(name)
    return (text if len(text) <= 40 else text[:39] + "…").replace("$", r"\$")
