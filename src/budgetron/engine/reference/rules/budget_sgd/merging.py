"""Budget maintenance that merges two examples of a task into one on the line through them; for the Gaussian kernel.

    m = argmin ‖β_j‖ over all B + 1 examples;  for every other example n of its task, with κ = K'(x_m, x_n):
        z = h x_m + (1 − h) x_n,   β_z = β_m κ^((1−h)²) + β_n κ^(h²),   h maximises ‖β_z‖²
        loss = ‖β_m K_m + β_n K_n‖² − ‖β_z‖²
    z replaces m and the n of least loss; it has the task and the arrival number of n

β_z K_z is the projection of the pair on K_z. With p = ‖β_m‖², q = ‖β_n‖² ≥ p, s = ⟨β_m, β_n⟩ and L = −ln κ,
‖β_z‖² = p e^(−2L(1−h)²) + q e^(−2Lh²) + 2s e^(−L((1−h)²+h²)). With one output, h is in [0, 1] if the signs agree, and
otherwise below 0, where z is beyond x_n, the example with the larger coefficient. With several outputs, the three
intervals `INNER`, `BELOW` and `ABOVE` are searched, unless β_m and β_n are collinear. Of equal maxima in one
interval, the one with the lowest h is taken; of equal maxima in two intervals, the one in the earlier interval. If m is
the only example of its task, m is removed.

A merged sparse row has the features of both rows, so it has at most as many non-zeros as both together. So merging
never exceeds a pool of non-zeros, but it frees few of them. If a new row does not fit into the pool, the examples with
the smallest coefficients are removed.
"""

from __future__ import annotations

import math

import numpy as np

from budgetron.engine.records import Outcome
from budgetron.engine.reference.examples.rows import Array, Integers, without
from budgetron.engine.reference.gram import TIED, ZERO, least
from budgetron.engine.reference.rule import Example
from budgetron.engine.reference.rules.budget_sgd.maintenance import STORED, Method
from budgetron.engine.saved_state import require
from budgetron.engine.settings import Settings
from budgetron.kernels import Gaussian

# Intervals of h: z is between the two examples, beyond x_n, or beyond x_m.
INNER, BELOW, ABOVE = (0.0, 1.0), (-5.0, 0.0), (1.0, 6.0)
# For larger L, κ = e^(−L) is below the rounding error of 1. Merging is then the same as removing, and the maxima are
# too narrow for a search.
UNRELATED = 36.0
GOLDEN = (math.sqrt(5) - 1) / 2
EQUAL = 1 + 1e-12  # values within this factor count as equal, so that rounding does not choose between two maxima


