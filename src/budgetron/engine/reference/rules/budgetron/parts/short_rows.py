"""Own weights of tasks that have no row: float32 copies of the numbers that one part stores in the row of a task.

A task has one slot, at the hash of its id. The slot belongs to the task that uses it most: it counts the examples of
its owner, up to 15. Each example of another task that wants the slot lowers the count by 1, and at 0 the slot changes
its owner. Until then, the other task starts from the prior. This costs less accuracy than using the weights of the
owner, with which the other task may have nothing in common.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron.engine.reference.examples.rows import Array, Integers
from budgetron.engine.reference.rules.budgetron.features.hashing import mix64

MAX_COUNT = 15
"""The largest count of a slot."""
FREE = int(np.iinfo(np.int64).min)
"""The owner of a slot that no task has used. It is never the id of a task."""
SLOT_OVERHEAD = 8 + 4
"""Bytes of a slot in the core in addition to its numbers, for owner and count."""


def slots_of(task_ids: Any, n_slots: int) -> Integers:
    """Return the slot of each task id."""
    return np.asarray(mix64(task_ids) % np.uint64(n_slots)).astype(np.int64)


class ShortRows:
    """The short rows of the part with the name `part`: `n_slots` slots with `width` numbers each."""

    def __init__(self, part: str, n_slots: int, width: int) -> None:
        self.part = part
        self.values = np.zeros((n_slots, width), dtype=np.float32)
        self.owners, self.counts = np.full(n_slots, FREE), np.zeros(n_slots, dtype=np.int64)

    def _slot_of(self, task_id: int) -> int | None:
        return int(slots_of(np.int64(task_id), len(self.owners))) if len(self.owners) else None

    def read(self, task_id: int) -> Array | None:
        """Return the numbers of a task, or None if it has no slot."""
        slot = self._slot_of(task_id)
        return None if slot is None or self.owners[slot] != task_id else self.values[slot].astype(np.float64)

    def write(self, task_id: int, numbers: Array) -> None:
        """Keep the numbers of a task, if its slot is free or belongs to it; otherwise lower the count of the slot."""
        slot = self._slot_of(task_id)
        if slot is None:
            return
        if self.owners[slot] != task_id:
            if self.counts[slot] > 0:
                self.counts[slot] -= 1
                return
            self.owners[slot] = task_id
        self.counts[slot] = min(self.counts[slot] + 1, MAX_COUNT)
        self.values[slot] = numbers

    def forget(self, task_id: int) -> None:
        slot = self._slot_of(task_id)
        if slot is not None and self.owners[slot] == task_id:
            self.owners[slot], self.counts[slot], self.values[slot] = FREE, 0, 0.0

    def state(self) -> dict[str, Any]:
        return {f"{self.part}_short": self.values, f"{self.part}_short_owner": self.owners,
                f"{self.part}_short_count": self.counts}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        self.values = np.array(state[f"{self.part}_short"], dtype=np.float32).reshape(self.values.shape)
        self.owners = np.array(state[f"{self.part}_short_owner"], dtype=np.int64)
        self.counts = np.array(state[f"{self.part}_short_count"], dtype=np.int64)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + SLOT_OVERHEAD * len(self.owners)
