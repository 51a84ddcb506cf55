"""`DataSet`: examples (x, task, y) in a fixed order, with their source and licence. `load` returns it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import InputError, input_error, shown


@dataclass(frozen=True, eq=False, repr=False)
class DataSet:
    """Examples in the order in which a learner should see them.

    X is a float64 array (n, d) or a SciPy CSR matrix. y contains 0 and 1, or other class labels. tasks contains
    integers or strings. `licence` and `citation` are those of the data, not of this library.

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
    time_ordered: bool = False  # whether the rows are in order of time; shuffling would lose this information
    shuffle_seed: int | None = None

    def __post_init__(self) -> None:
        if not self.X.shape[0] == len(self.y) == len(self.tasks):
            got = f"{self.X.shape[0]}, {len(self.y)} and {len(self.tasks)}"
            raise input_error("DataSet", "X, y and tasks", "of the same length", got)

    @property
    def n(self) -> int:
        """The number of examples."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.X.shape[1])

    @property
    def k(self) -> int:
        """The number of distinct tasks."""
        return len(np.unique(self.tasks))

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        order = "" if self.shuffle_seed is None else f", shuffle_seed={self.shuffle_seed}"
        return f"<DataSet {self.name}: n={self.n}, d={self.d}, k={self.k}{order}>"

    def shuffled(self, seed: int) -> DataSet:
        """Return the same examples in the random order of `seed`, which is recorded in `shuffle_seed`.

        A data set can be shuffled only once, because one seed cannot describe two shuffles.
        """
        if self.shuffle_seed is not None:
            raise InputError(
                f"DataSet {self.name!r} is already shuffled, with seed {self.shuffle_seed}. "
                "Shuffle the set as it was loaded."
            )
        order = np.random.default_rng(seed).permutation(self.n)
        return replace(self._rows(order), time_ordered=False, shuffle_seed=seed)

    def take(self, n: int) -> DataSet:
        """Return the first `n` examples, or all if there are fewer."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
            raise input_error("DataSet.take", "n", "an integer >= 0", shown(n))
        return self._rows(slice(0, int(n)))

    def _rows(self, rows: Any) -> DataSet:
        return replace(self, X=self.X[rows], y=self.y[rows], tasks=self.tasks[rows])
