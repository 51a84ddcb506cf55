"""Make one self-contained HTML document with a content security policy that forbids loading anything from elsewhere.

The policy allows only scripts and styles with known digests. Even if a hostile task name passed the escaping, a script
in it would not run. Data are JSON in an element that browsers do not execute.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from budgetron.report.page.text import escape

# In this order: the page's own rules override those of uPlot.
STYLES = ("uplot.css", "page.css")


class Page(NamedTuple):
    """A page and its content security policy. A server should send the same policy in a header."""

    html: str
    policy: str


@cache
def _asset(name: str) -> str:
    return files("budgetron.report.page").joinpath("assets", name).read_text(encoding="utf-8")


def document(
    title: str,
    body: str,
    *,
    data: Mapping[str, Any],
    scripts: Sequence[str] = ("uplot.js", "charts.js", "table.js"),
    own_script: str = "",
    connect: str = "'none'",
) -> Page:
    """Return the page. `body` is HTML in which all text is escaped. Scripts find `data` in the element #data.

    `scripts` are files in the folder `assets`; `own_script` is the text of the page's own script. `connect` is the
    origin to which the page may send requests.
    """
    # One style element and one script element, because the policy names one digest for each.
    style = "\n".join(_asset(name) for name in STYLES)
    script = "\n".join([*(_asset(name) for name in scripts), own_script])
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    html = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{embedded(data)}</script>
<script>{script}</script>
</body>
</html>
"""
    return Page(html, policy)


def embedded(data: Any) -> str:
    """Return JSON for a script element. `<`, `>` and `&` are escaped, so that no text can end the element.

    >>> embedded({"task": "</script><!--"})
    '{"task":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # NaN is not JSON, and browsers reject it
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
