"""Running out of memory or threads, from Python. Each test has its own process with a limited address space."""

from __future__ import annotations

import subprocess
import sys

import pytest

from budgetron.engine import native

resource = pytest.importorskip("resource")
pytestmark = [
    pytest.mark.skipif(not native.available, reason="built without a compiler"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the address space is read from /proc"),
]

PREPARE = """
import resource
import numpy as np
from scipy import sparse
import budgetron
from budgetron import kernels

def limit_memory(spare):
    with open("/proc/self/statm") as file:
        in_use = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + spare, resource.RLIM_INFINITY))

def remove_limit():
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

def same_arrays(a, b):
    return a.keys() == b.keys() and all(np.array_equal(np.asarray(a[name]), np.asarray(b[name])) for name in a)
"""

REFUSED = """
learner = getattr(budgetron, NAME)
rng = np.random.default_rng(0)
n, d = 4000, 4000
X, y = rng.normal(size=(n, d)), rng.integers(2, size=n)
if SPARSE:
    X = sparse.csr_matrix(X)
tasks = [f"user {task}" for task in rng.integers(9, size=n)]
more = {"budget": None} if "budget" in learner().get_params() else {}
models = [learner(kernel=kernels.Gaussian(1e-5), **more) for _ in range(2)]
for model in models:
    model.partial_fit(X[:40], y[:40], tasks=tasks[:40])
model, twin = models
before = model._engine.state(), model.memory_bytes_, model.active_set_.task
# The rows take 128 MB (192 MB as CSR), and about half of them are mistakes, which would be stored.
limit_memory(40 * 2**20)
try:
    model.partial_fit(X, y, tasks=tasks)
except MemoryError:
    pass
else:
    raise AssertionError("memory should have run out")
finally:
    remove_limit()
assert same_arrays(before[0], model._engine.state()) and before[2] == model.active_set_.task
assert model.n_seen_ == 40 and model.memory_bytes_ == before[1]
for each in models:
    each.partial_fit(X[40:200], y[40:200], tasks=tasks[40:200])
assert same_arrays(model._engine.state(), twin._engine.state())
"""

THREADS = """
model = budgetron.RandomBudgetPerceptron(budget=20, kernel=kernels.Gaussian(0.5))
rng = np.random.default_rng(0)
X = rng.normal(size=(4096, 3))
model.partial_fit(X[:60], rng.integers(2, size=60))
expected = model.decision_function(X)
limit_memory(4 * 2**20)  # less than the stack of one thread
try:
    margins = model.decision_function(X, n_jobs=4)
finally:
    remove_limit()
assert np.array_equal(margins, expected)
"""


def run(script, **names):
    assignments = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    command = [sys.executable, "-c", PREPARE + assignments + script]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ["Perceptron", "SharedProjectron"])
def test_a_block_that_needs_too_much_memory_changes_nothing(name, is_sparse):
    run(REFUSED, NAME=name, SPARSE=is_sparse)


def test_predictions_work_if_no_thread_can_be_started():
    run(THREADS)
