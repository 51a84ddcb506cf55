"""Finds learning rules by name. A rule's name is the name of its files, so no list of rules is needed.

engine/reference/rules/NAME.py    the definition in NumPy: a subclass of `Rule` with `name = NAME`
src/core/rules/NAME.cpp           the same rule in the compiled core, registered under the same name
learners/estimators/NAME.py       the estimator, with `rule = NAME`

A rule of several files has a folder NAME/ instead of NAME.py or NAME.cpp.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from budgetron.errors import input_error, shown


@cache
def rule_class(name: str) -> Any:
    """Return the subclass of `reference.rule.Rule` with this name. It is imported on first use."""
    module = f"budgetron.engine.reference.rules.{name}"
    names_in_module: dict[str, Any] = {}
    try:
        names_in_module = vars(import_module(module))
    except ModuleNotFoundError as error:
        if error.name != module:  # the file of the rule exists, but imports a missing module
            raise
    for value in names_in_module.values():
        if isinstance(value, type) and vars(value).get("name") == name:
            return value
    raise input_error(
        "engine", "rule", f"defined in {module.replace('.', '/')}.py, by a class with that `name`", shown(name)
    )
