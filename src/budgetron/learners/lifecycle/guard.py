"""The fair lock of a model: threads acquire it in the order in which they asked for it.

Each model has one. The methods of the model hold it while they change the model, and while they read several values
that must belong together.
"""

from __future__ import annotations

from collections import deque
from threading import Lock, get_ident
from typing import Any

engine_creation = Lock()  # one for all models: a model has no lock of its own before its engine is created


class Guard:
    """A re-entrant lock that threads acquire in the order of their requests. It can be pickled; a copy is a new lock.

    Learning acquires it. Predictions acquire it only if the engine has no lock of its own (the NumPy engine). A plain
    `threading.RLock` is not fair: a thread that predicts in a loop acquires it again before a thread that waits to
    learn wakes up.
    """

    def __init__(self) -> None:
        self.held = Lock()  # locked while a thread owns the guard
        self._owner: int | None = None  # the id of the thread that owns the guard
        self._reentries = 0  # how many times the owner has entered again without leaving
        self._state = Lock()  # protects the queue; taken only where threads wait
        self.waiting: deque[tuple[int, Lock]] = deque()  # each thread with the lock that it sleeps on

    def __enter__(self) -> None:
        me = get_ident()
        # No lock is needed to read `_owner`: while this thread runs here, no other thread can make this thread the
        # owner or end its ownership.
        if self._owner == me:
            self._reentries += 1
        elif not self.waiting and self.held.acquire(False):
            self._owner = me
        else:
            self._wait(me)

    def __exit__(self, *_: object) -> None:
        if self._reentries:
            self._reentries -= 1
            return
        self._owner = None
        self.leave()

    def leave(self) -> None:
        """Release `held`, and wake the thread that has waited longest.

        If no thread is waiting, `learn_one` acquires `held` directly instead of entering the guard, because entering
        costs as much as a small update. Then `learn_one` must not enter the guard before it has called `leave`.
        """
        self.held.release()
        if self.waiting:
            self._wake_first()

    def _wait(self, me: int) -> None:
        """Sleep until it is the turn of this thread."""
        # Each waiting thread sleeps on a lock of its own, so that exactly one of them can be woken.
        turn = Lock()
        turn.acquire()
        with self._state:
            self.waiting.append((me, turn))
        self._wake_first()  # the owner may have left before this thread was in the queue
        try:
            turn.acquire()  # sleeps until `_wake_first` releases it
        except BaseException:  # Ctrl-C: leave the queue, because the threads behind this one would wait for ever
            with self._state:
                # The guard may have been handed to this thread just before the exception.
                owned = self._owner == me
                if not owned:
                    self.waiting.remove((me, turn))
            if owned:
                self.__exit__()
            raise

    def _wake_first(self) -> None:
        """Make the thread that has waited longest the owner, if the guard is free.

        `__enter__` and `learn_one` look at the queue first, so a thread that comes later does not overtake it.
        """
        with self._state:
            if self.waiting and self.held.acquire(False):
                self._owner, turn = self.waiting.popleft()
                turn.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return Guard, ()
