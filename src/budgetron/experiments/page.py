"""Insert a rendered table into a page of the documentation, between two comments that mark its place."""

from __future__ import annotations

from budgetron.errors import InputError

BEGIN = "<!-- table: made by `budgetron reproduce`, not by hand -->"
END = "<!-- end of table -->"


def with_table(page: str, rendered: str) -> str:
    """Return the page with the text between `BEGIN` and `END` replaced by the table.

    >>> with_table(f"before {BEGIN} old {END} after", "new") == f"before {BEGIN}\\n\\nnew\\n\\n{END} after"
    True
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"reproduce: the page does not say where the table goes. Add the lines {BEGIN} and {END}.")
    return f"{before}{BEGIN}\n\n{rendered.strip()}\n\n{END}{after}"
