"""Beliefs about the stream, and their Bayesian mixture.

A belief is five numbers: prior variances s_ℓ and s of the shared linear and kernel weights (0: no such block),
ρ_ℓ and ρ times that for each task's own weights, and the floor (times the prior) no linear variance falls below.

    p_b = σ(f_b), or softmax(f_b)          p̄ = Σ_b w_b p_b
    margin = log p̄ − log(1 − p̄)            more than two classes: log p̄_c
    w_b ← w_b p_b(y)^ω,  normalised        w_b ← (1 − α) w_b + α/#live          (p floored at 1e-15, α = 1e-4)

A kernel belief that had w_b < 0.01 for `patience` learned examples running is dropped, but never the last belief.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from budgetron.engine.reference.rows import Array, Integers
from budgetron.engine.settings import Settings

SHARE = 1e-4  # α
LEAST_LOG_P = float(np.log(1e-15))
LIGHT = 0.01


@dataclass(frozen=True)
class Belief:
    """One line of `settings.parameters.beliefs`, and its number there."""

    index: int
    s_linear: float
    rho_linear: float
    s_kernel: float
    rho_kernel: float
    floor: float

    @property
    def has_linear(self) -> bool:
        return self.s_linear > 0

    @property
    def has_kernel(self) -> bool:
        return self.s_kernel > 0


class Mixture:
    """The live beliefs with their weights w."""

    def __init__(self, settings: Settings) -> None:
        self.all = [Belief(i, *map(float, numbers)) for i, numbers in enumerate(settings.parameters.beliefs)]
        self.patience = int(settings.parameters.patience)
        self.live = list(self.all)
        self.w: Array = np.full(len(self.live), 1 / len(self.live))
        self.idle: Integers = np.zeros(len(self.live), dtype=np.int64)

    @property
    def linear(self) -> list[Belief]:
        return [b for b in self.live if b.has_linear]

    @property
    def kernel(self) -> list[Belief]:
        return [b for b in self.live if b.has_kernel]

    def weight(self, b: Belief) -> float:
        """w_b."""
        return float(self.w[self.live.index(b)])

    def margins(self, f: Array) -> Array:
        """The margins of p̄, from the f (beliefs, outputs) of the live beliefs."""
        log_p: Array = np.logaddexp.reduce(np.log(self.w)[:, None] + log_probabilities(f), axis=0)
        if f.shape[1] > 1:
            return log_p
        return f[0].copy() if len(f) == 1 else log_p[1:] - log_p[:1]

    def learn(self, f: Array, code: int, omega: float) -> None:
        """The weights after y, by the f they were mixed with; and who has been light for how long."""
        log_p = np.maximum(log_probabilities(f)[:, code], LEAST_LOG_P)
        with np.errstate(over="ignore"):  # relative to the best: the largest finite ω must not bring ∞ − ∞
            log_w = np.log(self.w) + omega * (log_p - log_p.max())
        w = np.exp(log_w - np.logaddexp.reduce(log_w))
        self.w = (1 - SHARE) * w + SHARE / len(w)
        self.idle = np.where(self.w < LIGHT, self.idle + 1, 0)

    def drop(self) -> list[Belief]:
        """Let the kernel beliefs go whose time is up, in order; who they were."""
        gone: list[Belief] = []
        for b, idle in zip(self.live, self.idle, strict=True):
            if b.has_kernel and idle >= self.patience and len(gone) < len(self.live) - 1:
                gone.append(b)
        stay = [b not in gone for b in self.live]
        self.live = [b for b in self.live if b not in gone]
        self.w, self.idle = self.w[stay], self.idle[stay]
        if gone:
            self.w = self.w / self.w.sum()
        return gone

    def state(self) -> dict[str, Any]:
        index = np.array([b.index for b in self.live], dtype=np.int64)
        return {"belief_index": index, "belief_weight": self.w.copy(), "belief_idle": self.idle.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        self.live = [self.all[int(i)] for i in state["belief_index"]]
        self.w = np.array(state["belief_weight"], dtype=np.float64)
        self.idle = np.array(state["belief_idle"], dtype=np.int64)


def log_probabilities(f: Array) -> Array:
    """log p of each class (last axis), from one output (two classes, code 1 is σ(f)) or one a class."""
    if f.shape[-1] == 1:
        f = np.concatenate([-f, f], axis=-1)
        return -np.logaddexp(0.0, -f)
    log_p: Array = f - np.logaddexp.reduce(f, axis=-1, keepdims=True)
    return log_p


def lead(margins: Array, code: int) -> float:
    """By how much the true class is ahead: y·margin, or log p̄_y − max_{c≠y} log p̄_c; ≤ 0 is a mistake."""
    if len(margins) == 1:
        return float((2 * code - 1) * margins[0])
    return float(margins[code] - np.delete(margins, code).max())
