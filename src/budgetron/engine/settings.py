"""What crosses the seam to an engine before its first example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from budgetron.graphs import TaskGraph
from budgetron.kernels import Kernel


@dataclass(frozen=True)
class Settings:
    """Everything an engine must know before its first example."""

    rule: str  # perceptron | random | forgetron | projectron | shared_projectron | budgetron
    kernel: Kernel | None
    graph: TaskGraph
    n_features: int
    n_outputs: int = 1  # 1 for two classes, else one an output a class
    sparse: bool = False
    dtype: str = "float64"  # of the stored rows
    capacity: int | None = None  # B, or None for unbounded
    pool: int | None = None  # sparse only: non-zeros the store may hold in all, or None
    eta: float = 0.0
    seed: int = 0
    max_task_rows: int | None = None
    column_cache: int = 64 * 2**20  # bytes for columns of A⁻¹ of a large sparse graph
    extra: Mapping[str, Any] = field(default_factory=dict)  # a rule's own settings
