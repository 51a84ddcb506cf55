"""Format values for HTML pages, and escape untrusted names."""

from __future__ import annotations

import html
import math
import unicodedata
from typing import Any

MAX_NAME = 60  # characters
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control characters, text direction, surrogates, line separators


def escape(value: Any) -> str:
    """Escape text for an element or a quoted attribute.

    >>> escape("<b>'&'</b>")
    '&lt;b&gt;&#x27;&amp;&#x27;&lt;/b&gt;'
    """
    return html.escape(str(value), quote=True)


def name_of(value: Any, longest: int = MAX_NAME) -> str:
    """Return an untrusted name as one short line. Invisible characters become a replacement mark.

    >>> name_of("ann"), name_of(None), name_of(chr(0x202e) + "bob" + chr(10)), name_of("x" * 9, longest=4)
    ('ann', '(no task)', '\ufffdbob\ufffd', 'xxx…')
    """
    text = "(no task)" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if not text.strip():
        return f"(blank, {as_count(len(text))} characters)"
    # Shorten first: a hostile name may have megabytes.
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join("\ufffd" if unicodedata.category(letter) in _INVISIBLE else letter for letter in short)


def as_percent(share: float | None, digits: int = 1) -> str:
    """Format a share as a percentage; a dash if it is undefined.

    >>> as_percent(0.1234), as_percent(None)
    ('12.3 %', '–')
    """
    return "–" if share is None or not math.isfinite(share) else f"{100 * share:.{digits}f} %"


def as_decimal(number: float | None) -> str:
    """Format a number with three decimals; a dash if it is undefined.

    >>> as_decimal(0.84213), as_decimal(None)
    ('0.842', '–')
    """
    return "–" if number is None or not math.isfinite(number) else f"{number:.3f}"


def as_count(number: float | None) -> str:
    """Format an integer with thousands separators; a dash if it is undefined.

    >>> as_count(12345), as_count(None)
    ('12,345', '–')
    """
    return "–" if number is None else f"{number:,.0f}"


def as_bytes(size: float | None) -> str:
    """Format a number of bytes with a unit; a dash if it is undefined.

    >>> as_bytes(900), as_bytes(65536), as_bytes(3.4e6), as_bytes(None)
    ('900 B', '64 KiB', '3.2 MiB', '–')
    """
    if size is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit in ("B", "KiB") else f"{size:.1f} {unit}"


def as_seconds(seconds: float | None) -> str:
    """Format a duration; a dash if it is undefined.

    >>> as_seconds(0.0123), as_seconds(75.2), as_seconds(7300)
    ('0.01 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
