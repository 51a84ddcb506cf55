"""Plain records that engines and learners exchange: the outcome of an example, the stored examples, a sparse row."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import IntFlag
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Outcome(IntFlag):
    """The effects of one example on the model. The values are the bits that the compiled engine returns."""

    MISTAKE = 1
    UPDATED = 2
    STORED = 4


@dataclass(frozen=True)
class ActiveSet:
    """The stored examples, in the order of their slots. A slot is the place of one stored example."""

    task: list[Hashable]
    arrival: NDArray[np.int64]  # 0-based position in the stream
    rows: Rows  # (n, d)
    coef: NDArray[np.float64]  # (n,), or (n, classes)

    def __len__(self) -> int:
        return len(self.arrival)


class CsrRows(Protocol):
    """Rows in CSR form: a SciPy matrix, or a `SparseRow`."""

    @property
    def indptr(self) -> NDArray[np.integer[Any]]: ...
    @property
    def indices(self) -> NDArray[np.integer[Any]]: ...
    @property
    def data(self) -> NDArray[Any]: ...


Rows = NDArray[Any] | CsrRows
"""A block of rows: an array (n, d), or CSR."""


class SparseRow(NamedTuple):
    """Sparse rows in CSR form, usually a single one, without the cost of constructing a SciPy matrix."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[Any]
