"""The settings that an engine is created with. Learners make them; both engines and `persist` read them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec

from budgetron.engine.registry import rule_class
from budgetron.graphs import TaskGraph
from budgetron.kernels import Kernel


@dataclass(frozen=True)
class Settings:
    """Everything that an engine needs before its first example. Settings are immutable: a change makes a new object."""

    rule: str  # the name of its files, see `registry`
    kernel: Kernel | None
    graph: TaskGraph
    n_features: int
    n_outputs: int = 1  # 1 for two classes, otherwise one output per class
    sparse: bool = False
    dtype: str = "float64"  # of the stored rows
    capacity: int | None = None  # B, the largest number of stored examples; None for no limit
    pool: int | None = None  # sparse rows: the most non-zeros of all stored rows together; None for no limit
    column_cache: int = 64 * 2**20  # bytes for cached columns of A⁻¹, the task similarities, of a large graph
    parameters: Any = None  # the rule's own parameters, an instance of `Rule.Parameters`; None stands for its defaults

    def __post_init__(self) -> None:
        if self.parameters is None:
            object.__setattr__(self, "parameters", rule_class(self.rule).Parameters())

    def with_parameters(self, **changes: Any) -> Settings:
        """Return a copy with some of the rule's own parameters changed."""
        return replace(self, parameters=msgspec.structs.replace(self.parameters, **changes))


def make_settings(**values: Any) -> Settings:
    """Return settings from keyword arguments: the fields of `Settings`, and the parameters of the rule."""
    shared = {field.name for field in fields(Settings)}
    settings = Settings(**{name: value for name, value in values.items() if name in shared})
    return settings.with_parameters(**{name: value for name, value in values.items() if name not in shared})
