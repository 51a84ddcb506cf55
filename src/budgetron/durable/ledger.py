"""What a host has on disk, and what the next transaction must still write there.

    log        every record after the snapshot before the last, so that either snapshot can be gone on from
    snapshots  the model files of the last two; a backup is a copy of it all
    unwritten  refused records and the margins of keys: known only after the commit that logged them, they go along
               with the next one; a replay finds them again

The ledger knows nothing of the model. Not for several threads at once: the host has a lock for that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.durable.answers import Learned, flat
from budgetron.durable.claim import Mark
from budgetron.durable.idempotency import KEY_BYTES, KEYS, Entry, Unwritten
from budgetron.durable.recovery import Recovery
from budgetron.durable.refusals import speaking_of
from budgetron.durable.store import Store
from budgetron.errors import StorageError

_PROBE = 16 * 2**10  # bytes that are written to see whether anything can be
LOG_BYTES = 64 * 2**20  # of log after which a snapshot is due, however few the examples


class Ledger:
    """The log, the snapshots and the remembered keys of one host, as far as they have come."""

    def __init__(self, store: Store, mark: Mark, found: Recovery) -> None:
        self._store, self._mark = store, mark
        self.position = found.position  # the number of the last record; a refused one takes a number too
        self._snapshots = found.snapshots
        self._since = found.replayed_examples  # examples that no snapshot has
        self._log_bytes = store.log_bytes_after(max(found.snapshots, default=0))
        self._unwritten = Unwritten(found.refused, found.answers)
        self.write_error: StorageError | None = None  # of the last commit
        self._failed_bytes = 0

    @property
    def epoch(self) -> int:
        return self._store.epoch

    @property
    def directory(self) -> Path:
        return self._store.path.parent

    # ---- the log

    def append(self, entries: Sequence[Entry]) -> None:
        """Number the entries, write them with their keys and force them to disk, in one commit."""
        for number, entry in enumerate(entries, self.position + 1):
            entry.number = number
        size = sum(len(entry.payload) for entry in entries)
        try:
            with self._store.writing():
                self._write_unwritten()
                self._store.append(entries)
        except StorageError as error:
            self.write_error, self._failed_bytes = error, size
            raise
        self.write_error = None
        self._unwritten = Unwritten()
        self.position = entries[-1].number
        self._log_bytes += size
        self._mark.write(self.position)

    def try_to_write(self) -> None:
        """See whether as much can be written now as could not be the last time; what fails is raised."""
        self._store.try_to_write(_PROBE if self.write_error is None else max(_PROBE, self._failed_bytes))
        self.write_error = None

    def refused(self, number: int) -> None:
        """The model would not learn this record: it is taken out again."""
        self._unwritten.refused.append(number)

    def learned(self, entry: Entry, margins: NDArray[np.float64]) -> None:
        self._since += len(margins)
        if entry.key is not None:
            self._unwritten.answers[entry.number] = flat(margins)

    def _write_unwritten(self) -> None:
        self._store.remove(self._unwritten.refused)
        self._store.keys.answered(self._unwritten.answers.items())

    # ---- idempotency keys

    def new_among(self, entries: Sequence[Entry], classes: Any) -> list[Entry]:
        """The entries with something to learn; the others have their answer."""
        return self._store.keys.new_among(entries, self._unwritten, classes)

    def answers_to(self, prefix: str) -> Iterator[tuple[str, Learned]]:
        """The remembered keys that begin so, and their answers."""
        return self._store.keys.answers_to(prefix, self._unwritten)

    # ---- snapshots

    @property
    def has_snapshot(self) -> bool:
        return bool(self._snapshots)

    @property
    def is_ahead(self) -> bool:
        """Whether there is something that the last snapshot does not have."""
        return bool(self._since or self._unwritten.refused or self._unwritten.answers)

    def is_due(self, every: int) -> bool:
        return self._since >= every or self._log_bytes >= LOG_BYTES

    def snapshot(self, content: bytes) -> None:
        """Write the model file and trim the log, in one transaction."""
        before = self._snapshots[0] if self._snapshots else 0
        with self._store.writing():
            self._write_unwritten()
            self._store.put_snapshot(self.position, content)
            self._store.trim(before)  # the last snapshot stays beside the new one, with the log between them
            self._store.keys.forget(KEYS, KEY_BYTES)
        self._settled(list(dict.fromkeys([self.position, before] if before else [self.position])))

    def begin_anew(self, content: bytes) -> None:
        """Another model file in the place of all that was: the old model and its log go. Answers stay."""
        number = self.position + 1
        with self._store.writing():
            self._write_unwritten()
            self._store.put_snapshot(number, content)
            self._store.trim(number)  # a replay must not begin with the old model
            self._store.set_position(number)
        self.position = number
        self._settled([number])
        self._mark.write(number)

    def _settled(self, snapshots: list[int]) -> None:
        self._unwritten = Unwritten()
        self._snapshots = snapshots
        self._since = self._log_bytes = 0

    def copy_to(self, target: Path) -> None:
        """All of it in one file, whole or not at all; the writer does not wait."""
        beside = target.with_name(f".{target.name}.part")
        with speaking_of(target):
            beside.unlink(missing_ok=True)
            try:
                self._store.copy_to(beside)
                with open(beside, "rb+") as file:
                    os.fsync(file.fileno())
                os.replace(beside, target)
            finally:
                beside.unlink(missing_ok=True)

    def close(self) -> None:
        self._store.close()
        self._mark.close()
