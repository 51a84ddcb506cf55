"""Which tasks send the most examples, counted in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from budgetron.graphs.task_ids import plain


class HotTasks:
    """Counts of the busiest tasks. Past twice `most` tasks the quiet half is forgotten: counts are from below."""

    def __init__(self, most: int = 10_000) -> None:
        self.most = most
        self._counts: Counter[Hashable] = Counter()

    def see(self, tasks: Iterable[Hashable]) -> None:
        self._counts.update(tasks)
        if len(self._counts) > 2 * self.most:
            self._counts = Counter(dict(self._counts.most_common(self.most)))

    def top(self, n: int) -> list[tuple[Hashable, int]]:
        """The n busiest, the busiest first."""
        return [(plain(task), count) for task, count in self._counts.most_common(n)]
