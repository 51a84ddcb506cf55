"""`HostState`: the log, snapshots, model and locks of an open host, and whether it may learn.

`Host` and its base classes use the same `HostState`. The methods here that write need the commit lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from budgetron.durable.corrections import Corrections
from budgetron.durable.errors import DiskRefused, NotCopied, StaleOwner
from budgetron.durable.ownership import DirectoryLock
from budgetron.durable.recovery import Recovery
from budgetron.durable.storage.log import Log
from budgetron.durable.storage.snapshots import Snapshots
from budgetron.errors import Closed, StorageError


class HostState:
    """The open directory of one host, and the model in it."""

    def __init__(
        self,
        log: Log,
        snapshots: Snapshots,
        directory_lock: DirectoryLock | None,
        recovery: Recovery,
        snapshot_every: int,
        learning_lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.log, self.snapshots, self.directory_lock = log, snapshots, directory_lock
        self.recovery = recovery  # how the model was recovered on opening
        self.hosted = recovery.hosted  # the current model; a restore or a correction replaces it
        self.corrections = Corrections(log, snapshots)
        self.n_corrections = self.corrections.count()
        self.snapshot_every = snapshot_every
        self.commit_lock = threading.Lock()  # held while something is logged and learned
        self.learning_lock = learning_lock or nullcontext()  # held only while the model learns
        self.is_open = True
        # False while the log has records that the model has not learned. If learning is interrupted, for instance by
        # Ctrl-C, this stays False: log and model differ until the next recovery.
        self.is_consistent = True
        self.writes_refused: StorageError | None = None
        # Called after each commit, before its answers are given. If it raises, nothing is acknowledged.
        self.before_answer: Callable[[], None] | None = None

    # ---- whether it may be used

    def check_not_closed(self) -> None:
        if not self.is_open:
            raise Closed("Host: this host was closed. Open the directory again with Host.open.")

    def check_open(self) -> None:
        """Raise an error if the host was closed, or if log and model differ. The caller holds `commit_lock`.

        Without the lock, log and model also differ while another thread learns.
        """
        self.check_not_closed()
        if not self.is_consistent:
            raise StorageError(
                "Host: learning was interrupted after the log was written, before the model had learned. Close this "
                "host and open the directory again; nothing that was acknowledged is lost."
            )

    def check_writable(self) -> None:
        """Raise an error if the host may not learn now."""
        self.check_open()
        if self.writes_refused is not None:
            raise self.writes_refused

    @contextmanager
    def log_ahead_of_model(self) -> Iterator[None]:
        """A context in which the log has records that the model has not learned yet.

        If an exception leaves the context, the host stays inconsistent until the directory is opened again and
        recovered.
        """
        self.is_consistent = False
        yield
        self.is_consistent = True

    @contextmanager
    def replacing_model(self) -> Iterator[None]:
        """A context that writes another model to disk in one transaction, and then takes it into use."""
        try:
            with self.log_ahead_of_model():
                yield
        except StorageError:
            self.is_consistent = True  # nothing was written, so the log and the model still agree
            raise

    def confirm(self) -> None:
        """Call `before_answer`, through which a `Replicator` copies a commit before it is acknowledged."""
        if self.before_answer is not None:
            try:
                self.before_answer()
            except StaleOwner:
                raise
            except StorageError as error:
                raise NotCopied(
                    f"Host: the request is on disk here, but could not be copied: {error} Send it again with the same "
                    "idempotency key, and it will not be learned twice."
                ) from error

    # ---- snapshots

    def write_snapshot(self) -> None:
        """Write the model file into the directory and trim the log, in one transaction."""
        if self.hosted.is_fitted:
            self.snapshots.write(self.hosted.content())

    def write_snapshot_if_due(self) -> None:
        """Write the first snapshot, or another one if it is due (`Snapshots.is_due`)."""
        if not self.hosted.is_fitted:
            return
        if not self.snapshots.numbers:
            self.write_snapshot()
        elif self.snapshots.is_due(self.snapshot_every):
            try:
                self.write_snapshot()
            except DiskRefused as error:  # The log has everything, so nothing is lost; the next commit tries again.
                self.snapshots.error = error

    def close(self) -> None:
        """Write a snapshot, so that the next start has nothing to replay, and release the directory."""
        if not self.is_open:
            return
        self.is_open = False
        try:
            if self.is_consistent and self.snapshots.is_behind:
                with suppress(StaleOwner):  # A later owner has recovered everything from the log.
                    self.write_snapshot()
        finally:
            self.log.close()
            if self.directory_lock is not None:
                self.directory_lock.release()
