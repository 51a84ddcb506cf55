"""`Autoscaler`: how many workers a model in shards should have, from the number of examples that wait for it.

The rule is plain on purpose. Above `high` waiting examples per worker one worker is added; after `calm` observations
in a row without any that wait, one is removed. There is one change per observation at most, and there are never fewer
than `least` nor more than `most` workers. So a queue that stays long gets all workers after `most` − `least`
observations, and a worker more than the queue needs is idle for at most `calm` observations.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Autoscaler:
    """Decides; the caller observes the queue, and adds or removes the worker.

    Parameters
    ----------
    least, most : int
        The bounds of the number of workers.
    high : int, default=5000
        Waiting examples per worker above which a worker is added.
    calm : int, default=60
        Observations without a waiting example after which one is removed.

    Examples
    --------
    >>> from budgetron.distributed.autoscale import Autoscaler
    >>> scaler = Autoscaler(least=1, most=3, calm=2)
    >>> [scaler.change(waiting=20_000, workers=n) for n in (1, 2, 3)]
    [1, 1, 0]
    >>> [scaler.change(waiting=0, workers=3) for _ in range(3)]
    [0, -1, 0]
    """

    least: int
    most: int
    high: int = 5_000
    calm: int = 60
    _calm_for: int = 0

    def change(self, waiting: int, workers: int) -> int:
        """1 to add a worker now, -1 to remove one, 0 to leave them as they are."""
        self._calm_for = self._calm_for + 1 if waiting == 0 else 0
        if waiting > self.high * workers and workers < self.most:
            return 1
        if self._calm_for >= self.calm and workers > self.least:
            self._calm_for = 0
            return -1
        return 0
