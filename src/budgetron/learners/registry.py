"""The learners by class name: every file `learners/NAME.py` whose rule is defined in `engine/reference/NAME.py`.

    random_budget_perceptron.py    RandomBudgetPerceptron

Nothing is imported to list them, so `budgetron --help` need not wait for scikit-learn. It is a closed list: a model
file may name these classes and no others.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

import budgetron.engine
from budgetron.errors import refuse, shown


@cache
def _modules() -> dict[str, str]:
    """Class name → module name."""
    rules = {found.name for found in pkgutil.iter_modules([f"{path}/reference" for path in budgetron.engine.__path__])}
    files = (found.name for found in pkgutil.iter_modules(import_module("budgetron.learners").__path__))
    return {"".join(map(str.capitalize, name.split("_"))): name for name in sorted(files) if name in rules}


def learner_names() -> tuple[str, ...]:
    """Return the class names of all learners."""
    return tuple(_modules())


def learner_class(name: str) -> Any:
    """Return the class of a learner."""
    if name not in _modules():
        raise refuse("budgetron", "learner", f"one of {', '.join(_modules())}", shown(name))
    return getattr(import_module(f"budgetron.learners.{_modules()[name]}"), name)
