"""`Start`: creates a model's engine from its first block of examples. Base class of `Learner`.

The first block fixes the dtype, whether rows are sparse, the number of outputs and the memory plan. `BlockLearner` and
the input validation of sharded models call `_begin` with it. A rejected first block must leave the model without an
engine.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace
from typing import Any, ClassVar, get_args, get_type_hints

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from budgetron.engine import native
from budgetron.engine.interface import Engine
from budgetron.engine.memory import Budget, budget_of, bytes_of, name_bytes, planned
from budgetron.engine.registry import rule_class
from budgetron.engine.settings import Settings
from budgetron.errors import input_error, input_type_error, shown
from budgetron.graphs import TaskGraph, complete
from budgetron.kernels import Kernel
from budgetron.learners.input.classes import Classes
from budgetron.learners.input.task_names import TaskNames
from budgetron.learners.input.validation import check_rows
from budgetron.learners.inspection.plotting import Plots
from budgetron.learners.lifecycle.guard import Guard

_logger = logging.getLogger("budgetron.learners")


class Start(Plots):
    """The part of a learner that turns its parameters and the first block into an engine."""

    rule: ClassVar[str]  # the name of the learning rule and of its files, see `engine.registry`
    # Defaults of constructor parameters that some learners do not have.
    budget: Any = None
    kernel: Any = None
    graph: Any = complete()
    task_column: Any = None
    class_weight: Any = None
    engine: Any = "auto"

    def _begin(self, rows: Any, classes: Classes, graph: TaskGraph, X: Any, has_tasks: bool = True) -> None:
        """Create the engine from the first block. X is that block as the caller passed it, with column names if any."""
        settings, budget = self._settings(rows, classes, graph, has_tasks)
        try:
            # Most engines allocate all of their memory here, so a budget that is too large fails now and not later.
            engine = self._engine_kind(settings.kernel)(settings)
        except MemoryError:
            raise input_error(
                self._who,
                "budget",
                "small enough for this machine's memory",
                f"a budget that needs {bytes_of(settings)} bytes",
                "Lower the budget.",
            ) from None
        check_rows(self._who, engine, rows, getattr(X, "columns", None))
        # An array has no column names. `validate_data` would search all installed data frame packages for them.
        if isinstance(X, np.ndarray):
            self.n_features_in_ = rows.shape[1]
        else:
            validate_data(self, X, skip_check_array=True, reset=True)
        self._guard = Guard()
        self._graph = graph
        self._names = TaskNames(graph, None if budget.bytes is None else name_bytes(budget.bytes))
        self._classes = classes
        # `_engine` is set last: as soon as other threads see it, they use the model.
        self._engine = engine
        _logger.info(
            "%s begins: %d features%s, %d classes, budget %s, %s", self._who, engine.settings.n_features,
            " (sparse)" if engine.settings.sparse else "", len(classes.values), self.budget,
            "compiled core" if isinstance(engine, native.Engine) else "NumPy engine",
        )  # fmt: skip

    def _settings(
        self, rows: Any, classes: Classes, graph: TaskGraph, has_tasks: bool = True
    ) -> tuple[Settings, Budget]:
        """Return the settings of the engine, and the budget, for a model that begins with these rows."""
        budget = budget_of(self._who, self.budget)
        settings = settings_of(self.rule, self._checked_kernel(), graph, rows, classes.n_outputs)
        settings = replace(settings, capacity=budget.examples)
        # A stream without tasks needs no memory for weights per task.
        settings = self._with_rule(settings) if has_tasks else self._without_tasks(settings)
        if budget.bytes is not None:
            nonzeros = usual_nonzeros(rows) if settings.sparse else 0.0
            compiled = self._engine_kind(settings.kernel) is native.Engine
            settings = planned(self._who, settings, budget.bytes, nonzeros, compiled)
        return settings, budget

    def _with_rule(self, settings: Settings) -> Settings:
        """Add the rule's own parameters to the settings. Learners with such parameters override it."""
        return settings

    def _without_tasks(self, settings: Settings) -> Settings:
        """Like `_with_rule`, for a stream without tasks. Learners that plan memory per task override it."""
        return self._with_rule(settings)

    def _engine_kind(self, kernel: Kernel | None) -> type[Engine]:
        return engine_kind(self._who, self.engine, self.rule, kernel)

    def _checked_kernel(self) -> Kernel | None:
        """Return the kernel; None only for a rule that works without a kernel."""
        if self.kernel is None and not rule_class(self.rule).needs_kernel:
            return None
        if not isinstance(self.kernel, Kernel):
            remedy = "For a kernel of your own, pass an instance of a subclass of budgetron.kernels.Kernel."
            raise input_type_error(self._who, "kernel", "a kernel from budgetron.kernels", shown(self.kernel), remedy)
        return self.kernel

    def _checked_graph(self) -> TaskGraph:
        """Return the graph; reject a value that is not a task graph."""
        if not isinstance(self.graph, TaskGraph):
            raise input_type_error(self._who, "graph", "a task graph from budgetron.graphs", shown(self.graph))
        return self.graph

    # ---- constructor parameters in model files

    @classmethod
    def _parameter_type(cls, name: str) -> Any:
        """Return the type of a parameter in a model file, for msgspec to check; by default from the signature."""
        hint = get_type_hints(cls.__init__)[name]
        plain = (bool, int, float, str, type(None))
        # Only plain types are checked here; graphs, kernels and dicts are checked where they are converted.
        return hint if all(kind in plain for kind in get_args(hint) or (hint,)) else Any

    @classmethod
    def _parameter_to_json(cls, name: str, value: Any) -> Any:
        """Convert a constructor parameter for a model file, if it is not a plain number or string."""
        return value

    @classmethod
    def _parameter_from_json(cls, name: str, value: Any) -> Any:
        """The inverse of `_parameter_to_json`."""
        return value


