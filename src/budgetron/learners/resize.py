"""Another budget for a model at work: room to grow into, or members let go by the learner's own rule.

    RandomBudgetPerceptron            random ones leave, by the learner's own coin
    BudgetProjectron, SharedProjectron, Budgetron
                                      the cheapest leaves, projected on the others, as when a newcomer takes its place
    Forgetron                         only room that is not used: its shrinking step has to be paid for by a mistake

The step is rare, so it is written once, in the NumPy engine, and both engines go on from the state it leaves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from budgetron.errors import is_whole, refuse, shown


def resized(who: str, engine: Any, capacity: Any) -> Any:
    """An engine like this one, with room for `capacity` examples."""
    settings = engine.settings
    if not is_whole(capacity) or capacity < 1:
        raise refuse(who, "budget", "an integer >= 1 to go on with", shown(capacity))
    if settings.capacity is None or settings.pool is not None:
        raise refuse(
            who, "budget", "a number of stored examples before and after", "a model without a limit, or in bytes"
        )
    anchored = settings.extra.get("own_rank", 0)
    if settings.rule == "budgetron" and (not settings.extra["shared"] or capacity <= anchored):
        raise refuse(
            who, "budget", f"more than the {anchored} anchors, on a graph that relates tasks", shown(capacity),
            "Anchors are never let go, and a disconnected Budgetron stores nothing else.",
        )  # fmt: skip
    state = engine.state()
    if engine.n_stored > capacity:
        from budgetron.engine.reference import Engine  # half of all start-up time, and seldom needed

        smaller = Engine.restore(settings, state)
        if not smaller.shrink(capacity):
            raise refuse(
                who, "budget", f"at least {engine.n_stored}, what is stored now", shown(capacity),
                "This rule lets nothing go but for a newcomer.",
            )  # fmt: skip
        state = smaller.state()
    return type(engine).restore(replace(settings, capacity=int(capacity)), state)
