"""Table 1 as printed in the paper: F-measures in per cent, by data set and algorithm.

The columns are the complete (C) and the disconnected (D) graph, at budgets of 25, 10 and 5 %.
"""

from __future__ import annotations

GRAPHS = ("C", "D")  # complete, disconnected
SHARES = (25, 10, 5)  # the budget, in per cent of the number of examples that the baseline stores
COLUMNS = tuple((graph, share) for share in SHARES for graph in GRAPHS)

BASELINE = {"spam": 92.0, "school": 39.1, "sentiment": 71.5}

# One value per column of COLUMNS: C and D at 25 %, at 10 % and at 5 %.
_ROWS = {
    "spam": {
        "mtrbp": (84.8, 81.4, 78.0, 73.1, 72.8, 66.7),
        "mtforg": (85.1, 81.7, 77.9, 73.0, 72.3, 66.7),
        "mtbprj": (91.6, 89.4, 87.8, 84.0, 83.4, 76.0),
        "mtbprj-2": (91.6, 90.3, 89.3, 87.3, 85.4, 82.3),
    },
    "school": {
        "mtrbp": (40.4, 35.0, 38.6, 30.9, 37.3, 26.0),
        "mtforg": (39.7, 35.1, 38.0, 31.5, 36.9, 25.9),
        "mtbprj": (40.6, 37.4, 40.2, 32.6, 39.4, 23.8),
        "mtbprj-2": (41.2, 39.1, 40.9, 39.0, 39.6, 37.9),
    },
    "sentiment": {
        "mtrbp": (66.8, 63.3, 62.0, 58.3, 59.4, 56.1),
        "mtforg": (66.7, 63.4, 62.3, 58.8, 58.8, 56.5),
        "mtbprj": (71.4, 67.7, 66.6, 63.6, 64.0, 60.6),
        "mtbprj-2": (71.7, 68.5, 67.9, 64.9, 64.5, 61.7),
    },
}


def printed(set_name: str, algorithm: str, graph: str, share: int) -> float | None:
    """Return the printed F-measure of a cell; None for rows that the paper does not have."""
    row = _ROWS[set_name].get(algorithm)
    return None if row is None else row[COLUMNS.index((graph, share))]


def best_printed(set_name: str, graph: str, share: int) -> float:
    """Return the best printed value of a column."""
    return max(row[COLUMNS.index((graph, share))] for row in _ROWS[set_name].values())
