"""`ByParameters`: the laws of `budgetron.checks` that do not hold, where that depends on a learner's parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class ByParameters:
    """A class attribute that is computed from a model's parameters; of the class itself, from its defaults."""

    def __init__(self, of: Callable[[Any], Mapping[str, str]]) -> None:
        self._of = of

    def __get__(self, model: Any, kind: type) -> Mapping[str, str]:
        return self._of(kind() if model is None else model)
