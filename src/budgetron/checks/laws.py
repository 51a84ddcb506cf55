"""The laws. Each is a function of a `Case` that raises `LawBroken` if it is violated; its docstring states the law."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from budgetron import graphs
from budgetron.checks.case import N_TASKS, Case, Stream, require, require_equal, require_same, state_of, wrong
from budgetron.errors import TooFewBytes
from budgetron.kernels import Gaussian
from budgetron.learners import Perceptron

Law = Callable[[Case], None]
BYTES = 32 * 1024  # byte budget of `within_budget`, if the graph needs no more


def within_budget(case: Case) -> None:
    """The budget, in examples or in bytes, is not exceeded after any step."""
    n_bytes = _sufficient_bytes(case)
    for budget, limit, attribute in (
        (case.budget, case.budget, "n_stored_"), (f"{n_bytes} B", n_bytes, "memory_bytes_"),
    ):  # fmt: skip
        model, stream = case.model(budget=budget), case.stream()
        for t in range(len(stream)):
            case.learn(model, stream[t : t + 1])
            used = getattr(model, attribute)
            require(used <= limit, f"budget {budget!r}: {attribute} is {used} after step {t}")


def _sufficient_bytes(case: Case) -> int:
    """Return `BYTES`, or the larger budget that the learner asks for because these are too few for the graph."""
    try:
        case.learn(case.model(budget=f"{BYTES} B"), case.stream()[:1])
    except TooFewBytes as error:
        require(error.needed > BYTES, f"budget '{BYTES} B' is rejected, although {error.needed} bytes are asked for")
        return error.needed
    return BYTES


def constant_bytes(case: Case) -> None:
    """Memory is constant once the budget is full and every task has appeared."""
    stream = case.stream(2 * case.n)
    model, _ = case.train(stream)
    require(model.n_stored_ <= case.budget, f"{model.n_stored_} stored")
    if model.n_stored_ < case.budget:
        return  # the stream made too few mistakes to fill the budget: there is nothing to check
    bytes_when_full = model.memory_bytes_
    for t in range(0, len(stream), 10):
        case.learn(model, stream[t : t + 10])
        what = f"memory_bytes_ was {bytes_when_full} when the budget was full, {model.memory_bytes_} later"
        require(model.memory_bytes_ == bytes_when_full, what)


def no_mistake_no_change(case: Case) -> None:
    """An example that is predicted correctly changes nothing but `n_seen`."""
    stream = case.stream()
    model, _ = case.train(stream)
    margins = np.asarray(model.decision_function(stream.X, tasks=stream.tasks))
    correct = np.flatnonzero(~wrong(margins, stream.y))
    require(len(correct) > 0, "not one example of the stream is predicted correctly after learning it")
    before = state_of(model)
    case.learn(model, Stream(stream.X[correct], stream.y[correct], [stream.tasks[t] for t in correct]))
    require_same(before, state_of(model), "after examples that were predicted correctly", but=["n_seen"])


def dense_is_sparse(case: Case) -> None:
    """Dense and sparse rows with the same values give the same margins."""
    dense_case, sparse_case = case.but(sparse=False), case.but(sparse=True)
    require_equal(
        dense_case.train(dense_case.stream())[1],
        sparse_case.train(sparse_case.stream())[1],
        "dense and sparse",
        case,
    )


def closed_form_is_general(case: Case) -> None:
    """A graph in closed form and the same graph as an explicit matrix give the same margins."""
    names = range(N_TASKS)
    closed = case.graph(names)
    explicit = graphs.from_similarity([[closed.similarity(i, j) for j in names] for i in names], tasks=names)
    models = [case.model(graph=graph) for graph in (closed, explicit)]
    for model in models:
        _give_every_task_coefficients(case, model)
    stream = case.stream()
    require_equal(
        case.learn(models[0], stream),
        case.learn(models[1], stream),
        f"{closed} and its matrix",
        case,
    )


def disconnected_is_separate(case: Case) -> None:
    """Without edges and with a large enough budget, each task has the same margins as with a learner of its own."""
    stream = case.stream()
    together = case.model(graph=graphs.disconnected(), budget=len(stream))
    separate: dict[Any, Any] = {}
    margins = case.learn(together, stream)
    for t, task in enumerate(stream.tasks):
        model = separate.setdefault(task, case.model(graph=graphs.disconnected(), budget=len(stream)))
        margin = case.learn(model, stream[t : t + 1])
        require_equal(margin, margins[t : t + 1], f"task {task} at step {t}, alone and with others", case)


def renaming_tasks(case: Case) -> None:
    """Renaming the tasks does not change the margins."""
    stream = case.stream()
    _, expected = case.train(stream)
    for names in (["d", "b", "a", "c"], [7, -3, 10**12, 0], [("x", i) for i in range(N_TASKS)]):
        _, margins = case.train(stream.renamed(names), graph=case.graph(names))
        require_equal(expected, margins, f"tasks called {names}")


def ample_budget_is_perceptron(case: Case) -> None:
    """With a budget for all examples (and η = 0, if η is a parameter) the learner equals the unbounded Perceptron."""
    stream = case.stream()
    _, margins = case.train(stream, budget=len(stream), eta=0.0)
    _, expected = case.but(learner=Perceptron()).train(stream)
    require_equal(expected, margins, "Perceptron and the learner with an ample budget", case)


def block_cuts(case: Case) -> None:
    """Blocks of any size, and single examples, give the same margins as one block; blocks also give the same state."""
    if isinstance(case.kernel, Gaussian) and case.kernel.gamma != "scale":
        block_cuts(case.but(kernel=Gaussian()))  # also with a γ that is estimated from the stream
    stream = case.stream()
    whole, expected = case.train(stream)
    cuts = [0, *sorted(np.random.default_rng(case.seed).integers(len(stream), size=7)), len(stream)]
    cut, single = case.model(), case.model()
    margins = [case.learn(cut, stream[a:b]) for a, b in pairwise(cuts) if a < b]
    require_equal(expected, np.concatenate(margins), f"one block, and cuts at {cuts}")
    require_same(state_of(whole), state_of(cut), f"one block, and cuts at {cuts}")
    single_margins = [single.learn_one(x, y, task=task, classes=list(range(case.n_classes)))
                      for x, y, task in zip(stream.X, stream.y, stream.tasks, strict=True)]  # fmt: skip
    require_equal(expected, np.array(single_margins), "one block, and learn_one")


def stop_and_continue(case: Case) -> None:
    """Pickling and unpickling a model in mid-stream does not change how it continues."""
    if isinstance(case.kernel, Gaussian) and case.kernel.gamma != "scale":
        stop_and_continue(case.but(kernel=Gaussian(), n=case.n // 2))  # also while γ is still being estimated
    stream, half = case.stream(), case.n // 2
    whole, expected = case.train(stream)
    stopped, first = case.train(stream[:half])
    copy = pickle.loads(pickle.dumps(stopped))
    margins = np.concatenate([first, case.learn(copy, stream[half:])])
    require_equal(expected, margins, "the uninterrupted model and the unpickled one")
    require_same(state_of(whole), state_of(copy), "the uninterrupted model and the unpickled one")


def inputs_untouched(case: Case) -> None:
    """Input arrays are neither changed nor referenced after the call."""
    stream, probe = case.stream(), case.stream(20, variant=1)
    copies = Stream(stream.X.copy(), stream.y.copy(), list(stream.tasks))
    model, _ = case.train(copies)
    for original, passed in zip(_arrays(stream), _arrays(copies), strict=True):
        require(np.array_equal(original, passed), "an input array was changed")
    before, margins = state_of(model), model.decision_function(probe.X, tasks=probe.tasks)
    for passed in _arrays(copies):
        passed[...] = 0
    copies.tasks[:] = [0] * len(copies)
    require_same(before, state_of(model), "after the caller overwrote the input")
    again = model.decision_function(probe.X, tasks=probe.tasks)
    require_equal(margins, again, "margins before and after the caller overwrote the input")


def core_is_reference(case: Case) -> None:
    """The compiled engine and the NumPy engine give the same margins."""
    stream = case.stream()
    compiled, reference = (case.train(stream, engine=engine)[1] for engine in ("core", "numpy"))
    require_equal(compiled, reference, "the compiled engine and the NumPy engine", case)


def rejected_input(case: Case) -> None:
    """A rejected call raises a ValueError or TypeError and leaves the model bit for bit as it was."""
    model, _ = case.train(case.stream())
    good, before = case.stream(8, variant=2), state_of(model)
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
                continue  # fit starts over, so no label is unknown to it, and any number of columns is valid
            try:
                getattr(model, method)(X, y, tasks=tasks)
            except (ValueError, TypeError):
                require_same(before, state_of(model), f"{method} rejected {what}")
            else:
                require(False, f"{method} accepted {what}")


def _arrays(stream: Stream) -> list[Any]:
    X = stream.X
    return [X.data, X.indices, X.indptr, stream.y] if sparse.issparse(X) else [X, stream.y]


def _give_every_task_coefficients(case: Case, model: Any) -> None:
    """Make one mistake per task, so that all rows of coefficients exist before anything is evicted."""
    stream = case.stream(N_TASKS, variant=3)
    case.learn(model, stream[:1])
    for task in range(N_TASKS):
        x = case.rows(np.eye(N_TASKS, stream.X.shape[1])[task : task + 1])
        margins = model.decision_function(x, tasks=[task])
        y = int(margins[0] <= 0) if margins.ndim == 1 else int(margins[0].argmin())
        case.learn(model, Stream(x, np.array([y]), [task]))


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (
        within_budget, constant_bytes, no_mistake_no_change, dense_is_sparse, closed_form_is_general,
        disconnected_is_separate, renaming_tasks, ample_budget_is_perceptron, block_cuts, stop_and_continue,
        inputs_untouched, core_is_reference, rejected_input,
    )
}  # fmt: skip
"""All laws by name; a class uses these names to declare exemptions."""
