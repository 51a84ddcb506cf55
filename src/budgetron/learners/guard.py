"""One lock a model, which can be pickled and copied (each copy has its own)."""

from __future__ import annotations

import threading
from typing import Any

beginning = threading.Lock()  # held only while a model makes its first engine


class Guard:
    """Learning takes it; predictions run beside each other under the engine's own lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._take, self._give = self._lock.acquire, self._lock.release

    def __enter__(self) -> None:
        self._take()

    def __exit__(self, *_: object) -> None:
        self._give()

    def __reduce__(self) -> tuple[Any, ...]:
        return Guard, ()
