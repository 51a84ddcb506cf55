"""Online kernel classifiers for thousands of related tasks inside one fixed memory budget."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from budgetron import checks, data, evaluate, graphs, kernels, streams, theory
    from budgetron.learners import (
        Belief,
        BudgetProjectron,
        Budgetron,
        Forgetron,
        Perceptron,
        RandomBudgetPerceptron,
        SharedProjectron,
    )
    from budgetron.learners.files import load

__version__ = "0.1.0"

__all__ = [
    "Belief",
    "BudgetProjectron",
    "Budgetron",
    "Forgetron",
    "Perceptron",
    "RandomBudgetPerceptron",
    "SharedProjectron",
    "checks",
    "data",
    "evaluate",
    "graphs",
    "kernels",
    "load",
    "streams",
    "theory",
]

_ROOMS = frozenset({"checks", "data", "evaluate", "graphs", "kernels", "streams", "theory"})


def __getattr__(name: str) -> Any:
    """Import on first use: `budgetron --help` must not wait for scikit-learn."""
    if name in _ROOMS:
        return import_module(f"budgetron.{name}")
    if name in __all__:
        return getattr(import_module("budgetron.learners.files" if name == "load" else "budgetron.learners"), name)
    raise AttributeError(f"module 'budgetron' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
