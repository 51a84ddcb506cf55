"""Forgetron: the multitask Self-Tuned Forgetron, mtforg in Cavallanti and Cesa-Bianchi 2012.

    on a mistake:  M ← M + 1,  S ← S ∪ {t},  β_t = y_t
    if |S| = B + 1:  r = the oldest,  σ = |β_r|,  μ = y_r f'_{i_r}(x_r),  where f' includes the new example
        φ = the largest value in (0, 1] with  c²σ²φ² + 2c²σφ − 2σμφ² + Q ≤ (15/32) c² M,   c = c_G
        Q ← Q + c²(σφ)² + 2c²σφ − 2σμφ²,   β ← φβ,   S ← S \\ {r}

M counts mistakes. Q bounds the total effect of shrinking on the mistake bound; it starts at 0. The other symbols are
those of `reference.rule`. With more than two classes c² is 2c_G² and μ = f'_y(x_r) − f'_z(x_r), where x_r was stored
because class z was predicted instead of its label y.

    c2   c²     sigma      σ      y_r    the signs of β_r: ±1, or +1 for y and −1 for z
    Q    Q      sigma_mu   σμ     n_mistakes   M

If sparse rows share a pool of non-zeros, one new row may require the eviction of several examples. They are evicted
in one step: the sum Σ_r β_r x_r is removed, so σ and σμ are sums over all r, and one φ serves for all. (Several steps
with the same M would not work: the first step may make the inequality tight, and the next would give φ = 0.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.examples.rows import Array, flushed
from budgetron.engine.reference.rule import Example, MistakeDriven
from budgetron.engine.reference.weights import Coefficients
from budgetron.engine.saved_state import Field, Layout, require
from budgetron.engine.settings import Settings


class Forgetron(MistakeDriven):
    """Every mistake is stored. Before the oldest example is evicted, all weights shrink, to bound what is lost."""

    name = "forgetron"
    weights: Coefficients

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        return super().layout(settings, arrays) | {"q": Field("float64")}

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        scale = float(arrays["scale"][0])
        require(0 < scale <= 1, "state.scale", "above 0 and at most 1", str(scale))
        # The invariant behind the mistake bound: the number of mistakes M bounds Q, the effect of all shrinking.
        bound = 15 / 32 * c2_of(settings) * int(arrays["n_mistakes"][0])
        require(float(arrays["q"][0]) <= bound * (1 + 1e-6), "state.q", "at most (15/32) c² M", str(arrays["q"][0]))

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        assert settings.capacity is not None
        # The kernel row of the oldest example, and the order of arrival.
        return super().bytes_beyond(settings, compiled) + 2 * settings.capacity * 8

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, Coefficients(settings))
        self.c2 = c2_of(settings)
        self.Q = 0.0

    def correct(self, t: Example, y: Array) -> Outcome:
        if not self.store.fits_alone(t.x):
            return Outcome(0)
        self.append(t, y)
        evicted = self.store.surplus()  # arrival numbers, since slots change with every removal
        if evicted:
            self.shrink([self.store.slot(arrival) for arrival in evicted])
        for arrival in evicted:
            self.remove(self.store.slot(arrival))
        return Outcome.UPDATED | Outcome.STORED

    def shrink(self, evicted: list[int]) -> None:
        """Multiply all weights by φ before the examples in the slots `evicted` are evicted."""
        sigma = sigma_mu = 0.0
        for r in evicted:
            beta_r = self.weights.beta[:, r]
            sigma_r, y_r = float(abs(beta_r).max()), np.sign(beta_r)
            mu_r = float(y_r @ self.margins(self.example_of(r)))
            sigma += sigma_r
            sigma_mu += sigma_r * mu_r
        phi = largest_phi(self.c2, sigma, sigma_mu, self.Q, self.n_mistakes)
        # For φ < 1 the inequality holds with equality. Setting Q to its right side avoids a rounding error that would
        # otherwise accumulate over millions of steps.
        if phi < 1:
            self.Q = 15 / 32 * self.c2 * self.n_mistakes
        else:
            self.Q += self.c2 * sigma**2 + 2 * self.c2 * sigma - 2 * sigma_mu
        self.weights.beta = flushed(phi * self.weights.beta)

    def state(self) -> dict[str, Any]:
        return super().state() | {"q": self.Q}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.Q = float(state["q"])
        self.weights.beta = flushed(float(state["scale"]) * self.weights.beta)


def c2_of(settings: Settings) -> float:
    """Return c²."""
    return settings.graph.c_g**2 * (1 if settings.n_outputs == 1 else 2)


def largest_phi(c2: float, sigma: float, sigma_mu: float, Q: float, M: int) -> float:
    """Return the largest φ in (0, 1] with aφ² + bφ + c ≤ 0, the inequality of the module docstring.

    It exists because c < 0. The root is computed as −2c / (b + √(b² − 4ac)). This form has no cancellation, since
    b > 0, and is also right for a = 0.
    """
    a = c2 * sigma**2 - 2 * sigma_mu
    b = 2 * c2 * sigma
    c = Q - 15 / 32 * c2 * M
    return 1.0 if a + b + c <= 0 else -2 * c / (b + math.sqrt(max(b**2 - 4 * a * c, 0.0)))
