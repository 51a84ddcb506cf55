"""Rate limits per API key: a token bucket that fills at the key's rate and holds two seconds' worth."""

from __future__ import annotations

import time

from budgetron.service.http.api_keys import ApiKey

_SECONDS_HELD = 2.0


class Rates:
    """One bucket per key, so the memory is bounded by the key file."""

    def __init__(self, default: float) -> None:
        self._default = default
        self._buckets: dict[str, tuple[float, float]] = {}  # key name → tokens left, and when that was

    def seconds_to_wait(self, key: ApiKey, cost: int) -> float:
        """Take `cost` tokens and return 0; or take nothing and return the seconds until there are enough.

        A request that costs more than a full bucket is accepted when the bucket is full, and leaves a debt.
        """
        rate = key.rate or self._default
        if not rate:
            return 0.0
        now = time.monotonic()
        full = rate * _SECONDS_HELD
        left, then = self._buckets.get(key.name, (full, now))
        left = min(full, left + (now - then) * rate)
        needed = min(float(cost), full)
        if left < needed:
            self._buckets[key.name] = left, now
            return (needed - left) / rate
        self._buckets[key.name] = left - cost, now
        return 0.0
