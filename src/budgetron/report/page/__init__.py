"""Parts of self-contained HTML pages: styles, scripts and charts are inside the page.

The report and the live page of the service use them: uPlot for charts (assets/uplot.*, MIT licence), a style sheet for
light and dark mode, and two small scripts. There is no build step. A page must never load anything from other servers.

>>> from budgetron.report import page
>>> html, policy = page.document("Hello & goodbye", "<p>There.</p>", data={"n": [1, 2]}, scripts=())
>>> "<title>Hello &amp; goodbye</title>" in html, policy in html, policy[:18]
(True, True, "default-src 'none'")
"""

from budgetron.report.page.document import Page, document, embedded
from budgetron.report.page.text import as_bytes, as_count, as_decimal, as_percent, as_seconds, escape, name_of

__all__ = [
    "Page",
    "as_bytes",
    "as_count",
    "as_decimal",
    "as_percent",
    "as_seconds",
    "document",
    "embedded",
    "escape",
    "name_of",
]
