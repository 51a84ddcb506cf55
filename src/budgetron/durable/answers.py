"""What a repeated key is answered with: margins as bytes, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Learned:
    """An acknowledgement: the record's number, the margins before learning, and whether the key had come before.

    `classes` are the labels that the margins stand for; None where another model gave them before it was replaced.
    """

    position: int
    margins: NDArray[np.float64]
    repeated: bool = False
    classes: Any = None
    n_before: int = 0  # rows, the first ones, that had been learned before this call


def flat(margins: NDArray[np.float64]) -> bytes:
    """Their width (0 for one margin a row), then the numbers, little-endian."""
    width = 0 if margins.ndim == 1 else int(margins.shape[1])
    return width.to_bytes(4, "little") + margins.astype("<f8").tobytes()


def shaped(content: bytes) -> NDArray[np.float64]:
    """The margins again."""
    width = int.from_bytes(content[:4], "little")
    margins = np.frombuffer(content[4:], dtype="<f8").astype(np.float64)
    return margins.reshape(-1, width) if width else margins
