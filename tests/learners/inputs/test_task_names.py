"""`TaskNames` within a limit in bytes: which names are dropped, and how often the stored examples are searched."""

from __future__ import annotations

import numpy as np

from budgetron import graphs
from budgetron.graphs.task_ids import task_id_of
from budgetron.learners.input.task_names import TaskNames

N_STORED = 1000


def filled(limit, tasks):
    """Names of tasks that all have stored examples, and the calls that read the task ids of these examples."""
    names, calls = TaskNames(graphs.complete(), limit), []
    stored = np.array([task_id_of(task) for task in tasks])

    def stored_ids():
        calls.append("stored_ids")
        return stored

    for task_id, task in zip(stored.tolist(), tasks, strict=True):
        names.keep(task_id, task, stored_ids, len(stored))
    return names, calls


def test_names_that_do_not_fit_rarely_cause_a_search_for_names_to_drop():
    names, calls = filled(limit=4000, tasks=[f"user {i}" for i in range(N_STORED)])
    assert 0 < len(names.items()) < 40 and names.bytes <= 4000
    assert len(calls) <= 16


def test_names_without_stored_examples_make_room_for_new_names():
    names, _ = filled(limit=4000, tasks=[f"user {i}" for i in range(N_STORED)])
    others = [f"other {i}" for i in range(N_STORED)]
    stored = np.array([task_id_of(task) for task in others])
    for task_id, task in zip(stored.tolist(), others, strict=True):
        names.keep(task_id, task, lambda: stored, N_STORED)
    assert 0 < len(names.items()) < 40 and names.bytes <= 4000
    assert {task for _, task in names.items()} <= set(others)
