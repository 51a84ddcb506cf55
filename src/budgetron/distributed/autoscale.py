"""`Autoscaler`: how many workers a model in shards should have, from the number of examples that wait for it.

The caller observes the queue at regular intervals (the service every second) and calls `change`. The rule is simple,
so that its behaviour can be predicted. If more than `high` examples per worker wait, one worker is added. If no example
waited in `calm` observations in a row, one worker is removed. Each observation causes at most one change, and the
number of workers stays between `min_workers` and `max_workers`. While the queue stays long, the model gets all workers
within `max_workers` − `min_workers` observations. While nothing waits, it loses one worker per `calm` observations.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Autoscaler:
    """Decide whether to add or remove a worker. The caller observes the queue, and adds or removes the worker.

    Parameters
    ----------
    min_workers, max_workers : int
        The bounds of the number of workers.
    high : int, default=5000
        Waiting examples per worker above which a worker is added.
    calm : int, default=60
        Observations in a row without a waiting example after which one worker is removed.

    Examples
    --------
    >>> from budgetron.distributed.autoscale import Autoscaler
    >>> scaler = Autoscaler(min_workers=1, max_workers=3, calm=2)
    >>> [scaler.change(waiting=20_000, workers=n) for n in (1, 2, 3)]
    [1, 1, 0]
    >>> [scaler.change(waiting=0, workers=3) for _ in range(3)]
    [0, -1, 0]
    """

    min_workers: int
    max_workers: int
    high: int = 5_000
    calm: int = 60
    _calm_for: int = 0  # observations in a row without a waiting example

    def change(self, waiting: int, workers: int) -> int:
        """Return 1 to add a worker now, -1 to remove one, and 0 to change nothing."""
        self._calm_for = self._calm_for + 1 if waiting == 0 else 0
        if waiting > self.high * workers and workers < self.max_workers:
            return 1
        if self._calm_for >= self.calm and workers > self.min_workers:
            self._calm_for = 0
            return -1
        return 0
