"""FourierSgd: stochastic gradient descent on random Fourier features. FOGD (Lu et al. 2016) is a preset of it.

    z(x) = (cos u_q·x, sin u_q·x),  u_q ~ N(0, 2γ I),  q = 1 … D
    y f < m:   w ← w + (η/D) y z(x)

u_q are D random frequencies, γ is the parameter of the Gaussian kernel, f = w·z(x), η is the parameter `rate` and m the
parameter `margin`. This is the rule for a single task. With several tasks, z(x) is multiplied by random signs per task.
The rule is in `src/core/rules/fourier_sgd.cpp`, and in NumPy in `budgetron/engine/reference/rules/fourier_sgd.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from budgetron.engine.settings import Settings
from budgetron.errors import input_error, is_real, shown
from budgetron.graphs import TaskGraph, complete
from budgetron.kernels import Gaussian, Kernel
from budgetron.learners.learner import Learner
from budgetron.learners.parameters import checked_seed
from budgetron.learners.stored_weights import WithoutExamples

PER_EXAMPLE = 4  # frequencies per example of the budget, as in the tables of Lu et al.
WITHOUT_LIMIT = 2000  # frequencies with budget=None


class FourierSgd(WithoutExamples, Learner):
    """Stochastic gradient descent on random Fourier features of a Gaussian kernel (FOGD). It stores no examples.

    The time per example does not grow with the stream. All tasks share the same features; multiplied by random signs
    per task, they approximate the multitask kernel. So the memory does not grow with the number of tasks.

    Parameters
    ----------
    budget : int, str or None, default=500
        A number B means 4·B random frequencies, which give 8·B features. A size such as ``"1 MiB"`` limits all memory
        of the model. None means 2,000 frequencies.
    kernel : kernels.Gaussian, default=Gaussian(gamma="scale")
        The kernel K' between the features of two examples.
    graph : graphs.TaskGraph, default=complete()
        How strongly tasks are related.
    rate : float, default=0.8
        The step size η on features of unit norm. (Lu et al. do not normalise theirs: their η is `rate`/D.)
    margin : float, default=1.0
        Examples with a margin below it are learned.
    random_state : int, RandomState or None, default=0
        The seed of the frequencies.
    task_column : int or str, optional
        The column of X that holds the task, as an alternative to the argument `tasks`.
    engine : {"auto", "core", "numpy"}, default="auto"
        The compiled engine, or the NumPy engine, which is slow.

    Attributes
    ----------
    classes_, n_features_in_, kernel_
        The labels, the number of features and the kernel in use. The first block of examples fixes them, except that
        ``gamma="scale"`` is estimated from the first 64 examples.
    n_seen_, n_mistakes_ : int
        The numbers of examples learned so far, and of wrong predictions or ties before an update.
    memory_bytes_ : int
        All bytes allocated for the model.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import FourierSgd
    >>> X = np.array([[0.0, 1.0], [1.0, 0.2], [0.1, 0.9], [0.8, 0.0], [0.2, 1.0], [1.0, 0.1]])
    >>> y = ["ham", "spam", "spam", "ham", "ham", "ham"]
    >>> users = ["ann", "ann", "bob", "bob", "ann", "bob"]
    >>> model = FourierSgd(budget="20 KiB")
    >>> margins = model.predict_then_learn(X, y, tasks=users)
    >>> model.n_seen_, model.n_stored_, model.memory_bytes_ <= 20 * 1024
    (6, 0, True)

    References
    ----------
    J. Lu, S. C. H. Hoi, J. Wang, P. Zhao, Z.-Y. Liu. Large Scale Online Kernel Learning. JMLR 17 (2016). The random
    signs: K. Weinberger et al. Feature Hashing for Large Scale Multitask Learning. ICML 2009.
    """

    rule: ClassVar[str] = "fourier_sgd"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"fogd": {"rate": 0.8}}
    takes_weights: ClassVar[bool] = True
    exemptions: ClassVar[Mapping[str, str]] = {
        "no_mistake_no_change": "it also learns from right predictions with a small margin",
        "ample_budget_is_perceptron": "it approximates the kernel",
        "gaussian_only": "its random features approximate a Gaussian kernel",
        "closed_form_is_general": "a graph in closed form and the same graph as a matrix draw different random signs",
        "disconnected_is_separate": "tasks share the features, and random signs separate them approximately",
        "renaming_tasks": "the random signs are hashes of the task ids",
    }
    expected_failed_checks: ClassVar[Mapping[str, str]] = {
        name: "an online learner depends on the order of the examples, so a weight of 2 is not two copies"
        for name in (
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        )
    }

    def __init__(
        self,
        budget: int | str | None = 500,
        kernel: Kernel = Gaussian(),
        graph: TaskGraph = complete(),
        rate: float = 0.8,
        margin: float = 1.0,
        random_state: Any = 0,
        task_column: int | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.budget = budget
        self.kernel = kernel
        self.graph = graph
        self.rate = rate
        self.margin = margin
        self.random_state = random_state
        self.task_column = task_column
        self.engine = engine

    def _with_rule(self, settings: Settings) -> Settings:
        """Check the parameters of the rule, and return the settings with them."""
        for name in ("rate", "margin"):
            if not is_real(getattr(self, name)) or getattr(self, name) <= 0:
                raise input_error(self._who, name, "a finite number above 0", shown(getattr(self, name)))
        if not isinstance(settings.kernel, Gaussian):
            raise input_error(
                self._who, "kernel", "Gaussian, the only kernel with random features here", shown(settings.kernel),
                "BudgetSgd takes every kernel.",
            )  # fmt: skip
        B = settings.capacity
        # No examples are stored, so the engine's store of examples gets the smallest possible capacity.
        return replace(settings, capacity=1).with_parameters(
            frequencies=WITHOUT_LIMIT if B is None else PER_EXAMPLE * B,
            rate=float(self.rate), margin=float(self.margin), seed=checked_seed(self._who, self.random_state) % 2**63,
        )  # fmt: skip
