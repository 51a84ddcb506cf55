"""`ByParameters`: declares which laws of `budgetron.checks` a learner does not obey, depending on its parameters.

Learners whose exemptions are always the same declare a plain dict, from the name of a law to the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class ByParameters:
    """A class attribute computed from a model's parameters. On the class itself, it is computed from the defaults."""

    def __init__(self, of: Callable[[Any], Mapping[str, str]]) -> None:
        self._of = of

    def __get__(self, model: Any, kind: type) -> Mapping[str, str]:
        return self._of(kind() if model is None else model)
