"""Task ids: the 64-bit numbers by which the engines identify tasks (`key` in saved states).

An integer task in the range below is its own id. The id of any other name is a stable hash, the same in every process
and on every machine. So a model needs no table of all tasks; it remembers only the names of tasks with stored examples.
Changing the hash would make saved models unusable.

    in (−2⁶¹, 2⁶¹)         an integer task, itself
    2⁶² + 61 hash bits     any other name
    2⁶² + 2⁶¹ and above    never a task id: `graphs.clusters` numbers its clusters there
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import uuid
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.errors import input_type_error, shown
from budgetron.graphs.hashed_names import HashedNames, hash_of

HASHED = 1 << 62
NOT_A_TASK = HASHED + (1 << 61)
_INTEGER_LIMIT = 1 << 61
_HASH_MASK = (1 << 61) - 1
_ACCEPTED = "an integer, a string or another plain hashable (bytes, float, date, UUID, enum, tuple, frozenset)"
_IDENTIFIED_BY_REPR = (  # types whose repr identifies the value, in every process
    complex, datetime.date, datetime.time, datetime.timedelta, uuid.UUID, decimal.Decimal, fractions.Fraction,
)  # fmt: skip
# Values of these types, and tuples of them, are equal only if they are one task. This is not so for other types: two
# times that are the same in different time zones are equal, and so are a member of a string enum and its string.
_EQUAL_IF_SAME = frozenset({
    str, bytes, bool, int, float, type(None), datetime.date, datetime.timedelta, uuid.UUID, np.str_, np.int64,
})  # fmt: skip


def plain(task: Any) -> Hashable:
    """Convert a task to plain Python, so that equal names (1, 1.0, True, np.int64(1)) are one task."""
    if isinstance(task, np.generic):
        task = task.item()
    # Python treats 1, 1.0 and True as equal dict keys; so do we.
    if isinstance(task, bool) or (isinstance(task, float) and task.is_integer()):
        return int(task)
    if isinstance(task, float) and task != task:
        raise input_type_error("tasks", "a task", _ACCEPTED, "NaN", "Use a name for missing tasks, such as 'unknown'.")
    return task  # type: ignore[no-any-return]


def task_id_of(task: Any) -> int:
    """Return the id of one task."""
    # The two frequent types first; `type` is faster than `isinstance` and excludes bool and enums.
    if type(task) is int and -_INTEGER_LIMIT < task < _INTEGER_LIMIT:
        return task
    if type(task) is str:
        return STRING_IDS[task]
    task = plain(task)
    if isinstance(task, int) and -_INTEGER_LIMIT < task < _INTEGER_LIMIT:
        return int(task)
    return _hashed(_canonical(task))


def task_ids_of(tasks: Iterable[Any]) -> NDArray[np.int64]:
    """Return the ids of many tasks, in order. Arrays of integers in range are returned as int64."""
    if isinstance(tasks, np.ndarray) and tasks.dtype.kind in "iub" and _are_in_range(tasks):
        return np.ascontiguousarray(tasks, dtype=np.int64)
    names = tasks.tolist() if isinstance(tasks, np.ndarray) else list(tasks)
    if set(map(type, names)) == {str}:
        return np.fromiter(map(STRING_IDS.__getitem__, names), np.int64, len(names))
    # Names that repeat in the block are hashed once.
    known: dict[Hashable, int] = {}
    task_ids = []
    for task in names:
        kind = type(task)
        if kind is str:
            task_ids.append(STRING_IDS[task])
        elif kind in _EQUAL_IF_SAME or (kind is tuple and _EQUAL_IF_SAME.issuperset(map(type, task))):
            task_id = known.get(task)
            if task_id is None:
                task_id = known[task] = task_id_of(task)
            task_ids.append(task_id)
        else:
            task_ids.append(task_id_of(task))
    return np.array(task_ids, dtype=np.int64)


def is_named(task_id: int) -> bool:
    """Return whether an id is a hash. Then the name can be shown only if it was stored."""
    return task_id >= HASHED


def _are_in_range(tasks: NDArray[Any]) -> bool:
    return (
        tasks.dtype.itemsize < 8
        or tasks.size == 0
        or (int(tasks.min()) > -_INTEGER_LIMIT and int(tasks.max()) < _INTEGER_LIMIT)
    )


def _hashed(canonical: bytes) -> int:
    return HASHED + (hash_of(canonical) & _HASH_MASK)


STRING_IDS = HashedNames(lambda task: _hashed(b"s" + task.encode("utf-8", "surrogatepass")))
"""The ids of tasks that are strings."""


def _canonical(task: Any) -> bytes:
    """Return bytes that identify a name, the same in every process. Different names have different bytes.

    Some values that Python compares as equal, such as Decimal("1.0") and Decimal("1.00"), have different bytes, and so
    are different tasks. The first byte is the type. Each part of a tuple or set begins with its length, which makes the
    encoding unique.
    """
    task = plain(task)
    if isinstance(task, enum.Enum):
        return b"e" + f"{type(task).__module__}.{type(task).__qualname__}.{task.name}".encode()
    if isinstance(task, str):
        return b"s" + task.encode("utf-8", "surrogatepass")
    if isinstance(task, bytes):
        return b"b" + task
    if isinstance(task, int):
        return b"i" + str(task).encode()
    if isinstance(task, float):
        return b"f" + task.hex().encode()
    if isinstance(task, (tuple, frozenset)):
        parts = [_canonical(part) for part in task]
        if isinstance(task, frozenset):
            # A set has no order, so its parts are sorted by their bytes.
            parts.sort()
        return (b"t" if isinstance(task, tuple) else b"z") + b"".join(b"%d:" % len(part) + part for part in parts)
    if task is None or isinstance(task, _IDENTIFIED_BY_REPR):
        return b"r" + f"{type(task).__name__}:{task!r}".encode()
    raise input_type_error("tasks", "a task", _ACCEPTED, shown(task), f"Use a string, not a {type(task).__name__}.")
