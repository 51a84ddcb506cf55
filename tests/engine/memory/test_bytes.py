"""The bytes that a model reports agree with the C allocator, and byte budgets are kept after every step."""

from __future__ import annotations

import ctypes
import gc
import itertools

import numpy as np
import pytest
from covers import covering
from scipy import sparse

from budgetron import graphs, kernels
from budgetron.engine import memory, native
from budgetron.engine.settings import make_settings
from budgetron.errors import TooFewBytes
from budgetron.learners.registry import learner_class, learner_names

pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")
RULES = ["perceptron", "random_budget_perceptron", "forgetron", "budget_projectron", "shared_projectron"]


MALLINFO2 = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in MALLINFO2.split()]


def allocated():
    """Return the bytes that are allocated by malloc."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("the C library has no mallinfo2")
    libc.mallinfo2.restype = Mallinfo2
    gc.collect()
    info = libc.mallinfo2()
    return info.uordblks + info.hblkhd


def settings_of(rule, d, is_sparse, **more):
    if "projectron" in rule:
        more["eta"] = 0.01
    if rule != "shared_projectron":
        more.pop("max_task_rows", None)
    kernel, graph = kernels.Gaussian(0.1), graphs.complete()
    return make_settings(rule=rule, kernel=kernel, graph=graph, n_features=d, sparse=is_sparse, **more)


def make_learner(learner, **parameters):
    return learner(**{name: parameters[name] for name in parameters if name in learner().get_params()})


def rows_of(rng, n, d, is_sparse, dtype="float64"):
    if not is_sparse:
        return rng.normal(size=(n, d)).astype(dtype)
    return sparse.random(n, d, density=0.02, format="csr", random_state=rng, dtype=dtype)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("rule", RULES)
def test_memory_bytes_agree_with_the_allocator(rule, is_sparse):
    rng = np.random.default_rng(0)
    n, d = 3000, 2000 if is_sparse else 60
    X = rows_of(rng, n, d, is_sparse)
    codes, task_ids = rng.integers(2, size=n).astype(np.int32), rng.integers(50, size=n)
    clusters = np.zeros_like(task_ids)
    settings = settings_of(rule, d, is_sparse, capacity=None if rule == "perceptron" else 700)
    # The first engine of a process allocates memory that is never freed, so it is made before the measurement.
    native.Engine(settings).learn(X[:1], codes[:1], task_ids[:1], clusters[:1])
    before = allocated()
    engine = native.Engine(settings)
    engine.learn(X, codes, task_ids, clusters)
    real, reported = allocated() - before, engine.memory_bytes()
    assert reported > 200_000
    # malloc rounds sizes up, and `real` includes Python's own objects, so the two numbers are not equal.
    assert real == pytest.approx(reported, rel=0.02, abs=32 * 1024)


def test_a_row_beyond_the_whole_budget_is_learned_from_but_never_stored(learner):
    if "budget" not in learner().get_params():
        pytest.skip("this learner has no byte budget")
    rng = np.random.default_rng(4)
    usual, long = rows_of(rng, 50, 3000, True), sparse.csr_matrix(np.ones((1, 3000)))
    model = make_learner(learner, budget="64 KiB", kernel=kernels.Gaussian(0.5))
    model.partial_fit(usual, rng.integers(2, size=50))
    stored = model.active_set_.arrival
    for label in (0, 1, 0, 1):
        model.partial_fit(long, [label])
    assert np.array_equal(model.active_set_.arrival, stored)
    assert model.n_seen_ == 54
    assert model.memory_bytes_ <= 64 * 1024


@pytest.mark.parametrize("name", [name for name in learner_names() if "budget" in learner_class(name)().get_params()])
@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_the_bytes_that_an_error_asks_for_suffice(name, engine):
    tasks = range(1100)  # a large graph, of which the core also caches columns
    graph = graphs.from_edges(itertools.pairwise(tasks))
    X, y = np.eye(4), [0, 1, 0, 1]

    def new_model(budget):
        return make_learner(learner_class(name), budget=f"{budget} B", graph=graph, engine=engine)

    for too_few in (1, 2000, 5000, 8000):
        try:
            new_model(too_few).partial_fit(X, y, tasks=[0, 1, 2, 3])
        except TooFewBytes as error:
            model = new_model(error.needed).partial_fit(X, y, tasks=[0, 1, 2, 3])
            assert model.memory_bytes_ <= error.needed


BUDGETS = [48 * 1024, 200 * 1024, 2 * 2**20]
KINDS = ["dense", "float32", "sparse", "many classes", "names", "long sparse rows"]
BUDGETED = [name for name in learner_names() if "budget" in learner_class(name)().get_params()]


@pytest.mark.parametrize(("name", "kind", "budget"), list(covering(BUDGETED, KINDS, BUDGETS, one_in=3)))
def test_byte_budgets_are_kept_at_every_step(name, kind, budget):
    learner = learner_class(name)
    rng = np.random.default_rng(1)
    n, d = 600, 3000 if "sparse" in kind else 20
    X = rows_of(rng, n, d, "sparse" in kind, "float32" if kind == "float32" else "float64")
    if kind == "long sparse rows":  # the first block has only short rows
        lengths = np.where(np.arange(n) < 50, 20, rng.choice([0, 1, 20, 200], size=n))
        dense = np.zeros((n, d))
        for row, length in zip(dense, lengths, strict=True):
            row[rng.choice(d, size=length, replace=False)] = 1.0
        X = sparse.csr_matrix(dense)
    classes = 8 if kind == "many classes" else 2
    y = rng.integers(classes, size=n)
    tasks = [
        f"a rather long name of a task, number {task}" if kind == "names" else task
        for task in rng.integers(300, size=n)
    ]
    model = make_learner(learner, budget=f"{budget} B", kernel=kernels.Gaussian(0.5))
    for start in [0, *range(50, n, 5)]:
        block = slice(start, 50 if start == 0 else start + 5)
        model.partial_fit(X[block], y[block], tasks=tasks[block], classes=range(classes))
        assert model.memory_bytes_ <= budget, f"after {block.stop} examples"
    # How much of a budget is used by a model without stored examples is tested in `test_budgetron_bytes`.
    if model._engine.settings.kernel is not None:
        assert model.n_stored_ > 0 or model.capacity_ == 0
        assert model.memory_bytes_ > budget / 4 or model.n_stored_ > n / 4 or kind == "long sparse rows", (
            "less than a quarter of the budget is used"
        )


@pytest.mark.parametrize(
    "n_tasks", [4_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)
@pytest.mark.parametrize("budget", [50, "1 MiB"])
def test_memory_is_bounded_on_a_stream_of_new_tasks(learner, budget, n_tasks):
    """Each task occurs once. The memory stays within the byte budget, or within the bound that the settings imply."""
    if "budget" not in learner().get_params():
        pytest.skip("this learner has no budget")
    rng = np.random.default_rng(2)
    model, size, bound = make_learner(learner, budget=budget, kernel=kernels.Gaussian(0.5)), 2000, None
    for start in range(0, n_tasks, size):
        X = rng.normal(size=(size, 4))
        model.partial_fit(X, rng.integers(2, size=size), tasks=[f"user {task}" for task in range(start, start + size)])
        if bound is None:
            bound = (
                2**20 if isinstance(budget, str) else memory.bytes_of(model._engine.settings) + names_bytes(model)
            )
        assert model.memory_bytes_ <= bound
        assert len(model.active_set_.task) == model.n_stored_ <= model.capacity_
        assert all(name.startswith("user ") for name in model.active_set_.task) or isinstance(budget, str)
    assert model.n_seen_ == n_tasks


def names_bytes(model):
    """An upper bound on the bytes of task names: 200 for each of 2 B + 65 names, where B is the capacity.

    With more than 2 B + 64 names, a model drops the names of tasks without stored examples.
    """
    return (2 * model.capacity_ + 65) * 200


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_outputs", [1, 4])
@pytest.mark.parametrize("rule", RULES[1:])
def test_the_memory_formula_bounds_the_memory_of_the_engine(rule, n_outputs, is_sparse):
    """The formula of the memory planner is an upper bound of the engine's memory, and not much higher."""
    rng = np.random.default_rng(3)
    n, d = 1500, 500 if is_sparse else 30
    X = rows_of(rng, n, d, is_sparse)
    for capacity in (1, 7, 64, 300):
        rows = 40 if rule == "shared_projectron" else None
        pool = max(10 * capacity, 40) if is_sparse else None
        settings = settings_of(
            rule, d, is_sparse, capacity=capacity, pool=pool, n_outputs=n_outputs, max_task_rows=rows
        )
        engine = native.Engine(settings)
        task_ids = rng.integers(100, size=n)
        engine.learn(X, rng.integers(max(n_outputs, 2), size=n).astype(np.int32), task_ids, np.zeros_like(task_ids))
        bound = memory.bytes_of(settings)
        assert engine.memory_bytes() <= bound
        assert bound <= 1.6 * engine.memory_bytes() + 24 * 1024
