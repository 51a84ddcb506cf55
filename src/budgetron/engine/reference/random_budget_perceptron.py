"""RandomBudgetPerceptron: mtrbp, the multitask Randomized Budget Perceptron.

    on a mistake:  if |S| = B:  S ← S \\ {r},  r uniform in S
                   S ← S ∪ {t},  β_t = y_t

    y  y_t     r  r     coin  the state of splitmix64, which starts at the seed; one draw an eviction

Where the rows also share a pool of non-zeros, members leave by the same coin until x_t fits.
"""

from __future__ import annotations

from typing import Any

from budgetron.engine.records import Outcome
from budgetron.engine.reference.rows import Array
from budgetron.engine.reference.rule import MistakeDriven, Newcomer
from budgetron.engine.reference.weights import Coefficients
from budgetron.engine.settings import Settings

_WORD = (1 << 64) - 1


class RandomBudgetPerceptron(MistakeDriven):
    """Every mistake is stored; a random member makes room."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, Coefficients(settings))
        self.coin = settings.seed & _WORD

    def correct(self, t: Newcomer, y: Array) -> Outcome:
        if not self.store.fits_alone(t.x):
            return Outcome(0)
        while not self.store.fits(t.x):
            self.remove(self.draw(len(self.store)))
        self.append(t, y)
        if self.store.is_over():
            self.remove(self.draw(len(self.store) - 1))
        return Outcome.UPDATED | Outcome.STORED

    def let_go(self) -> bool:
        self.remove(self.draw(len(self.store)))
        return True

    def draw(self, n: int) -> int:
        """A slot below n, by splitmix64."""
        self.coin = (self.coin + 0x9E3779B97F4A7C15) & _WORD
        z = self.coin
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
        z ^= z >> 31
        return (z * n) >> 64

    def state(self) -> dict[str, Any]:
        return super().state() | {"rng": self.coin}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.coin = int(state["rng"])
