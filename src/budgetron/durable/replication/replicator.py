"""`Replicator`: copies the database of a host to a store, at regular intervals or before each acknowledgement.

A `Replicator` reads the database through its own connection and never writes to it. So a slow store does not delay
learning, unless every acknowledgement waits for the copy (`every=0`).
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from budgetron.durable.errors import StaleOwner
from budgetron.durable.ownership import TEMPORARY
from budgetron.durable.replication.changes import Changes, CopyPosition, read_changes
from budgetron.durable.replication.copied_versions import VersionCopier
from budgetron.durable.replication.fencing import Claim, claim
from budgetron.durable.replication.history import last_head
from budgetron.durable.replication.objects import (
    BASE,
    LOG,
    START,
    VERSION,
    Base,
    Head,
    ObjectName,
    Segment,
    compress,
    encode_object,
    head_path,
)
from budgetron.durable.replication.retention import prune
from budgetron.durable.replication.store import Store
from budgetron.durable.storage.log_schema import NAME
from budgetron.durable.storage.sqlite_file import copy_database
from budgetron.errors import BudgetronError

_logger = logging.getLogger(__name__)
_MAX_SEGMENTS = 1000  # per run; then a new run begins, so that listings stay short and a restore replays few records
_HEARTBEAT = 5.0  # seconds after which the head is written again, to show a standby that the owner is alive
DAY = 86_400.0


class Replicator:
    """Copies the database of one host to a store.

    Parameters
    ----------
    directory : path
        The directory of the host.
    store : Store
    every : float
        Seconds between two copies. If the machine is lost, the labels since the last copy are lost, too. With 0, the
        caller must call `copy` before each acknowledgement (`Host.before_answer`). Then no acknowledged label is lost.
    keep : float
        How many seconds back a restore is possible. Older objects that no such restore needs are deleted.
    take_over : bool
        Claim the copy even if another directory wrote it last.
    claimed : Claim, optional
        A claim that was made before, by a standby.
    parent : epoch, run and number, optional
        The object of the copy that this database continues; by default the last object of the previous epoch.
    on_lost : callable, optional
        Called once, with the `StaleOwner`, when another process has taken over the copy.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        store: Store,
        *,
        every: float = 1.0,
        keep: float = 7 * DAY,
        take_over: bool = False,
        claimed: Claim | None = None,
        parent: tuple[int, int, int] | None = None,
        on_lost: Callable[[StaleOwner], None] | None = None,
    ) -> None:
        directory = Path(directory)
        self._directory, self._store, self.every, self._keep = directory, store, every, keep
        self._on_lost = on_lost
        self.claim = claimed or claim(store, directory, take_over)
        if parent is None:
            head = last_head(store, before=self.claim.epoch)
            parent = (0, 0, 0) if head is None else (head[0], head[1].run, head[1].number)
        self._parent = parent
        self._versions = VersionCopier(directory, store, self.claim.epoch)
        self._copied: CopyPosition | None = None
        # `_run` is the number of the current run. The other three describe this run: `_number` is the last number that
        # was used for an object, even if the write failed; `_previous` is the number of the last object that was
        # written; `_segments` is the number of segments.
        self._run = self._number = self._previous = self._segments = 0
        self._head_due = False  # whether an object was written that the head does not include yet
        self._head_position = 0  # the last record that the head includes; readers ignore later ones
        self._copied_at = self._head_at = time.monotonic()
        self.error: BudgetronError | None = None  # why the last attempt failed
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def position(self) -> int:
        """The last record that is in the copy."""
        return self._head_position

    @property
    def age(self) -> float:
        """Seconds since the copy was last complete. If the machine fails now, the labels since then are lost."""
        return time.monotonic() - self._copied_at

    # ---- copying

    def copy(self) -> None:
        """Copy all records that are on disk now. Raises `StaleOwner` if another process owns the copy."""
        with self._owned():
            began = time.monotonic()
            while self._copy_next():
                pass
            if self._head_due or self._heartbeat_due:
                self._put_head()
                # A standby may have claimed the copy during this write, without reading what was written. Then the
                # write must not be acknowledged, so check the claim again.
                self.claim.check(self._store)
            self.error, self._copied_at = None, began

    @contextmanager
    def _owned(self) -> Iterator[None]:
        """Lock the copy for a write, and check the claim before it. If the write fails, remember why."""
        with self._lock:
            try:
                self.claim.check(self._store)
                yield
            except BudgetronError as error:
                if isinstance(error, StaleOwner) and not isinstance(self.error, StaleOwner) and self._on_lost:
                    self._on_lost(error)
                self.error = error
                raise

    @property
    def _heartbeat_due(self) -> bool:
        return time.monotonic() - self._head_at >= _HEARTBEAT

    def _show_alive(self) -> None:
        """Write the head again between two copies, because a standby could take over if it saw no write for long."""
        with self._owned():
            if self._heartbeat_due:
                self._put_head()

    def copy_versions(self) -> None:
        """Copy the named versions of the model. `copy` does not do this, so that no label waits for a large file."""
        try:
            self._versions.copy()
        except BudgetronError as error:
            self.error = error
            raise

    def _copy_next(self) -> bool:
        """Copy the next records. Returns whether there may be more."""
        changes = read_changes(self._directory / NAME, self._copied)
        if changes is None:
            return False
        before = self._copied
        if before is None or not changes.follows:
            return self._put_base(START)
        if changes.copied.snapshot != before.snapshot or self._segments >= _MAX_SEGMENTS:
            return self._put_base(BASE)
        if changes.records:  # newly rejected records alone need no segment: a replay rejects them too
            self._put_segment(changes)
        return changes.end > changes.copied.position

    def _put_segment(self, changes: Changes) -> None:
        records = changes.records
        content = encode_object(Segment(VERSION, changes.rejected, records))
        self._put(LOG, records[0].number, records[-1].number, content)
        self._copied, self._segments = changes.copied, self._segments + 1

    def _put_base(self, kind: str) -> bool:
        """Begin a run with a copy of the database.

        With the kind BASE, the records since the last segment are also added to the previous run, so that the state
        after each of them can be restored. If these records have a gap, the kind becomes START.
        """
        file = self._directory / f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            copy_database(self._directory / NAME, file)
            while kind == BASE:
                changes = read_changes(file, self._copied)
                if changes is None or not changes.follows:
                    kind = START
                elif changes.records:
                    self._put_segment(changes)
                else:
                    break
            base = read_changes(file, None)
            assert base is not None, "a database that had a snapshot always has one"
            content = encode_object(Base(VERSION, compress(file.read_bytes())))
        finally:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{file}{suffix}").unlink(missing_ok=True)
        # Count the run before the write: if the write fails, the next attempt must begin another run.
        self._run, self._number, self._previous, self._segments, self._copied = self._run + 1, 0, 0, 0, None
        self._put(kind, base.oldest, base.copied.position, content)
        self._copied = base.copied
        self._put_head()
        prune(self._store, self._keep)
        return False

    def _put(self, kind: str, first: int, last: int, content: bytes) -> None:
        self._number += 1
        name = ObjectName(self.claim.epoch, self._run, self._number, self._previous, kind, first, last, _now())
        self._store.put(name.path, content)
        self._previous, self._head_due = self._number, True

    def _put_head(self) -> None:
        if self._copied is None:
            return
        owner = f"{socket.gethostname()}:{os.getpid()}"
        head = Head(VERSION, self._run, self._previous, self._copied.position, _now(), owner, *self._parent)
        self._store.put(head_path(self.claim.epoch), encode_object(head))
        self._head_due, self._head_at, self._head_position = False, time.monotonic(), self._copied.position

    # ---- the thread

    def start(self) -> None:
        """Copy in a thread, until `stop` or until another process takes over."""
        self._thread = threading.Thread(target=self._run_thread, name="replicator", daemon=True)
        self._thread.start()

    def _run_thread(self) -> None:
        """Copy every `every` seconds, until `stop` or until another process takes over."""
        interval = self.every or 1.0
        copy_at, alive_at = time.monotonic() + interval, self._head_at + _HEARTBEAT
        while not self._stopping.wait(max(0.0, min(copy_at, alive_at) - time.monotonic())):
            before, is_copy_due = self.error, time.monotonic() >= copy_at
            try:
                if is_copy_due:
                    self.copy()
                    self.copy_versions()
                else:
                    self._show_alive()
            except StaleOwner as error:
                _logger.warning("%s", error)
                return
            except BudgetronError as error:
                if before is None:  # log only the first of several failures in a row
                    _logger.warning("The copy is behind; copying will be retried. %s", error)
            except Exception:
                _logger.exception("Copying failed; it will be retried.")
            now = time.monotonic()
            copy_at = now + interval if is_copy_due else copy_at
            alive_at = max(self._head_at + _HEARTBEAT, now + min(1.0, _HEARTBEAT))  # after a failure, wait a little

    def stop(self) -> None:
        """End the thread, and copy the last records if the store is available."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if not isinstance(self.error, StaleOwner):
            try:
                self.copy()
                self.copy_versions()
            except BudgetronError as error:
                _logger.warning("The copy is behind at the stop. %s", error)


def _now() -> int:
    return round(time.time() * 1000)
