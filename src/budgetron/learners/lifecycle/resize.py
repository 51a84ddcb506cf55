"""Change the budget of a fitted model. A smaller budget evicts stored examples by the learner's own rule.

    RandomBudgetPerceptron            evicts at random, with the learner's own generator
    ShiftingPerceptron                evicts the oldest example
    BudgetSgd                         evicts as its parameter `maintenance` says; with "replace", "halve" and "nystrom"
                                      it evicts the example of smallest weight
    BudgetProjectron, Projectron, SharedProjectron, SecondOrderPerceptron
                                      project one example on the others and evict it: the one whose projection changes
                                      the learned function least
    Budgetron                         stores no examples: its parts change their sizes (`Rule.resized`)
    FourierSgd                        cannot change: its random features are fixed
    Forgetron                         cannot go below the number of stored examples: its eviction shrinks all weights,
                                      and its mistake bound allows that only after a mistake

Called by `Learner.resize`. Resizing is rare, so only the NumPy engine can evict examples for it; a compiled engine is
then restored from the state after the evictions. The given engine is never changed: a failed resize leaves the model as
it was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from budgetron.engine import native
from budgetron.engine.interface import Engine
from budgetron.engine.memory import budget_of, name_bytes
from budgetron.engine.registry import rule_class
from budgetron.errors import input_error, is_integer, shown


def resized(who: str, engine: Engine, before: Any, budget: Any) -> Engine:
    """Return a copy of the engine with another budget: a number of examples or, if the rule can, a size in bytes.

    `before` is the budget that the model was created with, or resized to.
    """
    settings = engine.settings
    rule, compiled = rule_class(settings.rule), type(engine) is native.Engine
    parsed = budget_of(who, budget, accepted='an integer >= 1 (a Budgetron also takes a size such as "64 MiB")')
    planned = rule.resized(who, settings, engine.state(), parsed, compiled)
    if planned is not None:
        return type(engine).restore(*planned)
    rule.check_resize(who, settings, budget)
    if settings.capacity is None or name_limit(who, before) is not None:
        # A byte budget also fixes the size of tables that cannot change once they are allocated.
        raise input_error(
            who, "budget", "a number of stored examples, both before and after resizing",
            f"a model with budget={before!r}", f"Train a new model: {who}(budget={budget!r}, ...).",
        )  # fmt: skip
    return _with_capacity(who, engine, budget)


def name_limit(who: str, budget: Any) -> int | None:
    """Return how many bytes of a budget are for task names; None if there is no limit."""
    size = budget_of(who, budget).bytes
    return None if size is None else name_bytes(size)


def _with_capacity(who: str, engine: Engine, capacity: Any) -> Engine:
    """Return a copy of the engine that stores at most `capacity` examples."""
    settings = engine.settings
    if not is_integer(capacity) or capacity < 1:
        raise input_error(who, "budget", "an integer >= 1", shown(capacity))
    state = engine.state()
    if engine.n_stored > capacity:
        from budgetron.engine import reference  # imported here: only a smaller budget needs it

        # Evict with the NumPy engine; the compiled engine is restored from the resulting state.
        smaller = reference.Engine.restore(settings, state)
        if not smaller.shrink(capacity):
            raise input_error(
                who, "budget", f"at least {engine.n_stored}, the number of stored examples", shown(capacity),
                "This rule evicts only when it stores a new example.",
            )  # fmt: skip
        state = smaller.state()
    return type(engine).restore(replace(settings, capacity=int(capacity)), state)
