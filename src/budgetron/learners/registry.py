"""Find learners by class name. Every file in `learners/estimators` defines one learner, named after the file:

    random_budget_perceptron.py    RandomBudgetPerceptron

Listing the learners imports none of them, so `budgetron --help` does not wait for scikit-learn. The list is
closed: a model file may name these classes and no others.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

from budgetron.errors import input_error, shown


@cache
def _modules() -> dict[str, str]:
    """Class name → module name."""
    # `pkgutil` lists file names without importing them.
    files = pkgutil.iter_modules([f"{path}/estimators" for path in import_module("budgetron.learners").__path__])
    return {"".join(map(str.capitalize, name.split("_"))): name for name in sorted(file.name for file in files)}


def learner_names() -> tuple[str, ...]:
    """Return the class names of all learners."""
    return tuple(_modules())


def learner_class(name: str) -> Any:
    """Return the class of a learner."""
    if name not in _modules():
        raise input_error("budgetron", "learner", f"one of {', '.join(_modules())}", shown(name))
    return getattr(import_module(f"budgetron.learners.estimators.{_modules()[name]}"), name)
