"""Chooses the columns of sparse rows that beliefs for dense rows see.

Sparse rows may be text or categories. They may also contain numbers: measurements in a dict, a table that was stored as
CSR, numbers beside a text. Beliefs for dense rows describe numbers much better than the hashed table does, and
presences of words and categories no better. So if the first rows contain many numbers, their most frequent columns are
used as if they were dense rows.
"""

from __future__ import annotations

import numpy as np

from budgetron.engine.first_rows import FirstRows

MAX_COLUMNS = 64
"""More columns would cost too much time: that of a filter grows with the square of this number."""
MIN_ENTRIES = 2
"""A column with one entry says little. A column of a table that is mostly zeros has few entries."""
FREQUENT, MOST_ENTRIES = 8, 1 / 2
"""There are many numbers if half of all entries are in columns of numbers with at least eight entries. In text with
counts or weights of words, about a third is."""
ALWAYS, SOME_ENTRIES = 15 / 16, 1 / 8
"""Or if 1/8 of all entries are in columns of numbers that 15/16 of the rows have. Hardly any word is so frequent."""


def frequent_columns(first_rows: FirstRows) -> list[int]:
    """Return the most frequent columns of the first rows, ascending; none if the rows do not contain many numbers."""
    n, is_entry = len(first_rows), first_rows.data != 0
    if n < FREQUENT:
        return []  # only long rows are so few (see `first_rows.MAX_ENTRIES`), and they are mostly text
    entries = np.stack([first_rows.indices[is_entry], first_rows.data[is_entry]]).astype(np.float64)
    columns, counts = np.unique(entries[0], return_counts=True)
    _, n_values = np.unique(np.unique(entries, axis=1)[0], return_counts=True)  # different values of each column

    def share(least: float) -> float:
        """Return the share of the entries that is in columns of numbers with at least this many entries."""
        return float(counts[(n_values > 1) & (counts >= least)].sum() / max(1, counts.sum()))

    if share(FREQUENT) < MOST_ENTRIES and share(ALWAYS * n) < SOME_ENTRIES:
        return []
    most = np.lexsort((columns, -counts))[:MAX_COLUMNS]
    return sorted(columns[most[counts[most] >= MIN_ENTRIES]].astype(np.int64).tolist())
