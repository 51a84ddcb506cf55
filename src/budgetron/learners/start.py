"""Settings and engine class of a new model, derived from its first block of examples.

Called by `Learner` once per model. Kernel bandwidth, dtype, sparsity and number of outputs are fixed here.
"""

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
    """Return the settings that all rules share, derived from the first block."""
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
    """Estimate the non-zeros per sparse row for the memory planner.

    Fewer than 20 rows are too small a sample to trust a low mean, so the estimate is then at least 64. Too high an
    estimate wastes some of the budget; too low a one would evict examples long before the capacity is reached.
    """
    mean = float(rows.nnz) / float(rows.shape[0])
    return mean if rows.shape[0] >= 20 else max(mean, 64.0)


def engine_kind(who: str, engine: Any, rule: str, kernel: Kernel | None) -> Any:
    """Return the engine class: the compiled one, or the NumPy engine if requested or if the compiled one cannot run."""
    if engine not in ("auto", "core", "numpy"):
        raise refuse(who, "engine", '"auto", "core" or "numpy"', shown(engine))
    if engine != "numpy" and native.available and native.supports(rule, kernel):
        return native.Engine
    if engine == "core":
        why = "budgetron was built without a compiler"
        if native.available:
            why = "only the NumPy engine runs this rule with this kernel"
        raise refuse(who, "engine", '"auto" or "numpy" here', '"core"', f"The compiled engine cannot run: {why}.")
    if engine == "auto" and not native.available:
        _warn_once()
    from budgetron.engine.reference import Engine  # imported here: it takes half of the import time of budgetron

    return Engine


def _variance(rows: Any) -> float:
    """Return the variance of all entries, for gamma="scale"; the zeros of a sparse matrix count."""
    with np.errstate(all="ignore"):
        if sparse.issparse(rows):
            n = rows.shape[0] * rows.shape[1]
            data = rows.data.astype(np.float64)
            return float((data**2).sum() / n - (data.sum() / n) ** 2)
        return float(rows.var(dtype=np.float64))


_warned = False


def _warn_once() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "budgetron was built without a compiler and uses the NumPy engine, which gives the same results but is "
            "slow. Install a C++ compiler and reinstall budgetron for the compiled engine.",
            RuntimeWarning,
            stacklevel=6,
        )
