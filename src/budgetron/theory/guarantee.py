"""Compare the mistakes of a run with the largest number that a theorem allows."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import input_error, input_type_error, is_real, shown
from budgetron.evaluate.streams import as_one_block
from budgetron.theory.bounds import (
    SMALLEST_FORGETRON_BUDGET,
    Bound,
    forgetron_bound,
    random_budget_bound,
)
from budgetron.theory.classic import fixed_shrink_bound
from budgetron.theory.comparator import Comparator, Shifting, squared_norms

_WHO = "theory.guarantee"


@dataclass(frozen=True)
class Guarantee:
    """The bound of a theorem for one run, with all quantities it depends on.

    `hinge_loss`, `norm` and `total_shift` belong to the comparator multiplied by `scale`. `c_g` is c_G of the graph
    times the largest √K'(x, x) in the stream, which is 1 for a normalised kernel K'. `bound` is None if no theorem
    gives a finite bound for this run; `reason` says why.
    """

    learner: str
    theorem: int | None
    mistakes: float
    budget: int | None
    hinge_loss: float
    norm: float
    total_shift: float
    c_g: float
    radius: float | None
    epsilon: float | None
    bound: float | None
    scale: float
    reason: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the mistakes are within the bound; None without a bound. (Theorem 1 bounds the expected number.)"""
        return None if self.bound is None else self.mistakes <= self.bound

    def __str__(self) -> str:
        mistakes_made = f"made {self.mistakes:,.0f} mistake{'' if self.mistakes == 1 else 's'}"
        if self.bound is None:
            return f"{mistakes_made}; no bound: {self.reason}"
        at_most = "in expectation at most" if self.theorem == 1 else "at most"
        return f"{mistakes_made}; {at_most} {self.bound:,.0f} against this comparator"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def guarantee(
    model: Any,
    stream: Any,
    comparator: Comparator | Shifting,
    *,
    mistakes: float | None = None,
    scale: float | str = 1.0,
) -> Guarantee:
    """Compute the mistake bound for a run of `model` over `stream`, against a comparator.

    Parameters
    ----------
    model : a fitted RandomBudgetPerceptron (Theorem 1), Forgetron (Theorem 2) or ShiftingPerceptron with a fixed decay
        (`fixed_shrink_bound`, which is not in the paper). For other learners with a kernel the quantities are computed,
        but there is no bound.
    stream : (X, y, tasks) or a data set, exactly as the model learned it.
    comparator : a `Comparator`, or a `Shifting` one.
    mistakes : the mistakes of the run, if not `model.n_mistakes_`; for example a mean over several seeds.
    scale : a factor for the comparator; "best" finds the factor with the lowest bound.
    """
    if not isinstance(comparator, Comparator | Shifting):
        remedy = "theory.linear_comparator and theory.model_comparator make one."
        raise input_type_error(_WHO, "comparator", "a Comparator or a Shifting", shown(comparator), remedy)
    finds_best = isinstance(scale, str) and scale == "best"
    if not finds_best and not (is_real(scale) and scale > 0):
        raise input_error(_WHO, "scale", 'a number above 0, or "best"', shown(scale))
    block = as_one_block(stream)
    if block is None:
        raise input_error(_WHO, "stream", "(X, y, tasks) or a data set", shown(type(stream).__name__))
    if len(model.classes_) != 2:
        raise input_error(_WHO, "model", "a model of two classes", f"{len(model.classes_)} classes")
    if mistakes is None and model.n_seen_ != len(block):
        raise input_error(_WHO, "stream", f"the {model.n_seen_} examples that the model learned from",
                          f"{len(block)} examples")  # fmt: skip
    for part in comparator.parts if isinstance(comparator, Shifting) else [comparator]:
        if part.kernel != model.kernel_ or part.graph != model.graph:
            raise input_error(
                _WHO, "comparator", f"one with the model's kernel and graph, {model.kernel_} and {model.graph}",
                f"one with {part.kernel} and {part.graph}", "The bound holds only if kernel and graph are the same.",
            )  # fmt: skip
    tasks = [0] * len(block) if block.tasks is None else block.tasks
    # The theorems write labels as ±1, with +1 for the class of positive margins.
    signs = np.where(block.y == model.classes_[1], 1.0, -1.0)
    agreement = signs * comparator.margins(block.X, tasks)
    largest = float(np.sqrt(model.kernel_.of_self(squared_norms(block.X)).max()))
    terms = _Terms(agreement, comparator, largest, model)
    factor = terms.best_scale() if finds_best else float(scale)
    bound = terms.bound(factor)
    reason = "" if math.isfinite(bound.mistakes) else terms.reason(factor, bound)
    return Guarantee(
        learner=type(model).__name__,
        theorem=model.theorem,
        mistakes=float(model.n_mistakes_ if mistakes is None else mistakes),
        budget=model.capacity_,
        hinge_loss=terms.hinge_loss(factor),
        norm=factor * comparator.largest_norm,
        total_shift=factor * comparator.total_shift,
        c_g=terms.c,
        radius=None if math.isnan(bound.radius) else bound.radius,
        epsilon=bound.epsilon,
        bound=bound.mistakes if math.isfinite(bound.mistakes) else None,
        scale=factor,
        reason=reason,
    )


