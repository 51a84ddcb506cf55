"""`Follower`: a warm standby. It follows a copy into a directory of its own, and can take the copy over.

The model is in memory and the database on disk, at most one poll behind the copy. Taking over needs the last records of
the copy only.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from budgetron.durable.errors import StandbyOnly
from budgetron.durable.ownership import TEMPORARY
from budgetron.durable.repairs.staging import owned, put_in_place
from budgetron.durable.replication.copied_versions import fetch_versions
from budgetron.durable.replication.fencing import Claim, claim
from budgetron.durable.replication.following import FollowingHost, remove_database
from budgetron.durable.replication.history import Plan, last_head, plan, read_run
from budgetron.durable.replication.objects import START, Head, ObjectName
from budgetron.durable.replication.rebuild import read_segment, rebuild
from budgetron.durable.replication.store import Store
from budgetron.durable.storage.log_schema import NAME
from budgetron.errors import BudgetronError

_logger = logging.getLogger(__name__)
_MARKER = "standby"  # a file: the database in this directory was built from a copy


class Follower:
    """Follows the copy of one model. `host` predicts, and refuses to learn until `take_over`.

    Parameters
    ----------
    directory : path
        The directory of the standby itself. A database in it is renamed and stays, unless an earlier standby built it.
    store : Store
    every : float
        Seconds between two polls of the copy.
    snapshot_every : int
        As for `Host.open`.
    on_silence : callable, optional
        Called once, in the thread, when the owner has not written for `silence` seconds.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        store: Store,
        *,
        every: float = 1.0,
        snapshot_every: int = 50_000,
        silence: float | None = None,
        on_silence: Callable[[], None] | None = None,
    ) -> None:
        directory = Path(directory)
        self._directory, self._store, self.every = directory, store, every or 1.0
        self._silence, self._on_silence = silence, on_silence
        found = plan(store)
        with owned(directory) as stage:
            rebuild(store, found, stage / "new")
            old = put_in_place(stage / "new" / NAME, directory, "replaced", found.position)
            if old is not None and (directory / _MARKER).exists():
                remove_database(old)
            (directory / _MARKER).touch(mode=0o600)
            fetch_versions(store, directory)
        self.host = FollowingHost.open(directory, snapshot_every=snapshot_every)
        self.host.refuse_writes(
            StandbyOnly("Host: this is a standby, which only predicts. Learn at the owner, or take over first: "
                        "POST /v1/takeover.")
        )
        self._applied = _end(found)
        self._head: Head | None = None
        self._heard = time.monotonic()
        self.error: BudgetronError | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def applied(self) -> tuple[int, int, int]:
        """The epoch, run and number of the last object that was followed."""
        return self._applied

    # ---- following

    def poll(self) -> None:
        """Follow everything that the copy has now."""
        with self._lock:
            found = last_head(self._store)
            if found is None:
                return
            epoch, head = found
            if head != self._head:
                self._head, self._heard = head, time.monotonic()
            if (epoch, head.run, head.number) == self._applied:
                return
            objects = self._new_objects(epoch, head)
            if objects is None:
                self._rebuild()
                return
            for name in objects:
                self.host.follow(read_segment(self._store, name.path))
            self._applied = (epoch, head.run, head.number)

    def _new_objects(self, epoch: int, head: Head) -> list[ObjectName] | None:
        """The segments after the last one that was followed; None if they do not lead from it to the head."""
        if epoch != self._applied[0]:
            return None
        objects: list[ObjectName] = []
        for number in range(self._applied[1], head.run + 1):
            run = read_run(self._store, epoch, number, head.number if number == head.run else 0)
            if run is None or run.missing or (number > self._applied[1] and run.base.kind == START):
                return None
            objects += [one for one in run.segments if number > self._applied[1] or one.number > self._applied[2]]
        position = self.host.position
        for one in objects:
            if one.first > position + 1:
                return None
            position = max(position, one.last)
        return objects if position == head.position else None

    def _rebuild(self) -> None:
        found = plan(self._store)
        folder = self._directory / f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            rebuild(self._store, found, folder)
            self.host.replace_database(folder / NAME)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self._applied = _end(found)

    # ---- taking over

    def take_over(self) -> Claim:
        """Claim the copy, follow it to its end, and learn from now on.

        The former owner may still be alive: it cannot write to the copy any more, and stops learning when it notices.
        """
        self.stop()
        claimed = claim(self._store, self._directory, take_over=True)
        self.poll()
        self.host.renumber()
        fetch_versions(self._store, self._directory)  # those that were saved since the start
        (self._directory / _MARKER).unlink(missing_ok=True)
        self.host.refuse_writes(None)
        return claimed

    # ---- the thread

    def start(self) -> None:
        """Follow in a thread, until `stop`."""
        self._stopping.clear()
        self._heard = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(self.every):
            before = self.error
            try:
                self.poll()
                self.error = None
            except BudgetronError as error:
                self.error = error
                if before is None:
                    _logger.warning("The standby is behind, and following is tried again. %s", error)
            except Exception:
                _logger.exception("following failed, and is tried again")
            if self._silence is not None and self._on_silence and time.monotonic() - self._heard > self._silence:
                self._on_silence()
                return

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()


def _end(found: Plan) -> tuple[int, int, int]:
    last = found.segments[-1] if found.segments else found.base
    return last.epoch, last.run, last.number
