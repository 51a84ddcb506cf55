"""Hash names to numbers, with a table of names that were hashed before. Used for names of tasks and of features.

The hash is stable: the same in every process and on every machine. The compiled engine uses the same tables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b

_MAX_NAMES = 2**15  # a table remembers at most this many names, usually a few MB
_MAX_LENGTH = 256  # characters; longer names are not remembered


def hash_of(content: bytes) -> int:
    """Return a 64-bit hash that is the same in every process and on every machine."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


class HashedNames(dict[str, int]):
    """A table from name to number that is filled on use, because names repeat and a hash takes a microsecond."""

    def __init__(self, number_of: Callable[[str], int]) -> None:
        super().__init__()
        self._number_of = number_of

    def __missing__(self, name: str) -> int:
        number = self._number_of(name)
        if len(name) <= _MAX_LENGTH:
            # Clearing everything is simpler than an LRU list, and frequent names come back at once.
            if len(self) >= _MAX_NAMES:
                self.clear()
            self[name] = number
        return number


@lru_cache(maxsize=16)
def feature_columns(n_features: int) -> HashedNames:
    """Return the table from feature name to column, for models with this number of columns."""
    return HashedNames(lambda name: hash_of(name.encode("utf-8", "surrogatepass")) % n_features)
