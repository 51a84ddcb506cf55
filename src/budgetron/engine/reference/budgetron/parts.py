"""A block of weights with its covariance, seen from one example: features φ, weights W, covariance Σ.

    predict    f = Wφ,   V = φᵀΣφ
    step       W ← W + G (Σφ)ᵀ,   Σ ← Σ − c (Σφ)(Σφ)ᵀ,   G = ω g/(1 + hv),   c = h/(1 + hv)

A diagonal covariance S (times a `scale` that all of it shares) takes the step S can express by dividing alone:

    t = Sφ,   W ← W + G tᵀ,   S ← max(S/(1 + h t φ), floor)

A whole covariance takes the step as it stands; where there is a floor, no variance on its diagonal falls below it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.reference.rows import Array, flushed


class Part(ABC):
    """A block and the features that one example has for it."""

    @abstractmethod
    def predict(self) -> tuple[Array, float]:
        """f and V."""

    @abstractmethod
    def step(self, G: Array, h: float, c: float) -> None:
        """Learn, in place."""


class Diagonal(Part):
    """A block (outputs + 1, features): the weights of each output, then the variances."""

    def __init__(self, block: NDArray[Any], phi: Array, scale: float = 1.0, floor: float = 0.0) -> None:
        self.block, self.phi, self.scale, self.floor = block[:, : len(phi)], phi, scale, floor

    def predict(self) -> tuple[Array, float]:
        W, S = self._read()
        return W @ self.phi, float(self.scale * (S * self.phi**2).sum())

    def step(self, G: Array, h: float, c: float) -> None:
        W, S = self._read()
        t = self.scale * S * self.phi
        self.block[:-1] = W + np.outer(G, t)
        self.block[-1] = np.maximum(flushed(S / (1 + h * t * self.phi)), self.floor)

    def _read(self) -> tuple[Array, Array]:
        block = self.block.astype(np.float64, copy=False)
        return block[:-1], block[-1]


class Whole(Part):
    """A block (outputs + features, features): the weights of each output, then the covariance."""

    def __init__(self, block: Array, phi: Array, floor: float = 0.0) -> None:
        self.W, self.Sigma = block[: -len(phi)], block[-len(phi) :]
        self.phi, self.floor = phi, floor

    def predict(self) -> tuple[Array, float]:
        return self.W @ self.phi, max(0.0, float(self.phi @ self.Sigma @ self.phi))

    def step(self, G: Array, h: float, c: float) -> None:
        t = self.Sigma @ self.phi
        self.W += np.outer(G, t)
        self.Sigma -= c * np.outer(t, t)
        if self.floor > 0:
            np.fill_diagonal(self.Sigma, np.maximum(np.diagonal(self.Sigma), self.floor))


def blank_whole(n_outputs: int, n_features: int, variance: float) -> Array:
    """A block at its prior: weights 0, and this variance in every direction."""
    return np.vstack([np.zeros((n_outputs, n_features)), variance * np.eye(n_features)])


def blank(n_outputs: int, n_features: int, variance: float, dtype: str = "float64") -> NDArray[Any]:
    """A block at its prior: weights 0, and this variance."""
    block = np.zeros((n_outputs + 1, n_features), dtype=dtype)
    block[-1] = variance
    return block
