"""The time to start: how much longer it takes than bare Python, or than importing scikit-learn's base classes.

Times are the processor time of a child process, user and system: its wall-clock time on an idle machine. Bytecode is
cached, as for every installed package.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
from measure import Row, interleaved, ratio_row

FIRST_EXAMPLE = """
import time
import sklearn.base
begun = time.process_time()
import numpy as np
from budgetron import RandomBudgetPerceptron
RandomBudgetPerceptron(budget=10).learn_one(np.zeros(28), 1)
print(time.process_time() - begun, begun)
"""
INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def process(*arguments: str) -> Callable[[], float]:
    def run() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=INSTALLED)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return run


def startup_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    times = 2 if quick else 7
    row = Row(name="start-help", work="budgetron --help", yardstick="bare Python", unit="ms", reach=150.0)
    taken = interleaved([process("-m", "budgetron", "--help"), process("-c", "pass")], times)
    yield ratio_row(row, (taken[:, 0] - taken[:, 1]) * 1e3, taken[:, 0], taken[:, 1])

    # In one process, because the times of two imports of scikit-learn differ by more than the target.
    row = Row(
        name="start-first-example",
        work="import budgetron and the first learned example",
        yardstick="import sklearn.base",
        unit="ms",
        reach=50.0,
    )
    child = [sys.executable, "-c", FIRST_EXAMPLE]
    runs = [subprocess.run(child, check=True, capture_output=True, text=True, env=INSTALLED) for _ in range(times + 1)]
    ours, theirs = np.array([run.stdout.split() for run in runs[1:]], dtype=float).T
    yield ratio_row(row, ours * 1e3, ours + theirs, theirs)
