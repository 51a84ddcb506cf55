"""Format numbers, sizes, names and tables for the terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

UNDEFINED = "–"  # shown in place of an undefined value
SHOWN_LETTERS = 40  # names from user data are cut to this length
_PIPE_WIDTH = 160  # characters per line in a pipe or file; no table needs more


def percent(share: float | None, unit: str = " %") -> str:
    return UNDEFINED if share is None else f"{100 * share:.1f}{unit}"


def decimal(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.3f}"


def size(count: float) -> str:
    """Format a number of bytes with a unit, as in 64.5 KiB."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def rate(per_second: float) -> str:
    """Format a speed with two significant digits; more would be noise."""
    return f"{float(f'{per_second:.2g}'):,.0f}"


def counted(n: int, singular: str, plural: str | None = None) -> str:
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def shorten(text: Any, limit: int = SHOWN_LETTERS) -> str:
    """Prepare user data for one line of output: shorten it, and replace control characters, which could alter the
    terminal."""
    words = str(text).lower() if isinstance(text, bool) else str(text)  # labels true and false, as in JSON
    plain = "".join(letter if letter.isprintable() else "�" for letter in words)
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def console() -> Console:
    """Return a console for standard output: as wide as the terminal; in a pipe or file, wide enough for any table."""
    import sys

    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
    return Console(highlight=False, markup=False, width=width)


def source_words(source: str) -> str:
    """Return a short name of a stream: its file name, or "standard input"."""
    return "standard input" if source == "-" else shorten(os.path.basename(source))


def kernel_words(kernel: Any) -> str:
    """Describe a kernel with its numeric parameters."""
    if kernel is None:
        return "no kernel"
    # Flags and names are not numbers; `normalize` is shown as a word below.
    words = [f"{name} {value:.3g}" for name, value in vars(kernel).items() if not isinstance(value, bool | str)]
    words += ["normalised"] if kernel.normalize else []
    return f"{type(kernel).__name__} kernel" + (f" ({', '.join(words)})" if words else "")


def table(columns: Sequence[str], left: Sequence[str] = ()) -> Table:
    """Return an empty table without lines. Columns named in `left` are aligned left, the others right."""
    from rich.table import Table

    # Wide tables get narrower gaps, so that they fit into 80 columns.
    empty_table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 0, 0, 2 if len(columns) < 7 else 1))
    for name in columns:
        empty_table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return empty_table


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python value, for JSON."""
    return value.item() if hasattr(value, "item") else value
