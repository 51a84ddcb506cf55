"""Count which tasks send the most examples, in bounded memory.

`ShardedModel` counts every block with it, for `ShardedModel.busy_tasks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from budgetron.graphs.task_ids import plain


class BusyTasks:
    """Approximate counts of examples per task.

    When there are counts of more than 2 · `most` tasks, all but the `most` highest are dropped. A dropped task that
    occurs again is counted from 0, so a count may be too low but is never too high.
    """

    def __init__(self, most: int = 10_000) -> None:
        self.most = most
        self._counts: Counter[Hashable] = Counter()

    def count(self, tasks: Iterable[Hashable]) -> None:
        """Add one example for each task in the list."""
        self._counts.update(tasks)
        if len(self._counts) > 2 * self.most:
            self._counts = Counter(dict(self._counts.most_common(self.most)))

    def top(self, n: int) -> list[tuple[Hashable, int]]:
        """The n tasks with the most examples and their counts, busiest first."""
        return [(plain(task), count) for task, count in self._counts.most_common(n)]
