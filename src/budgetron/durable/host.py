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
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from budgetron.durable import blocks
from budgetron.durable.answers import Learned
from budgetron.durable.blocks import Request
from budgetron.durable.claim import Lock, Mark
from budgetron.durable.ledger import Ledger
from budgetron.durable.models import Kept, kept_of
from budgetron.durable.recovery import Recovery, recovered
from budgetron.durable.refusals import DiskRefused, KeyReused, NothingLearned, StaleOwner, speaking_of
from budgetron.durable.store import Store
from budgetron.errors import Closed, InputError, StorageError, is_whole, refusal, refuse, shown

LONGEST_KEY = 200


@dataclass
class _Entry:
    payload: bytes
    key: str | None
    digest: bytes
    answer: Learned | Exception | None = None
    number: int = 0
    twin: _Entry | None = None  # the same key, earlier in the same commit


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
        self._waiting: list[_Entry] = []
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
        entries: list[_Entry | Exception] = []
        for request in requests:
            try:
                entries.append(self._entry(request))
            except InputError as error:
                entries.append(error)
        with self._writer:
            self._commit([entry for entry in entries if isinstance(entry, _Entry)], in_order)
        return [entry if isinstance(entry, Exception) else _answer(entry) for entry in entries]

    def forget_task(self, task: Hashable) -> Learned:
        """Remove what the model keeps of a task; logged as examples are.

        The examples themselves leave the directory with the second snapshot after this.
        """
        return self._acknowledged([_Entry(blocks.forgetting(task), None, b"")])[0]

    def _entry(self, request: Request) -> _Entry:
        key = request.key
        checked_key(key)
        payload = blocks.written(request, self._kept.width, self._kept.columns is not None)
        return _Entry(payload, key, b"" if key is None else blake2b(payload, digest_size=16).digest())

    def _acknowledged(self, entries: list[_Entry]) -> list[Learned]:
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
            answer = _answer(entry)
            if isinstance(answer, Exception):
                raise answer
            answers.append(answer)
        return answers

    def _commit(self, entries: list[_Entry], in_order: bool = False) -> None:
        """Log, force to disk, learn, in this order. Afterwards every entry has its answer."""
        try:
            self._check_open()
            new = [entry for entry in entries if not self._is_repeated(entry, entries)]
            if new:
                self._log(new)
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

    def _is_repeated(self, entry: _Entry, entries: list[_Entry]) -> bool:
        if entry.key is None:
            return False
        for other in entries:
            if other is entry:
                break
            if other.key == entry.key:
                entry.twin = other
                return True
        found = self._ledger.answer(entry.key)
        if found is None:
            return False
        digest, learned = found
        entry.answer = reused(entry.key) if digest != entry.digest or learned is None else learned
        return True

    def _log(self, new: list[_Entry]) -> None:
        first = self._ledger.append([(entry.payload, entry.key, entry.digest) for entry in new])
        for number, entry in enumerate(new, first):
            entry.number = number

    def _learn(self, entry: _Entry, refused: Exception | None) -> None:
        """Learn what was logged; or refuse it as one before it was."""
        try:
            if refused is not None:
                raise refused
            margins = self._kept.learn(blocks.read(entry.payload))
        except Exception as error:
            self._ledger.refused(entry.number)
            entry.answer = error
        else:
            entry.answer = self._ledger.learned(entry.number, entry.key, margins)

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

    def restore(self, content: bytes) -> None:
        """Put the model of a model file in this one's place, for good. Keys that were answered stay so."""
        kept = kept_of(content)
        with self._writer:
            self._check_open()
            self._ledger.begin_anew(kept.content())
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
        labels: NDArray[Any] = kept.model.predict(kept.rows(X), tasks)
        return labels

    def decision_function(self, X: Any, tasks: Any = None) -> NDArray[np.float64]:
        """The margins, by the model as it is now; X as for `learn`."""
        kept = self._kept
        margins: NDArray[np.float64] = kept.model.decision_function(kept.rows(X), tasks)
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


def _answer(entry: _Entry) -> Learned | Exception:
    answer = entry.answer
    if entry.twin is not None and answer is None:
        if entry.digest != entry.twin.digest:
            return reused(entry.key)
        answer = _answer(entry.twin)
        if isinstance(answer, Learned):
            return Learned(answer.position, answer.margins, repeated=True)
    assert answer is not None
    return answer


def checked_key(key: Any) -> None:
    """Refuse an idempotency key that is none."""
    if key is not None and (not isinstance(key, str) or not 1 <= len(key) <= LONGEST_KEY or not key.isprintable()):
        raise refuse("Host", "key", f"a printable string of 1 to {LONGEST_KEY} characters", shown(key))


def reused(key: Any) -> KeyReused:
    """The refusal of a key that came before with other examples."""
    return KeyReused(
        refusal("Host", "key", "a new one for new examples", f"{shown(key)}, which came before with others",
                "Send the same examples again to get their answer, or take another key.")
    )  # fmt: skip
