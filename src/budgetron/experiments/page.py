"""The rendered table inside a page of documentation: replaced whole, never edited."""

from __future__ import annotations

from budgetron.errors import refuse

BEGIN = "<!-- table: made by `budgetron reproduce`, not by hand -->"
END = "<!-- end of table -->"


def with_table(page: str, rendered: str) -> str:
    """The page with what stands between the two marks replaced.

    >>> with_table(f"before {BEGIN} old {END} after", "new") == f"before {BEGIN}\\n\\nnew\\n\\n{END} after"
    True
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise refuse("reproduce", "page", f"a page with the marks {BEGIN} and {END}", "a page without them")
    return f"{before}{BEGIN}\n\n{rendered.strip()}\n\n{END}{after}"