def settings_of(rule: str, kernel: Kernel | None, graph: TaskGraph, rows: Any, n_outputs: int) -> Settings:
    """Return the settings that all rules have in common, derived from the first block."""
    return Settings(
        rule=rule,
        kernel=kernel,
        graph=graph,
        n_features=rows.shape[1],
        n_outputs=n_outputs,
        sparse=bool(sparse.issparse(rows)),
        dtype=str(rows.dtype),
    )


def usual_nonzeros(rows: Any) -> float:
    """Estimate the non-zeros per sparse row for the memory planner.

    Fewer than 20 rows are too small a sample to trust a low mean, so the estimate is then at least 64. If the estimate
    is too high, some of the budget is unused; if it is too low, examples are evicted long before the capacity is
    reached.
    """
    mean = float(rows.nnz) / float(rows.shape[0])
    return mean if rows.shape[0] >= 20 else max(mean, 64.0)


def engine_kind(who: str, engine: Any, rule: str, kernel: Kernel | None) -> type[Engine]:
    """Return the engine class: the compiled one, or the NumPy engine if requested or if the compiled one cannot run."""
    if engine not in ("auto", "core", "numpy"):
        raise input_error(who, "engine", '"auto", "core" or "numpy"', shown(engine))
    if engine != "numpy" and native.available and native.supports(rule, kernel):
        return native.Engine
    if engine == "core":
        why = "budgetron was built without a compiler"
        if native.available:
            why = "only the NumPy engine runs this rule with this kernel"
        raise input_error(who, "engine", '"auto" or "numpy" here', '"core"', f"The compiled engine cannot run: {why}.")
    if engine == "auto" and not native.available:
        _warn_once()
    from budgetron.engine import reference  # imported here, because the import of a learner does not need it

    return reference.Engine


_warned = False


def _warn_once() -> None:
    """Warn, once per process, that the compiled engine is missing."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "budgetron was built without a compiler and uses the NumPy engine, which gives the same results but is "
            "slow. Install a C++ compiler and reinstall budgetron for the compiled engine.",
            RuntimeWarning,
            stacklevel=6,
        )
