"""Online classifiers for many related tasks, in a fixed amount of memory."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from budgetron.learners.registry import learner_names
from budgetron.version import __version__ as __version__

if TYPE_CHECKING:
    from budgetron import checks, data, durable, evaluate, graphs, io, kernels, report, theory
    from budgetron.client import AsyncClient, Client
    from budgetron.decisions import OperatingPoint
    from budgetron.learners import BudgetProjectron as BudgetProjectron
    from budgetron.learners import Budgetron as Budgetron
    from budgetron.learners import BudgetSgd as BudgetSgd
    from budgetron.learners import Forgetron as Forgetron
    from budgetron.learners import FourierSgd as FourierSgd
    from budgetron.learners import LinearPerceptron as LinearPerceptron
    from budgetron.learners import Perceptron as Perceptron
    from budgetron.learners import Projectron as Projectron
    from budgetron.learners import RandomBudgetPerceptron as RandomBudgetPerceptron
    from budgetron.learners import RelationPerceptron as RelationPerceptron
    from budgetron.learners import SecondOrderPerceptron as SecondOrderPerceptron
    from budgetron.learners import SharedProjectron as SharedProjectron
    from budgetron.learners import ShiftingPerceptron as ShiftingPerceptron
    from budgetron.learners.lifecycle.files import load
    from budgetron.learners.scorer import scorer

__all__ = [
    "AsyncClient",
    "Client",
    "OperatingPoint",
    "checks",
    "data",
    "durable",
    "evaluate",
    "graphs",
    "io",
    "kernels",
    "load",
    "report",
    "scorer",
    "theory",
]
__all__ += learner_names()

_MODULES = frozenset({"checks", "data", "durable", "evaluate", "graphs", "io", "kernels", "report", "theory"})

_ELSEWHERE = {
    "AsyncClient": "budgetron.client",
    "Client": "budgetron.client",
    "OperatingPoint": "budgetron.decisions",
    "load": "budgetron.learners.lifecycle.files",
    "scorer": "budgetron.learners.scorer",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `budgetron --help` must not wait for scikit-learn."""
    if name in _MODULES:
        return import_module(f"budgetron.{name}")
    if name in __all__:
        return getattr(import_module(_ELSEWHERE.get(name, "budgetron.learners")), name)
    raise AttributeError(f"module 'budgetron' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