class _Terms:
    """The terms of the bound as functions of the comparator's scale."""

    def __init__(
        self,
        agreement: NDArray[np.float64],
        comparator: Comparator | Shifting,
        largest: float,
        model: Any,
    ) -> None:
        self._agreement = agreement  # y g(x)
        self._norm, self._shift = comparator.largest_norm, comparator.total_shift
        self._theorem, self._budget, self._largest = model.theorem, model.capacity_, largest
        self._shrink: float | None = getattr(model, "fixed_shrink_", None)
        self.c = comparator.graph.c_g * largest

    def hinge_loss(self, scale: float) -> float:
        return float(np.maximum(0.0, 1.0 - scale * self._agreement).sum())

    def bound(self, scale: float) -> Bound:
        """Return the bound for the comparator multiplied by `scale`; infinite if no theorem applies."""
        no_bound = Bound(math.inf, math.nan)
        if self._budget is None:
            return no_bound
        loss, norm = self.hinge_loss(scale), scale * self._norm
        if self._theorem == 1:
            return random_budget_bound(loss, norm, scale * self._shift, self.c, self._budget)
        if self._theorem == 2 and self._shift == 0 and self._largest <= 1 + 1e-9:
            return forgetron_bound(loss, norm, self.c, self._budget)
        if self._shrink:
            return fixed_shrink_bound(loss, norm, scale * self._shift, self.c, self._budget, self._shrink)
        return no_bound

    def best_scale(self) -> float:
        """Return the factor with the lowest bound, found on grids up to the largest norm that a theorem allows."""
        radius = self.bound(0.0).radius
        if math.isnan(radius) or not 0 < self._norm < math.inf:
            return 1.0
        longest = radius / self._norm
        # The bound is not convex in the scale: a wide grid finds the region of the minimum, finer grids the minimum.
        grid = longest * np.concatenate([np.geomspace(1e-4, 0.1, 40), np.linspace(0.1, 1.0, 181)[1:]])
        for _ in range(3):
            values = [self.bound(float(scale)).mistakes for scale in grid]
            best = int(np.argmin(values))
            grid = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], 41)
        values = [self.bound(float(scale)).mistakes for scale in grid]
        return float(grid[int(np.argmin(values))])

    def reason(self, scale: float, bound: Bound) -> str:
        """Return why there is no finite bound."""
        if self._theorem is None and not self._shrink:
            return "the paper proves a bound only for mtrbp (RandomBudgetPerceptron) and mtforg (Forgetron)"
        if self._budget is None:
            return "the theorems need a budget in examples, and this run had none"
        if self._theorem == 2:
            if self._budget < SMALLEST_FORGETRON_BUDGET:
                return f"Theorem 2 needs a budget over 83, and this one is {self._budget}"
            if self._shift:
                return "Theorem 2 needs a comparator that does not change, and this one shifts"
            if self._largest > 1 + 1e-9:
                return "Theorem 2 needs K'(x, x) at most 1; use a normalised kernel"
        return (
            f"the comparator's norm is {scale * self._norm:.3g}, and a budget of {self._budget} "
            f"allows at most {bound.radius:.3g}"
        )
