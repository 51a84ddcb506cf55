"""Perceptron: the unbounded multitask kernel Perceptron, the baseline in Cavallanti and Cesa-Bianchi 2012.

    f_i(x) = Σ_j β_j (A⁻¹)_{i_j,i} K'(x_j, x)

    on a mistake:  S ← S ∪ {t},  β_t = y_t

With a disconnected graph of k tasks these are k independent Perceptrons. `reference.rule` explains the symbols.

In the code, `y` has one number per output. With two classes it is y_t. With more, it is +1 for the label, −1 for the
other class with the largest margin, and 0 for the rest. `append` stores x_t with β_t = `y`.
"""

from __future__ import annotations

from budgetron.engine.records import Outcome
from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rule import Example, MistakeDriven
from budgetron.engine.reference.weights import Coefficients
from budgetron.engine.saved_state import require
from budgetron.engine.settings import Settings


class Perceptron(MistakeDriven):
    """Every mistake is stored."""

    name = "perceptron"

    @classmethod
    def check(cls, settings: Settings) -> None:
        super().check(settings)
        require(settings.capacity is None, "capacity", "null for Perceptron", "a number")

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, Coefficients(settings))

    def correct(self, t: Example, y: Array) -> Outcome:
        self.append(t, y)
        return Outcome.UPDATED | Outcome.STORED
