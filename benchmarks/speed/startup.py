"""The time to start: how much longer it takes than bare Python, or than importing scikit-learn's base classes.

Times are the user and system time of a child process, which on an idle machine is close to its wall-clock time.
Bytecode is cached, as for every installed package.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

import numpy as np
from measure import Row, interleaved, ratio_row

FIRST_EXAMPLE = """
import time
import sklearn.base
begin = time.process_time()
import numpy as np
from budgetron import RandomBudgetPerceptron
RandomBudgetPerceptron(budget=10).learn_one(np.zeros(28), 1)
print(time.process_time() - begin, begin)
"""
CRASHED = """
import sys
import numpy as np
from budgetron import Budgetron
from budgetron.durable import Host
rng = np.random.default_rng(0)
host = Host.open(sys.argv[1], make_model=Budgetron)
for _ in range(50):
    X = rng.standard_normal((100, 28))
    host.learn(X, X[:, 0] > 0, tasks=rng.integers(0, 8, 100), classes=[False, True])
import os
os._exit(1)  # nothing is closed: the log has to be replayed
"""
RESTART = """
import sys
import time
import sklearn.base
begin = time.process_time()
from budgetron.durable.recovery import load_copy
import budgetron.service.run
from pathlib import Path
load_copy(Path(sys.argv[1]))
print(time.process_time() - begin, begin)
"""
# Let the children cache bytecode, as an installed package has it.
INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def process(*arguments: str) -> Callable[[], float]:
    """Return work that runs Python with these arguments, and returns its processor time."""

    def run() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=INSTALLED)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return run


def startup_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    times = 2 if quick else 7
    row = Row(name="start-help", work="budgetron --help", yardstick="bare Python", unit="ms", reach=150.0)
    seconds = interleaved([process("-m", "budgetron", "--help"), process("-c", "pass")], times)
    yield ratio_row(row, (seconds[:, 0] - seconds[:, 1]) * 1e3, seconds[:, 0], seconds[:, 1])

    # In one process, because the times of two imports of scikit-learn differ by more than the target.
    row = Row(
        name="start-first-example",
        work="import budgetron and the first learned example",
        yardstick="import sklearn.base",
        unit="ms",
        reach=50.0,
    )
    yield beyond_import(row, [FIRST_EXAMPLE], times)

    row = Row(
        name="start-after-crash",
        work="restart of a service after a crash, Budgetron, 5,000 rows in the log",
        yardstick="import sklearn.base",
        unit="×",
        reach=1.0,
    )
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", CRASHED, folder + "/model"], env=INSTALLED)
        yield beyond_import(row, [RESTART, folder + "/model"], times)


def beyond_import(row: Row, program: list[str], times: int) -> Row:
    """The time that a program takes after `import sklearn.base`, in ms, or relative to its time up to then."""
    child = [sys.executable, "-c", *program]
    runs = [subprocess.run(child, check=True, capture_output=True, text=True, env=INSTALLED) for _ in range(times + 1)]
    # The first run is left out, because it may write the bytecode cache.
    ours, theirs = np.array([run.stdout.split() for run in runs[1:]], dtype=float).T
    return ratio_row(row, ours * 1e3 if row.unit == "ms" else ours / theirs, ours + theirs, theirs)
