"""ShiftingPerceptron: all weights shrink at every mistake, so recent examples count more.

    on a mistake, after M earlier mistakes:  β ← φ β,   S ← S ∪ {t},  β_t = y_t;   if |S| = B + 1, the oldest is removed

    polynomial   φ = M/(λ + M)     after m mistakes, the example of mistake i has |β| ≈ (i/m)^λ
    fixed        φ = 1 − a         after m mistakes, the example of mistake i has |β| = (1 − a)^(m − i);
                                   a = ln(B)/B unless the parameter `amount` is set

The polynomial form without a budget is the Shifting Perceptron. The fixed form is a Forgetron whose shrinking does not
depend on the stream: the oldest example has the weight (1 − a)^B when it is removed, about 1/B for the default a. The
mistake bound of the fixed form for comparators that shift is in `theory.fixed_shrink_bound`.

    amount  λ or a     shrink  which of the two forms

S, B, β, t and y_t are as in `reference.rule`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from msgspec import Meta

from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays, RuleParameters
from budgetron.engine.reference.examples.rows import Array, flushed
from budgetron.engine.reference.rule import Example, MistakeDriven
from budgetron.engine.reference.weights import Coefficients
from budgetron.engine.saved_state import require
from budgetron.engine.settings import Settings

POLYNOMIAL, FIXED = 0, 1


class Parameters(RuleParameters, frozen=True):
    shrink: Annotated[int, Meta(ge=POLYNOMIAL, le=FIXED)] = FIXED
    amount: Annotated[float, Meta(ge=0.0)] | None = None  # None: ln(B)/B


class ShiftingPerceptron(MistakeDriven):
    """On a mistake all weights are multiplied by φ, and the example is stored."""

    name = "shifting_perceptron"
    Parameters = Parameters
    weights: Coefficients

    @classmethod
    def check(cls, settings: Settings) -> None:
        super().check(settings)
        p = settings.parameters
        if p.shrink == FIXED:
            has_amount = p.amount is not None or settings.capacity is not None
            require(has_amount, "amount", "a number if there is no capacity", "null")
            require(p.amount is None or p.amount < 1, "amount", "below 1", str(p.amount))
        else:
            require(p.amount is not None, "amount", "a number", "null")

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        scale = float(arrays["scale"][0])
        require(0 < scale <= 1, "state.scale", "above 0 and at most 1", str(scale))

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        assert settings.capacity is not None
        order = settings.capacity * 8 if settings.pool else 0  # slots by arrival: a sparse row may evict several
        return super().bytes_beyond(settings, compiled) + order

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, Coefficients(settings))

    def correct(self, t: Example, y: Array) -> Outcome:
        if not self.store.fits_alone(t.x):
            return Outcome(0)
        self.weights.beta = flushed(self.factor() * self.weights.beta)
        self.append(t, y)
        for arrival in self.store.surplus():
            self.remove(self.store.slot(arrival))
        return Outcome.UPDATED | Outcome.STORED

    def factor(self) -> float:
        """Return φ."""
        p = self.settings.parameters
        if p.shrink == FIXED:
            return 1.0 - (shrink_for(self.settings.capacity or 1) if p.amount is None else float(p.amount))
        earlier = self.n_mistakes - 1
        return earlier / (float(p.amount) + earlier) if earlier else 1.0  # at the first mistake nothing is stored yet

    def evict_one(self) -> bool:
        self.remove(int(self.store.arrival.argmin()))
        return True

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        # The core saves β divided by a factor that all examples have in common, `scale`.
        self.weights.beta = flushed(float(state["scale"]) * self.weights.beta)


def shrink_for(budget: int) -> float:
    """Return a = ln(B)/B, with which an example has a weight of about 1/B when it is removed."""
    return math.log(budget) / budget
