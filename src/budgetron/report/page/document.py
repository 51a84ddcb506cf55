"""One HTML document with all it needs inside, and a policy that lets it ask for nothing else.

Scripts and styles are named in the policy by their digests: whatever markup a hostile name might smuggle in, no
script of its own would run. Data are JSON in an element that no browser executes.
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

STYLES = ("uplot.css", "page.css")


class Page(NamedTuple):
    """A whole page, and the policy it states; whoever serves it may state the same in a header."""

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
    """The page. `body` is markup, its strings escaped already; `data` is for the scripts, as the element #data.

    `scripts` are assets of this room, `own_script` the page's own; `connect` is where it may send requests.
    """
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
    """JSON that can stand inside a script element: nothing in it can end that element.

    >>> embedded({"task": "</script><!--"})
    '{"task":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
