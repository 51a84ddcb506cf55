"""`Host`: a model and the directory that it survives in.

Learning: the block is written to the log and forced to disk, then learned, then acknowledged. Calls that wait at the
same time share one commit. A block that the model refuses is taken out of the log again; should the process end before
that, the replay refuses it in the same way.

Recovery: the newest good snapshot, and the log after it, block by block. The very first block is acknowledged only when
the model that began with it is a snapshot too, so a replay never depends on settings given anew.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from budgetron.durable import blocks
from budgetron.durable.answers import Learned
from budgetron.durable.blocks import Request
from budgetron.durable.claim import Lock, Mark
from budgetron.durable.idempotency import Entry, answer_of, commits, entry_of
from budgetron.durable.ledger import Ledger
from budgetron.durable.models import Kept, kept_of
from budgetron.durable.recovery import Recovery, recovered
from budgetron.durable.refusals import DiskRefused, NothingLearned, StaleOwner, speaking_of
from budgetron.durable.store import Store
from budgetron.errors import Closed, InputError, StorageError, is_whole, refuse, shown

_PATIENCE = 0.5  # seconds


class Host:
    """A model whose acknowledged examples survive anything but the loss of the disk. `Host.open` makes one.

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

    def __init__(
        self,
        ledger: Ledger,
        lock: Lock | None,
        found: Recovery,
        snapshot_every: int,
        turn: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._ledger, self._lock = ledger, lock
        self._kept = found.kept
        self.recovery = found  # what was found on opening
        self.snapshot_every = snapshot_every
        self.snapshot_error: DiskRefused | None = None  # of the last try; the log keeps growing until one succeeds
        self._writer = threading.Lock()
        self._gate = threading.Lock()
        self._waiting: list[Entry] = []
        self._turn = turn or nullcontext()
        self._open = True
        self._in_step = True  # False where learning was interrupted between the log and the model (Ctrl-C)

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        make_model: Callable[[], Any] | None = None,
        *,
        model: Any = None,
        epoch: int | None = None,
        snapshot_every: int = 50_000,
        accept_loss: bool = False,
        turn: AbstractContextManager[Any] | None = None,
    ) -> Self:
        """Take a directory, new or with what a host left there, and recover the model.

        Parameters
        ----------
        directory : path
            Made if missing. One host at a time has it; a second one is refused.
        make_model : callable, or model : a learner
            What to begin with in a new directory. One that has a model goes on with that, and both are ignored.
        epoch : int, optional
            For owners on several processes: a number higher than any before takes the directory over without asking,
            and what the former owner still tries to write is refused. None takes a lock instead.
        snapshot_every : int
            Examples after which the model file is written anew and the log trimmed.
        accept_loss : bool
            Go on from the last good state of a damaged log, giving up what came after.
        turn : context manager, optional
            Entered while the model learns, and not while the log is written: several hosts with one lock take one core
            together, and each writes while another learns.
        """
        if not is_whole(snapshot_every) or snapshot_every < 1:
            raise refuse("Host", "snapshot_every", "an integer >= 1", shown(snapshot_every))
        if epoch is not None and (not is_whole(epoch) or epoch < 1):
            raise refuse("Host", "epoch", "an integer >= 1, or None", shown(epoch))
        folder = Path(directory)
        with speaking_of(folder / "lock"):
            folder.mkdir(parents=True, exist_ok=True)
            lock = Lock(folder) if epoch is None else None
            mark = Mark(folder)
        store = None
        try:
            store = Store(folder)
            store.take_over(epoch)
            begin = make_model if model is None else lambda: model
            found = recovered(store, mark, begin, accept_loss)
            return cls(Ledger(store, mark, found), lock, found, int(snapshot_every), turn)
        except BaseException:
            for part in (store, mark):
                if part is not None:
                    part.close()
            if lock is not None:
                lock.release()
            raise

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
    ) -> Learned:
        """Learn the rows in order, once and for good; refused as a whole or not at all.

        Returns when the rows are on disk and learned. The same `key` again gives the first answer and learns nothing;
        the last 100,000 keys are remembered. X is as for a learner, or a list of dicts.
        """
        entry = self._entry(Request(X, y, tasks, key, classes, sample_weight))
        return self._acknowledged([entry])[0]

    def learn_many(self, requests: Sequence[Request], in_order: bool = False) -> list[Learned | Exception]:
        """Several calls of `learn` in one commit. Each is refused by itself: its exception is in its place.

        Where they must be learned `in_order` nothing is learned after one that the model refused.
        """
        entries: list[Entry | Exception] = []
        for request in requests:
            try:
                entries.append(self._entry(request))
            except InputError as error:
                entries.append(error)
        with self._writer:
            self._commit([entry for entry in entries if isinstance(entry, Entry)], in_order)
        return [entry if isinstance(entry, Exception) else answer_of(entry) for entry in entries]

    def forget_task(self, task: Hashable) -> Learned:
        """Remove what the model keeps of a task; logged as examples are.

        The examples themselves leave the directory with the second snapshot after this.
        """
        return self._acknowledged([Entry(blocks.forgetting(task))])[0]

    def _entry(self, request: Request) -> Entry:
        kept = self._kept  # once: a restore may put another in its place meanwhile
        return entry_of(request, kept.width, kept.columns is not None)

    def _acknowledged(self, entries: list[Entry]) -> list[Learned]:
        """Whoever holds the lock commits for all that wait."""
        with self._gate:
            self._waiting += entries
        with self._writer:
            with self._gate:
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
        """Log, force to disk, learn, in this order. Afterwards every entry has its answer."""
        refused: Exception | None = None
        for together in commits(entries):
            if refused is not None:  # nothing is learned after what was refused, where order matters
                for entry in together:
                    entry.answer = refused
                continue
            self._commit_together(together, in_order)
            if in_order:
                refused = next((entry.answer for entry in together if isinstance(entry.answer, Exception)), None)

    def _commit_together(self, entries: list[Entry], in_order: bool) -> None:
        try:
            self._check_open()
            new = self._ledger.new_among(entries, self._classes)
            if new:
                self._ledger.append(new)
        except Exception as error:  # nothing was logged, so nothing is learned
            for entry in entries:
                entry.answer = entry.answer or error
            return
        self._in_step = False  # the log is ahead of the model until the next line but one
        with self._turn:
            refused = None
            for entry in new:
                self._learn(entry, refused)
                refused = entry.answer if in_order and isinstance(entry.answer, Exception) else None
        self._in_step = True
        try:
            self._snapshot_if_due()
        except Exception as error:  # of the very first snapshot: not acknowledged without it
            for entry in new:
                entry.answer = error

    @property
    def _classes(self) -> Any:
        return self._kept.model.classes_ if self._kept.begun else None

    def _learn(self, entry: Entry, refused: Exception | None) -> None:
        """Learn what was logged; or refuse it as one before it was."""
        try:
            if refused is not None:
                raise refused
            margins = self._kept.learn(blocks.read(entry.payload))
        except Exception as error:
            self._ledger.refused(entry.number)
            entry.answer = error
        else:
            self._ledger.learned(entry, margins)
            entry.answer = entry.learned(entry.number, margins, self._classes)

    # ---- snapshots

    def snapshot(self) -> None:
        """Write the model file into the directory and trim the log, in one transaction."""
        with self._writer:
            self._check_open()
            self._snapshot()

    def _snapshot_if_due(self) -> None:
        if not self._kept.begun:
            return
        if not self._ledger.has_snapshot:
            self._snapshot()
        elif self._ledger.is_due(self.snapshot_every):
            try:
                self._snapshot()
            except DiskRefused as error:  # what was learned is in the log: it is safe, and tried again
                self.snapshot_error = error

    def _snapshot(self) -> None:
        if self._kept.begun:
            self._ledger.snapshot(self._kept.content())
            self.snapshot_error = None

    def content(self) -> bytes:
        """The model file as of now, as `save` would write it."""
        if not self._kept.begun:
            raise NothingLearned
        with self._writer:
            return self._kept.content()

    def restore(self, content: bytes, swapping: AbstractContextManager[Any] | None = None) -> None:
        """Put the model of a model file in this one's place, for good. Keys that were answered stay so.

        `swapping` is entered while the one model takes the place of the other, after all that takes time: whoever keeps
        figures about the model can replace them in the same step.
        """
        kept = kept_of(content)
        with self._writer:
            self._check_open()
            self._ledger.begin_anew(kept.content())
            with swapping or nullcontext():
                self._kept = kept

    def backup(self, path: str | os.PathLike[str]) -> None:
        """A copy of the whole directory's state in one file, while learning goes on.

        Put into an empty directory as `host.sqlite` it is opened like any other.
        """
        self._check_open()
        self._ledger.copy_to(Path(path))

    # ---- predicting, which is not logged

    def predict(self, X: Any, tasks: Any = None) -> NDArray[Any]:
        """The labels, by the model as it is now; X as for `learn`."""
        kept = self._kept
        labels: NDArray[Any] = kept.model.predict(kept.rows(X), tasks=tasks)
        return labels

    def decision_function(self, X: Any, tasks: Any = None) -> NDArray[np.float64]:
        """The margins, by the model as it is now; X as for `learn`."""
        kept = self._kept
        margins: NDArray[np.float64] = kept.model.decision_function(kept.rows(X), tasks=tasks)
        return margins

    # ---- what it is

    @property
    def model(self) -> Any:
        """The model. Learn through the host: what is learned past it is not on disk."""
        return self._kept.model

    @property
    def kept(self) -> Kept:
        """The model with its columns, as one thing: a restore puts another in its place."""
        return self._kept

    @property
    def columns(self) -> Any:
        """The columns of raw records, where the model has them."""
        return self._kept.columns

    @property
    def position(self) -> int:
        """The number of the last record; a refused one takes a number too."""
        return self._ledger.position

    @property
    def epoch(self) -> int:
        return self._ledger.epoch

    @property
    def directory(self) -> Path:
        return self._ledger.directory

    def remembered(self, prefix: str) -> dict[str, Learned]:
        """The remembered keys that begin so, and their first answers."""
        with self._writer:
            return dict(self._ledger.answers_to(prefix))

    def check_ready(self) -> None:
        """Raise what `learn` would fail with now: a full disk, a later owner, a directory that is gone, a closed host.

        It writes a little to find out, and retries a snapshot that failed. While rows are being learned it does not
        wait for them, and goes by the last commit.
        """
        if not self._writer.acquire(timeout=_PATIENCE):
            if self._ledger.write_error is not None:
                raise self._ledger.write_error
            return
        try:
            self._check_open()
            self._ledger.try_to_write()
            if self.snapshot_error is not None:
                self._snapshot()
        finally:
            self._writer.release()

    def _check_open(self) -> None:
        if not self._open:
            raise Closed("Host: this host was closed. Host.open takes the directory again.")
        if not self._in_step:
            raise StorageError(
                "Host: learning was interrupted between the log and the model. Close this host and open it again: "
                "the log has everything."
            )

    def close(self) -> None:
        """Write a snapshot, so that the next start need not replay, and give the directory up."""
        with self._writer:
            if not self._open:
                return
            self._open = False
            try:
                if self._in_step and self._ledger.is_ahead:
                    with suppress(StaleOwner):  # the later owner has it all
                        self._snapshot()
            finally:
                self._ledger.close()
                if self._lock is not None:
                    self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
