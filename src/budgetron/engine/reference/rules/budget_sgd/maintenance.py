"""`Method`, the interface of the methods of budget maintenance, and the steps that most of them share."""

# ruff: noqa: B027 - the empty methods of `Method` are steps that most methods do not need

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays
from budgetron.engine.reference.examples.rows import Array, without
from budgetron.engine.reference.rule import Example
from budgetron.engine.saved_state import Layout
from budgetron.engine.settings import Settings

if TYPE_CHECKING:
    from budgetron.engine.reference.rules.budget_sgd.rule import BudgetSgd

STORED = Outcome.UPDATED | Outcome.STORED


class Method(ABC):
    """A method of budget maintenance: how it learns an example and evicts an example, its state and its memory.

    Every method implements `evict`. The other steps have defaults.
    """

    projects: ClassVar[bool] = False  # whether examples at most η from the span of the stored ones are projected

    def __init__(self, rule: BudgetSgd) -> None:
        self.rule = rule

    # ---- the declaration

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Reject settings that contradict each other."""

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        return {}

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        """Reject numbers that learning cannot produce."""

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        return 0

    # ---- learning

    def learn(self, t: Example, y: Array, tau: float, weight: float) -> Outcome:
        """Learn x_t with a step of τ: make room for it in the pool, store it, and evict one if over budget."""
        rule = self.rule
        if not rule.store.fits_alone(t.x):
            return Outcome(0)
        while not rule.store.fits(t.x):
            t.k = without(t.k, self.evict())
        rule.append(t, y * tau / rule.unit)
        return self.overflow(t) if rule.store.exceeds_capacity() else STORED

    def overflow(self, t: Example) -> Outcome:
        """Evict one of B + 1 examples; the new one is in the last slot."""
        n = len(self.rule.store)
        return STORED if self.evict() != n - 1 else Outcome(0)

    @abstractmethod
    def evict(self) -> int:
        """Evict one stored example and return its slot."""

    # ---- called after the store has changed

    def appended(self, t: Example) -> None:
        """Called after x_t has been stored in the last slot."""

    def removed(self, r: int) -> None:
        """Called after slot r has been removed, and the last slot has taken its place."""

    def rows_moved(self) -> None:
        """Called after the reference point of the rows has moved."""

    def kernel_changed(self) -> None:
        """Called after γ of the kernel has changed."""

    # ---- state

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state, after the stored examples."""

    @property
    def nbytes(self) -> int:
        return 0
