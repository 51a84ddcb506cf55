"""`Host`: a model with a write-ahead log and snapshots in a directory.

Learning: a block is appended to the log and forced to disk, then learned, then acknowledged. Calls that wait at the
same time share one commit. A block that the model rejects is cleared in the log; if the process ends before that,
the replay rejects it in the same way.

Recovery: the newest intact snapshot is loaded, and the log after it is replayed block by block. The first block is
acknowledged only after the first snapshot is written, so a replay never depends on the arguments of `Host.open`.

`budgetron serve` and the workers of `budgetron.distributed` use this class. It must never acknowledge a block
that is not on disk, and never learn one that is not logged.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

from budgetron.durable import blocks
from budgetron.durable.corrections import Corrections
from budgetron.durable.errors import DiskRefused, NotCopied, StaleOwner, storage_errors
from budgetron.durable.host_corrections import HostCorrections
from budgetron.durable.ownership import DirectoryLock, make_private, remove_leftovers
from budgetron.durable.recovery import Recovery, recover
from budgetron.durable.requests import Entry, Learned, Request, StreamRows, answer_of, entry_of, group_into_commits
from budgetron.durable.storage.log import Log, Record
from budgetron.durable.storage.snapshots import Snapshots
from budgetron.errors import Closed, InputError, StorageError, input_error, is_integer, shown

_LOCK_TIMEOUT = 0.5  # seconds that check_ready waits for a commit under way


class Host(HostCorrections):
    """A model whose acknowledged examples survive crashes, kills and power loss. Created by `Host.open`.

    >>> import tempfile
    >>> from budgetron import Budgetron
    >>> from budgetron.durable import Host
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Host.open(folder, make_model=lambda: Budgetron(budget=50)) as host:
    ...         learned = host.learn([[0.0, 1.0], [1.0, 0.0]], ["ham", "spam"], ["ann", "bob"], key="first")
    ...     with Host.open(folder) as host:
    ...         again = host.learn([[0.0, 1.0], [1.0, 0.0]], ["ham", "spam"], ["ann", "bob"], key="first")
    ...         print(host.model.n_seen_, again.repeated, host.predict([[0.9, 0.1]], ["bob"]))
    2 True ['spam']
    """

    in_shards: ClassVar[bool] = False

    def __init__(
        self,
        log: Log,
        snapshots: Snapshots,
        lock: DirectoryLock | None,
        found: Recovery,
        snapshot_every: int,
        learning_lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._log, self._snapshots, self._lock = log, snapshots, lock
        self._hosted = found.hosted
        self.recovery = found  # what was recovered on opening
        self.snapshot_every = snapshot_every
        self.snapshot_error: DiskRefused | None = None  # of the last attempt; the log grows until one succeeds
        self._corrections = Corrections(log, snapshots)
        self.n_corrections = self._corrections.count()
        self._commit_lock = threading.Lock()
        self._queue_lock = threading.Lock()
        self._waiting: list[Entry] = []
        self._learning_lock = learning_lock or nullcontext()
        self._open = True
        self._writes_refused: StorageError | None = None
        # Called after each commit, before its answers are given; if it raises, that is the answer.
        self.before_answer: Callable[[], None] | None = None
        # False after learning was interrupted (Ctrl-C) between log and model: they differ until the next recovery.
        self._is_consistent = True

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        make_model: Callable[[], Any] | None = None,
        *,
        model: Any = None,
        epoch: int | None = None,
        snapshot_every: int = 50_000,
        learning_lock: AbstractContextManager[Any] | None = None,
    ) -> Self:
        """Open a directory: start a new model in an empty one, or recover the model that is there.

        Parameters
        ----------
        directory : path
            Created if missing, for this user only. Only one host at a time may have it open; a second one raises
            `AlreadyOwned`. If its files differ from what was acknowledged, `DamagedLog` names the commands that help.
        make_model : callable, or model : a learner
            The model that a new directory starts with. Both are ignored if the directory has a model already.
        epoch : int, optional
            For a supervisor that moves a model between processes: a number higher than all before takes the directory
            over, and later writes of the former owner raise `StaleOwner`. With None, the directory is locked instead.
        snapshot_every : int
            Examples between two snapshots. A snapshot writes the model file and trims the log.
        learning_lock : context manager, optional
            Entered while the model learns, and not while the log is written. Hosts that share one lock use one core
            together: one of them learns while others write to disk.
        """
        if not is_integer(snapshot_every) or snapshot_every < 1:
            raise input_error("Host", "snapshot_every", "an integer >= 1", shown(snapshot_every))
        if epoch is not None and (not is_integer(epoch) or epoch < 1):
            raise input_error("Host", "epoch", "an integer >= 1, or None", shown(epoch))
        folder = Path(directory)
        with storage_errors(folder / "lock"):
            make_private(folder)
            lock = DirectoryLock(folder) if epoch is None else None
        with ExitStack() as undo:
            if lock is not None:
                undo.callback(lock.release)
                remove_leftovers(folder)
            log = Log(folder)
            undo.callback(log.close)
            log.take_over(epoch)
            snapshots = Snapshots(log)
            found = recover(log, snapshots, make_model if model is None else lambda: model)
            host = cls(log, snapshots, lock, found, int(snapshot_every), learning_lock)
            undo.pop_all()
        return host

    # ---- learning

    def learn(
        self,
        X: Any,
        y: Any,
        tasks: Any = None,
        *,
        key: str | None = None,
        classes: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
    ) -> Learned:
        """Learn the rows in order, exactly once. Returns when they are on disk and learned.

        Parameters
        ----------
        X : array, sparse matrix, data frame, or list of dicts
        y, tasks : one label and one task per row
        key : str, optional
            An idempotency key. A second call with the same key and rows returns the first answer and learns nothing,
            so a call that failed or timed out can be retried. The last 100,000 keys are stored.
        classes : labels, optional
            All labels that may occur; needed with the first block if it does not contain them all.
        sample_weight : one weight per row, optional
        offset : another model's score of each row, in log odds, optional

        Raises
        ------
        InputError
            If the model rejects the rows, or the key was used with other rows. No row is learned.
        StorageError
            If the rows could not be written to disk. No row is learned.
        """
        entry = self._entry(Request(X, y, tasks, key, classes, sample_weight, offset=offset))
        return self._acknowledged([entry])[0]

    def learn_many(self, requests: Sequence[Request], in_order: bool = False) -> list[Learned | Exception]:
        """Learn several requests in one commit, which costs one fsync instead of one each.

        Returns one acknowledgement or exception per request: a rejected request does not affect the others. With
        `in_order`, nothing is learned after the first request that the model rejects.
        """
        entries: list[Entry | Exception] = []
        for request in requests:
            try:
                entries.append(self._entry(request))
            except InputError as error:
                entries.append(error)
        with self._commit_lock:
            self._commit([entry for entry in entries if isinstance(entry, Entry)], in_order)
        return [entry if isinstance(entry, Exception) else answer_of(entry) for entry in entries]

    def forget_task(self, task: Hashable) -> Learned:
        """Remove a task's stored examples and weights from the model. Logged like examples.

        The task's examples stay in the log until the second snapshot after this call.
        """
        return self._acknowledged([Entry(blocks.encode_forget(task))])[0]

    def set_operating_point(self, settings: Mapping[str, Any] | None) -> Learned:
        """Decide by other settings of `OperatingPoint`, or no more with None. Logged like examples.

        What the model has counted so far stays counted.
        """
        return self._acknowledged([Entry(self._hosted.checked_point(settings))])[0]

    def _entry(self, request: Request) -> Entry:
        hosted = self._hosted  # read once: a restore in another thread may replace it
        if blocks.are_records(request.X):
            request = replace(request, X=hosted.checked(request.X))
        return entry_of(request, hosted.width, hosted.columns is not None)

    def _acknowledged(self, entries: list[Entry]) -> list[Learned]:
        """Commit the entries and return their answers.

        Threads queue their entries. The thread that gets the commit lock commits everything that is queued at that
        moment, so threads that wait at the same time share one fsync.
        """
        with self._queue_lock:
            self._waiting += entries
        with self._commit_lock:
            with self._queue_lock:
                waiting, self._waiting = self._waiting, []
            if waiting:
                self._commit(waiting)
        answers = []
        for entry in entries:
            answer = answer_of(entry)
            if isinstance(answer, Exception):
                raise answer
            answers.append(answer)
        return answers

    def _commit(self, entries: list[Entry], in_order: bool = False) -> None:
        """Log, force to disk, learn, in this order. Every entry has an answer afterwards."""
        refused: Exception | None = None
        for together in group_into_commits(entries):
            if refused is not None:
                for entry in together:
                    entry.answer = refused
                continue
            self._commit_together(together, in_order)
            if in_order:
                refused = next((entry.answer for entry in together if isinstance(entry.answer, Exception)), None)

    def _commit_together(self, entries: list[Entry], in_order: bool) -> None:
        try:
            self._check_writable()
            new = self._log.select_unlearned(entries, self._classes)
            if new:
                self._log.append(new)
        except Exception as error:  # The commit failed: nothing was logged, so nothing may be learned.
            for entry in entries:
                entry.answer = entry.answer or error
            return
        self._is_consistent = False  # The log is ahead of the model until all entries are learned.
        with self._learning_lock:
            refused = None
            for entry in new:
                self._learn(entry, refused)
                refused = entry.answer if in_order and isinstance(entry.answer, Exception) else None
        self._is_consistent = True
        try:
            self._snapshot_if_due()
        except Exception as error:  # Only the first snapshot raises: without it the first block is not acknowledged.
            for entry in new:
                entry.answer = error
        try:
            self._confirm()
        except StorageError as error:
            for entry in entries:  # repeated ones too: their first answer may have failed for the same reason
                if isinstance(entry.answer, Learned):
                    entry.answer = error

    def _confirm(self) -> None:
        """Let the caller do what has to be done before an answer: copy it elsewhere."""
        if self.before_answer is not None:
            try:
                self.before_answer()
            except StaleOwner:
                raise
            except StorageError as error:
                raise NotCopied(
                    f"Host: it is on disk here, but could not be copied: {error} Send it again with the same "
                    "idempotency key: then it is learned once."
                ) from error

    @property
    def _classes(self) -> Any:
        return self._hosted.model.classes_ if self._hosted.begun else None

    def _learn(self, entry: Entry, refused: Exception | None) -> None:
        """Learn a logged entry, or reject it with the exception of an earlier entry."""
        try:
            if refused is not None:
                raise refused
            if entry.block is None:
                margins = self._hosted.learn(blocks.decode_block(entry.payload))
            else:  # checked before it was sent here, and its rows are those in the payload
                margins = self._hosted.model.learn_block(entry.block)
        except Exception as error:
            self._log.rejected(entry.number)
            self._snapshots.count(1)  # a rejected record takes a place in the log until the next snapshots
            entry.answer = error
        else:
            self._log.learned(entry, margins)
            self._snapshots.count(len(margins), len(entry.payload))
            entry.answer = entry.learned(entry.number, margins, self._classes)

    def end_of_stream(self, key: str) -> int:
        """The position after the last learned row of a stream: where a reader of the stream goes on. 0 if it is new."""
        with self._commit_lock:
            self._check_open()
            return self._log.end_of_stream(key)

    def records_after(self, position: int) -> list[Record]:
        """The records of the log after a position, except those that the model rejected."""
        with self._commit_lock:
            self._check_open()
            rejected = self._log.unwritten.refused
            return [one for one in self._log.records_after(position) if one.number not in rejected]

    def check_stream(self, key: str, rows: StreamRows) -> int:
        """How many of these rows were learned, from the first. Raises `KeyReused` if other rows were learned there."""
        with self._commit_lock:
            self._check_open()
            return self._log.check_stream(key, rows)

    # ---- snapshots

    def snapshot(self) -> None:
        """Write the model file into the directory and trim the log, in one transaction."""
        with self._commit_lock:
            self._check_open()
            self._snapshot()

    def _snapshot_if_due(self) -> None:
        if not self._hosted.begun:
            return
        if not self._snapshots.numbers:
            self._snapshot()
        elif self._snapshots.is_due(self.snapshot_every):
            try:
                self._snapshot()
            except DiskRefused as error:  # The log has everything, so nothing is lost; the next commit tries again.
                self.snapshot_error = error

    def _snapshot(self) -> None:
        if self._hosted.begun:
            self._snapshots.write(self._hosted.content())
            self.snapshot_error = None

    # ---- keys and readiness

    def remembered(self, prefix: str) -> dict[str, Learned]:
        """The stored idempotency keys that begin with `prefix`, and their answers."""
        with self._commit_lock:
            return dict(self._log.answers_to(prefix))

    def check_ready(self) -> None:
        """Raise the error that `learn` would raise now: a full disk, a later owner, a removed directory, a closed host.

        Writes a few bytes to find out, and retries a failed snapshot. While a commit is under way it does not wait
        for it, and reports the outcome of the commit before.
        """
        if not self._commit_lock.acquire(timeout=_LOCK_TIMEOUT):
            if (error := self._writes_refused or self._log.write_error) is not None:
                raise error
            return
        try:
            self._check_writable()
            self._log.try_to_write()
            if self.snapshot_error is not None:
                self._snapshot()
        finally:
            self._commit_lock.release()

    def refuse_writes(self, error: StorageError | None) -> None:
        """Raise this error instead of learning, from now on; None allows learning again. Predictions go on."""
        self._writes_refused = error

    def _check_writable(self) -> None:
        self._check_open()
        if self._writes_refused is not None:
            raise self._writes_refused

    def _check_open(self) -> None:
        if not self._open:
            raise Closed("Host: this host was closed. Open the directory again with Host.open.")
        if not self._is_consistent:
            raise StorageError(
                "Host: learning was interrupted between the log and the model. Close this host and open the directory "
                "again; nothing that was acknowledged is lost."
            )

    def close(self) -> None:
        """Write a snapshot, so that the next start has nothing to replay, and release the directory."""
        with self._commit_lock:
            if not self._open:
                return
            self._open = False
            try:
                if self._is_consistent and self._snapshots.is_behind:
                    with suppress(StaleOwner):  # A later owner has recovered everything from the log.
                        self._snapshot()
            finally:
                self._log.close()
                if self._lock is not None:
                    self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
