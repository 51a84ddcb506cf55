"""One example passes through the files that CONTRIBUTING lists and no others, and is converted and checked once."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import budgetron
from budgetron.engine import native

X = np.random.default_rng(0).normal(size=(40, 3))
Y, TASKS = (X[:, 0] * X[:, 1] > 0).astype(int), [f"user {i % 4}" for i in range(40)]
PACKAGE = Path(budgetron.__file__).parent
pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")


def called(call):
    """Run `call`, and return how often it ran each function of the package: {file name: {function: count}}."""
    counts_by_file = {}

    def trace(frame, event, arg):
        path = Path(frame.f_code.co_filename)
        if PACKAGE in path.parents:
            counts = counts_by_file.setdefault(path.name, {})
            counts[frame.f_code.co_name] = counts.get(frame.f_code.co_name, 0) + 1

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return counts_by_file


def test_a_call_runs_the_files_that_the_guide_lists_and_no_others(learner):
    model = learner().partial_fit(X[:30], Y[:30], tasks=TASKS[:30])
    # Reversed labels are mistakes, so that some examples are stored.
    files = called(lambda: model.partial_fit(X[30:], 1 - Y[30:], tasks=TASKS[30:]))
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = guide.split("## The path of one example")[1].split("The first block")[0]
    files_in_guide = set(re.findall(r"(\w+\.py)", section))
    assert len(files_in_guide) == 8
    assert files.keys() == files_in_guide


@pytest.mark.parametrize("first", [True, False], ids=["first block", "later block"])
def test_nothing_is_converted_or_checked_twice(learner, first):
    model = learner()
    if not first:
        model.partial_fit(X[:30], Y[:30], tasks=TASKS[:30])
    files = called(lambda: model.partial_fit(X[30:], Y[30:], tasks=TASKS[30:]))
    steps = ("matrix", "labels", "task_sequence", "located", "codes", "first_bad_row", "locate")
    counts = Counter()
    for functions in files.values():
        counts.update({name: count for name, count in functions.items() if name in steps})
    assert counts == dict.fromkeys(steps, 1)


def test_fit_converts_rows_and_labels_once(learner):
    files = called(lambda: learner().fit(X, Y, tasks=TASKS))
    assert files["validation.py"]["matrix"] == files["validation.py"]["labels"] == 1
