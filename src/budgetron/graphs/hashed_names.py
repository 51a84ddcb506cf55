"""Names as numbers by a stable hash, and a table that remembers them. Used for tasks and for names of features.

The compiled engine looks names up in the same tables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b

_MOST = 2**15  # names that a table remembers; this bounds it to a few MB
_LONGEST = 256  # characters of a name that is remembered


def hash_of(content: bytes) -> int:
    """Return 64 bits that are the same in every process and on every machine."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


class HashedNames(dict[str, int]):
    """A table from name to number, filled on use: streams repeat their names, and a hash takes a microsecond."""

    def __init__(self, number_of: Callable[[str], int]) -> None:
        super().__init__()
        self._number_of = number_of

    def __missing__(self, name: str) -> int:
        number = self._number_of(name)
        if len(name) <= _LONGEST:
            if len(self) >= _MOST:
                self.clear()
            self[name] = number
        return number


@lru_cache(maxsize=16)
def feature_columns(n_features: int) -> HashedNames:
    """Return the columns of feature names, for models of so many columns."""
    return HashedNames(lambda name: hash_of(name.encode("utf-8", "surrogatepass")) % n_features)
