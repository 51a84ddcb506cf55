"""Chooses which columns of sparse rows are used like those of dense rows.

Sparse rows may be text or categories. They may also contain numbers: measurements in a dict, a table that was stored as
CSR, numbers beside a text. The beliefs for dense rows are much better on numbers than the hashed table. On words and on
many categories they are no better. So the beliefs for dense rows get the most frequent columns if the first rows
contain many numbers, or have few columns altogether. A column of numbers is one with at least two different values
besides 0.
"""

from __future__ import annotations

import numpy as np

from budgetron.engine.first_rows import FirstRows

MAX_COLUMNS = 64
"""More columns would cost too much time: the time of a filter grows with the square of this number."""
FREQUENT, MOST_ENTRIES = 8, 1 / 2
"""There are many numbers if at least half of all entries are in columns of numbers that have at least eight entries. In
text with counts or weights of words, about a third of the entries are in such columns."""
ALWAYS, SOME_ENTRIES = 15 / 16, 1 / 8
"""There are also many numbers if at least 1/8 of all entries are in columns of numbers that have an entry in at least
15/16 of the rows. Hardly any word occurs so often."""
FEW_COLUMNS, NEARLY_ALL = 24, 15 / 16
"""The rows have few columns altogether, such as answers of yes and no, if at most 24 columns, with two or more entries
each, have at least 15/16 of all entries. The beliefs for dense rows can then learn effects of several columns together.
The table learns only effects of single columns and of pairs."""


def frequent_columns(first_rows: FirstRows) -> list[int]:
    """Return the most frequent columns of the first rows, ascending; none if the table alone is good enough."""
    n, is_entry = len(first_rows), first_rows.data != 0
    if n < FREQUENT:
        # So few rows do not show which columns are frequent. They are few because tasks were forgotten, or because the
        # rows are long (`first_rows.MAX_ENTRIES`); long rows are mostly texts.
        return []
    indices, values = first_rows.indices[is_entry], first_rows.data[is_entry]
    order = np.lexsort((values, indices))
    indices, values = indices[order], values[order]
    columns, starts, counts = np.unique(indices, return_index=True, return_counts=True)
    is_new = np.diff(values, prepend=np.nan) != 0  # whether the value differs from the one before
    is_new[starts] = True
    n_values = np.add.reduceat(is_new, starts, dtype=np.int64) if len(starts) else counts  # values per column
    if _are_normalised(first_rows):  # then no column counts as one of numbers
        n_values[:] = 1
    most, total = np.lexsort((columns, -counts))[:MAX_COLUMNS], counts.sum()

    def in_numbers(least: float) -> int:
        """Return how many entries are in columns of numbers with at least this many entries."""
        return int(counts[(n_values > 1) & (counts >= least)].sum())

    are_numbers = in_numbers(FREQUENT) >= MOST_ENTRIES * total or in_numbers(ALWAYS * n) >= SOME_ENTRIES * total
    few = counts[most[:FEW_COLUMNS]]
    are_few = few[few > 1].sum() >= NEARLY_ALL * total
    if not are_numbers and not are_few:
        return []
    return sorted(columns[most].tolist())


def _are_normalised(first_rows: FirstRows) -> bool:
    """Whether all rows have the same norm, although values differ. Then the values are weights of words."""
    sizes = np.abs(first_rows.data.astype(np.float64))
    rows = np.repeat(np.arange(len(first_rows)), np.diff(first_rows.indptr))
    norms = np.sqrt(np.bincount(rows, sizes**2))
    norms = norms[norms > 0]
    return bool(np.allclose(norms, norms[:1], rtol=1e-5) and not np.allclose(sizes, sizes[:1], rtol=1e-5))
