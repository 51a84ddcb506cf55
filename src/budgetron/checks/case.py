"""The cases in which laws are tested: a learner, a kernel, a graph and a kind of rows, with random streams for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from budgetron import graphs, kernels
from budgetron.errors import BudgetronError

GraphOf = Callable[[Sequence[Hashable]], graphs.TaskGraph]
N_FEATURES = 5
N_TASKS = 4
GRID = 64  # values are multiples of 1/64, so that inner products are exact even in float32


class LawBroken(BudgetronError, AssertionError):
    """A learner violates a law."""


@dataclass(frozen=True)
class Stream:
    """Examples in order."""

    X: Any
    y: NDArray[Any]
    tasks: list[Hashable]

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, part: slice) -> Stream:
        return Stream(self.X[part], self.y[part], self.tasks[part])

    def renamed(self, names: Sequence[Hashable]) -> Stream:
        """Return the same stream with task i called names[i]."""
        return replace(self, tasks=[names[task] for task in self.tasks])  # type: ignore[call-overload]


@dataclass(frozen=True)
class Case:
    """A learner in one setting. Laws make new models and streams from it."""

    learner: Any
    kernel: kernels.Kernel = field(default_factory=lambda: kernels.Gaussian(gamma=0.3))
    graph: GraphOf = lambda names: graphs.complete()
    sparse: bool = False
    dtype: str = "float64"
    n_classes: int = 2
    budget: int | None = 9
    n: int = 120
    seed: int = 0

    def __str__(self) -> str:
        rows = f"{'sparse' if self.sparse else 'dense'} {self.dtype}"
        return f"{self.learner!r} with {self.kernel}, {self.graph(range(N_TASKS))}, {rows}, {self.n_classes} classes"

    @property
    def parameters(self) -> frozenset[str]:
        """The names of the learner's parameters."""
        return frozenset(self.learner.get_params(deep=False))

    @property
    def tolerance(self) -> float:
        """The largest difference allowed between two ways of computing a margin.

        It is larger where the core computes exponentials or stores weights in float32, which has about seven digits.
        """
        if getattr(self.learner, "single_weights", False):
            return 1e-5
        return 1e-5 if self.dtype == "float32" and isinstance(self.kernel, kernels.Gaussian) else 1e-9

    @property
    def tie_tolerance(self) -> float:
        """The difference below which margins count as tied.

        It is 0 for a learner that updates on correct predictions too: whether such a learner updates does not depend on
        rounding at a tie.
        """
        if "no_mistake_no_change" in getattr(self.learner, "exemptions", {}):
            return 0.0
        return 1e-6 if self.dtype == "float32" and isinstance(self.kernel, kernels.Gaussian) else 1e-10

    def but(self, **changes: Any) -> Case:
        """Return the same case with some fields changed."""
        return replace(self, **changes)

    def model(self, **parameters: Any) -> Any:
        """Return a new model with the kernel, graph and budget of this case, and with further parameters.

        Parameters that the learner does not have are ignored.
        """
        chosen = {"kernel": self.kernel, "graph": self.graph(range(N_TASKS)), "budget": self.budget} | parameters
        return clone(self.learner).set_params(**{name: chosen[name] for name in chosen if name in self.parameters})

    def rows(self, X: NDArray[Any]) -> Any:
        """Convert an array to the kind of rows of this case."""
        return sparse.csr_matrix(X, dtype=self.dtype) if self.sparse else np.array(X, dtype=self.dtype, order="C")

    def stream(self, n: int | None = None, variant: int = 0) -> Stream:
        """Return random rows (some zero, some repeated) with noisy labels of one linear concept per task.

        Each `variant` is another stream. The last task appears only after a third of the stream, so that laws also
        cover tasks that first appear in the middle.
        """
        rng = np.random.default_rng([self.seed, variant])
        n = self.n if n is None else n
        X = np.round(GRID * rng.normal(size=(n, N_FEATURES))).clip(-2 * GRID, 2 * GRID) / GRID
        X[rng.random(X.shape) < 0.2] = 0.0
        repeated = rng.random(n) < 0.1
        X[repeated] = X[rng.integers(n, size=repeated.sum())]
        # On a zero row, margins may tie. Two correct models may differ at a tie and after it, so `require_equal` then
        # stops comparing. It requires at least half of the margins, so rows are set to zero only in the second half.
        X[n // 2 :][rng.random(n - n // 2) < 0.06] = 0.0
        tasks = rng.integers(N_TASKS - 1, size=n)
        tasks[n // 3 :] = rng.integers(N_TASKS, size=n - n // 3)
        concept = rng.normal(size=(N_FEATURES, self.n_classes)) + 0.5 * rng.normal(
            size=(N_TASKS, N_FEATURES, self.n_classes)
        )
        scores = np.einsum("nd,ndc->nc", X, concept[tasks]) + 0.5 * rng.normal(size=(n, self.n_classes))
        return Stream(self.rows(X), scores.argmax(axis=1), tasks.tolist())

    def train(self, stream: Stream, **parameters: Any) -> tuple[Any, NDArray[np.float64]]:
        """Return a new model after a stream, and the margins before each update."""
        model = self.model(**parameters)
        return model, self.learn(model, stream)

    def learn(self, model: Any, stream: Stream) -> NDArray[np.float64]:
        """Let the model learn a stream; return the margins before each update."""
        margins: NDArray[np.float64] = model.predict_then_learn(
            stream.X, stream.y, tasks=stream.tasks, classes=list(range(self.n_classes))
        )
        return margins


def wrong(margins: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which predictions are mistakes; a tie counts as a mistake."""
    if margins.ndim == 1:
        return np.asarray((2 * y - 1) * margins <= 0)
    own = margins[np.arange(len(y)), y]
    others = margins.copy()
    others[np.arange(len(y)), y] = -np.inf
    return np.asarray(own <= others.max(axis=1))


def state_of(model: Any) -> dict[str, Any]:
    """Return the state of a model as named arrays: its engine's state or, without an engine, its public attributes."""
    if getattr(model, "_engine", None) is not None:
        return dict(model._engine.state())
    active = model.active_set_
    rows = active.rows.toarray() if sparse.issparse(active.rows) else active.rows
    return {
        "arrival": active.arrival,
        "rows": rows,
        "coef": active.coef,
        "n_mistakes": model.n_mistakes_,
        "n_seen": model.n_seen_,
    }


def require(condition: bool, what: str) -> None:
    """Raise `LawBroken` unless the condition holds."""
    if not condition:
        raise LawBroken(what)


def require_same(before: dict[str, Any], after: dict[str, Any], what: str, but: Sequence[str] = ()) -> None:
    """Require two states to be equal bit for bit, except for the arrays named in `but`."""
    for name in before.keys() | after.keys():
        if name not in but:
            same = name in before and name in after and np.array_equal(before[name], after[name], equal_nan=True)
            require(same, f"{what}: {name} differs, {before.get(name)!r} and {after.get(name)!r}")


def require_equal(a: NDArray[np.float64], b: NDArray[np.float64], what: str, case: Case | None = None) -> None:
    """Require the margins of two models to be equal bit for bit or, with a case, within its tolerance.

    With a case, margins are compared only up to the first tie at which they differ. Rounding decides a tie, so the
    models may differ afterwards although both are correct.
    """
    tolerance, tie_tolerance = (0.0, 0.0) if case is None else (case.tolerance, case.tie_tolerance)
    require(a.shape == b.shape, f"{what}: shapes {a.shape} and {b.shape}")
    rows_a, rows_b = a.reshape(len(a), -1), b.reshape(len(b), -1)
    differing_ties = (rows_a != rows_b).any(axis=1) & _are_tied(rows_a, tie_tolerance)
    end = int(differing_ties.argmax()) + 1 if differing_ties.any() else len(a)
    # A tie in the first half would leave too few margins to compare.
    require(2 * end >= len(a), f"{what}: margins differ at a tie at step {end - 1}, so too few can be compared")
    sizes = np.maximum(1.0, np.abs(rows_a).max(axis=1))  # relative to margins above 1, absolute below
    differ = ~(np.abs(rows_a - rows_b).max(axis=1) <= tolerance * sizes)[:end]  # negated: NaN counts as different
    if differ.any():
        t = int(np.flatnonzero(differ)[0])
        raise LawBroken(f"{what}: margins first differ at step {t}, {a[t]} and {b[t]}; {differ.sum()} of {end} in all")


def _are_tied(margins: NDArray[np.float64], tolerance: float) -> NDArray[np.bool_]:
    """Whether a margin is zero, or two classes have equal margins, up to rounding."""
    if margins.shape[1] == 1:
        return np.abs(margins[:, 0]) < tolerance
    return np.asarray((np.diff(np.sort(margins, axis=1), axis=1) < tolerance).any(axis=1))
