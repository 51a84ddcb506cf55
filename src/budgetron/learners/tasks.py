"""Tasks at the door: one a row, in an array, a list or a column of X; then as keys and clusters of the graph.

A model that was never given tasks has one, and needs none in any call. From the first call that teaches it with tasks
on, every call must name them: whoever forgets them would be answered for task 0. What was learned before that call,
without tasks, is of task 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from budgetron.errors import InputError, is_whole, refuse, refuse_type, shown
from budgetron.graphs import TaskGraph
from budgetron.learners.frames import is_frame

ONE_TASK = 0  # the key of `tasks=None`


def located(
    who: str, tasks: Any, n: int, graph: TaskGraph, tasked: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The key and the cluster of each row's task; `tasked` says that the model was taught with tasks."""
    if tasks is None:
        _refuse_none(who, "tasks", " for each row", graph, tasked)
        return np.full(n, ONE_TASK, dtype=np.int64), np.full(n, ONE_TASK, dtype=np.int64)
    names = listed(who, tasks, n)
    try:
        keys, clusters = graph.locate(names)
    except InputError as error:
        raise _named(who, error) from None
    return keys, np.ascontiguousarray(clusters)


def located_one(who: str, task: Hashable, graph: TaskGraph, tasked: bool) -> tuple[int, int]:
    """The key and the cluster of one task."""
    if task is not None:
        try:
            return graph.locate_one(task)
        except InputError as error:
            raise _named(who, error) from None
    _refuse_none(who, "task", "", graph, tasked)
    return ONE_TASK, ONE_TASK


def _refuse_none(who: str, parameter: str, each: str, graph: TaskGraph, tasked: bool) -> None:
    if graph.tasks is not None:
        raise refuse(who, parameter, f"a task of the graph{each}", "None")
    if tasked:
        accepted = f"given{each}, since the model was taught with tasks"
        raise refuse(who, parameter, accepted, "None", f"Pass {parameter}=, as when it learned.")


def listed(who: str, tasks: Any, n: int) -> Any:
    """The tasks as an array or list of length n."""
    if isinstance(tasks, (str, bytes)) or not isinstance(tasks, Iterable):
        raise refuse_type(who, "tasks", "one task for each row, in an array or list", shown(tasks))
    if hasattr(tasks, "to_numpy"):
        tasks = tasks.to_numpy()
    if not isinstance(tasks, (np.ndarray, list, tuple)):
        tasks = list(tasks)
    if isinstance(tasks, np.ndarray) and tasks.ndim != 1:
        raise refuse(who, "tasks", "one-dimensional", f"shape {tasks.shape}")
    if len(tasks) != n:
        raise refuse(who, "tasks", f"as long as X, {n} tasks", f"{len(tasks)}")
    return tasks


def _named(who: str, error: InputError) -> InputError:
    """What a graph or a name refuses, said by the learner that was asked."""
    return type(error)(f"{who}: {str(error).partition(': ')[2]}")


def without_column(who: str, X: Any, column: Any) -> tuple[Any, Any]:
    """X without its task column, and the tasks in it."""
    if is_frame(X):
        if is_whole(column) and column not in X.columns and -len(X.columns) <= column < len(X.columns):
            column = X.columns[column]
        if column not in X.columns:
            raise refuse(who, "task_column", f"a column of X, {shown(list(X.columns))}", shown(column))
        rest = X.drop(columns=column) if hasattr(X, "loc") else X.drop(column)
        return rest, X[column].to_numpy()
    if not is_whole(column):
        raise refuse_type(who, "task_column", "a column's number, or its name where X is a data frame", shown(column))
    array: Any = X.tocsc() if sparse.issparse(X) else X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
    if array.ndim != 2 or not -array.shape[1] <= column < array.shape[1]:
        raise refuse(who, "task_column", "a column of X", f"{column} for X of shape {array.shape}")
    keep = [place for place in range(array.shape[1]) if place != column % array.shape[1]]
    taken = array[:, [column % array.shape[1]]]
    return array[:, keep], (taken.toarray() if sparse.issparse(taken) else taken).ravel()
