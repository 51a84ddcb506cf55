"""Rate limits per API key and per client address.

Each limit is a token bucket, which fills at the limit's rate and holds at most the tokens of two seconds. A request
counts against its address before its API key is checked, so that guessing keys is limited too. The rates can be changed
while the service runs (PUT /v1/limits).
"""

from __future__ import annotations

import time
from collections import OrderedDict

from budgetron.service.http.api_keys import ApiKey

MAX_ADDRESSES = 10_000  # addresses that are remembered; beyond that, the least recently used address is forgotten
_SECONDS_HELD = 2.0


class Buckets:
    """Token buckets by name, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # name → (tokens left, at this time)

    def __len__(self) -> int:
        return len(self._buckets)

    def seconds_to_wait(self, name: str, rate: float, cost: int) -> float:
        """The seconds until there are enough tokens; 0 if there are enough now, or without a limit (a rate of 0).

        A request that costs more than a full bucket is accepted when the bucket is full, and leaves a debt.
        """
        if not rate:
            return 0.0
        now, full = time.monotonic(), rate * _SECONDS_HELD
        left, then = self._buckets.get(name, (full, now))
        left = min(full, left + (now - then) * rate)
        self._buckets[name] = left, now
        self._buckets.move_to_end(name)
        if len(self._buckets) > self._limit:
            self._buckets.popitem(last=False)
        return max(0.0, min(float(cost), full) - left) / rate

    def take(self, name: str, cost: int) -> None:
        if name in self._buckets:
            left, then = self._buckets[name]
            self._buckets[name] = left - cost, then


class Rates:
    """The buckets of all keys and addresses.

    `rate` applies to each key without its own rate, `address_rate` to each address; 0: no limit.
    """

    def __init__(self, rate: float, address_rate: float = 0.0) -> None:
        self.rate, self.address_rate = rate, address_rate
        self.keys, self.addresses = Buckets(10_000), Buckets(MAX_ADDRESSES)  # a key file has at most 10,000 keys

    def admit(self, address: str) -> float:
        """Count one request of an address and return 0. If the rate is exceeded, only return the seconds to wait."""
        seconds = self.addresses.seconds_to_wait(address, self.address_rate, 1)
        if not seconds:
            self.addresses.take(address, 1)
        return seconds

    def seconds_to_wait(self, key: ApiKey, cost: int, address: str | None = None) -> float:
        """Take `cost` tokens of the key and the address and return 0. If too few are left, only return the wait."""
        seconds = self.keys.seconds_to_wait(key.name, key.rate or self.rate, cost)
        if address is not None:
            seconds = max(seconds, self.addresses.seconds_to_wait(address, self.address_rate, cost))
        if not seconds:
            self.keys.take(key.name, cost)
            if address is not None:
                self.addresses.take(address, cost)
        return seconds
