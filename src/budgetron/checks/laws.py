"""The laws. Each is a function of a `Case` that raises `LawBroken` if it is violated; its docstring states the law."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from budgetron import graphs
from budgetron.checks.case import N_TASKS, Case, Stream, inside, require, require_equal, require_same, wrong
from budgetron.errors import InputError
from budgetron.kernels import Gaussian
from budgetron.learners import Perceptron

Law = Callable[[Case], None]
BYTES = 32 * 1024


def within_budget(case: Case) -> None:
    """The budget, in examples or in bytes, is never exceeded after any step."""
    for budget, held in ((case.budget, "n_stored_"), (f"{BYTES} B", "memory_bytes_")):
        limit = BYTES if isinstance(budget, str) else case.budget
        model, stream = case.model(budget=budget), case.stream()
        for t in range(len(stream)):
            try:
                case.follow(model, stream[t : t + 1])
            except InputError:
                if t == 0 and isinstance(budget, str):
                    break  # too few bytes for this graph: the model refuses before it stores anything
                raise
            now = getattr(model, held)
            require(now <= limit, f"budget {budget!r}: {held} is {now} after step {t}")


def constant_bytes(case: Case) -> None:
    """Memory is constant once the budget is full and every task has appeared."""
    stream = case.stream(2 * case.n)
    model, _ = case.learned(stream)
    require(model.n_stored_ <= case.budget, f"{model.n_stored_} stored")
    if model.n_stored_ < case.budget:
        return
    full = model.memory_bytes_
    for t in range(0, len(stream), 10):
        case.follow(model, stream[t : t + 10])
        require(model.memory_bytes_ == full, f"memory_bytes_ was {full} when full, {model.memory_bytes_} later")


def no_mistake_no_change(case: Case) -> None:
    """An example that is predicted right changes nothing."""
    stream = case.stream()
    model, _ = case.learned(stream)
    margins = np.asarray(model.decision_function(stream.X, tasks=stream.tasks))
    right = np.flatnonzero(~wrong(margins, stream.y))
    require(len(right) > 0, "not one example of the stream is predicted right after learning it")
    before = inside(model)
    case.follow(model, Stream(stream.X[right], stream.y[right], [stream.tasks[t] for t in right]))
    require_same(before, inside(model), "after examples that were predicted right", but=["n_seen"])


def dense_is_sparse(case: Case) -> None:
    """Dense and sparse rows with the same values give the same margins."""
    dense, scattered = case.but(sparse=False), case.but(sparse=True)
    require_equal(
        dense.learned(dense.stream())[1],
        scattered.learned(scattered.stream())[1],
        "dense and sparse",
        case,
    )


def closed_form_is_general(case: Case) -> None:
    """A graph in closed form and the same graph as an explicit matrix give the same margins."""
    names = range(N_TASKS)
    closed = case.graph(names)
    written = graphs.from_similarity([[closed.similarity(i, j) for j in names] for i in names], tasks=names)
    models = [case.model(graph=graph) for graph in (closed, written)]
    for model in models:
        _open_every_task(case, model)
    stream = case.stream()
    require_equal(
        case.follow(models[0], stream),
        case.follow(models[1], stream),
        f"{closed} and its matrix",
        case,
    )


def disconnected_is_separate(case: Case) -> None:
    """Without edges and with a large enough budget, each task behaves like a learner of its own."""
    stream = case.stream()
    together = case.model(graph=graphs.disconnected(), budget=len(stream))
    apart: dict[Any, Any] = {}
    margins = case.follow(together, stream)
    for t, task in enumerate(stream.tasks):
        one = apart.setdefault(task, case.model(graph=graphs.disconnected(), budget=len(stream)))
        alone = case.follow(one, stream[t : t + 1])
        require_equal(alone, margins[t : t + 1], f"task {task} at step {t}, alone and with others", case)


def relabelling(case: Case) -> None:
    """Renaming the tasks changes nothing."""
    stream = case.stream()
    _, expected = case.learned(stream)
    for names in (["d", "b", "a", "c"], [7, -3, 10**12, 0], [("x", i) for i in range(N_TASKS)]):
        _, margins = case.learned(stream.renamed(names), graph=case.graph(names))
        require_equal(expected, margins, f"tasks called {names}")


def ample_budget_is_perceptron(case: Case) -> None:
    """With a budget for all examples (and η = 0, if it has η) the learner equals the unbounded Perceptron."""
    stream = case.stream()
    _, margins = case.learned(stream, budget=len(stream), eta=0.0)
    _, expected = case.but(learner=Perceptron()).learned(stream)
    require_equal(expected, margins, "Perceptron and the learner with an ample budget", case)


def block_cuts(case: Case) -> None:
    """Cutting a stream into blocks, or learning it one example at a time, changes nothing."""
    if isinstance(case.kernel, Gaussian) and case.kernel.gamma != "scale":
        block_cuts(case.but(kernel=Gaussian()))  # nor does it change a γ that is estimated on the way
    stream = case.stream()
    whole, expected = case.learned(stream)
    cuts = [0, *sorted(np.random.default_rng(case.seed).integers(len(stream), size=7)), len(stream)]
    cut, one = case.model(), case.model()
    margins = [case.follow(cut, stream[a:b]) for a, b in pairwise(cuts) if a < b]
    require_equal(expected, np.concatenate(margins), f"one block, and cuts at {cuts}")
    require_same(inside(whole), inside(cut), f"one block, and cuts at {cuts}")
    ones = [one.learn_one(x, y, task=task, classes=list(range(case.n_classes)))
            for x, y, task in zip(stream.X, stream.y, stream.tasks, strict=True)]  # fmt: skip
    require_equal(expected, np.array(ones), "one block, and learn_one")


def stop_and_continue(case: Case) -> None:
    """Stopping, pickling and continuing in the copy equals not stopping."""
    if isinstance(case.kernel, Gaussian) and case.kernel.gamma != "scale":
        stop_and_continue(case.but(kernel=Gaussian(), n=case.n // 2))  # stops while γ is still estimated
    stream, half = case.stream(), case.n // 2
    whole, expected = case.learned(stream)
    stopped, first = case.learned(stream[:half])
    copy = pickle.loads(pickle.dumps(stopped))
    margins = np.concatenate([first, case.follow(copy, stream[half:])])
    require_equal(expected, margins, "not stopping, and going on in a copy")
    require_same(inside(whole), inside(copy), "not stopping, and going on in a copy")


def inputs_untouched(case: Case) -> None:
    """Input arrays are neither changed nor referenced after the call."""
    stream, probe = case.stream(), case.stream(20, more=1)
    given = Stream(stream.X.copy(), stream.y.copy(), list(stream.tasks))
    model, _ = case.learned(given)
    for mine, theirs in zip(_arrays(stream), _arrays(given), strict=True):
        require(np.array_equal(mine, theirs), "an input array was changed")
    before, margins = inside(model), model.decision_function(probe.X, tasks=probe.tasks)
    for theirs in _arrays(given):
        theirs[...] = 0
    given.tasks[:] = [0] * len(given)
    require_same(before, inside(model), "after the caller overwrote the input")
    require_equal(margins, model.decision_function(probe.X, tasks=probe.tasks), "the same, in margins")


def core_is_reference(case: Case) -> None:
    """The compiled engine and the NumPy engine give the same margins."""
    stream = case.stream()
    both = [case.learned(stream, engine=engine)[1] for engine in ("core", "numpy")]
    require_equal(both[0], both[1], "core and reference", case)


def refused_input(case: Case) -> None:
    """A rejected call raises a ValueError or TypeError and leaves the model bit for bit as it was."""
    model, _ = case.learned(case.stream())
    good, before = case.stream(8, more=2), inside(model)
    invalid = good.X.copy()
    _arrays(Stream(invalid, good.y, []))[0].flat[-1] = np.nan
    for what, X, y, tasks in (
        ("NaN in X", invalid, good.y, good.tasks),
        ("an unknown label", good.X, np.full(len(good), 77), good.tasks),
        ("too few labels", good.X, good.y[1:], good.tasks),
        ("too few tasks", good.X, good.y, good.tasks[1:]),
        ("too few columns", good.X[:, 1:], good.y, good.tasks),
        ("an unhashable task", good.X, good.y, [[]] * len(good)),
    ):
        for method in ("partial_fit", "predict_then_learn", "fit"):
            if method == "fit" and what in ("an unknown label", "too few columns"):
                continue  # fit starts over, so these are valid
            try:
                getattr(model, method)(X, y, tasks=tasks)
            except (ValueError, TypeError):
                require_same(before, inside(model), f"{method} rejected {what}")
            else:
                require(False, f"{method} accepted {what}")


def _arrays(stream: Stream) -> list[Any]:
    X = stream.X
    return [X.data, X.indices, X.indptr, stream.y] if sparse.issparse(X) else [X, stream.y]


def _open_every_task(case: Case, model: Any) -> None:
    """Make one mistake per task, so that all rows of coefficients exist before anything is evicted."""
    some = case.stream(N_TASKS, more=3)
    case.follow(model, some[:1])
    for task in range(N_TASKS):
        x = case.rows(np.eye(N_TASKS, some.X.shape[1])[task : task + 1])
        margins = model.decision_function(x, tasks=[task])
        y = int(margins[0] <= 0) if margins.ndim == 1 else int(margins[0].argmin())
        case.follow(model, Stream(x, np.array([y]), [task]))


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (
        within_budget, constant_bytes, no_mistake_no_change, dense_is_sparse, closed_form_is_general,
        disconnected_is_separate, relabelling, ample_budget_is_perceptron, block_cuts, stop_and_continue,
        inputs_untouched, core_is_reference, refused_input,
    )
}  # fmt: skip
"""All laws by name; a class uses these names to declare exemptions."""
