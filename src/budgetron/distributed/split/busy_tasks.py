"""Count which tasks send the most examples, in bounded memory.

`ShardedModel` counts every block with it, for `ShardedModel.busy_tasks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from budgetron.graphs.task_ids import plain


class BusyTasks:
    """Approximate counts of examples per task.

    When more than 2 · `capacity` tasks are counted, only the `capacity` highest counts remain. A dropped task that
    occurs again is counted from 0, so a count may be too low but is never too high.
    """

    def __init__(self, capacity: int = 10_000) -> None:
        self.capacity = capacity
        self._counts: Counter[Hashable] = Counter()

    def count(self, tasks: Iterable[Hashable]) -> None:
        """Add one example for each task in the list."""
        self._counts.update(tasks)
        if len(self._counts) > 2 * self.capacity:
            self._counts = Counter(dict(self._counts.most_common(self.capacity)))

    def top(self, n: int) -> list[tuple[Hashable, int]]:
        """The n tasks with the most examples and their counts, busiest first."""
        return [(plain(task), count) for task, count in self._counts.most_common(n)]
