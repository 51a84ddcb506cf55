"""Drift detection by ADWIN: raise an alarm if the loss of a task, or of all tasks together, has risen.

ADWIN (A. Bifet and R. Gavaldà, Learning from Time-Changing Data with Adaptive Windowing, 2007) keeps a window of recent
losses in buckets. If for some cut the means of the older and the newer part differ by more than

    ε = √(2/m · σ² · ln(2/δ')) + 2/(3m) · ln(2/δ'),   1/m = 1/n₀ + 1/n₁,   σ² the variance of the window,

the older part is dropped; n₀ and n₁ are the numbers of losses in the two parts. If the newer mean is higher, an alarm
is raised. If it is lower, the model has improved.

All tasks share one table with a row of buckets per task, so a block of examples costs only a few array operations. A
row has at most 32 buckets. When it is full, two neighbours are merged: old buckets become large, and recent ones stay
small, so a change is noticed nearly as soon after a million losses as after a thousand.

δ' is the part of δ for one cut in one test (a union bound). Half of δ is for the row of all examples; the other half is
divided equally among `max_tasks` rows, also if fewer tasks occur. Within a row, the k-th test gets the part
1/(k (k + 1)), and its cuts get equal parts of that. So, if losses are independent and do not rise, the probability of
any false alarm is at most about δ, however long the stream is and however many tasks it has. Losses must lie in [0, 1]:
errors, or log losses clipped to 8 nats and divided by 8.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DELTA = 0.01  # the largest probability of any false alarm in a whole stream
LARGEST_LOSS = 8.0  # nats; larger log losses are clipped, because ADWIN needs bounded losses
_BUCKETS = 32  # per row
_BUCKET_SIZE = 32  # a bucket is closed, and its row tested, when it has at least this many examples
MAX_ALARMS = 100  # only the latest alarms are listed
OVERALL = 0  # the row of all examples


@dataclass(frozen=True)
class Alarm:
    """The loss of a task has risen: the position at which this was found, and the mean losses before and after.

    `loss` is "log loss", or "error" for a learner without probabilities. `task` is None and `overall` true for all
    examples together.
    """

    position: int
    task: Hashable
    overall: bool
    before: float
    after: float
    n: int  # examples since the change; for a task, only its own
    loss: str

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {"task": None if self.task is None else str(self.task)}


class Adwin:
    """ADWIN over rows of losses in [0, 1].

    >>> rng = np.random.default_rng(0)
    >>> adwin = Adwin(rows=1)
    >>> quiet = [adwin.add(np.zeros(100, dtype=int), rng.random(100) < 0.1) for _ in range(30)]
    >>> loud = [adwin.add(np.zeros(100, dtype=int), rng.random(100) < 0.5) for _ in range(10)]
    >>> any(quiet), any(loud)
    (False, True)
    """

    def __init__(self, rows: int, delta: float = DELTA) -> None:
        self._rows = rows
        self._delta = delta
        self._sums = np.zeros((1, _BUCKETS, 3))  # examples, sum of losses, sum of squares
        self._used = np.zeros(1, dtype=np.intp)  # buckets in use
        self._tests = np.zeros(1)  # tests so far: k
        self._pending = np.zeros((1, 3))  # sums of the bucket that is not full yet

    def add(
        self, rows: NDArray[np.intp], losses: Any, all_in_first: bool = False
    ) -> list[tuple[int, float, float, int]]:
        """Add losses, and return the rows whose loss rose: row, mean before, mean after, number of examples after.

        With `all_in_first`, row 0 gets the losses of all rows, and not only its own.
        """
        values = np.asarray(losses, dtype=np.float64)
        self._grow(int(rows.max(initial=0)) + 1)
        for column, weights in enumerate((None, values, values * values)):
            sums = np.bincount(rows, weights=weights, minlength=len(self._used))
            if all_in_first:
                sums[OVERALL] = len(rows) if weights is None else weights.sum()
            self._pending[:, column] += sums
        due = np.flatnonzero(self._pending[:, 0] >= _BUCKET_SIZE)
        return self._close_buckets(due) if due.size else []

    def _grow(self, rows: int) -> None:
        """Make room for this many rows."""
        old = len(self._used)
        if rows <= old:
            return
        # Doubling keeps the cost per new row constant on average.
        new = min(2 * rows, max(self._rows, rows))
        self._sums = np.concatenate([self._sums, np.zeros((new - old, _BUCKETS, 3))])
        self._used = np.concatenate([self._used, np.zeros(new - old, dtype=np.intp)])
        self._tests = np.concatenate([self._tests, np.zeros(new - old)])
        self._pending = np.concatenate([self._pending, np.zeros((new - old, 3))])

    def _close_buckets(self, due: NDArray[np.intp]) -> list[tuple[int, float, float, int]]:
        """End the current bucket of these rows, test them for drift, and merge buckets where a row is full."""
        self._sums[due, self._used[due]] = self._pending[due]
        self._used[due] += 1
        self._pending[due] = 0.0
        self._tests[due] += 1
        changes = self._changes(due)
        full = due[self._used[due] == _BUCKETS]
        if full.size:
            self._merge(full)
        return changes

    def _merge(self, full: NDArray[np.intp]) -> None:
        """Merge two neighbouring buckets of each of these rows, all of whose buckets are in use.

        The chosen pair is the smallest relative to the number of examples from it to the end of the window. So the
        sizes grow geometrically with age, as in ADWIN's exponential histogram, for a window of any length.
        """
        sums = self._sums[full]
        sizes = sums[:, :, 0]
        to_the_end = np.cumsum(sizes[:, ::-1], axis=1)[:, ::-1]
        pair = ((sizes[:, :-1] + sizes[:, 1:]) / to_the_end[:, :-1]).argmin(axis=1)
        every = np.arange(len(full))
        sums[every, pair] += sums[every, pair + 1]
        # Close the gap: buckets after the pair move one place to the left.
        place = np.arange(_BUCKETS - 1)
        source = place + (place > pair[:, None])
        self._sums[full, :-1] = sums[every[:, None], source]
        self._sums[full, -1] = 0.0
        self._used[full] -= 1

    def _changes(self, due: NDArray[np.intp]) -> list[tuple[int, float, float, int]]:
        """Test all cuts of these rows. If one is significant, drop the buckets before the most significant cut."""
        # `older[:, c]` has the sums of the buckets up to cut c: the part before a change.
        older = np.cumsum(self._sums[due], axis=1)
        total = older[:, -1]
        n0, n1 = older[:, :-1, 0], total[:, :1] - older[:, :-1, 0]
        # Only cuts between buckets that are in use.
        is_cut = np.arange(1, _BUCKETS) < self._used[due][:, None]
        safe0, safe1 = np.where(is_cut, n0, 1.0), np.where(is_cut, n1, 1.0)
        mean0, mean1 = older[:, :-1, 1] / safe0, (total[:, 1:2] - older[:, :-1, 1]) / safe1
        mean = total[:, 1] / total[:, 0]
        variance = np.maximum(total[:, 2] / total[:, 0] - mean * mean, 0.0)
        # The overall row has half of δ, and the rows of the tasks share the other half equally. Each row divides its
        # share equally among its cuts: δ / parts is the share of one cut.
        parts = np.where(due == OVERALL, 2.0, 2.0 * max(self._rows - 1, 1)) * (_BUCKETS - 1)
        tests = self._tests[due]
        # ln(2/δ') for the k-th test, k = `tests`.
        log = np.log(2.0 * parts * tests * (tests + 1) / self._delta)[:, None]
        inverse = 1.0 / safe0 + 1.0 / safe1
        limit = np.sqrt(2.0 * inverse * variance[:, None] * log) + 2.0 / 3.0 * inverse * log
        # A ratio above 1 means a significant change; the largest ratio is the most significant cut.
        ratio = np.where(is_cut, np.abs(mean1 - mean0) / np.maximum(limit, 1e-300), 0.0)
        cuts = ratio.argmax(axis=1)
        changed = np.flatnonzero(ratio[np.arange(len(due)), cuts] > 1.0)
        changes = []
        for j in changed.tolist():
            row, cut = int(due[j]), int(cuts[j])
            if mean1[j, cut] > mean0[j, cut]:
                changes.append((row, float(mean0[j, cut]), float(mean1[j, cut]), int(n1[j, cut])))
            self._drop(row, cut + 1)
        return changes

    def _drop(self, row: int, buckets: int) -> None:
        """Remove the oldest buckets of a row: the examples before a detected change."""
        remaining = int(self._used[row]) - buckets
        self._sums[row, :remaining] = self._sums[row, buckets : buckets + remaining].copy()
        self._sums[row, remaining:] = 0.0
        self._used[row] = remaining


class DriftMonitor:
    """Drift alarms of a stream: for all examples together, and for each task that is counted separately."""

    def __init__(self, max_tasks: int, loss: str, delta: float = DELTA) -> None:
        self.loss, self.total = loss, 0
        self._scale = LARGEST_LOSS if loss == "log loss" else 1.0
        self._adwin = Adwin(max_tasks + 1, delta)
        self.latest: deque[Alarm] = deque(maxlen=MAX_ALARMS)

    def add(self, task_rows: NDArray[np.intp], losses: Floats, position: int, names: Sequence[Hashable]) -> None:
        """Add losses. In `task_rows`, r is task `names[r − 1]`, and 0 is any task that is not counted separately."""
        # ADWIN needs losses in [0, 1].
        scaled = np.minimum(losses, self._scale) / self._scale
        if len(names) == 1 and names[0] is None:  # without tasks, all examples together are enough
            task_rows = np.zeros_like(task_rows)
        for row, before, after, n in self._adwin.add(task_rows, scaled, all_in_first=True):
            task = None if row == OVERALL else names[row - 1]
            means = before * self._scale, after * self._scale
            self.latest.append(Alarm(position, task, row == OVERALL, *means, n, self.loss))
            self.total += 1


def words(alarm: Alarm) -> str:
    """Describe an alarm in one sentence, without the name of its task."""
    means = (alarm.before, alarm.after)
    before, after = (f"{100 * mean:.1f} %" if alarm.loss == "error" else f"{mean:.3f}" for mean in means)
    whose = "" if alarm.overall else " of the task"
    ago = f"in the {alarm.n:,} examples{whose} up to example {alarm.position:,}"
    return f"the {alarm.loss} rose from {before} to {after} {ago}"
