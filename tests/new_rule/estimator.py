"""HashedPerceptron, a learner that the tests add to a copy of the package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from budgetron.engine.settings import Settings
from budgetron.errors import input_error, is_real, shown
from budgetron.learners.learner import Learner


class HashedPerceptron(Learner):
    """A linear Perceptron whose features share a few cells.

    Parameters
    ----------
    budget : str or None
        A size that bounds all memory; None for one cell per feature.
    rate : float
        The length of a step.
    """

    rule: ClassVar[str] = "hashed_perceptron"
    paper_name: ClassVar[str | None] = "hashp"
    exemptions: ClassVar[Mapping[str, str]] = {
        "ample_budget_is_perceptron": "it has no kernel",
        "disconnected_is_separate": "all tasks share the weights",
        "dense_is_sparse": "it takes dense rows only",
        "explicit_graphs": "it has no graph",
    }

    def __init__(self, budget: str | None = None, rate: float = 1.0, engine: str = "auto") -> None:
        self.budget = budget
        self.rate = rate
        self.engine = engine

    def _with_rule(self, settings: Settings) -> Settings:
        if not is_real(self.rate) or self.rate <= 0:
            raise input_error(self._who, "rate", "a number above 0", shown(self.rate))
        if settings.sparse:
            raise input_error(self._who, "X", "dense rows", "a sparse matrix")
        return settings.with_parameters(rate=float(self.rate), cells=settings.n_features)

    def busiest(self, top: int) -> list[tuple[int, float]]:
        """Return the cells with the most updates, and their weights."""
        answer: dict[str, Any] = self._fitted_engine().query("busiest")
        return list(zip(answer["cell"].tolist(), answer["weight"].tolist(), strict=True))[:top]
