"""A new process: how much longer than bare Python, or than importing scikit-learn's base classes, ours takes.

The child's own processor time, user and system: what the wall clock shows where nothing else runs.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator

from measure import Row, interleaved, ratio_row

FIRST_EXAMPLE = """
import numpy as np
from budgetron import RandomBudgetPerceptron
RandomBudgetPerceptron(budget=10).learn_one(np.zeros(28), 1)
"""


def process(*arguments: str) -> Callable[[], float]:
    def run() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return run


def startup_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    for name, work, yardstick, ours, theirs, reach in (
        ("help", "budgetron --help", "bare Python", ("-m", "budgetron", "--help"), ("-c", "pass"), 150.0),
        (
            "first-example",
            "import budgetron and the first learned example",
            "import sklearn.base",
            ("-c", FIRST_EXAMPLE),
            ("-c", "import sklearn.base"),
            50.0,
        ),
    ):
        row = Row(name=f"start-{name}", work=work, yardstick=yardstick, unit="ms", reach=reach)
        times = interleaved([process(*ours), process(*theirs)], 2 if quick else 7)
        yield ratio_row(row, (times[:, 0] - times[:, 1]) * 1e3, times[:, 0], times[:, 1])
