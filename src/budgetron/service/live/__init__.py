"""The live page at `/`. `budgetron.service.monitoring.statistics` describes the data that it shows.

The page loads nothing from other hosts. `live.html` is its body, `words.js`, `labels.js` and `live.js` are its scripts,
and the rest comes from `budgetron.report.page`.
"""

from __future__ import annotations

from importlib.resources import files

from budgetron.report.page import Page, document


def _create() -> Page:
    names = ("live.html", "words.js", "labels.js", "live.js")
    body, *scripts = (files(__name__).joinpath(name).read_text(encoding="utf-8") for name in names)
    return document("Budgetron", body, data={}, own_script="\n".join(scripts), connect="'self'")


_PAGE = _create()
# Browsers accept `frame-ancestors` in a header only, not in the page itself.
POLICY = {"content-security-policy": f"{_PAGE.policy}; frame-ancestors 'none'"}


def page() -> bytes:
    """The page, as UTF-8.

    >>> page().startswith(b"<!doctype html>"), b"connect-src 'self'" in page()
    (True, True)
    """
    return _PAGE.html.encode()
