"""`Host`: a model with a write-ahead log and snapshots in a directory.

Learning: a block is appended to the log and forced to disk, then learned, then acknowledged. Calls that wait at the
same time share one commit. If the model rejects a block, its bytes are deleted from the log. If the process ends before
this deletion, the next recovery replays the block, and the model rejects it again.

Recovery: the newest intact snapshot is loaded, and the log after it is replayed block by block. The first examples
are acknowledged only after the first snapshot is written. So recovery of acknowledged examples always starts from a
snapshot, and does not depend on the arguments of `Host.open`.

`budgetron serve` and the workers of `budgetron.distributed` use this class. It must never acknowledge a block that is
not on disk, and never learn a block that is not logged.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

from budgetron.durable import blocks
from budgetron.durable.errors import storage_errors
from budgetron.durable.host_changes import HostChanges
from budgetron.durable.host_state import HostState
from budgetron.durable.ownership import DirectoryLock, make_private, remove_leftovers
from budgetron.durable.recovery import recover
from budgetron.durable.requests import Entry, Learned, Request, StreamRows, answer_of, entry_of, group_into_commits
from budgetron.durable.storage.log import Log, Record
from budgetron.durable.storage.snapshots import Snapshots
from budgetron.errors import InputError, StorageError, input_error, is_integer, shown

_LOCK_TIMEOUT = 0.5  # seconds that check_ready waits for a commit in progress


class Host(HostChanges):
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

    def __init__(self, state: HostState) -> None:
        super().__init__(state)
        self._queue_lock = threading.Lock()
        self._waiting: list[Entry] = []

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
        """Open a directory: recover its model, or start a new model if it is empty.

        Parameters
        ----------
        directory : path
            Created if missing, for this user only. Only one host at a time may have it open: of two hosts without
            `epoch`, the second raises `AlreadyOwned`. If its files are damaged, `DamagedLog` names the commands that
            help.
        make_model : callable, or model : a learner
            The model that a new directory starts with. Both are ignored if the directory has a model already.
        epoch : int, optional
            For a supervisor that moves a model between processes. A number higher than all earlier epochs takes over
            the directory; later writes of the former owner raise `StaleOwner`. With None, the directory is locked until
            the host is closed, and the epoch is one more than the last.
        snapshot_every : int
            Examples between two snapshots. A snapshot writes the model file and trims the log. It is also written when
            the log since the last snapshot reaches 64 MiB.
        learning_lock : context manager, optional
            Entered while the model learns, but not while the log is written. Hosts that share a lock share one core:
            one of them learns while the others write to disk.
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
            recovery = recover(log, snapshots, make_model if model is None else lambda: model)
            host = cls(HostState(log, snapshots, lock, recovery, int(snapshot_every), learning_lock))
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
        """Learn the rows in order. Returns when they are on disk and learned.

        Parameters
        ----------
        X : array, sparse matrix, data frame, or list of dicts
        y, tasks : one label and one task per row
        key : str, optional
            An idempotency key. A second call with the same key and rows returns the first answer and learns nothing, so
            a call that failed or timed out can be retried. Each snapshot deletes all but the last 100,000 keys. It
            deletes more if their answers take more than 64 MiB.
        classes : labels, optional
            All labels that may occur; needed with the first block if it does not contain them all.
        sample_weight : one weight per row, optional
        offset : another model's score of each row, in log odds, optional

        Raises
        ------
        InputError
            If the model rejects the rows, or the key was used with other rows. No row is learned.
        StorageError
            If the rows could not be written to disk. No row is learned, except in three cases: after `NotCopied`, after
            `StaleOwner` because another process has taken over the copy, and if only the snapshot after the commit
            failed. Retry with the same key: a retry learns nothing twice.
        """
        entry = self._entry(Request(X, y, tasks, key, classes, sample_weight, offset=offset))
        return self._commit_queued([entry])[0]

    def learn_many(self, requests: Sequence[Request], in_order: bool = False) -> list[Learned | Exception]:
        """Learn several requests in as few commits as possible. Each commit costs one fsync.

        All requests share one commit, except that two requests of one stream need two commits. Returns one
        acknowledgement or exception per request. By default, a rejected request does not affect the other requests.
        With `in_order`, nothing is learned after the first request that the model rejects.
        """
        entries: list[Entry | Exception] = []
        for request in requests:
            try:
                entries.append(self._entry(request))
            except InputError as error:
                entries.append(error)
        with self._state.commit_lock:
            self._commit([entry for entry in entries if isinstance(entry, Entry)], in_order)
        return [entry if isinstance(entry, Exception) else answer_of(entry) for entry in entries]

    def forget_task(self, task: Hashable) -> Learned:
        """Remove a task's stored examples and weights from the model. Logged like examples.

        The task's examples stay on disk, in the log and in an earlier snapshot, until the second snapshot after this
        call. (Snapshots without a new record between them count as one.)
        """
        return self._commit_queued([Entry(blocks.encode_forget(task))])[0]

    def set_operating_point(self, settings: Mapping[str, Any] | None) -> Learned:
        """Change the settings of the model's `OperatingPoint`, which turns scores into decisions. Logged like examples.

        None removes the operating point. An operating point with new settings keeps its counts of scores and labels.
        """
        return self._commit_queued([Entry(self._state.hosted.checked_point(settings))])[0]

    def _entry(self, request: Request) -> Entry:
        hosted = self._state.hosted  # read once: a restore in another thread may replace it
        if blocks.are_records(request.X):
            request = replace(request, X=hosted.checked(request.X))
        return entry_of(request, hosted.width, hosted.columns is not None)

    def _commit_queued(self, entries: list[Entry]) -> list[Learned]:
        """Commit the entries and return their answers.

        Threads queue their entries. The thread that gets the commit lock commits everything that is queued at that
        moment, so threads that wait at the same time share one fsync.
        """
        with self._queue_lock:
            self._waiting += entries
        with self._state.commit_lock:
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
        """Log, force to disk, learn, in this order. Afterwards `answer_of` has the answer to every entry."""
        rejection: Exception | None = None
        for group in group_into_commits(entries):
            if rejection is not None:
                for entry in group:
                    entry.answer = rejection
                continue
            self._commit_group(group, in_order)
            if in_order:
                rejection = next((entry.answer for entry in group if isinstance(entry.answer, Exception)), None)

    def _commit_group(self, entries: list[Entry], in_order: bool) -> None:
        """Commit entries in one transaction, then learn them. Afterwards `answer_of` has the answer to every entry."""
        state = self._state
        try:
            state.check_writable()
            new = state.log.select_unlearned(entries, self._classes)
            if new:
                state.log.append(new)
        except Exception as error:  # The commit failed: nothing was logged, so nothing may be learned.
            for entry in entries:
                entry.answer = entry.answer or error
            return
        with state.log_ahead_of_model(), state.learning_lock:
            rejection = None
            for entry in new:
                self._learn(entry, rejection)
                rejection = entry.answer if in_order and isinstance(entry.answer, Exception) else None
        try:
            state.write_snapshot_if_due()
        except Exception as error:
            # If the first snapshot fails, nothing may be acknowledged, not even a retry. If the disk refuses a later
            # snapshot, no error is raised here, and the next commit tries again. Other failures of a later snapshot are
            # errors too, for example if this host has lost its directory.
            for entry in entries:
                if not isinstance(entry.answer, Exception):
                    entry.answer = error
        try:
            state.confirm()
        except StorageError as error:
            for entry in entries:  # includes retries, because the first attempt may also have failed here
                if isinstance(entry.answer, Learned):
                    entry.answer = error

    @property
    def _classes(self) -> Any:
        return self._state.hosted.model.classes_ if self._state.hosted.is_fitted else None

    def _learn(self, entry: Entry, earlier_rejection: Exception | None) -> None:
        """Learn a logged entry, or reject it with the exception of an earlier entry, if there is one."""
        try:
            if earlier_rejection is not None:
                raise earlier_rejection
            if entry.block is None:
                margins = self._state.hosted.learn(blocks.decode_block(entry.payload))
            else:  # the coordinator of a sharded model has checked the block, which has the rows of the payload
                margins = self._state.hosted.model.learn_block(entry.block)
        except Exception as error:
            self._state.log.note_rejected(entry.number)
            self._state.snapshots.count(1)  # a rejected record occupies its number in the log until a snapshot trims it
            entry.answer = error
        else:
            self._state.log.note_learned(entry, margins)
            self._state.snapshots.count(len(margins), len(entry.payload))
            entry.answer = entry.learned(entry.number, margins, self._classes)

    def end_of_stream(self, key: str) -> int:
        """The position after the last learned row of a stream, where its reader must continue. 0 for a new stream."""
        with self._state.commit_lock:
            self._state.check_open()
            return self._state.log.end_of_stream(key)

    def records_after(self, position: int) -> list[Record]:
        """The records of the log after a position. Records that the model rejected have no block, or are left out."""
        with self._state.commit_lock:
            self._state.check_open()
            rejected = self._state.log.unwritten.rejected
            return [record for record in self._state.log.records_after(position) if record.number not in rejected]

    def forgotten_tasks(self, position: int) -> list[tuple[int, Hashable]]:
        """The tasks that were forgotten after a position, each with the number of its record.

        Only the log after the oldest snapshot is read, because a snapshot trims the records before.
        """
        with self._state.commit_lock:
            self._state.check_open()
            log = self._state.log
            return [
                (record.number, blocks.decode_block(record.block).examples.tasks[0])
                for record in log.records_after(max(position, self.oldest_snapshot))
                if record.block is not None and record.number not in log.unwritten.rejected
                and blocks.kind_of(record.block) == "forget"
            ]  # fmt: skip

    def check_stream(self, key: str, rows: StreamRows) -> int:
        """How many of the first rows were learned before. Raises `KeyReused` if their content has changed since."""
        with self._state.commit_lock:
            self._state.check_open()
            return self._state.log.check_stream(key, rows)

    # ---- snapshots, keys and readiness

    def snapshot(self) -> None:
        """Write the model file into the directory and trim the log, in one transaction."""
        state = self._state
        with state.commit_lock:
            state.check_open()
            state.write_snapshot()

    def answers_to(self, prefix: str) -> dict[str, Learned]:
        """The stored idempotency keys that begin with `prefix`, and their answers."""
        with self._state.commit_lock:
            return dict(self._state.log.answers_to(prefix))

    def check_ready(self) -> None:
        """Raise the error that `learn` would raise now: a full disk, a later owner, a removed directory, a closed host.

        This writes 16 KiB to the disk. If the last commit failed, it writes at least as many bytes as that commit had.
        If the last snapshot failed, this writes the snapshot again. If another commit holds the lock for longer than
        half a second, nothing is written. Then only an error that is already known is raised: the error of
        `refuse_writes` or of the last finished commit.
        """
        if not self._state.commit_lock.acquire(timeout=_LOCK_TIMEOUT):
            if (error := self._state.writes_refused or self._state.log.write_error) is not None:
                raise error
            return
        try:
            self._state.check_writable()
            self._state.log.try_to_write()
            if self._state.snapshots.error is not None:
                self._state.write_snapshot()
        finally:
            self._state.commit_lock.release()

    def refuse_writes(self, error: StorageError | None) -> None:
        """From now on, raise this error instead of learning; None allows learning again. Predictions still work."""
        self._state.writes_refused = error

    @property
    def before_answer(self) -> Callable[[], None] | None:
        """A function that is called after each commit, before its answers. If it raises, nothing is acknowledged.

        A `Replicator` copies the commit here, so that nothing is acknowledged before it is in the copy.
        """
        return self._state.before_answer

    @before_answer.setter
    def before_answer(self, function: Callable[[], None] | None) -> None:
        self._state.before_answer = function

    def close(self) -> None:
        """Write a snapshot, so that the next start has nothing to replay, and release the directory."""
        with self._state.commit_lock:
            self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
