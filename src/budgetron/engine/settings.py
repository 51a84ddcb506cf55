"""The settings that an engine is created with. Learners make them; both engines and `persist` read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from budgetron.graphs import TaskGraph
from budgetron.kernels import Kernel


@dataclass(frozen=True)
class Settings:
    """Everything that an engine needs before its first example. It never changes afterwards."""

    rule: str  # perceptron | random | forgetron | projectron | shared_projectron | budgetron
    kernel: Kernel | None
    graph: TaskGraph
    n_features: int
    n_outputs: int = 1  # 1 for two classes, otherwise one output per class
    sparse: bool = False
    dtype: str = "float64"  # of the stored rows
    capacity: int | None = None  # B, or None for unbounded
    pool: int | None = None  # sparse rows: the non-zeros of all stored rows together, or None for no limit
    eta: float = 0.0
    seed: int = 0
    max_task_rows: int | None = None
    column_cache: int = 64 * 2**20  # bytes for columns of A⁻¹ of a large sparse graph
    extra: Mapping[str, Any] = field(default_factory=dict)  # settings that only one rule has
