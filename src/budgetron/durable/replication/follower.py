"""`Follower`: a warm standby. It learns the records of a copy (`replicator`) as they are added, and can take over.

A follower has its own directory. While it can read the copy, its model in memory and its database on disk are at most
one poll behind the copy. So a takeover has to read only the last records. The service starts a follower with
`--standby-of`.
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
from budgetron.durable.repairs.staging import locked_stage, put_in_place
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
_MARKER = "standby"  # the name of a file that marks a database as built by a standby


class Follower:
    """Follows the copy of one model. `host` predicts, and refuses to learn until `take_over`.

    Parameters
    ----------
    directory : path
        The directory of the standby itself. If it already has a database, the database is renamed. If a standby built
        that database, it is deleted instead.
    store : Store
    every : float
        Seconds between two polls of the copy. 0 means 1.
    snapshot_every : int
        As for `Host.open`.
    silence : float, optional
        `on_silence` is called when the owner has not written to the copy for this many seconds. The owner writes at
        least every few seconds, even if nothing changes. With None, `on_silence` is never called.
    on_silence : callable, optional
        Called at most once per `start`, in the thread of the follower.
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
        latest = plan(store)
        with locked_stage(directory) as stage:
            rebuild(store, latest, stage / "new")
            old = put_in_place(stage / "new" / NAME, directory, "replaced", latest.position)
            if old is not None and (directory / _MARKER).exists():
                remove_database(old)
            (directory / _MARKER).touch(mode=0o600)
            fetch_versions(store, directory)
        self.host = FollowingHost.open(directory, snapshot_every=snapshot_every)
        self.host.refuse_writes(
            StandbyOnly("Host: this is a standby, which only predicts. Send labels to the owner, or take over first: "
                        "POST /v1/takeover.")
        )
        self._applied = _last_object(latest)
        self._head: Head | None = None
        self._last_change = time.monotonic()  # when `_head` changed
        self.error: BudgetronError | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def applied(self) -> tuple[int, int, int]:
        """The epoch, run and number of the last object whose records were learned."""
        return self._applied

    # ---- following

    def poll(self) -> None:
        """Learn everything that the copy has now."""
        with self._lock:
            latest = last_head(self._store)
            if latest is None:
                return
            epoch, head = latest
            if head != self._head:
                self._head, self._last_change = head, time.monotonic()
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
        """The segments after the last learned one, up to the head. None if they do not continue what was learned."""
        if epoch != self._applied[0]:
            return None
        objects: list[ObjectName] = []
        for number in range(self._applied[1], head.run + 1):
            # Runs before the run of the head are complete, so they are read to their end (0).
            run = read_run(self._store, epoch, number, head.number if number == head.run else 0)
            # A base of kind START does not continue the records before it.
            if run is None or run.missing or (number > self._applied[1] and run.base.kind == START):
                return None
            objects += [segment for segment in run.segments
                        if number > self._applied[1] or segment.number > self._applied[2]]  # fmt: skip
        position = self.host.position
        for segment in objects:
            if segment.first_record > position + 1:
                return None
            position = max(position, segment.last_record)
        return objects if position == head.position else None

    def _rebuild(self) -> None:
        """Build the database again from the copy's latest base and the segments after it."""
        latest = plan(self._store)
        folder = self._directory / f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            rebuild(self._store, latest, folder)
            self.host.replace_database(folder / NAME)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self._applied = _last_object(latest)

    # ---- taking over

    def take_over(self) -> Claim:
        """Claim the copy, learn its last records, and accept new examples from now on.

        If the former owner is still alive, it can no longer write to the copy, and stops learning when it notices.
        """
        self.stop()
        claimed = claim(self._store, self._directory, take_over=True)
        self.poll()
        self.host.renumber()  # the former owner may have used the next numbers for records that it did not copy
        fetch_versions(self._store, self._directory)  # model versions that were saved since this follower started
        (self._directory / _MARKER).unlink(missing_ok=True)
        self.host.refuse_writes(None)
        return claimed

    # ---- the thread

    def start(self) -> None:
        """Poll the copy in a thread, until `stop`."""
        self._stopping.clear()
        self._last_change = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Poll until `stop`. Call `on_silence` once if the owner has written nothing for too long."""
        while not self._stopping.wait(self.every):
            before = self.error
            try:
                self.poll()
                self.error = None
            except BudgetronError as error:
                self.error = error
                if before is None:
                    _logger.warning("The standby could not read the copy and is behind; it will retry. %s", error)
            except Exception:
                _logger.exception("The standby could not follow the copy; it will retry.")
            silent_for = time.monotonic() - self._last_change
            if self._silence is not None and self._on_silence and silent_for > self._silence:
                self._on_silence()
                return

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()


def _last_object(state: Plan) -> tuple[int, int, int]:
    """The epoch, run and number of the last object of a state."""
    last = state.segments[-1] if state.segments else state.base
    return last.epoch, last.run, last.number
