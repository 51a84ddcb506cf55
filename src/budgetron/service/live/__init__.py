"""The page at `/`: the service at work, for people. What it is fed with is described in `budgetron.service.watch`.

It is whole and asks only this service: `live.html` is its body, `words.js` and `live.js` are its scripts, the rest
is of `budgetron.report.page`.
"""

from __future__ import annotations

from importlib.resources import files

from budgetron.report.page import Page, document


def _made() -> Page:
    body, *scripts = (
        files(__name__).joinpath(name).read_text(encoding="utf-8") for name in ("live.html", "words.js", "live.js")
    )
    return document("Budgetron", body, data={}, own_script="\n".join(scripts), connect="'self'")


_PAGE = _made()
# That a page may not be framed can only be said in a header.
POLICY = [(b"content-security-policy", f"{_PAGE.policy}; frame-ancestors 'none'".encode())]


def page() -> bytes:
    """The page, whole.

    >>> page().startswith(b"<!doctype html>"), b"connect-src 'self'" in page()
    (True, True)
    """
    return _PAGE.html.encode()
