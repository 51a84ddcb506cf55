"""Chooses the columns of sparse rows that beliefs for dense rows see.

Sparse rows may be text or categories. They may also contain numbers: measurements in a dict, a table that was stored as
CSR, numbers beside a text. Beliefs for dense rows describe numbers much better than the hashed table does, and words
and many categories no better. So if the first rows contain many numbers, or have few columns altogether, their most
frequent columns are used as if they were dense rows.
"""

from __future__ import annotations

import numpy as np

from budgetron.engine.first_rows import FirstRows

MAX_COLUMNS = 64
"""More columns would cost too much time: that of a filter grows with the square of this number."""
FREQUENT, MOST_ENTRIES = 8, 1 / 2
"""There are many numbers if half of all entries are in columns of numbers with at least eight entries. In text with
counts or weights of words, about a third is."""
ALWAYS, SOME_ENTRIES = 15 / 16, 1 / 8
"""Or if 1/8 of all entries are in columns of numbers that 15/16 of the rows have. Hardly any word is so frequent."""
NEARLY_ALL = 15 / 16
"""The rows have few columns altogether, such as answers of yes and no, if `MAX_COLUMNS` columns have this share of all
entries, and more than one each. Then effects of several columns together can be learned, not only those of pairs."""


def frequent_columns(first_rows: FirstRows) -> list[int]:
    """Return the most frequent columns of the first rows, ascending; none if a table describes the rows as well."""
    n, is_entry = len(first_rows), first_rows.data != 0
    if n < FREQUENT:
        return []  # only long rows are so few (see `first_rows.MAX_ENTRIES`), and they are mostly text
    entries = np.stack([first_rows.indices[is_entry], first_rows.data[is_entry]]).astype(np.float64)
    columns, counts = np.unique(entries[0], return_counts=True)
    _, n_values = np.unique(np.unique(entries, axis=1)[0], return_counts=True)  # different values of each column
    most, total = np.lexsort((columns, -counts))[:MAX_COLUMNS], counts.sum()

    def in_numbers(least: float) -> int:
        """Return how many entries are in columns of numbers with at least this many entries."""
        return int(counts[(n_values > 1) & (counts >= least)].sum())

    are_numbers = in_numbers(FREQUENT) >= MOST_ENTRIES * total or in_numbers(ALWAYS * n) >= SOME_ENTRIES * total
    are_few = counts[most][counts[most] > 1].sum() >= NEARLY_ALL * total
    if not are_numbers and not are_few:
        return []
    return sorted(columns[most].astype(np.int64).tolist())
