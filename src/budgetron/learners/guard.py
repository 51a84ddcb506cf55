"""The fair lock of a model: threads acquire it in the order in which they asked for it.

`Learner` makes one per model and takes it around learning and saving.
"""

from __future__ import annotations

from collections import deque
from threading import Lock, get_ident
from typing import Any

beginning = Lock()  # serialises the creation of engines, before a model has a lock of its own


class Guard:
    """A re-entrant lock, first come, first served. It can be pickled and copied; each copy is a lock of its own.

    Learning takes it. Predictions take it where the engine has no lock of its own (the NumPy engine). A plain
    `threading.RLock` is not fair: a thread that predicts in a loop takes it again before a waiting learner wakes up.
    """

    def __init__(self) -> None:
        self._state = Lock()  # held for a few lines at a time
        self._owner: int | None = None  # the thread that holds the lock; None only if no thread waits
        self._depth = 0
        self._waiting: deque[tuple[int, Lock]] = deque()  # each thread with the lock that it sleeps on

    def __enter__(self) -> None:
        me = get_ident()
        # Safe to read without `_state`: here the owner is this thread exactly if this thread holds the lock already.
        if self._owner == me:
            self._depth += 1
            return
        with self._state:
            if self._owner is None:
                self._owner, self._depth = me, 1
                return
            turn = Lock()
            turn.acquire()
            self._waiting.append((me, turn))
        try:
            turn.acquire()  # sleeps until the owner releases it in `_hand_over`
        except BaseException:  # Ctrl-C: leave the queue, or it would wait for this thread for ever
            with self._state:
                if self._owner == me:
                    self._hand_over()
                else:
                    self._waiting.remove((me, turn))
            raise

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            with self._state:
                self._hand_over()

    def _hand_over(self) -> None:
        """Make the thread that has waited longest the owner. The lock is never free in between for a later thread."""
        if not self._waiting:
            self._owner = None
            return
        self._owner, turn = self._waiting.popleft()
        self._depth = 1
        turn.release()

    @property
    def n_waiting(self) -> int:
        """How many threads wait for the lock."""
        return len(self._waiting)

    def __reduce__(self) -> tuple[Any, ...]:
        return Guard, ()
