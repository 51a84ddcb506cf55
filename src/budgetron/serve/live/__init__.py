"""The page at `/`. What it is fed with is described in `budgetron.serve.watch`."""

from __future__ import annotations

POLICY = [(b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'")]

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Budgetron</title></head>
<body><main><h1>Budgetron is serving</h1>
<p>See <a href="docs">the paths of this service</a>, or <a href="openapi.json">its OpenAPI document</a>.</p>
</main></body></html>
"""


def page() -> bytes:
    """The page, whole."""
    return _PAGE.encode()
