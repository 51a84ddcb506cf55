"""One data set: examples (x, task, y) in an order, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import refuse, shown


@dataclass(frozen=True, eq=False, repr=False)
class DataSet:
    """Examples in the order in which a learner should meet them.

    X is a float64 array (n, d) or a SciPy CSR matrix; y holds 0 and 1 (or other class labels); tasks holds
    integers or strings. `licence` and `citation` are for the data themselves, not for this library.

    >>> import numpy as np
    >>> pair = DataSet("pair", np.eye(2), np.array([0, 1]), np.array(["ann", "bob"]))
    >>> pair
    <DataSet pair: n=2, d=2, k=2>
    >>> pair.shuffled(seed=1).shuffle_seed
    1
    """

    name: str
    X: Any
    y: NDArray[np.int64]
    tasks: NDArray[Any]
    feature_names: tuple[str, ...] | None = None
    description: str = ""
    licence: str = "unknown"
    citation: str = ""
    source: str = ""
    time_ordered: bool = False
    shuffle_seed: int | None = None

    def __post_init__(self) -> None:
        if not self.X.shape[0] == len(self.y) == len(self.tasks):
            came = f"{self.X.shape[0]}, {len(self.y)} and {len(self.tasks)}"
            raise refuse("DataSet", "X, y and tasks", "of one length", came)

    @property
    def n(self) -> int:
        """How many examples."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """How many features."""
        return int(self.X.shape[1])

    @property
    def k(self) -> int:
        """How many distinct tasks."""
        return len(np.unique(self.tasks))

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        order = "" if self.shuffle_seed is None else f", shuffle_seed={self.shuffle_seed}"
        return f"<DataSet {self.name}: n={self.n}, d={self.d}, k={self.k}{order}>"

    def shuffled(self, seed: int) -> DataSet:
        """The same examples in the random order that `seed` gives; the seed is recorded.

        A set is shuffled once, from its own order: a second shuffle would make the record untrue.
        """
        if self.shuffle_seed is not None:
            came = f"a set shuffled with seed {self.shuffle_seed}"
            raise refuse(
                "DataSet", "shuffled()", "called once", came, f"Shuffle {self.name!r} as it was loaded."
            )
        order = np.random.default_rng(seed).permutation(self.n)
        return replace(self._rows(order), time_ordered=False, shuffle_seed=seed)

    def take(self, n: int) -> DataSet:
        """The first `n` examples (all of them where there are fewer)."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise refuse("DataSet.take", "n", "an integer >= 0", shown(n))
        return self._rows(slice(0, int(n)))

    def _rows(self, rows: Any) -> DataSet:
        return replace(self, X=self.X[rows], y=self.y[rows], tasks=self.tasks[rows])
