"""From the first block to an engine: what is settled once, and then stays."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse

from budgetron.engine import native
from budgetron.engine.settings import Settings
from budgetron.errors import refuse, shown
from budgetron.graphs import TaskGraph
from budgetron.kernels import Kernel, resolved


def settings_of(rule: str, kernel: Kernel | None, graph: TaskGraph, rows: Any, n_outputs: int) -> Settings:
    """The settings that every rule has, from the first block."""
    n, d = rows.shape
    is_sparse = bool(sparse.issparse(rows))
    if kernel is not None:
        kernel = resolved(kernel, n, d, _variance(rows), is_sparse)
    return Settings(
        rule=rule,
        kernel=kernel,
        graph=graph,
        n_features=d,
        n_outputs=n_outputs,
        sparse=is_sparse,
        dtype=str(rows.dtype),
    )


def usual_nonzeros(rows: Any) -> float:
    """Non-zeros that a sparse row usually has; a few rows tell little, and then it is at least 64."""
    mean = float(rows.nnz) / float(rows.shape[0])
    return mean if rows.shape[0] >= 20 else max(mean, 64.0)


def engine_kind(who: str, engine: Any, kernel: Kernel | None) -> Any:
    """The class of engine: the compiled one, or NumPy's where it was asked for, or is the only one that serves."""
    if engine not in ("auto", "core", "numpy"):
        raise refuse(who, "engine", '"auto", "core" or "numpy"', shown(engine))
    if engine != "numpy" and native.available and native.supports(kernel):
        return native.Engine
    if engine == "core":
        why = "a package built without a compiler"
        if native.available:
            why = "this kernel, which only the NumPy engine runs"
        raise refuse(who, "engine", '"auto" or "numpy" here', f'"core" with {why}')
    if engine == "auto" and not native.available:
        _say_once()
    from budgetron.engine.reference import Engine  # half of all start-up time, and seldom needed

    return Engine


def _variance(rows: Any) -> float:
    with np.errstate(all="ignore"):
        if sparse.issparse(rows):
            n = rows.shape[0] * rows.shape[1]
            data = rows.data.astype(np.float64)
            return float((data**2).sum() / n - (data.sum() / n) ** 2)
        return float(rows.var(dtype=np.float64))


_said = False


def _say_once() -> None:
    global _said
    if not _said:
        _said = True
        warnings.warn(
            "budgetron was built without a compiler: the NumPy engine serves, exact and slow. "
            "Install a C++ compiler and reinstall for the fast one.",
            RuntimeWarning,
            stacklevel=6,
        )
