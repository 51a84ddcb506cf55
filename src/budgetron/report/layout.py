"""Where to draw the nodes of a small graph: joined ones close, all others apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_STEPS = 150


def placed(n: int, edges: Sequence[tuple[int, int, float]]) -> NDArray[np.float64]:
    """Places in the unit square, the same for the same graph.

    A circle where all are joined alike, or none; springs otherwise.
    """
    angle = 2 * np.pi * np.arange(n) / n - np.pi / 2
    places = np.column_stack([np.cos(angle), np.sin(angle)])
    weights = [weight for _, _, weight in edges]
    alike = not edges or (len(edges) == n * (n - 1) // 2 and max(weights) - min(weights) < 1e-9)
    if alike:
        return _in_unit_square(places)
    pull = np.zeros((n, n))
    for i, j, weight in edges:
        pull[i, j] = pull[j, i] = weight / max(weights)
    for step in range(_STEPS):  # Fruchterman and Reingold's springs, cooling
        apart = places[:, None] - places[None]
        distance = np.maximum(np.sqrt((apart**2).sum(axis=2)), 1e-3)
        force = 0.35**2 / distance**2 - pull * distance / 0.35
        np.fill_diagonal(force, 0.0)
        move = (apart * force[:, :, None]).sum(axis=1) - 0.6 * places  # and a pull to the middle
        length = np.maximum(np.sqrt((move**2).sum(axis=1, keepdims=True)), 1e-9)
        places = places + move / length * np.minimum(length, 0.15 * (1 - step / _STEPS))
    return _in_unit_square(places)


def _in_unit_square(places: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = places.min(axis=0), places.max(axis=0)
    scaled: NDArray[np.float64] = (places - low) / np.where(high - low > 1e-9, high - low, 1.0)
    return np.where(high - low > 1e-9, scaled, 0.5)
