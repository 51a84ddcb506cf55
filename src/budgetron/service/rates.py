"""How much each key may ask for: a bucket that fills at its rate, and holds two seconds' worth."""

from __future__ import annotations

import time

from budgetron.service.keys import Key

_HOLDS = 2.0  # seconds


class Rates:
    """One bucket a key. There are as many as keys, so what is held is bounded by the key file."""

    def __init__(self, default: float) -> None:
        self._default = default
        self._buckets: dict[str, tuple[float, float]] = {}  # name → what is left, when that was

    def wait_for(self, key: Key, cost: int) -> float:
        """Take from the bucket, and 0; or take nothing, and the seconds until it has enough.

        A request larger than the bucket is let in when the bucket is full, and leaves a debt.
        """
        rate = key.rate or self._default
        if not rate:
            return 0.0
        now = time.monotonic()
        full = rate * _HOLDS
        left, then = self._buckets.get(key.name, (full, now))
        left = min(full, left + (now - then) * rate)
        needed = min(float(cost), full)
        if left < needed:
            self._buckets[key.name] = left, now
            return (needed - left) / rate
        self._buckets[key.name] = left - cost, now
        return 0.0