class Merge(Method):
    """The example with the smallest coefficient is merged with another one of its task."""

    n_merged = 0

    @classmethod
    def check(cls, settings: Settings) -> None:
        require(isinstance(settings.kernel, Gaussian), "kernel", "Gaussian if examples are merged", "another")

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        if not compiled:
            return 0
        if settings.sparse:  # indices and values of two rows and of their merger, each at most as long as the pool
            return min(settings.n_features, settings.pool or settings.n_features) * (3 * 4 + 3 * 8)
        return 2 * settings.n_features * 8

    def learn(self, t: Example, y: Array, tau: float, weight: float) -> Outcome:
        rule = self.rule
        while rule.store.fits_alone(t.x) and not rule.store.fits(t.x):
            r = least(rule.weights.norms(), rule.store.arrival)
            t.k = without(t.k, r)
            rule.remove(r)
        return super().learn(t, y, tau, weight)

    def overflow(self, t: Example) -> Outcome:
        merges, n = self.n_merged, len(self.rule.store)
        if self.evict() != n - 1:
            return STORED
        return Outcome.UPDATED if self.n_merged > merges else Outcome(0)

    def evict(self) -> int:
        rule = self.rule
        m = least(rule.weights.norms(), rule.store.arrival)
        partners = np.flatnonzero(rule.store.task_id == rule.store.task_id[m])
        partners = partners[partners != m]
        if len(partners):
            self.merge(m, partners)
            self.n_merged += 1
        rule.remove(m)
        return m

    def merge(self, m: int, partners: Integers) -> None:
        """Merge m with the partner of least loss, and put the result into the slot of that partner."""
        rule, beta = self.rule, self.rule.weights.beta
        kappa = rule.store.kernel_row(rule.store.rows.instance(m))[0]
        mergers = [merged(*self.products(m, int(n)), float(kappa[n])) for n in partners]
        losses = np.array([loss for _, loss in mergers])
        p = self.products(m, m)[0]  # ‖β_m‖², the loss of removing m, is an upper bound of all losses
        tied = np.flatnonzero(losses <= losses.min() * TIED + ZERO * p)
        best = int(tied[np.argmin(rule.store.arrival[partners[tied]])])
        n, h = int(partners[best]), mergers[best][0]
        L = distance(float(kappa[n]))
        rule.store.replace(n, rule.store.rows.between(m, n, h))
        beta[:, n] = beta[:, m] * math.exp(-L * (1 - h) ** 2) + beta[:, n] * math.exp(-L * h * h)

    def products(self, m: int, n: int) -> tuple[float, float, float]:
        """Return p, q and s."""
        a, b = self.rule.weights.beta[:, m], self.rule.weights.beta[:, n]
        return float(a @ a), float(b @ b), float(a @ b)


def distance(kappa: float) -> float:
    """Return L = −ln κ, but at most 700: κ may have underflowed to 0."""
    return min(-math.log(kappa), 700.0) if kappa > 0 else 700.0


def merged(p: float, q: float, s: float, kappa: float) -> tuple[float, float]:
    """Return the best h and its loss, for p ≤ q."""
    L = distance(kappa)
    if L <= 0:
        return 0.0, 0.0  # x_m = x_n: the coefficients add up, and nothing is lost
    if L > UNRELATED:
        return 0.0, p
    collinear = s * s >= p * q * (1 - 1e-12)
    brackets = (INNER if s >= 0 else BELOW,) if collinear else (INNER, BELOW, ABOVE)
    best_h = 0.0  # z = x_n
    best = value(best_h, p, q, s, L)
    for low, high in brackets:
        h = refined(golden(low, high, p, q, s, L), p, q, s, L)
        candidate = value(h, p, q, s, L)
        if candidate > best * EQUAL:
            best_h, best = h, candidate
    return best_h, max(p + q + 2 * s * math.exp(-L) - best, 0.0)


def value(h: float, p: float, q: float, s: float, L: float) -> float:
    """Return ‖β_z‖²."""
    a = 1 - h
    return p * math.exp(-2 * L * a * a) + q * math.exp(-2 * L * h * h) + 2 * s * math.exp(-L * (a * a + h * h))


def golden(low: float, high: float, p: float, q: float, s: float, L: float) -> float:
    """Return where `value` is largest in an interval, up to 1e-4, by golden-section search."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = value(left, p, q, s, L), value(right, p, q, s, L)
    while high - low > 1e-4:
        if at_left * EQUAL >= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = value(left, p, q, s, L)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = value(right, p, q, s, L)
    return (low + high) / 2


def refined(h: float, p: float, q: float, s: float, L: float) -> float:
    """Refine the position of a maximum by Newton's method.

    A search that compares values finds only half of the digits, because the values hardly differ near a maximum.
    """
    for _ in range(6):
        a = 1 - h
        u, v, w = p * math.exp(-2 * L * a * a), q * math.exp(-2 * L * h * h), s * math.exp(-L * (a * a + h * h))
        slope = 4 * (u * a - v * h + w * (a - h))
        curvature = 4 * (u * (4 * L * a * a - 1) + v * (4 * L * h * h - 1) + 2 * w * (L * (a - h) ** 2 - 1))
        if curvature >= 0 or abs(slope) > 1e-2 * -curvature:
            return h
        h -= slope / curvature
    return h
