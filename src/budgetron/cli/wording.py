"""Figures as people read them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NOTHING = "–"
SHOWN_LETTERS = 40
_UNBOUND = 160


def percent(share: float | None, unit: str = " %") -> str:
    return NOTHING if share is None else f"{100 * share:.1f}{unit}"


def size(count: float) -> str:
    """Bytes in the unit that makes them short."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def rate(per_second: float) -> str:
    """Two digits tell a speed."""
    return f"{float(f'{per_second:.2g}'):,.0f}"


def counted(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def cut(text: Any, limit: int = SHOWN_LETTERS) -> str:
    """A name from outside on one line: no control characters, not too long."""
    plain = "".join(letter if letter.isprintable() else "�" for letter in str(text))
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def console() -> Console:
    """Standard output: as wide as the terminal; into a pipe or file, as wide as a table needs."""
    import sys

    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _UNBOUND
    return Console(highlight=False, markup=False, width=width)


def source_words(source: str) -> str:
    """A stream's name, short."""
    return "standard input" if source == "-" else cut(os.path.basename(source))


def kernel_words(kernel: Any) -> str:
    """A kernel with its parameters, those aside that say nothing."""
    if kernel is None:
        return "no kernel"
    figures = [f"{name} {value:.3g}" for name, value in vars(kernel).items() if not isinstance(value, bool | str)]
    figures += ["normalised"] if kernel.normalize else []
    return f"{type(kernel).__name__} kernel" + (f" ({', '.join(figures)})" if figures else "")


def table(columns: Sequence[str], left: Sequence[str] = ()) -> Table:
    """A plain table without lines; figures to the right, names to the left."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 0, 0, 2 if len(columns) < 7 else 1))
    for name in columns:
        made.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return made


def plain(value: Any) -> Any:
    """A NumPy number as Python has it, for JSON."""
    return value.item() if hasattr(value, "item") else value
