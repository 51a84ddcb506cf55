"""RandomBudgetPerceptron: the multitask Randomized Budget Perceptron, mtrbp in Cavallanti and Cesa-Bianchi 2012.

    on a mistake:  if |S| = B:  S ← S \\ {r},  r uniform in S
                   S ← S ∪ {t},  β_t = y_t

    y   y_t, one number per output       generator   splitmix64, started from the seed; one draw per eviction

`reference.rule` explains the symbols.

If sparse rows share a pool of non-zeros, random examples are first evicted until x_t fits into it. A row that does not
fit into an empty pool is not stored.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays, RuleParameters
from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rule import Example, MistakeDriven
from budgetron.engine.reference.splitmix import WORD, Splitmix
from budgetron.engine.reference.weights import Coefficients
from budgetron.engine.saved_state import Field, Layout, require
from budgetron.engine.settings import Settings


class Parameters(RuleParameters, frozen=True):
    seed: Annotated[int, Meta(ge=0)] = 0


class RandomBudgetPerceptron(MistakeDriven):
    """Every mistake is stored; if the budget is full, a random stored example is evicted."""

    name = "random_budget_perceptron"
    Parameters = Parameters

    @classmethod
    def check(cls, settings: Settings) -> None:
        super().check(settings)
        require(settings.parameters.seed <= WORD, "seed", "below 2⁶⁴", "more")

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        return super().layout(settings, arrays) | {"rng": Field("uint64")}

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, Coefficients(settings))
        self.generator = Splitmix(settings.parameters.seed)

    def correct(self, t: Example, y: Array) -> Outcome:
        if not self.store.fits_alone(t.x):
            return Outcome(0)
        while not self.store.fits(t.x):
            self.remove(self.generator.below(len(self.store)))
        self.append(t, y)
        if self.store.exceeds_capacity():
            self.remove(self.generator.below(len(self.store) - 1))  # not the last slot, which is x_t
        return Outcome.UPDATED | Outcome.STORED

    def evict_one(self) -> bool:
        self.remove(self.generator.below(len(self.store)))
        return True

    def state(self) -> dict[str, Any]:
        return super().state() | {"rng": self.generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.generator.state = int(state["rng"])
