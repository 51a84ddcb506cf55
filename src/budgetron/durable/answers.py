"""The acknowledgement of a learned block, and its margins as bytes.

`Host.learn` returns `Learned`. The margins are stored beside the idempotency key, so that a retry gets the same answer.
The byte layout is part of the file format: it must not change without a migration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Learned:
    """The acknowledgement of one request.

    Attributes
    ----------
    position : int
        The number of the record in the log.
    margins : array
        The margins of the rows just before they were learned.
    repeated : bool
        Whether the request had been learned before under the same idempotency key.
    classes : array or None
        The labels that the margins belong to. None if they come from a model that has been replaced since.
    n_before : int
        How many rows, counted from the first, had been learned before this call.
    """

    position: int
    margins: NDArray[np.float64]
    repeated: bool = False
    classes: Any = None
    n_before: int = 0


def margins_to_bytes(margins: NDArray[np.float64]) -> bytes:
    """Encode margins: the width in four bytes (0 for one margin per row), then the numbers, little-endian."""
    width = 0 if margins.ndim == 1 else int(margins.shape[1])
    return width.to_bytes(4, "little") + margins.astype("<f8").tobytes()


def margins_from_bytes(content: bytes) -> NDArray[np.float64]:
    """Decode what `margins_to_bytes` wrote."""
    width = int.from_bytes(content[:4], "little")
    margins = np.frombuffer(content[4:], dtype="<f8").astype(np.float64)
    return margins.reshape(-1, width) if width else margins
